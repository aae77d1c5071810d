"""Checks on real servers: complete duels with a known ratio, undeclared settings, writes, and the client's limit.

The duels of one run of the suite are kept in one journal, so that checks can share them.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean, median

from bakeoff.errors import ExitCode
from bakeoff.results.epoch_data import EpochData
from bakeoff.servers import ServerMemory, ServerPool, install, settings_for
from bakeoff.servers.paths import work_root
from bakeoff.spec import Arm, Data, Profile, ServerSpec, Study, Workload, parse_server
from bakeoff.stats.diagnostics import carry_over, carry_over_flag
from bakeoff.stats.differences import differences, undeclared
from bakeoff.stats.interval import standard_deviation, t_quantile
from bakeoff.stats.model import FlagKind
from validation.campaign import BUDGET, Judged, Summary, ever_excludes, first_by_key, judged, planned, run_missing
from validation.check import TOO_BUSY, Checks, Finding, Setting, Size, fewest, most
from validation.duels import Outcome
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

MARIADB = "mariadb:10.11"

DUEL_CHECKS = Checks(Size.FULL)
REAL_CHECKS = Checks(Size.FULL)
CLIENT_CHECKS = Checks(*Size, wrap=on_fake_server)

_SMALL = {Size.QUICK: 1, Size.FULL: 50}
_BESIDE_LOAD = 20
_REPEATS = 20
_SWAPS = 20
_GRIDS = 4
_CLAIMS = 10
_CALM = 0.25  # share of the processors that other work may take while the method's promises of time hold
_UNABLE = "no duel has enough epochs for a verdict"
_NOT_NOW = f"exit code {ExitCode.NOT_READY}: "  # starts the only error that does not count against bakeoff


@DUEL_CHECKS.add("G1", "false claims ≤ 5 %, no bias", Size.QUICK, Size.FULL)
def equal_arms(setting: Setting) -> Finding:
    """Equal servers, complete duels."""
    return _false_claims(_Duels(setting, {"aa": _SMALL[setting.size]}, _servers(setting)))


@DUEL_CHECKS.add("G2", "false claims ≤ 5 %, no bias")
def equal_arms_under_load(setting: Setting) -> Finding:
    """Equal servers beside bursts of load."""
    return _false_claims(_Duels(setting, {"aa": _BESIDE_LOAD}, _servers(setting), background=True))


@DUEL_CHECKS.add("G3", "interval holds the truth ≥ 93 %; no wrong sign", Size.QUICK, Size.FULL)
def injected(setting: Setting) -> Finding:
    """Injected slowdowns, complete duels."""
    kinds = {"slow5": 2} if setting.size is Size.QUICK else {"slow2": 40, "slow5": 40}
    duels = _Duels(setting, kinds, (setting.server,))
    if duels.nothing:
        return duels.nothing
    texts, holds, figures, lacking = [], True, {}, ""
    for kind in kinds:
        of_kind = [each for each in duels.judged if each.outcome.duel.kind == kind]
        if not of_kind:
            continue
        total = Summary.of(of_kind)
        holds = holds and total.covered >= total.fewest_covered and not total.wrong
        texts.append(
            f"-{of_kind[0].outcome.duel.slowdown_percent:g} %: held by {total.covered} of {total.intervals}, "
            f"claimed {total.right}, wrong sign {total.wrong}, ±{total.half_width:.1%} in {total.wall_s:.0f} s"
        )
        figures[kind] = _figures(of_kind)
        lacking = lacking if total.intervals else f"no duel of {kind} has an interval"
    return duels.finding("; ".join(texts), holds, figures, lacking)


@DUEL_CHECKS.add("G3", "-2 % in 10 min ≥ 90 %, -5 % in 5 min ≥ 99 %")
def claimed_in_time(setting: Setting) -> Finding:
    """Injected slowdowns claimed in time."""
    promises = {"slow2": ("10m", 0.90), "slow5": ("5m", 0.99)}
    texts, holds, figures, calm, asked = [], True, {}, True, []
    for kind, (budget, share) in promises.items():
        duels = _Duels(setting, {kind: _CLAIMS}, (setting.server,), precision="1%", budget=budget)
        if duels.nothing:
            return duels.nothing
        asked.append(duels)
        total = Summary.of(duels.judged)
        calm = calm and sum(other < _CALM for other in _other_shares(duels.judged)) > total.duels / 2
        holds = holds and total.right >= fewest(total.duels, share) and not total.wrong
        texts.append(
            f"{kind.removeprefix('slow')} %: claimed by {total.right} of {total.duels}, in {total.wall_s:.0f} s"
        )
        figures[kind] = _figures(duels.judged)
    words = "; ".join(texts)
    missing = "; ".join(filter(None, (duels.missing for duels in asked)))
    broken = any(duels.broken for duels in asked)
    if not calm and not holds and not broken:
        return Finding(f"the machine was too busy with other work to tell: {words}", None, figures)
    return _finding(words, holds, figures, missing, broken=broken)


@DUEL_CHECKS.add("G5", "inverse within the combined interval ≥ 93 %")
def swapped(setting: Setting) -> Finding:
    """A against B and B against A."""
    duels = _Duels(setting, {"swap": _SWAPS}, (setting.server,))
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


@DUEL_CHECKS.add("G7", "false claims ≤ 5 %", Size.QUICK, Size.FULL)
def peeking(setting: Setting) -> Finding:
    """Stopping when the live interval excludes 1."""
    duels = _Duels(setting, {"aa": _SMALL[setting.size]}, _servers(setting))
    if duels.nothing:
        return duels.nothing
    misled = [each for each in duels.judged if ever_excludes(each.judgement.points, 0.0)]
    n = sum(each.judgement.live.half_width is not None for each in duels.judged)
    return duels.finding(
        f"{len(misled)} of {n} would have stopped with a false claim (at most {most(n, 0.05)})",
        len(misled) <= most(n, 0.05),
        {"duels": n, "misled": [str(each) for each in misled]},
        "" if n else "no duel has a live interval",
    )


@DUEL_CHECKS.add("G11", "any claim ≤ 5 %")
def grid(setting: Setting) -> Finding:
    """24 equal cells in one duel."""
    duels = _Duels(setting, {"grid": _GRIDS}, (setting.server,), precision="5%")
    if duels.nothing:
        return duels.nothing
    n, misled = len(duels.outcomes), sum(any(each.claim for each in outcome.judgements) for outcome in duels.outcomes)
    total = Summary.of(duels.judged)
    return duels.finding(
        f"{misled} of {n} grids with any claim (at most {most(n, 0.05)}); "
        f"{total.covered} of {total.intervals} single intervals hold 1",
        misled <= most(n, 0.05),
        {"grids": n, "with_a_claim": misled, "cells": total.intervals, "cells_covered": total.covered},
        "" if total.able else _UNABLE,
    )


@DUEL_CHECKS.add("G16", "differences within the combined interval ≥ 93 %")
def repeated(setting: Setting) -> Finding:
    """The same duel again."""
    duels = _Duels(setting, {"slow5": _REPEATS}, (setting.server,))
    judgements = [outcome.only for outcome in duels.outcomes if outcome.only.has_interval]
    if len(judgements) < 2:
        return duels.unproven("fewer than two duels have an interval")
    runs, pairs = len(judgements), list(combinations(judgements, 2))
    within = sum(abs(a.mean - b.mean) <= math.hypot(a.half_width, b.half_width) for a, b in pairs)
    begun = sorted(outcome.started_at for outcome in duels.outcomes)
    hours = (begun[-1] - begun[0]).total_seconds() / 3600
    # Pairs of the same runs are not independent, so the bound is that of as many pairs as runs.
    return duels.finding(
        f"{within / len(pairs):.0%} of {len(pairs)} pairs within the combined interval; {runs} runs in {hours:.1f} h",
        within / len(pairs) >= fewest(runs, 0.93) / runs,
        {"runs": runs, "pairs": len(pairs), "within": within, "hours": hours, "ratios": [j.mean for j in judgements]},
    )


class _Duels:
    """The outcomes that a check asked for; those the journal does not have are run.

    Attributes:
        broken: whether a command failed otherwise than by saying that a server or the machine cannot do this now.
    """

    def __init__(
        self, setting: Setting, kinds: dict[str, int], servers: Sequence[str], *,
        background: bool = False, precision: str = "2%", budget: str = BUDGET,
    ) -> None:  # fmt: skip
        asked = planned(kinds, servers, seed=setting.seed, precision=precision, budget=budget, background=background)
        journal = run_missing(
            asked,
            setting.folder.parent / "duels",
            background_seed=setting.seed if background else None,
            report=setting.report,
        )
        keys, finished = {duel.key for duel in asked}, first_by_key(journal)
        self.outcomes = [outcome for key, outcome in finished.items() if key in keys]
        self.judged = judged(self.outcomes)
        self.missing, self.broken = "", False
        if lost := keys - finished.keys():
            errors = {each.duel.key: each.error for each in journal if each.error and each.duel.key in lost}
            broken = [error for error in errors.values() if not error.startswith(_NOT_NOW)]
            last = [*errors.values(), *broken][-1]
            self.missing = f"{len(lost)} of {len(asked)} duels failed, the last with {last}"
            self.broken = bool(broken)

    @property
    def nothing(self) -> Finding | None:
        return None if self.outcomes else self.unproven("no duel was run")

    def unproven(self, lacking: str) -> Finding:
        """Return the finding when there is nothing to judge: failed if the commands themselves failed."""
        return Finding(self.missing or lacking, False if self.broken else None)

    def finding(self, found: str, holds: bool, figures: Mapping[str, object], lacking: str = "") -> Finding:
        missing = "; ".join(filter(None, (lacking, self.missing)))
        return _finding(found, holds, figures, missing, broken=self.broken)


def _finding(found: str, holds: bool, figures: Mapping[str, object], missing: str, *, broken: bool) -> Finding:
    """Return a finding that proves nothing if the target seems to hold but something is missing."""
    proven = holds and not broken
    return Finding(f"{found}; {missing}" if missing else found, None if missing and proven else proven, figures)


def _servers(setting: Setting) -> tuple[str, ...]:
    return tuple(dict.fromkeys((setting.server, MARIADB)))


def _false_claims(duels: _Duels) -> Finding:
    if duels.nothing:
        return duels.nothing
    total = Summary.of(duels.judged)
    loads = _other_shares(duels.judged)
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


def _other_shares(found: Sequence[Judged]) -> list[float]:
    return [each.outcome.other_share for each in found if each.outcome.other_share is not None]


def _figures(found: Sequence[Judged]) -> dict[str, object]:
    total = Summary.of(found)
    return vars(total) | {
        "half_width": total.half_width if math.isfinite(total.half_width) else None,
        "other_share": median(_other_shares(found) or [0.0]),
        "misses": [str(each) for each in found if each.wrong or each.missed],
    }


# Option files of a contender, by the setting they change.
_UNDECLARED: Mapping[str, tuple[str, ...]] = {
    "log_bin": ("log_bin=binlog", "server_id=7"),
    "innodb_doublewrite": ("innodb_doublewrite=OFF",),
    "sync_binlog": ("log_bin=binlog", "server_id=7", "sync_binlog=1000"),
    "innodb_flush_method": ("innodb_flush_method=O_DIRECT_NO_FSYNC",),
    "character_set_server": ("character_set_server=latin1", "collation_server=latin1_swedish_ci"),
    "innodb_flush_log_at_trx_commit": ("innodb_flush_log_at_trx_commit=2",),
}
_MEMORY = ServerMemory(buffer_pool_bytes=128 * 2**20, redo_bytes=96 * 2**20)


@REAL_CHECKS.add("G15", "every difference listed, or the verdict refused", Size.QUICK, Size.FULL)
def settings(setting: Setting) -> Finding:
    """Servers that differ in undeclared settings: one for each option file (quick: one with all)."""
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
            contender = base.baseline.server.with_settings(cnf_files=(str(file),))
            study = _study(base.baseline.server, contender)
            listed = undeclared(differences(plain, _variables(pool, study.arms[1]), study, study.arms[1]))
            missed += [each for each in (_UNDECLARED if together else (name,)) if each not in listed]
    listed_count = len(_UNDECLARED) - len(missed)
    return Finding(
        found=f"{listed_count} of {len(_UNDECLARED)} settings listed as undeclared"
        + (f", not {', '.join(missed)}" if missed else ""),
        passed=not missed,
        figures={"settings": list(_UNDECLARED), "missed": missed},
    )


def _study(baseline: ServerSpec, contender: ServerSpec) -> Study:
    # Tables must have the servers' own character set, which is one of the differences.
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


# With workloads that write, the pending background work (dirty pages, purge lag) that one arm's slice leaves must not
# slow the other arm's slices. In G12 the arms are one binary that writes more or less eagerly in the background; the
# truth is the serial measurement, in which each arm is alone on the machine.

_SCRIPT = "oltp_write_only"
_EAGER = "innodb_io_capacity=4000,innodb_io_capacity_max=8000,innodb_purge_threads=4"
_LAZY = "innodb_io_capacity=100,innodb_io_capacity_max=200,innodb_purge_threads=1"
_SLICE_NS = 2_000_000_000
_WIDEST = 0.10  # agreement says nothing if either interval is wider
_SLOWDOWN_PERCENT = 5.0
_WRITE_EPOCHS = 12
_ALONE_PAIRS = 4  # per epoch, because the machine changes between arms that are measured alone
_PRECISION = math.log(1.01)


@REAL_CHECKS.add("G12", "interleaved with freeze = serial within the intervals, or CARRY-OVER")
def unequal_pending_work(setting: Setting) -> Finding:
    """Writes with unequal pending work (io_capacity, purge threads)."""
    study = question(f"{setting.server},{_EAGER}", f"{setting.server},{_LAZY}", workloads=(_SCRIPT,), seed=setting.seed)
    frozen = Variant("freeze", _SLICE_NS, 16.0, freeze=True)
    running = Variant("no freeze", _SLICE_NS, 16.0)
    together: list[EpochData] = []
    alone: list[float] = []
    with RealBench(study, setting.folder, report=setting.report) as bench:
        for number in range(_WRITE_EPOCHS):
            # Each variant gets fresh servers, so that no pending work passes from one to the other.
            together += [bench.epoch([variant]) for variant in ((frozen, running) if number % 2 else (running, frozen))]
            for turn in range(number, number + _ALONE_PAIRS):
                rates = {}
                for arm in "AB" if turn % 2 else "BA":
                    rates[arm] = rate(bench.epoch([Variant("alone", _SLICE_NS, 8.0, arms=(arm,))], arms=(arm,)))
                alone.append(math.log(rates["B"] / rates["A"]))
    pairs = by_variant(together)
    serial = mean_of(alone)
    # Differences within a round are free of what the machine did from round to round.
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


@REAL_CHECKS.add("G13", SAME_AT_EVERY_LENGTH)
def slice_lengths(setting: Setting) -> Finding:
    """An injected 5 % on writes with freeze, in slices of 0.5 and 2 s."""
    study = question(setting.server, slowdown_percent=_SLOWDOWN_PERCENT, workloads=(_SCRIPT,), seed=setting.seed)
    variants = [
        Variant(f"{length_ns / 1e9:g} s", length_ns, 16.0, freeze=True) for length_ns in (500_000_000, _SLICE_NS)
    ]
    with RealBench(study, setting.folder, report=setting.report) as bench:
        found = by_variant([bench.epoch(variants) for _ in range(_WRITE_EPOCHS)])
    estimates = {name: mean_of([pair.value for pair in pairs]) for name, pairs in found.items()}
    return at_every_length(estimates, -math.log1p(_SLOWDOWN_PERCENT / 100))


_CHANGE = 0.005
_NO_OP = FakeArm(("--latency", "constant:0us"))
_WORKING = FakeArm(("--latency", "constant:2ms"))


@CLIENT_CHECKS.add("G14", "the run is flagged client-bound")
def client_bound(setting: Setting) -> Finding:
    """A fake server that does nothing."""
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


@CLIENT_CHECKS.add("G14", "throughput changes < 0.5 %, or client-bound", Size.QUICK, Size.FULL)
def client_cpus_doubled(setting: Setting) -> Finding:
    """Twice the CPUs for the client of a server that takes 2 ms."""
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
