"""`bakeoff bisect`: group testing by its formula, the choice of the next arm, bad input, real servers."""

import itertools
import json
import math
import shutil
import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats as scipy_stats
from synthetic import Truth, slices_of_cell

from bakeoff.errors import ExitCode, ServerError
from bakeoff.plan import Plan, epoch_draft, plan_study
from bakeoff.report.context import Context, read_analysis
from bakeoff.report.live import QuietLive
from bakeoff.results import Outcome, RunDirectory
from bakeoff.run import own_data, study_run
from bakeoff.run.arms import ArmSetup
from bakeoff.run.epoch import EpochDone, EpochOrder
from bakeoff.run.epoch_servers import EpochTools
from bakeoff.run.study_run import StudyRun, ThisMachine
from bakeoff.search import added_arms, guilty
from bakeoff.search.added_arms import Joining
from bakeoff.search.bisection import arm_with, beliefs_of, next_arm, search_decision, subset
from bakeoff.search.model import Search
from bakeoff.search.sections import believed_of
from bakeoff.spec import Data, parse_server
from bakeoff.stats.estimate import EpochEstimates
from bakeoff.stats.model import Stop
from bakeoff.stats.stopping import Progress
from validation import bisections
from validation.check import fewest
from validation.simulation import pair_of

SERVER = "mysql:8.0.15"

DESIGN = [[True] * 5] * 3 + [[True, True, False, False, False], [False, True, True, False, True]]
VALUES = [-0.08, -0.075, -0.083, -0.071, -0.068]


def test_the_probability_of_every_set_matches_the_model():
    """The likelihood is a multivariate t whose scale matrix includes the variance of the effects."""
    believed = guilty.beliefs(DESIGN, VALUES)
    design, noise, epochs = np.array(DESIGN, dtype=float), guilty._NOISE, guilty._NOISE_EPOCHS
    wide = (np.mean(VALUES[:3]) / 2 / noise) ** 2
    share = guilty.GUILTY_EXPECTED / 5
    weights = {}
    for size in range(6):
        for members in itertools.combinations(range(5), size):
            own = design[:, list(members)]
            shape = noise**2 * (np.eye(5) + wide * own @ own.T)
            likelihood = scipy_stats.multivariate_t(np.zeros(5), shape, df=epochs, allow_singular=False).pdf(VALUES)
            weights[members] = likelihood * share**size * (1 - share) ** (5 - size)
    whole = sum(weights.values())
    sets = [tuple(np.flatnonzero(row).tolist()) for row in believed.inside]
    assert dict(zip(sets, believed.weights, strict=True)) == pytest.approx(
        {members: weights[members] / whole for members in sets}, rel=1e-3
    )
    assert believed.weights.sum() == pytest.approx(1)
    assert believed.guilty.argmax() == 1


def test_nothing_is_named_while_all_options_are_alike():
    believed = guilty.beliefs([[True] * 40] * 3, [-0.1, -0.099, -0.101])
    assert np.ptp(believed.guilty) < 0.05 and believed.named() is None
    chosen = guilty.next_subset(believed, np.random.default_rng(1), only_all=(False,) * believed.options)
    assert 12 <= sum(chosen) <= 28


def test_an_option_with_a_negligible_effect_does_not_delay_the_answer():
    rows = [[True, True, True]] * 6 + [[True, False, False], [False, True, False], [False, False, True]] * 6
    values = [-0.101, -0.1, -0.099] * 2 + [-0.1, -0.001, 0.0005] * 6
    believed = guilty.beliefs(rows, values)
    assert believed.named() == (0,)
    assert believed.effects[0] == pytest.approx(-0.1, abs=0.003)


# ---- what is measured next -------------------------------------------------------------------------------------------


