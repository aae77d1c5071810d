"""Checks on real servers: complete duels with a known ratio, undeclared settings, writes, and the client's limit.

The duels of one suite run lie in one journal beside the checks' folders: a check takes from it what another one has
measured. $BAKEOFF_VALIDATION_DUELS names the folder of another journal, such as a campaign's
(`python -m validation campaign`), whose duels count then.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean, median

import numpy as np

from bakeoff.errors import ExitCode
from bakeoff.results.epoch_data import EpochData
from bakeoff.servers import ServerMemory, ServerPool, install, settings_for
from bakeoff.servers.paths import work_root
from bakeoff.spec import Arm, Data, Origin, Profile, ServerSpec, Study, Workload, parse_server
from bakeoff.stats.analysis import analyse
from bakeoff.stats.diagnostics import carry_over, carry_over_flag
from bakeoff.stats.differences import differences, undeclared
from bakeoff.stats.interval import standard_deviation, t_quantile
from bakeoff.stats.model import FlagKind, Obstacle, Stop, Word
from validation.campaign import BUDGET, Campaign, Judged, Summary, describe, ever_excludes, judged, planned
from validation.check import TOO_BUSY, Check, Finding, Setting, Size, fewest, most
from validation.duels import LoadClass, Outcome
from validation.fake_server import MS, FakeArm, FakeBench, Load, judge, on_fake_server
from validation.real_epochs import (
    SAME_AT_EVERY_LENGTH,
    RealBench,
    Variant,
    agrees,
    at_every_length,
    by_variant,
    figures_of,
    mean_of,
    question,
    rate,
    shown,
    usable_cpus,
)
from validation.simulation import QUIET, simulate_epoch

MARIADB = "mariadb:10.11"

_SMALL = {Size.QUICK: 1, Size.FULL: 50}
_BESIDE_LOAD = 20
_REPEATS = 20  # G16
_SWAPS = 20
_GRIDS = 4
_CLAIMS = 10
_UNABLE = "no duel has enough epochs for a verdict"
_NOT_NOW = f"exit code {ExitCode.NOT_READY}: "  # begins the only error of a duel that says nothing against bakeoff
# What the method promises for a machine whose other work leaves it most of its processors.
_CALM = (LoadClass.QUIET, LoadClass.LIGHT)


def equal_arms(setting: Setting) -> Finding:
    """G1: how often a difference between equal servers is claimed."""
    duels = _duels(setting, {"aa": _SMALL[setting.size]}, _servers(setting))
    return _false_claims(duels)


def equal_arms_under_load(setting: Setting) -> Finding:
    """G2: the same beside bursts of other work."""
    return _false_claims(_duels(setting, {"aa": _BESIDE_LOAD}, _servers(setting), background=True))


def injected(setting: Setting) -> Finding:
    """G3: whether intervals hold a truth of -2 % and -5 %."""
    kinds = {"slow5": 2} if setting.size is Size.QUICK else {"slow2": 40, "slow5": 40}
    duels = _duels(setting, kinds, (setting.server,))
    if duels.nothing:
        return duels.nothing
    shown_kinds, holds, figures, lacking = [], True, {}, ""
    for kind in kinds:
        of_kind = [each for each in duels.judged if each.outcome.duel.kind == kind]
        if not of_kind:
            continue
        total = Summary.of(of_kind)
        holds = holds and total.covered >= total.fewest_covered and not total.wrong
        shown_kinds.append(
            f"-{of_kind[0].outcome.duel.slowdown_percent:g} %: held by {total.covered} of {total.intervals}, "
            f"claimed {total.right}, wrong sign {total.wrong}, ±{total.half_width:.1%} in {total.wall_s:.0f} s"
        )
        figures[kind] = _figures(of_kind)
        lacking = lacking if total.intervals else f"no duel of {kind} has an interval"
    return duels.finding("; ".join(shown_kinds), holds, figures, lacking)


def claimed_in_time(setting: Setting) -> Finding:
    """G3: whether -2 % is claimed within 10 minutes and -5 % within 5, at a target of 1 %."""
    promises = {"slow2": ("10m", 0.90), "slow5": ("5m", 0.99)}
    shown_kinds, holds, figures, calm, asked = [], True, {}, True, []
    for kind, (budget, share) in promises.items():
        duels = _duels(setting, {kind: _CLAIMS}, (setting.server,), precision="1%", budget=budget)
        if duels.nothing:
            return duels.nothing
        asked.append(duels)
        total = Summary.of(duels.judged)
        calm = calm and sum(each.load in _CALM for each in duels.judged) > total.duels / 2
        holds = holds and total.right >= fewest(total.duels, share) and not total.wrong
        shown_kinds.append(
            f"{kind.removeprefix('slow')} %: claimed by {total.right} of {total.duels}, in {total.wall_s:.0f} s"
        )
        figures[kind] = _figures(duels.judged)
    words = "; ".join(shown_kinds)
    both = _Duels(
        [outcome for duels in asked for outcome in duels.outcomes],
        "; ".join(filter(None, (duels.missing for duels in asked))),
        broken=any(duels.broken for duels in asked),
    )
    if not calm and not holds and not both.broken:
        return Finding(found=f"the machine was too busy with other work to tell: {words}", passed=None, figures=figures)
    return both.finding(words, holds, figures)


def swapped(setting: Setting) -> Finding:
    """G5: A over B and B over A, each measured alone, must be each other's inverse."""
    duels = _duels(setting, {"swap": _SWAPS}, (setting.server,))
    by_number: dict[int, dict[str, Outcome]] = {}
    for outcome in duels.outcomes:
        by_number.setdefault(outcome.duel.number, {})[outcome.duel.kind] = outcome
    both = [(each["swap-ab"].only, each["swap-ba"].only) for each in by_number.values() if len(each) == 2]
    pairs = [(a, b) for a, b in both if a.has_interval and b.has_interval]
    if not pairs:
        return duels.unproven("no pair of duels has two intervals")
    within = [abs(a.mean + b.mean) <= math.hypot(a.half_width, b.half_width) for a, b in pairs]
    return duels.finding(
        f"within the combined interval in {sum(within)} of {len(pairs)} pairs",
        sum(within) >= fewest(len(pairs), 0.93),
        {"pairs": len(pairs), "within": sum(within), "sums": [a.mean + b.mean for a, b in pairs]},
    )


