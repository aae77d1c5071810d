"""The scaling law of every arm over the ladder of threads: a table and charts of the law beside what was measured."""

from bakeoff.report import numbers
from bakeoff.report.answers import threads_text
from bakeoff.report.context import Context
from bakeoff.report.view import Panel, Row, Series, Table, Value
from bakeoff.stats.scaling import EPOCHS_MIN_BOOTSTRAP, LACK_OF_FIT_P, Band, ScalingFit, fit_scaling, ladders
from bakeoff.units import format_rate

_NOTE = (
    "X(N) = λN / (1 + σ(N − 1) + κN(N − 1)), fitted to ln X: λ is the throughput of one thread, σ the share of the "
    "work that waits for others (contention), κ what each pair of threads costs each other (crosstalk). A summary of "
    "the measured rungs: arms are compared by their ratios on each of them, and nothing is told beyond the last. "
    "Most at: threads at which the law is greatest. NO: the points lie off the law by more than the epochs scatter; "
    "read the points. "
)


def scaling(context: Context) -> tuple[Table, tuple[Panel, ...]]:
    """Fits of all arms and workloads that have four rungs or more; no rows without."""
    fits = _fits(context)
    rows = tuple(
        Row(
            group=workload,
            values=(
                Value(text=context.labels[arm]),
                _value(fit.rate, format_rate),
                _value(fit.contention, _share),
                _value(fit.crosstalk, _share),
                _value(fit.peak_threads, lambda n: f"{n:.0f}") if fit.peak_threads else _beyond(fit),
                Value(text=_judged(fit)),
            ),
            slot=context.slots[arm],
        )
        for (workload, arm), fit in fits.items()
    )
    few = any(fit.epochs < EPOCHS_MIN_BOOTSTRAP for fit in fits.values())
    note = _NOTE + (
        f"Below {EPOCHS_MIN_BOOTSTRAP} epochs there are no intervals."
        if few
        else "Intervals: whole epochs drawn anew (cluster bootstrap)."
    )
    table = Table(
        id="scaling",
        group_title="workload",
        columns=("arm", "λ, events/s", "σ", "κ", "most at", "fits"),
        rows=rows,
        note=note if rows else "",
    )
    workloads = dict.fromkeys(workload for workload, _ in fits)
    return table, tuple(_panel(context, workload, place, fits) for place, workload in enumerate(workloads))


def _fits(context: Context) -> dict[tuple[str, str], ScalingFit]:
    cells = tuple(dict.fromkeys((c.cell, c.workload, c.threads) for c in context.primary))
    found = {}
    for arm in context.arms:
        if arm == context.analysis.control:
            continue
        for workload, rates in ladders(cells, context.epoch_rates, arm).items():
            if fit := fit_scaling(rates, seed=context.study.seed):
                found[workload, arm] = fit
    order = list(dict.fromkeys(workload for _, workload, _ in cells))
    return dict(sorted(found.items(), key=lambda item: order.index(item[0][0])))


def _panel(context: Context, workload: str, place: int, fits: dict[tuple[str, str], ScalingFit]) -> Panel:
    series: list[Series] = []
    for (name, arm), fit in fits.items():
        if name != workload:
            continue
        label, key = context.labels[arm], f"arm-{context.slots[arm]}"
        bands = [band for _, band in fit.curve if band.low is not None and band.high is not None]
        series.append(
            Series(
                name=label,
                key=key,
                x=numbers.rounded(n for n, _ in fit.curve),
                y=numbers.rounded(band.value for _, band in fit.curve),
                low=numbers.rounded(band.low or 0.0 for band in bands) if len(bands) == len(fit.curve) else (),
                high=numbers.rounded(band.high or 0.0 for band in bands) if len(bands) == len(fit.curve) else (),
            )
        )
        series.append(
            Series(
                name=label,
                key=key,
                x=tuple(map(float, fit.threads)),
                y=numbers.rounded(fit.points),
                tips=tuple(
                    f"{label}, {threads_text(n)}: {format_rate(x)} events/s measured"
                    for n, x in zip(fit.threads, fit.points, strict=True)
                ),
                line=False,
            )
        )
    return Panel(
        id=f"scaling-{place}",
        title=workload,
        x_title="threads",
        y_title="events per second: measured (points), by the law (lines)",
        mark="line",
        series=tuple(series),
        x_kind="threads",
    )


def _judged(fit: ScalingFit) -> str:
    if fit.lack_of_fit_p is None:
        return "cannot tell"
    p = f"p = {fit.lack_of_fit_p:.2g}" if fit.lack_of_fit_p >= 0.001 else "p < 0.001"
    return f"yes ({p})" if fit.lack_of_fit_p >= LACK_OF_FIT_P else f"NO ({p})"


def _beyond(fit: ScalingFit) -> Value:
    return Value(text=f"> {fit.threads[-1]}")


def _value(band: Band, form: numbers.Form) -> Value:
    sub = f"{form(band.low)} to {form(band.high)}" if band.low is not None and band.high is not None else ""
    return Value(text=form(band.value), sub=sub)


def _share(value: float) -> str:
    return "0" if value < 1e-7 else f"{value:.2g}"