def decision(study, values, *, last_tried=False, aborted=False, elapsed_s=0.0):
    plan = plan_study(study.model_copy(update={"arms": study.arms[:2]}), overhead_s=5, load_s=5)
    plan = plan.model_copy(update={"arms": tuple(arm.name for arm in study.arms)})
    (cell,) = plan.cells
    pairs = [(arm, value) for arm, own in values.items() for value in own]
    history = [
        EpochEstimates(epoch=number, pairs=(pair_of(cell.name, number, value, contender=arm),))
        for number, (arm, value) in enumerate(pairs)
    ]
    newest = [study.arms[-1].name] if last_tried else []
    return search_decision(Progress(history, study, plan, elapsed_s=elapsed_s, newest=newest, aborted=aborted))


def test_the_last_build_is_measured_first_then_one_in_the_middle():
    study = bisections.study_of_builds(9)
    assert decision(study, {"I": [-0.1, -0.101]}).joins is None
    joins = decision(study, {"I": [-0.1, -0.101, -0.099]}).joins
    assert joins.name == "E"
    joined = study.model_copy(update={"arms": (*study.arms, joins)})
    again = decision(joined, {"I": [-0.1, -0.101, -0.099]})  # killed before the epoch ended
    assert again.joins is None and {arm for _, arm in again.settled} == {"I"}
    other = decision(joined, {"I": [-0.1, -0.101, -0.099]}, last_tried=True)
    assert other.joins.name in "DF"


def test_a_broken_build_stays_passed_over_after_a_valid_epoch():
    study = bisections.study_of_builds(9)
    study = study.model_copy(update={"arms": (*study.arms, study.question.builds[4])})
    valid = decision(study, {"I": [-0.1, -0.101, -0.099, -0.1]}, last_tried=True)
    assert valid.joins.name in "DF"


@pytest.fixture
def search(tmp_path, monkeypatch):
    """A run that bisects three builds, the second broken, and a function that continues it and returns the arms."""
    clock, directory, measured = iter(range(10_000)), RunDirectory.create(tmp_path, bisections.study_of_builds(3)), []

    def run_epoch(order, _tools, run, **_how):
        (_, arm), number = order.arms, order.draft.epoch
        measured.append(arm)
        plan = plan_study(run.study(), overhead_s=5, load_s=5) if order.pilot else None
        if plan:
            run.write_json("plan.json", plan)
        arms = [each for each in run.study().arms if each.name in order.arms]
        writer = run.epoch(number, order.draft.build)
        if arm != "B":
            slices = slices_of_cell(
                run.study().model_copy(update={"arms": tuple(arms)}), Truth(effect={"C": -0.1}, sd_restart=0.04),
                cell="oltp_read_only/4", cell_index=0, threads=4, epoch=number, blocks=4, slice_ns=100_000_000,
            )  # fmt: skip
            writer.slices.extend(row | {"errors": {}, "threads": {}} for row in slices.records())
        at = datetime(2026, 11, 20, tzinfo=UTC) + timedelta(seconds=next(clock))
        reason = "arm B: it does not start" if arm == "B" else ""
        writer.finish(
            Outcome(
                epoch=number, build=order.draft.build, valid=not reason, discard_reason=reason, started_at=at,
                wall_s=1, measured_s=1, start_order=order.draft.start_order,
            )
        )  # fmt: skip
        return EpochDone(number, plan=plan)

    def go_on():
        measured.clear()
        study, plan = directory.study(), directory.read("plan.json", Plan)
        StudyRun(
            study, directory, ThisMachine(None, directory), QuietLive(), threading.Event(), time.monotonic(),
            builds=1, at_once=2, join=lambda _study: None, plan=plan, history=directory.load_epochs(),
        ).run()  # fmt: skip
        return "".join(measured)

    monkeypatch.setattr(study_run, "run_epoch", run_epoch)
    return directory, go_on


def test_a_broken_build_is_tried_once_and_named_with_the_one_after_it(search):
    directory, go_on = search
    whole = go_on()
    assert whole.startswith("CCCBCC") and whole.count("B") == 1
    assert believed_of(Context(directory, read_analysis(directory))).named == (1, 2)


