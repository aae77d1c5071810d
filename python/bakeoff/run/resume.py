"""Resume a run that was killed: finished epochs count as they are and are not measured again.

The data is loaded again from the same seeds, except kept loads of your own data. That time is not taken from the
budget twice. The plan and the memory of the servers stay as they were.

A run is extended when its end is no longer the one fixed beforehand: it went on after its answer was reported, or its
budget was changed. Its end was then chosen with results in sight, which the run directory keeps for a later resume.
"""

import errno
import shutil
import time
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from bakeoff.errors import BakeoffError, HostError, ResultsError, SpecError
from bakeoff.plan import Plan
from bakeoff.results import RunDirectory
from bakeoff.results.epoch_data import loading_seconds
from bakeoff.results.manifest import gather_host
from bakeoff.run.arms import ArmSetup, MemoryShare
from bakeoff.run.kept_loads import dump_digest, kept_bytes
from bakeoff.run.measuring import resolved
from bakeoff.servers.fetch import sha256_of
from bakeoff.servers.paths import work_root
from bakeoff.servers.releases import parse_version
from bakeoff.spec import Study
from bakeoff.spec.server_name import is_url
from bakeoff.stats.model import Analysis, Stop
from bakeoff.units import format_duration

_MEMORY_FILE, _EXTENDED_FILE = "memory.json", "extended.json"
_SETUPS_FILE, _SOURCES_FILE = "setups.json", "sources.json"


@dataclass(frozen=True)
class Before:
    plan: Plan | None  # None if it is new, or was killed before there was one
    used_s: float  # wall seconds of the budget already spent


def read_before(run: RunDirectory) -> Before:
    by_host: defaultdict[str, float] = defaultdict(float)
    for outcome in map(run.outcome, run.finished_epochs()):
        by_host[outcome.host] += outcome.wall_s
    measuring_s = max(by_host.values(), default=0.0)
    return Before(run.read("plan.json", Plan), loading_seconds(run.builds().values()) + measuring_s)


def budget_began(run: RunDirectory, before: Before, began: float) -> float:
    """Return the `time.monotonic()` at which the budget began; loads that a resumed run repeats count once."""
    return time.monotonic() - read_before(run).used_s if before.used_s else began


def resumed_study(run: RunDirectory, *, budget_s: float | None, asked: Study | None = None) -> Study:
    """Return the run's study, with another budget if one is given. SpecError unless it is the one `asked` for."""
    study = run.study()
    if asked is not None:
        taken = {arm.name: arm.data for arm in study.arms}  # data of running servers is in folders that the run keeps
        arms = (arm.with_data(taken.get(arm.name, arm.data)) if is_url(arm.data.source) else arm for arm in asked.arms)
        asked = resolved(asked).with_arms(tuple(arms))
        same = {"seed": study.seed, "budget_s": study.budget_s, "client": study.client}
        if asked.model_copy(update=same) != study:
            names = [name for name in Study.model_fields if getattr(asked, name) != getattr(study, name)]
            other = [name for name in names if name not in same]
            raise SpecError(
                f"run {run.name} was started with another study: {', '.join(other)} differ.",
                hint="Leave the study out (bakeoff run --resume RUN), or start a new run.",
            )
    changed: dict[str, float] = {} if budget_s is None else {"budget_s": budget_s}
    plan = run.read("plan.json", Plan)
    if plan is not None:
        changed["builds"] = plan.builds
    return study.model_copy(update=changed)


@contextmanager
def keeping(run: RunDirectory, *, is_new: bool, again: str = "bakeoff run --resume") -> Iterator[None]:
    """Hold a run directory, so that nobody else writes to it; an error says what is kept.

    A new run without a finished epoch or loads leaves nothing. `again` is the command that continues the run.
    """
    with run.hold():
        try:
            yield
        except BaseException as error:
            if run.finished_epochs():
                raise _with_what_is_kept(error, run, again) from None
            if is_new and not kept_bytes(run):
                shutil.rmtree(run.path, ignore_errors=True)
            raise


def _with_what_is_kept(error: BaseException, run: RunDirectory, again: str) -> BaseException:
    kept = f"Finished epochs are kept: {len(run.finished_epochs())}"
    use = f"`bakeoff report {run.path}` gives their verdict, `{again} {run.path}` continues it."
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        place = Path(error.filename).parent if isinstance(error.filename, str) else run.path
        return HostError(f"the disk of {place} is full.", hint=f"Make room there. {kept}; {use}")
    if isinstance(error, BakeoffError):
        error.hint = f"{error.hint} {kept}; {use}".strip()
    return error


