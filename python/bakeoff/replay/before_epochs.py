"""Compare the arms' replies to every capture of a study before anything is timed."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from bakeoff.errors import BakeoffError, SpecError
from bakeoff.plan.epochs import rounds
from bakeoff.plan.workloads import database_on, kind_of
from bakeoff.replay.answer_rules import DOCUMENT, Answers, merged
from bakeoff.replay.answers import SESSION_WORDS, AnswersPass, first_word
from bakeoff.replay.captures import capture_events, capture_totals
from bakeoff.replay.sessions import STATEMENT_LIMIT_S
from bakeoff.replay.workload import WORKLOAD
from bakeoff.results import RunDirectory
from bakeoff.run.epoch_servers import EpochTools
from bakeoff.servers import Instance, Server
from bakeoff.spec import Workload
from bakeoff.stats.stopping import contenders
from bakeoff.units import shortened

BUDGET_SHARE = 0.1  # of the run's budget for the pass, but at least `LIMIT_LEAST_S`
LIMIT_LEAST_S = 10.0


def before_epochs(tools: EpochTools, run: RunDirectory) -> None:
    """Run the untimed pass for every capture of a study, on servers started from its first load; write `answers.json`.

    Raises SpecError if every statement fails on every server.
    """
    study = tools.study
    captures: dict[str, Workload] = {}  # by path: one may be measured at several speeds, or with and without its writes
    for each in study.workloads:
        if kind_of(each.script) is WORKLOAD and (each.writes or each.script not in captures):
            captures[each.script] = each
    if not captures or run.read_json(DOCUMENT) is not None:
        return
    found: dict[str, Answers] = {}
    names = (study.baseline.name, *contenders(study))
    groups = rounds(names, at_once=tools.at_once, seed=study.seed, epoch=0)
    limit_s = max(LIMIT_LEAST_S, BUDGET_SHARE * study.budget_s) / len(groups) / len(captures)
    for together in groups:
        for workload in captures.values():  # each on freshly restored data
            with _started(tools, together) as servers:
                answers_pass = AnswersPass(
                    servers,
                    capture_totals(Path(workload.script)),
                    capture=workload.script,
                    databases={arm.name: database_on(study, workload, arm.server) for arm in study.arms},
                    limit_s=limit_s,
                    reads_only=not workload.writes,
                    stop=tools.stop,
                )
                answers_pass.on_progress = lambda count: tools.listener.progress(
                    "comparing answers", count, None, "statements"
                )
                with contextlib.closing(capture_events(Path(workload.script))) as events:
                    answers = answers_pass.run(events)
            before = found.get(workload.script)
            found[workload.script] = merged(before, answers) if before else answers
    for answers in found.values():
        _check_that_some_work(answers, on_running=study.has_running_server)
        if answers.ended_by:
            name, query = Path(answers.capture).name, shortened(answers.ended_by, 60)
            tools.listener.note(
                f"{name}: answers are compared up to a query that took longer than {STATEMENT_LIMIT_S:g} s on one side "
                f"only, since the data may differ from there on: {query}"
            )
    run.write_json(DOCUMENT, {script: answers.model_dump(mode="json") for script, answers in found.items()})


def _check_that_some_work(answers: Answers, *, on_running: bool) -> None:
    compared = [
        each
        for digest in answers.digests.values()
        if first_word(digest.text) not in SESSION_WORDS
        for each in digest.compared.values()
    ]
    if not compared or any(len(each.failed) < 2 or min(each.failed.values()) < each.executed for each in compared):
        return
    failed = f"capture {answers.capture}: every statement fails on every server."
    if on_running:
        hint = "Are these the servers of the log? If it does not name the database, add it: mysql://user@host/DATABASE."
    else:
        hint = "Load the tables with --data; add --database if the log does not name it."
    raise SpecError(failed, hint=hint)


@contextlib.contextmanager
def _started(tools: EpochTools, arms: Sequence[str]) -> Iterator[dict[str, Server]]:
    setups = {setup.arm.name: setup for setup in tools.setups if setup.arm.name in arms}
    created: dict[str, Instance] = {}
    tools.listener.stage("starting servers to compare their answers")
    try:
        for name, setup in setups.items():
            if setup.installation and setup.settings:
                snapshot = tools.snapshots[(setup.load_key, 0)]
                created[name] = tools.pool.create(name, setup.installation, setup.settings, snapshot=snapshot)
        with tools.pool.killed_once(tools.stop):
            tools.pool.start_all(created.values())
            yield {arm: server for arm in arms if (server := created.get(arm) or setups[arm].remote)}
    except BakeoffError:
        if tools.stop.is_set():  # the servers were killed for it
            raise KeyboardInterrupt from None
        raise
    finally:
        tools.pool.remove_all(created.values())