def peeking(setting: Setting) -> Finding:
    """G7: somebody stops at the first moment that the live interval excludes 1."""
    duels = _duels(setting, {"aa": _SMALL[setting.size]}, _servers(setting))
    if duels.nothing:
        return duels.nothing
    misled = [each for each in duels.judged if ever_excludes(each.judgement.points, 0.0)]
    n = sum(each.judgement.live.half_width is not None for each in duels.judged)
    return duels.finding(
        f"{len(misled)} of {n} would have stopped with a false claim (at most {most(n, 0.05)})",
        len(misled) <= most(n, 0.05),
        {"duels": n, "misled": [describe(each) for each in misled]},
        "" if n else "no duel has a live interval",
    )


def grid(setting: Setting) -> Finding:
    """G11: equal servers in 24 cells of one duel."""
    duels = _duels(setting, {"grid": _GRIDS}, (setting.server,), precision="5%")
    if duels.nothing:
        return duels.nothing
    claims = [[each.claim for each in outcome.judgements if each.claim] for outcome in duels.outcomes]
    n, misled = len(claims), sum(bool(each) for each in claims)
    total = Summary.of(duels.judged)
    return duels.finding(
        f"{misled} of {n} grids with any claim (at most {most(n, 0.05)}); "
        f"{total.covered} of {total.intervals} single intervals hold 1",
        misled <= most(n, 0.05),
        {"grids": n, "with_a_claim": misled, "cells": total.intervals, "cells_covered": total.covered},
        "" if total.able else _UNABLE,
    )


def repeated(setting: Setting) -> Finding:
    """G16: the same question again and again: any two results differ by less than their combined interval."""
    duels = _duels(setting, {"slow5": _REPEATS}, (setting.server,))
    judgements = [outcome.only for outcome in duels.outcomes if outcome.only.has_interval]
    if len(judgements) < 2:
        return duels.unproven("fewer than two duels have an interval")
    runs, pairs = len(judgements), list(combinations(judgements, 2))
    within = sum(abs(a.mean - b.mean) <= math.hypot(a.half_width, b.half_width) for a, b in pairs)
    begun = sorted(outcome.started_at for outcome in duels.outcomes)
    hours = (begun[-1] - begun[0]).total_seconds() / 3600
    # Pairs of the same runs are not independent: the bound is that of as many pairs as there are runs.
    bound = fewest(runs, 0.93) / runs
    return duels.finding(
        f"{within / len(pairs):.0%} of {len(pairs)} pairs within the combined interval; {runs} runs in {hours:.1f} h",
        within / len(pairs) >= bound,
        {"runs": runs, "pairs": len(pairs), "within": within, "hours": hours, "ratios": [j.mean for j in judgements]},
    )


