"""Causes that no counter shows are named from the CPU profile."""

import math

import numpy as np
import pytest
from profiled import BASE, KERNEL, LIBC, READ, SERVER, STACKS, Function, profile

from bakeoff.explain.costs import BUSY, TIME, Cost, Explanation
from bakeoff.explain.named_causes import Evidence, causes, why
from bakeoff.explain.off_cpu import compare_off_cpu
from bakeoff.explain.profiles import PREEMPTED, SERVING, Profile, compare_profiles
from bakeoff.explain.waits import WaitDifference
from bakeoff.stats import interval as iv
from bakeoff.stats.interval import Paired
from bakeoff.stats.model import Estimate, Interval

LOOP, MALLOC = (*BASE, Function("recv", "loop.so")), (*READ, Function("malloc", LIBC))
FILLED = (*READ, Function("malloc", "libjemalloc.so.2"))
INSTRUMENT = (*READ, Function("pfs_start_mutex_wait_v1", SERVER))
NOT_FOUND = "The cause was not found. Next step: `bakeoff explain RUN --explain-budget 3m`"
LOG, TABLE = "wait/io/file/innodb/innodb_log_file", "wait/io/table/sql/handler"


def sentence(evidence, contender):
    return " ".join(why(evidence, contender))


def of_time(mean):
    return Estimate(mean=mean, interval=Interval(low=mean - 0.01, high=mean + 0.01), n=8)


def counted(*, slower=0.2, named=(), claimed=True):
    """Return an explanation whose causes are the counters of the families in `named`."""
    cost = Cost(
        counter="status.Questions", family="network", baseline=1.0, contender=1.0, estimate=of_time(0.0),
        p_adjusted=1.0, word="unclear", explains=None,
    )  # fmt: skip
    best = tuple(cost.model_copy(update={"family": name, "word": "more", "explains": 1.0}) for name in named)
    return Explanation(cell="c", contender="B", time=of_time(slower), claimed=claimed, costs=(cost, *best), causes=best)


def profiles(rng, more=None, *, epochs=3, restart=0.02, run_epochs=6):
    """Compare two arms' profiles; each restart is slower or faster by random factors, in all and by stack."""

    def drawn(stacks, sampler=rng):
        own = np.exp(restart * rng.standard_normal())
        means = {s: n * own * np.exp(restart * rng.standard_normal()) for s, n in stacks.items()}
        return profile(means, sampler), sum(means.values())

    sides = [{epoch: drawn(stacks) for epoch in range(epochs)} for stacks in (STACKS, STACKS | (more or {}))]
    ratios = [math.log(drawn(STACKS | (more or {}), None)[1] / drawn(STACKS, None)[1]) for _ in range(run_epochs)]
    return compare_profiles(*[{e: each for e, (each, _) in side.items()} for side in sides], iv.moments(ratios))


@pytest.mark.parametrize(
    ("stack", "name", "part", "function"),
    [
        (LOOP, "library loop.so", "library loop.so", "recv (loop)"),
        (MALLOC, "memory allocation", "memory allocation", "malloc (libc)"),
        (FILLED, "memory allocation", "memory allocation", "malloc (libjemalloc)"),
        (INSTRUMENT, "performance schema", "performance schema", "pfs_start_mutex_wait_v1"),
        ((*BASE, Function("log_write_up_to", SERVER)), "logging and durability", "redo log", "log_write_up_to"),
    ],
)
@pytest.mark.parametrize(("epochs", "sampled"), [(1, "one restart."), (2, "2 restarts."), (3, "3 restarts.")])
def test_a_cause_that_no_counter_shows_is_named_from_the_cpu_profile(stack, name, part, function, epochs, sampled):
    found = Evidence(counted(), profiles(np.random.default_rng(1), {stack: 2500}, epochs=epochs))
    assert causes(found)[:1] == (name,)
    text = sentence(found, "mysql:8.0")
    assert f" of that is in {part} (`{function}`)" in text and text.endswith(sampled)


@pytest.mark.parametrize(
    ("word", "needs", "other"), [("less", "63% less CPU", "more"), ("more", "2.68 times the CPU", "less")]
)
def test_parts_that_cancel_out_are_given_as_times_not_shares(word, needs, other):
    """Parsing 500 µs and locks 10 µs on one arm; 100 µs and 90 µs on the other."""
    parse, lock = ((*BASE, Function(name, SERVER)) for name in ("MYSQLparse", "MDL_context::acquire_lock"))
    sides = [{e: profile({parse: p + e, lock: n}) for e in range(3)} for p, n in ((10_000, 200), (2000, 1800))]
    found = compare_profiles(*(sides if word == "less" else reversed(sides)))
    text = sentence(Evidence(counted(slower=-0.5 if word == "less" else 0.5), found), "B")
    assert f" needs {needs} per event. 400 µs {word} in parser (`MYSQLparse`), 80 µs {other} in tables and " in text
    assert "of that" not in text


@pytest.mark.parametrize("slower", [-0.5, 0.5])
def test_time_against_the_difference_is_listed_separately(slower):
    cost = counted().costs[0].model_copy(update={"family": TIME, "word": "more"})
    parts = [
        cost.model_copy(update={"counter": name, "explains": share})
        for name, share in (("cpu.server.user_ns", 1.2), (BUSY, 0.1), ("cpu.client_ns", -0.3))
    ]
    found = counted(slower=slower).model_copy(update={"costs": tuple(parts)})
    text = sentence(Evidence(found), "B")
    assert "Of the difference in time: server CPU, user mode 120%, waiting 10%; against it client CPU 30%." in text


