"""Sections of particular studies: published ratios, effects of factors, all pairs, the scaling law."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from operator import itemgetter

from bakeoff.report import numbers
from bakeoff.report.context import Context, without_common
from bakeoff.report.view import Column, Section, Table, Value, identifier, value_text
from bakeoff.spec.study import Design
from bakeoff.stats.effects import PublishedRatio, contrast, epoch_values, interactions, main_effects, published_ratios
from bakeoff.stats.model import Estimate
from bakeoff.stats.scaling import EPOCHS_MIN_BOOTSTRAP, LACK_OF_FIT_P, Band, ScalingFit, fit_scaling, rates_by_threads
from bakeoff.units import format_rate

PAIRS_ARMS = (3, 12)
PAIRS_CELLS = 12


def published_section(context: Context) -> Section | None:
    design = context.study.design
    if not design or not design.published:
        return None
    table = Table.of(
        "published",
        published_ratios(context.analysis, design, context.study.precision),
        Column("ratio", lambda each: _pair_text(design, each.numerator, each.denominator)),
        Column("claim", lambda each: each.claim.says if each.claim else ""),
        Column("published", _published_text),
        Column("measured", lambda each: measured(each.measured)),
        Column("judgement", lambda each: each.agreement.value),
        **context.by_cell,
        note=f"Published: {design.published.source}, without intervals and on another machine. It agrees if it lies in "
        "the measured interval, or if the order is the same and the ratios differ by less than a tenth; a direction, "
        "if the whole interval is on its side.",
    )
    return Section.of("Published and measured", table, anchor="published")


def published_lines(context: Context) -> Iterator[str]:
    """Yield `8.0.15 over 5.7.22, bin: published 0.65×, measured 0.59× (0.56 to 0.62): agrees` for each ratio."""
    design = context.study.design
    if not design or not design.published:
        return
    for each in published_ratios(context.analysis, design, context.study.precision):
        where = f"{context.cell_title(each.cell)}, " if len(context.cells) > 1 else ""
        pair = _pair_text(design, each.numerator, each.denominator, short=True)
        found = value_text(measured(each.measured))
        yield f"{where}{pair}: published {_published_text(each)}, measured {found}: {each.agreement.value}"


def _published_text(each: PublishedRatio) -> str:
    """Return `0.65×`, `1.10× to 1.20×`, or `above 1.00×`."""
    if each.claim is None:
        return numbers.ratio(each.published)
    low, high = (
        None if bound is None else numbers.ratio(math.log(bound)) for bound in (each.claim.low, each.claim.high)
    )
    if low and high:
        return low if low == high else f"{low} to {high}"
    return f"above {low}" if low else f"below {high}"


def effects_section(context: Context) -> Section | None:
    design = context.study.design
    if not design:
        return None
    fraction = design.fraction.sentences() if design.fraction else ()
    effects = Table.of(
        "effects",
        main_effects(context.analysis, design),
        Column("factor", lambda each: each.factor),
        Column("levels", lambda each: f"{each.level} over {each.over}"),
        Column("ratio", lambda each: measured(each.estimate)),
        Column("averaged over", lambda each: each.combinations),
        **context.by_cell,
        note=" ".join(("Geometric mean over the combinations of the other factors; exploratory.", *fraction)),
    )
    between = Section.of("Interactions", _interactions_table(context, design), in_terminal=True)
    return Section.of("Effects of the factors", effects, between, anchor="effects")


def _interactions_table(context: Context, design: Design) -> Table:
    return Table.of(
        "interactions",
        interactions(context.analysis, design),
        Column("effect of", lambda each: f"{each.factor}: {each.level} over {each.over}"),
        Column("at", lambda each: _effect_at(f"{each.other} {each.other_base}", each.at_base)),
        Column(
            "and at",
            lambda each: Value(
                text=_effect_at(f"{each.other} {each.other_level}", each.at_other), sub=mixed_text(each.mixed)
            ),
        ),
        Column("ratio of the ratios", lambda each: measured(each.estimate)),
        **context.by_cell,
        note="1: the effect is the same at both levels; exploratory.",
    )


def _effect_at(level: str, effect: Estimate | None) -> str:
    return f"{level}: {numbers.estimate_short(effect)}" if effect else level


def mixed_text(pairs: Sequence[tuple[str, str]]) -> str:
    """`with row_format × tls`: interactions that a fraction of the combinations cannot separate."""
    return "with " + ", ".join(f"{a} × {b}" for a, b in pairs) if pairs else ""


def pairs_section(context: Context) -> Section | None:
    """Show all pairs of arms in per cent, slowest first, like Perl's Benchmark::cmpthese."""
    if not PAIRS_ARMS[0] <= len(context.compared_arms) <= PAIRS_ARMS[1]:
        return None
    cells = len(context.cells)
    left = f" Shown: the first {PAIRS_CELLS} of {cells} cells." if cells > PAIRS_CELLS else ""
    return Section.of(
        "All pairs",
        *(_pairs_table(context, cell) for cell in context.cells[:PAIRS_CELLS]),
        anchor="pairs",
        note=f"Each row over each column, in per cent of throughput, slowest first.{left}",
    )