class _Duels:
    """The outcomes that a check asked for, and what could not be run.

    Attributes:
        missing: in words; empty: nothing.
        broken: a command failed otherwise than by saying that a server or the machine cannot do this now.
    """

    def __init__(self, outcomes: Sequence[Outcome], missing: str, broken: bool) -> None:
        self.outcomes = outcomes
        self.judged: list[Judged] = judged(outcomes)
        self.missing = missing
        self.broken = broken

    @property
    def nothing(self) -> Finding | None:
        """The finding when no duel could be run."""
        return None if self.outcomes else self.unproven("no duel was run")

    def unproven(self, lacking: str) -> Finding:
        """The finding when there is nothing to judge; failed when the commands themselves did."""
        return Finding(found=self.missing or lacking, passed=False if self.broken else None)

    def finding(self, found: str, holds: bool, figures: Mapping[str, object], lacking: str = "") -> Finding:
        """While duels are missing, or what they lack to prove anything, a target that seems to hold is not proven."""
        missing = "; ".join(filter(None, (lacking, self.missing)))
        words = f"{found}; {missing}" if missing else found
        proven = holds and not self.broken
        return Finding(found=words, passed=None if missing and proven else proven, figures=figures)


def _duels(
    setting: Setting,
    kinds: dict[str, int],
    servers: Sequence[str],
    *,
    background: bool = False,
    precision: str = "2%",
    budget: str = BUDGET,
) -> _Duels:
    named = os.environ.get("BAKEOFF_VALIDATION_DUELS")
    folder = Path(named) if named else setting.folder.parent / "duels"
    asked = planned(kinds, servers, seed=setting.seed, precision=precision, budget=budget, background=background)
    campaign = Campaign(folder, background=background, seed=setting.seed)
    outcomes = list(campaign.run(asked, report=setting.report).values())
    lost = {duel.key for duel in asked} - {outcome.duel.key for outcome in outcomes}
    if not lost:
        return _Duels(outcomes, "", broken=False)
    errors = {each.duel.key: each.error for each in campaign.outcomes if each.error and each.duel.key in lost}
    broken = [error for error in errors.values() if not error.startswith(_NOT_NOW)]
    last = [*errors.values(), *broken][-1] if errors else "no word"
    return _Duels(outcomes, f"{len(lost)} of {len(asked)} duels failed, the last with {last}", broken=bool(broken))


def _servers(setting: Setting) -> tuple[str, ...]:
    return tuple(dict.fromkeys((setting.server, MARIADB)))


def _false_claims(duels: _Duels) -> Finding:
    if duels.nothing:
        return duels.nothing
    total = Summary.of(duels.judged)
    loads = [each.outcome.machine.other for each in duels.judged if each.outcome.machine]
    beside = f"; other work took {min(loads):.0%} to {max(loads):.0%} of the processors" if loads else ""
    biased = ", beyond chance" if total.biased else ""
    return duels.finding(
        f"{total.wrong} false claims in {total.able} duels (at most {total.most_wrong}), "
        f"±{total.half_width:.1%} in {total.wall_s:.0f} s; "
        f"bias {total.bias:+.2%} ± {2 * total.bias_se:.2%}{biased}{beside}",
        total.wrong <= total.most_wrong and not total.biased,
        _figures(duels.judged),
        "" if total.able else _UNABLE,
    )


def _figures(found: Sequence[Judged]) -> dict[str, object]:
    total = Summary.of(found)
    return {
        "duels": total.duels,
        "able_to_claim": total.able,
        "false_or_wrong_claims": total.wrong,
        "right_claims": total.right,
        "intervals": total.intervals,
        "held": total.covered,
        "half_width_median": total.half_width if math.isfinite(total.half_width) else None,
        "epochs_median": total.epochs,
        "bias": total.bias,
        "bias_se": total.bias_se,
        "wall_s_median": total.wall_s,
        "measured_share_median": total.measured_share,
        "other_share_median": median([e.outcome.machine.other for e in found if e.outcome.machine] or [0.0]),
        "misses": [describe(each) for each in found if each.wrong or each.missed],
    }


def _check(test: str, what: str, target: str, run: Callable[[Setting], Finding], *, quick: bool = False) -> Check:
    sizes = frozenset({Size.QUICK, Size.FULL} if quick else {Size.FULL})
    return Check(test=test, what=what, target=target, sizes=sizes, run=run)