def check_machine(run: RunDirectory) -> None:
    if any(run.outcome(epoch).host for epoch in run.finished_epochs()):
        raise ResultsError(
            f"run {run.name} was measured on the nodes of a cluster.", hint=f"bakeoff run --ray --resume {run.name}"
        )
    then, now = run.manifest().host, gather_host(run.path, work_root())
    found = then.differences(now)
    if then.cpus_usable != now.cpus_usable:
        found.append(f"usable CPUs {then.cpus_usable} and {now.cpus_usable}")
    if found:
        raise ResultsError(
            f"run {run.name} was started on another machine (there and here): {', '.join(found)}.",
            hint="Start a new run here and compare the two.",
        )


def setup_digests(setups: Iterable[ArmSetup], *, leave_out: Container[str] = ()) -> dict[str, str]:
    found = {}
    for setup in setups:
        if setup.installation and setup.settings:
            options = sorted({**setup.settings.options, **setup.settings.init_options}.items())
            counted = [(name, value) for name, value in options if name not in leave_out]
            found[setup.arm.name] = sha256(repr((setup.installation.sha256, counted)).encode()).hexdigest()
        elif setup.remote and (version := setup.remote.variables().get("version")):
            found[setup.arm.name] = str(parse_version(version))  # without suffixes: 8.0.15-log
    return found


def check_setups(run: RunDirectory, digests: Mapping[str, str]) -> None:
    """Refuse to mix epochs of two builds or configurations (`setup_digests`); write down what is new."""
    if arm := _first_changed(run, _SETUPS_FILE, digests):
        raise ResultsError(
            f"arm {arm} was measured with another version, binary or options than its server has now.",
            hint="Start a new run.",
        )


def check_sources(run: RunDirectory, study: Study) -> None:
    """Refuse to mix epochs of two scripts, captures or dumps of one name; write down what is new."""
    dumps = {arm.data.source for arm in study.arms if arm.data.source}
    found = {source: dump_digest(source) for source in dumps if Path(source).exists()}  # a cluster's nodes may have it
    if source := _first_changed(run, _SOURCES_FILE, script_digests(study) | found):
        raise ResultsError(
            f"run {run.name}: {source} has changed since its epochs were measured.",
            hint="Put it back as it was (a dump with its times of modification), or start a new run.",
        )


def _first_changed(run: RunDirectory, file: str, digests: Mapping[str, str]) -> str | None:
    kept = run.read(file, dict[str, str]) or {}
    changed = [name for name, now in digests.items() if kept.get(name, now) != now]
    if changed and run.finished_epochs():
        return changed[0]
    if digests:
        run.write_json(file, {**kept, **digests})
    return None


def read_checked(run: RunDirectory, study: Study, setups: Iterable[ArmSetup]) -> Before:
    check_setups(run, setup_digests(setups))
    check_sources(run, study)
    return read_before(run)


def script_digests(study: Study) -> dict[str, str]:
    scripts = dict.fromkeys(workload.script for workload in study.workloads)
    return {script: sha256_of(Path(script)) for script in scripts if Path(script).is_file()}


def keep_memory(run: RunDirectory, share: MemoryShare) -> None:
    run.write_json(_MEMORY_FILE, asdict(share))


def kept_memory(run: RunDirectory) -> MemoryShare | None:
    return run.read(_MEMORY_FILE, MemoryShare)


def note_extension(run: RunDirectory, study: Study, *, goes_on: bool) -> None:
    """Store why a run is extended, before a further epoch is measured. `goes_on` if further epochs will be measured."""
    begun_s, analysis = run.study().budget_s, run.read("analysis.json", Analysis)
    if analysis is not None:
        if not goes_on and analysis.stopped is Stop.BUDGET:
            return
        because = f"it had ended ({analysis.stopped}) and its answer was reported"
    elif study.budget_s != begun_s:
        because = f"its budget was changed from {format_duration(begun_s)} to {format_duration(study.budget_s)}"
    else:
        return
    run.write_json(_EXTENDED_FILE, {"because": because})


def stop_reason(stop: Stop, run: RunDirectory) -> Stop:
    """Return how measuring ended, which decides the kind of interval. In an extended run BUDGET becomes EXTENDED."""
    extended = run.read_json(_EXTENDED_FILE) is not None
    return Stop.EXTENDED if stop is Stop.BUDGET and extended else stop