def _pairs_table(context: Context, cell: str) -> Table:
    values = epoch_values(context.analysis)

    def over(upper: str, lower: str) -> Estimate | None:
        return contrast(values, context.analysis, cell=cell, numerator=upper, denominator=lower)

    def percent(upper: str, lower: str) -> str:
        found = over(upper, lower) if upper != lower else None
        return numbers.change(found.mean, found.interval.half_width) if found else "–"

    level = {arm: found.mean for arm in context.compared_arms if (found := over(arm, context.analysis.baseline))}
    ordered = sorted(level, key=level.__getitem__)
    summaries = {arm: context.summaries.get((cell, arm)) for arm in ordered}
    return Table.of(
        identifier("pairs", cell),
        ordered,
        Column("arm", context.labels.__getitem__),
        Column("events/s", lambda arm: format_rate(own.tps) if (own := summaries[arm]) else "n/a"),
        *(Column(context.labels[other], partial(percent, lower=other)) for other in ordered),
        group=lambda _: context.cell_title(cell),
        slot=context.slots.__getitem__,
        group_title="cell",
    )


def _pair_text(design: Design, numerator: str, denominator: str, *, short: bool = False) -> str:
    """`server: mysql:8.0.15 over mysql:5.7.22, utf8mb4_bin`: what differs, then what both arms share."""
    upper, lower = design.levels[numerator], design.levels[denominator]
    apart = [at for at, levels in enumerate(zip(upper, lower, strict=True)) if levels[0] != levels[1]]
    factor = ", ".join(design.factors[at].name for at in apart)
    if short:
        levels = [dict(zip(each.levels, without_common(*each.levels), strict=True)) for each in design.factors]
        upper, lower = (tuple(own[name] for own, name in zip(levels, arm, strict=True)) for arm in (upper, lower))
    rest = [level for at, level in enumerate(upper) if at not in apart and len(design.factors[at].levels) > 1]
    over, under = (" · ".join(arm[at] for at in apart) for arm in (upper, lower))
    return ", ".join([f"{'' if short else f'{factor}: '}{over} over {under}", *rest])


def measured(estimate: Estimate | None) -> Value:
    if estimate is None:
        return Value(text="not measured")
    return Value(
        text=numbers.ratio(estimate.mean, estimate.interval.half_width),
        sub=numbers.interval(estimate.interval) or "no interval yet",
    )


# The scaling law of every arm over the thread counts.

_SCALING_NOTE = (
    "X(N) = λN / (1 + σ(N − 1) + κN(N − 1)), fitted to ln X: λ is the throughput of one thread, σ the share of the "
    "work that is serialized (contention), κ the cost of each pair of threads (crosstalk). It summarises the measured "
    "thread counts and says nothing beyond the last. Most at: threads at which the law peaks. NO: the points differ "
    "from the law by more than the noise of the epochs; rely on the points. "
)

_CORES_NOTE = _SCALING_NOTE.replace("one thread", "one CPU").replace("thread", "CPU")