DUEL_CHECKS = (
    _check("G1", "equal servers, complete duels", "false claims ≤ 5 %, no bias", equal_arms, quick=True),
    _check("G2", "equal servers beside bursts of load", "false claims ≤ 5 %, no bias", equal_arms_under_load),
    _check(
        "G3",
        "injected slowdowns, complete duels",
        "interval holds the truth ≥ 93 %; no wrong sign",
        injected,
        quick=True,
    ),
    _check("G3", "injected slowdowns claimed in time", "-2 % in 10 min ≥ 90 %, -5 % in 5 min ≥ 99 %", claimed_in_time),
    _check("G5", "A against B and B against A", "inverse within the combined interval ≥ 93 %", swapped),
    _check("G7", "stopping when the live interval excludes 1", "false claims ≤ 5 %", peeking, quick=True),
    _check("G11", "24 equal cells in one duel", "any claim ≤ 5 %", grid),
    _check("G16", "the same duel again", "differences within the combined interval ≥ 93 %", repeated),
)


# G15, negative controls: servers that differ in a setting nobody declared. Every difference must be listed, or the
# verdict refused.

# Option files of a contender, by the setting they change: the usual way in which servers differ unnoticed.
_UNDECLARED: Mapping[str, tuple[str, ...]] = {
    "log_bin": ("log_bin=binlog", "server_id=7"),
    "innodb_doublewrite": ("innodb_doublewrite=OFF",),
    "sync_binlog": ("log_bin=binlog", "server_id=7", "sync_binlog=1000"),
    "innodb_flush_method": ("innodb_flush_method=O_DIRECT_NO_FSYNC",),
    "character_set_server": ("character_set_server=latin1", "collation_server=latin1_swedish_ci"),
    "innodb_flush_log_at_trx_commit": ("innodb_flush_log_at_trx_commit=2",),
}
_MEMORY = ServerMemory(buffer_pool_bytes=128 * 2**20, redo_bytes=96 * 2**20)


def settings(setting: Setting) -> Finding:
    """G15: start a server for each option file (quick: one with all of them) and compare its settings."""
    together = setting.size is Size.QUICK
    files = (
        {"all": tuple(dict.fromkeys(line for lines in _UNDECLARED.values() for line in lines))}
        if together
        else _UNDECLARED
    )
    base = _study(parse_server(setting.server), parse_server(setting.server))
    missed = []
    with ServerPool(work_root()) as pool:
        plain = _variables(pool, base.baseline)
        for name, lines in files.items():
            file = setting.folder / f"{name}.cnf"
            file.write_text("[mysqld]\n" + "\n".join(lines) + "\n", encoding="utf-8")
            setting.report(f"{setting.server},@{file.name}")
            contender = base.baseline.server.model_copy(update={"cnf_files": (str(file),)})
            study = _study(base.baseline.server, contender)
            listed = undeclared(differences(plain, _variables(pool, study.arms[1]), study, study.arms[1]))
            missed += [each for each in (_UNDECLARED if together else (name,)) if each not in listed]
    rows = _rows_are_refused()
    listed_count = len(_UNDECLARED) - len(missed)
    return Finding(
        found=f"{listed_count} of {len(_UNDECLARED)} settings listed as undeclared"
        + (f", not {', '.join(missed)}" if missed else "")
        + f"; tables of other rows on running servers: {'no verdict' if rows else 'CLAIMED'}",
        passed=not missed and rows,
        figures={"settings": list(_UNDECLARED), "missed": missed},
    )


def _study(baseline: ServerSpec, contender: ServerSpec) -> Study:
    # Tables in the servers' own character set: a data set with one of its own would hide the difference.
    arms = tuple(
        Arm(name=name, label=name, server=spec, data=Data())
        for name, spec in zip("AB", (baseline, contender), strict=True)
    )
    return Study(title="undeclared settings", arms=arms, workloads=(Workload(script="oltp_point_select"),))


def _variables(pool: ServerPool, arm: Arm) -> dict[str, str]:
    installation = install(arm.server)
    chosen = settings_for(installation, arm.server, Profile.MATCHED, arm.data, _MEMORY, connections=50)
    instance = pool.create(arm.name, installation, chosen)
    try:
        instance.start()
        return instance.variables()
    finally:
        instance.remove()