def test_named_thread_cpu_time_has_its_measured_share_and_times():
    cost = counted(named=("logging and durability",)).causes[0]
    cpu = {"counter": "cpu.thread.log_ns", "baseline": 12_000.0, "contender": 31_000.0, "explains": 0.45}
    found = counted().model_copy(update={"causes": (cost.model_copy(update=cpu),)})
    said = "Logging and durability explains 45% of it (server CPU, log threads 12 µs → 31 µs per event)."
    assert said in sentence(Evidence(found), "B")


def test_a_cause_found_by_counters_takes_precedence_over_the_profile():
    found = Evidence(counted(named=("row access",)), profiles(np.random.default_rng(1), {LOOP: 2500}))
    assert causes(found) == ("row access",)
    assert "Row access can explain all of it" in sentence(found, "B") and "library loop.so" in sentence(found, "B")


def test_a_slower_arm_that_takes_less_cpu_is_not_explained_by_it():
    found = Evidence(counted(slower=-0.2), profiles(np.random.default_rng(1), {LOOP: 2500}))
    assert causes(found) == () and sentence(found, "B").endswith("Sampled in 3 restarts. The cause was not found.")
    assert causes(Evidence(counted(claimed=False), found.profile)) == ()


def test_kernel_interrupts_are_not_a_cause():
    found = Evidence(counted(), profiles(np.random.default_rng(1), {(*BASE, Function("irq_exit", KERNEL)): 2500}))
    assert causes(found) == ()


@pytest.mark.parametrize("epochs", [1, 2, 3, 6])
@pytest.mark.parametrize("restart", [0.0, 0.02, 0.1])
def test_a_part_is_rarely_named_for_equal_servers(of_runs, epochs, restart):
    """At most one in 20 pairs of equal arms has a part named when one arm is declared slower."""
    rng, runs = np.random.default_rng(3), of_runs(400)
    named = sum(bool(causes(Evidence(counted(), profiles(rng, epochs=epochs, restart=restart)))) for _ in range(runs))
    assert named <= runs / 20


def wait(name, baseline, contender, *, spread=1_000.0):
    change = contender - baseline
    difference = Estimate(mean=change, interval=Interval(low=change - spread, high=change + spread), n=4)
    differs = abs(change) > spread
    p = 0.0 if differs else 1.0
    return WaitDifference(baseline, contender, difference, name, ratio=None, p_adjusted=p)


def test_a_longer_wait_is_reported_with_its_times():
    found = Evidence(counted(), waits=(wait(LOG, 20_000, 400_000),), longer_ns=400_000)
    assert sentence(found, "B").endswith(f"Waits per event: `{LOG}` 20 µs → 400 µs.")


def test_waits_are_called_unchanged_only_if_their_intervals_show_it():
    still = Evidence(counted(), waits=(wait(LOG, 20_000, 20_100),), longer_ns=100_000)
    assert sentence(still, "B").endswith(f"No wait changes by as much as 30% of the difference. {NOT_FOUND}")
    vague = Evidence(counted(), waits=(wait(LOG, 20_000, 20_100, spread=50_000.0),), longer_ns=100_000)
    assert "wait" not in sentence(vague, "B")


def test_waits_without_an_interval_are_not_mentioned():
    """One epoch names no stage; with several, waits too short to be compared do not change the stages."""
    stage = wait("stage/sql/statistics", 20_000, 20_100)
    several = sentence(Evidence(counted(), waits=(stage,), longer_ns=100_000), "B")
    assert "No wait changes by as much as 30% of the difference." in several
    one = WaitDifference(**vars(Paired.of([20_000.0], [20_100.0])), name=stage.name, ratio=None, p_adjusted=None)
    for waits in ((), (one,)):
        assert "wait" not in sentence(Evidence(counted(), waits=waits, longer_ns=100_000), "B")


def pauses(longer_us, *, epochs=4):
    """Return off-CPU time of two arms; the contender waits longer for the redo log in every event."""
    rng = np.random.default_rng(1)
    commit = (SERVING, *BASE, Function("log_write_up_to", SERVER), Function("futex_wait", KERNEL))
    fields = {"event": "context-switches", "period_ns": 1000, "seconds": 1.0, "outside": 0, "incomplete": 0}

    def drawn(mean_us):
        waits = {commit: 1000 * mean_us, (SERVING, *BASE, PREEMPTED): 1000 * 30}
        return Profile.of_stacks({s: rng.poisson(n) for s, n in waits.items()}, events=1000, **fields)

    sides = [{epoch: drawn(100 + more) for epoch in range(epochs)} for more in (0, longer_us)]
    return compare_off_cpu(*sides)


def test_off_cpu_time_is_mentioned_only_if_its_interval_is_clear():
    found = Evidence(counted(), longer_ns=250_000, off_cpu=pauses(200))
    text = sentence(found, "B")
    assert "Off-CPU time of statements per event: 200 µs (" in text and ") more, all of it in redo log: lock" in text
    assert text.endswith("in redo log: lock or condition (`log_write_up_to`).")
    for silent in (pauses(0), pauses(200, epochs=2)):
        assert sentence(Evidence(counted(), longer_ns=250_000, off_cpu=silent), "B").endswith(NOT_FOUND)
    small = Evidence(counted(), longer_ns=5_000_000, off_cpu=pauses(200))
    assert "Off-CPU" not in sentence(small, "B")


def test_time_in_a_handler_is_not_a_wait():
    found = Evidence(counted(), waits=(wait(TABLE, 20_000, 400_000),), longer_ns=400_000)
    assert TABLE not in sentence(found, "B") and sentence(found, "B").endswith(NOT_FOUND)


def test_two_epochs_have_no_interval():
    two, three = (Paired.of([1.0] * n, [2.0, 2.1, 2.2][:n]) for n in (2, 3))
    assert two.difference.interval.low is None and not two.is_clear
    assert three.is_clear and three.difference.mean == pytest.approx(1.1)