def scaling_section(context: Context) -> Section | None:
    """Show the scaling law of each arm, for workloads with at least four thread counts."""
    return Section.of(
        "Scaling law",
        _scaling_table(context, "scaling", _fits(context), "threads", "workload"),
        _scaling_table(context, "cores", _core_fits(context), "CPUs", "cell"),
        anchor="scaling",
    )


def _scaling_table(
    context: Context, name: str, fits: Mapping[tuple[str, str], ScalingFit], over: str, within: str
) -> Table:
    intervals = "Intervals: cluster bootstrap over epochs."
    if any(fit.rate.low is None for fit in fits.values()):
        intervals = f"No intervals below {EPOCHS_MIN_BOOTSTRAP} epochs or over several hosts."
    return Table.of(
        name,
        ((*key, fit) for key, fit in fits.items()),
        Column("arm" if over == "threads" else "first arm", lambda each: context.labels[each[1]]),
        Column("λ, events/s", lambda each: _band(each[2].rate, format_rate)),
        Column("σ", lambda each: _band(each[2].contention, _coefficient)),
        Column("κ", lambda each: _band(each[2].crosstalk, _coefficient)),
        Column("most at", lambda each: _peak(each[2])),
        Column("fits", lambda each: _fits_text(each[2])),
        group=itemgetter(0),
        slot=lambda each: context.slots[each[1]],
        group_title=within,
        note=(_SCALING_NOTE if over == "threads" else _CORES_NOTE) + intervals,
    )


def _core_fits(context: Context) -> dict[tuple[str, str], ScalingFit]:
    """Fit the law over `cpus` to arms that differ in nothing else, by cell and first arm."""
    alike: dict[object, dict[int, str]] = {}
    for name in context.compared_arms:
        arm = context.arms[name]
        if cpus := arm.server.machine.cpus:
            others = tuple(each for each in arm.server.limits if each[0] != "cpus")
            same = (arm.server.with_settings(limits=others), arm.data, arm.connection)
            alike.setdefault(same, {}).setdefault(cpus, name)
    found = {}
    for cell, own in product(context.cells, alike.values()):
        rates = {cpus: context.epoch_rates.get((cell, arm), {}) for cpus, arm in own.items()}
        if fit := fit_scaling(rates, seed=context.study.seed, host_of=context.host_of):
            found[context.cell_title(cell), own[min(own)]] = fit
    return found


def _fits(context: Context) -> dict[tuple[str, str], ScalingFit]:
    paced = {cell.name for cell in context.cells_planned if cell.open_loop}
    cells = tuple(dict.fromkeys((c.cell, c.workload, c.threads) for c in context.primary if c.cell not in paced))
    found = {}
    for arm in context.compared_arms:
        for workload, rates in rates_by_threads(cells, context.epoch_rates, arm).items():
            if fit := fit_scaling(rates, seed=context.study.seed, host_of=context.host_of):
                found[workload, arm] = fit
    order = list(dict.fromkeys(workload for _, workload, _ in cells))
    return dict(sorted(found.items(), key=lambda item: order.index(item[0][0])))


def _peak(fit: ScalingFit) -> Value | str:
    """Where throughput is greatest, bounded by the first and last thread count."""
    if fit.peak_threads is None:
        return f"> {fit.threads[-1]}"
    if fit.peak_threads.value == fit.threads[0]:
        return f"≤ {fit.threads[0]}"
    return _band(fit.peak_threads, lambda n: f"{n:.0f}" if math.isfinite(n) else f"> {fit.threads[-1]}")


def _fits_text(fit: ScalingFit) -> str:
    if fit.lack_of_fit_p is None:
        return "cannot tell"
    p = f"p = {fit.lack_of_fit_p:.2g}" if fit.lack_of_fit_p >= 0.001 else "p < 0.001"
    return f"yes ({p})" if fit.lack_of_fit_p >= LACK_OF_FIT_P else f"NO ({p})"


def _band(band: Band, form: numbers.Form) -> Value:
    sub = f"{form(band.low)} to {form(band.high)}" if band.low is not None and band.high is not None else ""
    return Value(text=form(band.value), sub=sub)


def _coefficient(value: float) -> str:
    return "0" if value < 1e-7 else f"{value:.2g}"