def _rows_are_refused() -> bool:
    """Whether running servers, which keep rows of their own, get no verdict, however clear the difference."""
    urls = [ServerSpec(origin=Origin.URL, location=f"mysql://root@127.0.0.1:{port}/") for port in (3306, 3307)]
    rng = np.random.default_rng(1)
    epochs = [simulate_epoch(rng, epoch=number, effects={"A": 0.0, "B": -0.3}, noise=QUIET) for number in range(8)]
    (found,) = analyse(epochs, _study(urls[0], urls[1]), ended=Stop.BUDGET).comparisons
    return set(found.verdict.words) == {Word.INCONCLUSIVE} and found.obstacle is Obstacle.NOT_RESTARTED


# G12 and G13 for workloads that write: pending background work (dirty pages, purge lag) that one arm's slice leaves
# must not slow the other arm's slices.
#
# The arms are the same binary. In G12 they differ in how eagerly they write in the background, so their pending work
# differs; the truth is the serial measurement, in which each arm is alone on the machine. In G13 one arm has an
# injected slowdown of 5 %.

_SCRIPT = "oltp_write_only"
_EAGER = "innodb_io_capacity=4000,innodb_io_capacity_max=8000,innodb_purge_threads=4"
_LAZY = "innodb_io_capacity=100,innodb_io_capacity_max=200,innodb_purge_threads=1"
_SLICE_NS = 2_000_000_000
_WIDEST = 0.10  # agreement says nothing where either interval is wider than this
_SLOWDOWN_PERCENT = 5.0
_WRITE_EPOCHS = 12
_ALONE_PAIRS = 4  # of each of these epochs: arms alone differ by what the machine did meanwhile, too
_PRECISION = math.log(1.01)


def unequal_pending_work(setting: Setting) -> Finding:
    """G12: interleaved with freezing and without, against each arm alone after a restart of its own."""
    study = question(f"{setting.server},{_EAGER}", f"{setting.server},{_LAZY}", workloads=(_SCRIPT,), seed=setting.seed)
    frozen = Variant("freeze", _SLICE_NS, 16.0, freeze=True)
    running = Variant("no freeze", _SLICE_NS, 16.0)
    together: list[EpochData] = []
    alone: list[float] = []
    with RealBench(study, setting.folder, report=setting.report) as bench:
        for number in range(_WRITE_EPOCHS):
            # Each variant has servers of its own, so that no pending work passes from one to the other.
            together += [bench.epoch([variant]) for variant in ((frozen, running) if number % 2 else (running, frozen))]
            for turn in range(number, number + _ALONE_PAIRS):
                rates = {}
                for arm in "AB" if turn % 2 else "BA":
                    rates[arm] = rate(bench.epoch([Variant("alone", _SLICE_NS, 8.0, arms=(arm,))], arms=(arm,)))
                alone.append(math.log(rates["B"] / rates["A"]))
    pairs = by_variant(together)
    serial = mean_of(alone)
    # In a round the machine is much the same for both: what it did from round to round is in neither difference.
    of_round = [fmean(alone[begin : begin + _ALONE_PAIRS]) for begin in range(0, len(alone), _ALONE_PAIRS)]
    results, in_rounds = [f"alone {shown(serial)}"], []
    figures = {"alone": figures_of(serial)}
    half_widths = {"alone": serial.interval.half_width or math.inf}
    agree: dict[str, bool] = {}
    flags: dict[str, bool] = {}
    for name, found in pairs.items():
        estimate = mean_of([pair.value for pair in found])
        half_widths[name] = estimate.interval.half_width or math.inf
        agree[name] = agrees(estimate, serial)
        flags[name] = carry_over_flag(carry_over(found), _PRECISION) is not None
        results.append(f"{name} {shown(estimate)}" + (" CARRY-OVER" if flags[name] else ""))
        figures[name] = figures_of(estimate) | {"agrees": agree[name], "carry_over_flag": flags[name]}
        apart = mean_of([pair.value - by_itself for pair, by_itself in zip(found, of_round, strict=True)])
        in_rounds.append(f"{name} minus alone {shown(apart)}")
        figures[name]["minus_alone"] = figures_of(apart)
    held = agree["freeze"] or flags["freeze"]
    too_noisy = held and max(half_widths["alone"], half_widths["freeze"]) > _WIDEST
    return Finding(
        found=f"B over A: {', '.join(results)}; by rounds {', '.join(in_rounds)}" + (TOO_BUSY if too_noisy else ""),
        passed=None if too_noisy else held,
        figures=figures,
    )