@pytest.mark.parametrize("finished", [3, 4, 5])
def test_a_killed_search_continues_where_it_stopped(search, finished):
    directory, go_on = search
    whole = go_on()
    assert len(directory.study().arms) == 3
    for epoch in directory.finished_epochs()[finished:]:
        shutil.rmtree(directory.path / f"epochs/{epoch:03d}")
    rest = go_on()
    assert rest == whole[finished:] and ("B" in rest) == (finished == 3)


def test_a_build_that_starts_and_does_nothing_is_passed_over():
    study = bisections.study_of_builds(9)
    study = study.model_copy(update={"arms": (*study.arms, study.question.builds[4])})
    values = {"I": [-0.1, -0.101, -0.099], "E": [-math.inf]}
    assert decision(study, values).joins.name in "DF"


def test_a_build_that_cannot_be_installed_is_passed_over(tmp_path, monkeypatch):
    def prepare_arms(*_args, **_more):
        raise ServerError("it could not be fetched.")

    monkeypatch.setattr(added_arms, "prepare_arms", prepare_arms)
    study = bisections.study_of_builds(4)
    plan = plan_study(study, overhead_s=5, load_s=5)
    run = RunDirectory.create(tmp_path, study)
    tools = EpochTools(study, (), None, {}, QuietLive(), threading.Event(), at_once=2)
    machine = ThisMachine(tools, run, Joining(None, None, run))
    joined = study.model_copy(update={"arms": (*study.arms, study.question.builds[1])})
    machine.join(joined)
    settled = frozenset((cell.name, study.arms[1].name) for cell in plan.cells)
    plan = plan.with_arms(arm.name for arm in joined.arms)
    machine.begin(EpochOrder(plan, epoch_draft(plan, joined, 0, settled=settled)))
    machine.wait()
    outcome = run.outcome(0)
    assert (outcome.valid, outcome.discard_reason) == (False, "it could not be fetched.")


@dataclass
class Loading:
    """A loader that takes 40 seconds for each load."""

    clock: list
    study: object = None
    engine: object = None

    def load_further(self, setup, build, **_):
        self.clock[0] += 40.0
        return {(setup.load_key, build): None}


