"""What reads show: restarts, slice lengths, carry-over, attenuation."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from table import Result

from bakeoff.plan import guard_ns
from bakeoff.stats.estimate import PairEstimate, with_rates
from bakeoff.stats.interval import excludes_zero, standard_deviation
from bakeoff.stats.resolution import components
from bakeoff.stats.slice_length import MULTIPLES, contrast_variance
from validation.real_epochs import RealBench, Variant, by_variant, mean_of, of_variant, rate, shown, usable_cpus

MS = 1_000_000
EQUAL, INJECTED, INSTRUMENTED = ("A", "B"), ("A", "C"), ("A", "D")
SLOWDOWN_PERCENT = 5.0
TRUTH = -math.log1p(SLOWDOWN_PERCENT / 100)


def restart(bench: RealBench) -> Result:
    """Equal servers in the same slices, started again and again."""
    epochs = [bench.epoch([Variant("read", 10 * MS, 12.0)], arms=EQUAL, warm_s=3.0) for _ in range(10)]
    pairs = by_variant(epochs)["read"]
    values = [pair.value for pair in pairs]
    between, within = components(pairs)
    levels = [math.log(rate(replace(epoch, slices=epoch.slices.by("arm").frames()["A"]))) for epoch in epochs]
    spread, of_levels = standard_deviation(values) * 100, standard_deviation(levels) * 100
    return Result(
        name="restart",
        asks="How far do equal servers lie apart, start by start?",
        columns=(
            "a start's throughput, SD %",
            "an epoch's ratio, SD %",
            "of it within a start",
            "of it between starts",
        ),
        rows=((of_levels, spread, _percent(within), _percent(between)),),
        says=(
            f"Starts differ by {of_levels:.2g} %, ratios of two that take turns by {spread:.2g} %. One run each, "
            "one after the other, would compare the former."
        ),
        figures={"values": values, "log_throughput": levels},
    )


def connections(bench: RealBench) -> Result:
    """Equal servers, eight starts, each measured at several numbers of connections."""
    rungs = (1, 2, 4, 8, 16)
    variants = [Variant(str(threads), 10 * MS, 2.5, threads=threads) for threads in rungs]
    epochs = [bench.epoch(variants, arms=EQUAL, warm_s=2.0) for _ in range(8)]
    pairs = by_variant(epochs)
    rows = []
    for threads in rungs:
        values = [pair.value for pair in pairs[str(threads)]]
        between, within = components(pairs[str(threads)])
        level = math.fsum(rate(of_variant(epoch, str(threads))) for epoch in epochs) / len(epochs)
        rows.append((threads, standard_deviation(values) * 100, _percent(within), _percent(between), level))
    calmest = min(rows, key=lambda row: row[1])
    return Result(
        name="connections",
        asks="At how many connections does a ratio vary least?",
        columns=(
            "connections",
            "an epoch's ratio, SD %",
            "of it within a start",
            "of it between starts",
            "events/s",
        ),
        rows=tuple(rows),
        says=f"Least at {calmest[0]}: SD {calmest[1]:.2g} %; {len(usable_cpus())} CPUs.",
        figures={"values": {name: [pair.value for pair in found] for name, found in pairs.items()}},
    )


def slice_length(bench: RealBench) -> Result:
    """Measure two kinds of reads in slices just long enough, and combine these into longer ones."""
    rows, says = [], []
    for name, workload, base_ms in (("oltp_point_select", 0, 5), ("oltp_read_only", 2, 8)):
        found = _widths(bench, workload, base_ms)
        best_ms, best_j_s = min(found, key=lambda row: row[1])
        says.append(
            f"{name}: least at {best_ms} ms; with slices of {found[-1][0]} ms the same width takes "
            f"{found[-1][1] / best_j_s:.2g} times as long."
        )
        rows += [
            (name, ms, j_s, 1.96 * math.sqrt(j_s / 60) * 100, 1.96 * math.sqrt(j_s / 600) * 100) for ms, j_s in found
        ]
    return Result(
        name="slice-length",
        asks="How does the width of the interval within one start depend on the length of a slice?",
        columns=("workload", "slice, ms", "J, s", "± after 1 minute, %", "± after 10 minutes, %"),
        rows=tuple(rows),
        says=" ".join(says),
    )


def _widths(bench: RealBench, workload: int, base_ms: int) -> list[tuple[int, float]]:
    """J (variance of the log ratio x seconds) of slices of so many ms, and of multiples of that."""
    series = []
    for _ in range(2):
        variant = Variant("read", base_ms * MS, 25.0, workload=workload)
        rated = with_rates(bench.epoch([variant], arms=EQUAL, warm_s=2.0).slices).sort("start_ns")
        arms = rated.by("arm")
        series.append(rated["log_rate"] - arms.mean(rated["log_rate"])[arms.ids])
    rows = []
    for factor in MULTIPLES:
        found = [contrast_variance(values, factor) for values in series]
        if min(blocks for _, blocks in found) < 2:
            break
        length_ns = factor * base_ms * MS
        variance = math.fsum(value for value, _ in found) / len(found)
        rows.append((length_ns // MS, variance * 4 * (length_ns + guard_ns(length_ns)) / 1e9))
    return rows


def carry_over(bench: RealBench) -> Result:
    """Whether a slice is faster or slower right after a slice of the same arm."""
    lengths = (50, 200, 500)
    variants = [Variant(f"{ms} ms", ms * MS, 5.0) for ms in lengths]
    found = by_variant([bench.epoch(variants, arms=EQUAL, warm_s=2.0) for _ in range(5)])
    rows = []
    for ms in lengths:
        pairs = found[f"{ms} ms"]
        estimate = mean_of([_carried(pair) for pair in pairs if pair.carry_over], looks=len(lengths))
        rows.append((ms, estimate.mean * 100, (estimate.interval.half_width or math.nan) * 100, estimate.n))
    worst = max(rows, key=lambda row: abs(row[1]) - row[2])
    beyond = abs(worst[1]) > worst[2]
    return Result(
        name="carry-over",
        asks="Does the arm before leave something to a slice of reads?",
        columns=("slice, ms", "after itself over after the other, %", "±", "epochs"),
        rows=tuple(rows),
        says=f"At {worst[0]} ms it is beyond chance." if beyond else "Not beyond chance at any length.",
    )


def attenuation(bench: RealBench) -> Result:
    """An injected 5 % in slices from 20 ms to 2 s."""
    lengths = (20, 50, 100, 200, 2000)
    variants = [
        Variant(f"{ms} ms", ms * MS, 8.0 if ms == 2000 else 4.0, guard_ns=max(2, min(ms // 10, 10)) * MS)
        for ms in lengths
    ]
    epochs = [bench.epoch(variants, arms=INJECTED, warm_s=2.0) for _ in range(4)]
    found = by_variant(epochs)
    rows = []
    for ms in lengths:
        pairs = found[f"{ms} ms"]
        estimate = mean_of([pair.value for pair in pairs], looks=len(lengths))
        half = estimate.interval.half_width or math.nan
        lost = (1 - estimate.mean / TRUTH) * 100
        per_s = math.fsum(rate(of_variant(epoch, f"{ms} ms")) for epoch in epochs) / len(epochs)
        rows.append((ms, math.expm1(estimate.mean) * 100, half * 100, lost, _within(pairs), per_s))
    effect = math.expm1(TRUTH) * 100
    off = [row[0] for row in rows if abs(row[1] - effect) > row[2]]
    wide = too_wide({f"{row[0]} ms": row[2] for row in rows}, effect)
    return Result(
        name="attenuation",
        asks=f"Do short slices make an injected {math.expm1(TRUTH) * 100:.2f} % smaller?",
        columns=("slice, ms", "found, %", "±", "attenuation, % of the effect", "SD within a start, %", "events/s"),
        rows=tuple(rows),
        says=f"The interval misses the truth at {', '.join(map(str, off))} ms."
        if off
        else wide or "Every interval holds the truth.",
        figures={"truth": TRUTH, "values": {name: [pair.value for pair in pairs] for name, pairs in found.items()}},
    )


def real_difference(bench: RealBench) -> Result:
    """A real difference, one that caches and the scheduler take part in, in slices from 5 ms to 2 s."""
    lengths = (5, 20, 200, 2000)
    variants = [Variant(f"{ms} ms", ms * MS, 8.0 if ms == 2000 else 4.0) for ms in lengths]
    epochs = [bench.epoch(variants, arms=INSTRUMENTED, warm_s=2.0) for _ in range(4)]
    found = {name: [pair.value for pair in pairs] for name, pairs in by_variant(epochs).items()}
    long = found[f"{lengths[-1]} ms"]
    rows, beyond, half_widths = [], [], {}
    for ms in lengths:
        estimate = mean_of(found[f"{ms} ms"])
        per_s = math.fsum(rate(of_variant(epoch, f"{ms} ms")) for epoch in epochs) / len(epochs)
        apart = mean_of([one - other for one, other in zip(found[f"{ms} ms"], long, strict=True)], looks=3)
        rows.append((ms, shown(estimate), shown(apart) if ms < lengths[-1] else "–", per_s))
        if ms < lengths[-1]:
            half_widths[f"{ms} ms"] = apart.interval.half_width or math.nan
            beyond += [f"{ms} ms"] if excludes_zero(apart.interval) else []
    wide = too_wide(half_widths, mean_of(long).mean)
    return Result(
        name="real-difference",
        asks="Do short slices see the same real difference (performance_schema on over off) as long ones?",
        columns=("slice, ms", "ratio", f"over that at {lengths[-1]} ms", "events/s"),
        rows=tuple(rows),
        says=f"Another ratio at {', '.join(beyond)}."
        if beyond
        else wide or "None differs from the longest beyond chance.",
        figures={"values": found},
    )


def too_wide(half_widths: Mapping[str, float], effect: float) -> str:
    """Say which intervals are so wide that they would also hold half the effect; empty if none is."""
    wide = [name for name, half_width in half_widths.items() if not half_width < abs(effect) / 2]
    return f"Too wide to tell ({', '.join(wide)}): half the effect would do as well." if wide else ""


def _carried(pair: PairEstimate) -> float:
    return math.fsum(pair.carry_over.values()) / len(pair.carry_over)


def _within(pairs: Sequence[PairEstimate]) -> float | None:
    return _percent(components(pairs)[1])


def _percent(log: float | None) -> float | None:
    return None if log is None else log * 100