def slice_lengths(setting: Setting) -> Finding:
    """G13: an injected 5 % in slices of tau and 4 tau, with freezing."""
    study = question(setting.server, slowdown_percent=_SLOWDOWN_PERCENT, workloads=(_SCRIPT,), seed=setting.seed)
    variants = [
        Variant(f"{length_ns / 1e9:g} s", length_ns, 16.0, freeze=True) for length_ns in (500_000_000, _SLICE_NS)
    ]
    with RealBench(study, setting.folder, report=setting.report) as bench:
        found = by_variant([bench.epoch(variants) for _ in range(_WRITE_EPOCHS)])
    estimates = {name: mean_of([pair.value for pair in pairs]) for name, pairs in found.items()}
    return at_every_length(estimates, -math.log1p(_SLOWDOWN_PERCENT / 100))


# G14: the client's limit. A run that measures the client is flagged; otherwise more CPUs for it change nothing.

_CHANGE = 0.005
_NO_OP = FakeArm(("--latency", "constant:0us"))
_WORKING = FakeArm(("--latency", "constant:2ms"))


def client_bound(setting: Setting) -> Finding:
    """G14: a server that replies at once, which measures the client."""
    load = Load(seconds=0.5, slice_ns=50 * MS, threads=4)
    with FakeBench(setting, "no-op") as bench:
        epochs = [bench.epoch({"A": _NO_OP, "B": _NO_OP}, load) for _ in range(3)]
    analysis = judge(epochs, load)
    flags = [flag for flag in analysis.comparisons[0].flags if flag.kind is FlagKind.CLIENT_BOUND]
    rate = analysis.arms[0].tps
    return Finding(
        found=f"{rate:,.0f} events/s from a server that does nothing: " + (str(flags[0]) if flags else "NOT FLAGGED"),
        passed=bool(flags),
        figures={"events_per_s": rate, "client_cpu_ns_per_event": analysis.arms[0].client_cpu_ns_per_event},
    )


def client_cpus_doubled(setting: Setting) -> Finding:
    """G14: a server that takes 2 ms, from a client with one CPU and with two, in turn."""
    usable = usable_cpus()
    if len(usable) < 2:
        return Finding(found="there is only one CPU here", passed=None)
    pairs = {Size.QUICK: 6, Size.FULL: 40}[setting.size]
    load = Load(seconds=1.0, slice_ns=250 * MS, threads=4)
    few, many = frozenset(usable[:1]), frozenset(usable[:2])
    with FakeBench(setting, "one", cpus=few) as one, FakeBench(setting, "two", cpus=many) as two:
        values = []
        for number in range(pairs):
            benches = (one, two) if number % 2 else (two, one)
            rates = {bench: rate(bench.epoch({"A": _WORKING}, load)) for bench in benches}
            values.append(math.log(rates[two] / rates[one]))
        last = one.epoch({"A": _WORKING, "B": _WORKING}, load)
    mean = math.fsum(values) / pairs
    half = t_quantile(0.975, pairs - 1) * standard_deviation(values) / math.sqrt(pairs)
    bound = any(flag.kind is FlagKind.CLIENT_BOUND for flag in judge([last], load).comparisons[0].flags)
    unchanged = abs(mean) - half < _CHANGE
    too_noisy = not bound and half > _CHANGE and unchanged
    return Finding(
        found=f"twice the CPUs for the client: {math.expm1(mean):+.2%} ± {half:.2%}"
        + (", client-bound" if bound else "")
        + (TOO_BUSY if too_noisy else ""),
        passed=None if too_noisy else bound or unchanged,
        figures={"log_ratio": mean, "half_width": half, "pairs": pairs, "client_bound": bound},
    )


REAL_CHECKS = (
    Check(
        "G14",
        "a fake server that does nothing",
        "the run is flagged client-bound",
        frozenset(Size),
        on_fake_server(client_bound),
    ),
    _check(
        "G14",
        "twice the CPUs for the client",
        "throughput changes < 0.5 %, or client-bound",
        on_fake_server(client_cpus_doubled),
        quick=True,
    ),
    _check(
        "G15",
        "servers that differ in what nobody declared",
        "every difference listed, or the verdict refused",
        settings,
        quick=True,
    ),
    _check(
        "G12",
        "writes with unequal pending work (io_capacity, purge threads)",
        "interleaved with freeze = serial within the intervals, or CARRY-OVER",
        unequal_pending_work,
    ),
    _check(
        "G13",
        "an injected 5 % on writes with freeze, in slices of 0.5 and 2 s",
        SAME_AT_EVERY_LENGTH,
        slice_lengths,
    ),
    *DUEL_CHECKS,
)