@pytest.mark.parametrize(("before", "reload_s"), [({"B-0"}, 40.0), ({"A-0"}, 0.0)])
def test_reloading_after_a_resume_does_not_use_the_budget(tmp_path, monkeypatch, before, reload_s):
    def run_epoch(order, _tools, run, **_how):
        at = datetime(2026, 11, 20, tzinfo=UTC)
        run.epoch(order.draft.epoch, 0).finish(
            Outcome(epoch=order.draft.epoch, build=0, valid=False, started_at=at, wall_s=1, measured_s=1)
        )
        return EpochDone(order.draft.epoch)

    clock = [0.0]
    monkeypatch.setattr(added_arms, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(added_arms, "Engine", lambda **_: nullcontext())
    monkeypatch.setattr(study_run, "run_epoch", run_epoch)
    study = bisections.study_of_builds(4)
    joined = study.question.builds[1].model_copy(update={"server": parse_server("mysql:5.7.22")})
    study = study.model_copy(update={"arms": (*study.arms, joined)})
    plan = plan_study(study, overhead_s=5, load_s=5, builds=1)
    run = RunDirectory.create(tmp_path, study)
    setups = tuple(ArmSetup(arm) for arm in study.arms)
    snapshots = {(setup.load_key, 0): None for setup in setups if setup.arm.name != "B"}
    tools = EpochTools(study, setups, None, snapshots, QuietLive(), threading.Event(), at_once=2)
    machine = ThisMachine(tools, run, Joining(None, Loading(clock), run, before))
    went_on = StudyRun(study, run, machine, QuietLive(), threading.Event(), 100.0, builds=1, at_once=2)
    for number in range(2):  # the second finds it loaded
        machine.begin(EpochOrder(plan, epoch_draft(plan, study, number)))
        went_on._take(machine.wait())
    assert clock == [40.0]
    assert went_on.begin == 100.0 + reload_s


def test_builds_that_join_later_use_the_initial_data_snapshot(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(own_data, "dump_database", lambda *_args: None)
    study, data = bisections.study_of_builds(4), {"data": Data(source="mysql://root@127.0.0.1:1/shop")}
    builds = tuple(arm.model_copy(update=data) for arm in study.question.builds)
    study = study.model_copy(update={"arms": (builds[0], builds[-1]), "question": Search(builds=builds)})
    taken = own_data.take_snapshots(study, QuietLive(), {}, threading.Event())
    (source,) = {arm.data.source for arm in (*taken.arms, *taken.question.builds)}
    assert source.startswith(str(tmp_path))


def test_a_bisection_ends_when_only_unmeasurable_builds_are_left():
    study = bisections.study_of_builds(5)
    study = study.model_copy(update={"arms": (*study.arms, *(study.question.builds[each] for each in (2, 3, 1)))})
    values = {"E": [-0.1, -0.101, -0.099], "D": [-0.1, -0.1], "B": [0.001, -0.001]}
    assert decision(study, values).stop is Stop.ANSWERED
    assert beliefs_of(study, values, skipped={"C"}).named == (2, 3)


def test_a_slow_last_build_is_measured_until_its_difference_is_clear():
    study = bisections.study_of_builds(3)
    study = study.model_copy(update={"arms": (*study.arms, study.question.builds[1])})
    values = {"C": [-0.11, -0.1, -0.12], "B": [0.01, -0.01, 0.0, 0.02]}
    believed = beliefs_of(study, values)
    assert believed.probabilities[2] > 0.99 and believed.named is None
    again = decision(study, values)
    assert (again.stop, {arm for _, arm in again.settled}) == (Stop.RUNNING, {"B"})
    assert decision(study, values | {"C": [*values["C"], -0.11, -0.09]}).stop is Stop.ANSWERED


def test_a_bisection_ends_when_answered_aborted_or_out_of_budget():
    study = bisections.study_of_builds(3)
    study = study.model_copy(update={"arms": (*study.arms, study.question.builds[1])})
    clear = {"C": [-0.1, -0.101, -0.099] * 2, "B": [0.001, -0.001, 0.0]}
    assert decision(study, clear).stop is Stop.ANSWERED
    assert decision(study, {"C": clear["C"]}).stop is Stop.RUNNING
    assert decision(study, {"C": clear["C"]}, elapsed_s=1e6).stop is Stop.BUDGET
    assert decision(study, clear, aborted=True).stop is Stop.ABORTED


def test_builds_that_are_all_alike_have_no_culprit():
    study = bisections.study_of_builds(9)
    believed = beliefs_of(study, {"I": [0.001, -0.001, 0.0005, -0.0005, 0.0, 0.0002, 0.001, -0.001]})
    assert believed.nothing and believed.named == ()


def test_an_arm_of_options_has_the_options_that_were_chosen():
    study = bisections.study_of_options(5, 1)
    chosen = (True, False, False, True, False)
    arm = arm_with(study, chosen)
    assert subset(study, arm) == chosen and subset(study, study.arms[1]) == (True,) * 5
    assert dict(arm.server.options)["option_0"] == "1" and dict(arm.server.options)["option_1"] == "0"
    assert arm.name == "C" and arm.label == "C: option_0, option_3"


def test_the_same_values_ask_for_the_same_arm():
    study = bisections.study_of_options(12, 1)
    values = {"B": [-0.1, -0.101, -0.099, -0.1]}
    first, second = (next_arm(study, beliefs_of(study, values), values) for _ in range(2))
    assert first == second and first.name == "C"


# ---- simulated -------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("options", "runs"), [(12, 20), pytest.param(40, 60, marks=pytest.mark.slow)])
def test_three_guilty_options_are_found(of_runs, options, runs):
    runs = of_runs(runs)
    ended = bisections.find_options(2, runs=runs, options=options)
    assert ended.right * runs >= fewest(runs, 0.95)
    assert ended.epochs < 40


@pytest.mark.parametrize("options", [3, 5, 8, 12])
def test_options_that_need_another_one_do_not_end_the_search(options):
    """A server refuses option 1 at its second value unless option 0 has its second value, too."""
    rng = np.random.default_rng(options)

    def found(seed):
        study = bisections.study_of_options(options, seed)

        def measure(arm):
            chosen = subset(study, arm)
            return None if chosen[1] and not chosen[0] else -0.08 * chosen[-1] + rng.normal(0, 0.01)

        return bisections.searched(study, measure).found

    assert [found(seed) for seed in range(20)].count((options - 1,)) >= 18


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_where_nothing_changed_nothing_is_named():
    ended = bisections.find_build(2, runs=60, builds=16, slowdown_percent=0.0)
    assert (1 - ended.right - ended.undecided) * 60 <= 60 - fewest(60, 0.95)


# ---- the command -----------------------------------------------------------------------------------------------------

FAST = "[mysqld]\ngeneral_log = OFF\nsort_buffer_size = 256K\nback_log = 80\n"
SLOW = "[mysqld]\ngeneral_log = ON\nlog-output = TABLE\nsort_buffer_size = 512K\n"


def write_files(shell):
    (shell.folder / "fast.cnf").write_text(FAST)
    (shell.folder / "slow.cnf").write_text(SLOW)
    (shell.folder / "one.cnf").write_text(FAST.replace("OFF", "ON"))
    return shell.folder


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((SERVER,), "bisect: it takes 3 to 500 builds in order"),
        ((SERVER, SERVER), "bisect: it takes 3 to 500 builds in order"),
        ((SERVER, "path:nowhere", SERVER), "does not exist"),
        ((SERVER, "mysql:4.1.22", SERVER), "mysql:4.1.22"),
        ((SERVER, "mysql://root@127.0.0.1:1/", SERVER), "is a running server, which is not restarted"),
        ((SERVER, SERVER, SERVER, "--threads", "1,2"), "one workload and one number of threads"),
        ((SERVER, SERVER, SERVER, "-w", "oltp_read_only,oltp_read_write"), "one workload and one number of threads"),
        ((SERVER, SERVER, SERVER, "--budget", "5s"), "a budget of 5 s is too small"),
        (("--cnf", "fast.cnf", SERVER), "--cnf takes one server and two files"),
        (("--cnf", "fast.cnf", "--cnf", "slow.cnf", SERVER, SERVER), "--cnf takes one server and two files"),
        (("--cnf", "fast.cnf", "--cnf", "nowhere.cnf", SERVER), "nowhere.cnf cannot be read"),
        (("--cnf", "fast.cnf", "--cnf", "fast.cnf", SERVER), "differ in 0 options"),
        (("--cnf", "fast.cnf", "--cnf", "one.cnf", SERVER), "differ in 1 options; it takes 2 to 100."),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_exit_code_2(inside, shell, arguments, says):
    write_files(shell)
    ran = inside("bisect", *arguments)
    assert ran.code == ExitCode.USAGE, ran
    assert says in ran.complaint


def test_an_unknown_release_is_named_before_anything_is_measured(inside):
    ran = inside("bisect", SERVER, "mysql:99.99.99", SERVER)
    assert ran.code == ExitCode.NOT_READY, ran
    assert "mysql-99.99.99" in ran.complaint


SMALL = ("-w", "oltp_point_select", "--threads", "2", "--tables", "1", "--table-size", "1000", "--seed", "3")
LOGGED = f"{SERVER},general_log=ON,slow_query_log=ON,long_query_time=0,log_output=TABLE"


@pytest.mark.server
@pytest.mark.timeout(600)
def test_the_first_slow_build_is_found_and_a_broken_one_is_passed_over(shell):
    """The slow one writes every statement into two tables; the second, which is tried first, does not start."""
    broken, sound = f"{SERVER},default_authentication_plugin=none", f"{SERVER},back_log=60"
    ran = shell.run("bisect", SERVER, broken, sound, LOGGED, *SMALL, "--threads", "1", "--precision", "20%",
                    "--budget", "400s", "--format", "json", limit_s=560)  # fmt: skip
    assert ran.code == ExitCode.DONE, ran
    document = json.loads(ran.out)
    assert document["bisection"]["named"] == [LOGGED]
    assert "The throughput changed with" in document["summary"][0]


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_search_that_was_killed_goes_on_with_its_arms(shell):
    builds = [f"{SERVER},back_log={number}" for number in (60, 61)]
    slow = [f"{LOGGED},back_log={number}" for number in (60, 61)]
    process = shell.start("bisect", *builds, *slow, *SMALL, "--budget", "150s")
    for line in process.stderr:
        if "epoch 3 finished" in line:
            process.kill()
    process.communicate()
    (run,) = shell.runs
    begun = json.loads((run / "study.json").read_text())
    assert len(begun["arms"]) == 3 and len(begun["question"]["builds"]) == 4
    ran = shell.run("run", "--resume", run.name, "--format", "json", limit_s=400)
    assert ran.code == ExitCode.DONE, ran
    document = json.loads(ran.out)
    assert document["bisection"]["named"] == [slow[0]]
    arms = [arm["name"] for arm in json.loads((run / "study.json").read_text())["arms"]]
    assert arms[:3] == [arm["name"] for arm in begun["arms"]]


INNOCENT = {
    "table_open_cache": (2000, 1000), "sort_buffer_size": ("256K", "512K"), "join_buffer_size": ("256K", "512K"),
    "read_buffer_size": ("128K", "256K"), "thread_cache_size": (9, 8), "innodb_io_capacity": (200, 300),
    "innodb_lru_scan_depth": (1024, 512), "max_connect_errors": (100, 200), "innodb_old_blocks_time": (1000, 500),
    "read_rnd_buffer_size": ("256K", "512K"), "tmp_table_size": ("16M", "32M"), "max_heap_table_size": ("16M", "32M"),
    "back_log": (80, 100), "net_buffer_length": ("16K", "32K"), "interactive_timeout": (28800, 14400),
    "wait_timeout": (28800, 14400), "connect_timeout": (10, 20), "lock_wait_timeout": (31536000, 86400),
    "innodb_lock_wait_timeout": (50, 60), "group_concat_max_len": (1024, 2048), "max_error_count": (64, 128),
    "bulk_insert_buffer_size": ("8M", "16M"), "max_sort_length": (1024, 2048), "slow_launch_time": (2, 3),
    "eq_range_index_dive_limit": (200, 100), "innodb_read_ahead_threshold": (56, 48), "net_read_timeout": (30, 40),
    "innodb_stats_persistent_sample_pages": (20, 30), "innodb_max_dirty_pages_pct": (90, 80),
    "net_write_timeout": (60, 70), "innodb_purge_batch_size": (300, 200), "innodb_autoextend_increment": (64, 32),
    "key_buffer_size": ("8M", "16M"), "myisam_sort_buffer_size": ("8M", "16M"), "preload_buffer_size": (32768, 65536),
    "div_precision_increment": (4, 5), "ft_min_word_len": (4, 3),
}  # fmt: skip
GUILTY = {"general_log": ("OFF", "ON"), "long_query_time": (10, 0), "performance_schema_instrument": ("%=OFF", "%=ON")}
COMMON = "[mysqld]\nslow_query_log = ON\nperformance_schema = ON\n"


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_the_three_options_that_make_a_real_server_slower_are_found_among_forty(shell):
    """Two logs, and instruments of the performance schema."""
    assert len(INNOCENT | GUILTY) == 40
    for side, file in enumerate(("fast.cnf", "slow.cnf")):
        lines = [f"{name} = {values[side]}\n" for name, values in (INNOCENT | GUILTY).items()]
        (shell.folder / file).write_text(COMMON + "".join(lines))
    ran = shell.run("bisect", "--cnf", "fast.cnf", "--cnf", "slow.cnf", SERVER, *SMALL, "--budget", "30m",
                    "--format", "json", limit_s=2200)  # fmt: skip
    assert ran.code == ExitCode.DONE, ran
    assert set(json.loads(ran.out)["bisection"]["named"]) == GUILTY.keys()
