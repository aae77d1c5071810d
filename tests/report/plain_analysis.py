"""Make an Analysis by the shortest arithmetic, so that report tests need no statistics.

Without a family and a stopping rule: these tests check what the report does with an Analysis.
"""

import math

from scipy import stats as scipy_stats

from bakeoff.results import EpochData, RunDirectory
from bakeoff.results.frame import Frame
from bakeoff.spec import Study
from bakeoff.stats.model import (
    Analysis,
    ArmSummary,
    CarryOver,
    Comparison,
    EpochPoint,
    Estimate,
    Interval,
    LatencyRatio,
    Stop,
    Verdict,
    Word,
)


def plain_analysis(run: RunDirectory, study: Study) -> Analysis:
    epochs = [epoch for epoch in run.load_epochs() if epoch.valid]
    slices = Frame.concat([epoch.slices for epoch in epochs])
    baseline = study.baseline.name
    others = [arm.name for arm in study.arms if arm.name != baseline]
    control = next((name for name in others if name == f"{baseline}'"), None)
    rates = _rates(slices)
    cells = [(f"{w.script}/{t}", w.script, t) for w in study.workloads for t in study.threads]
    comparisons = tuple(
        _comparison(epochs, rates, cell, workload, threads, baseline, other, is_control=other == control)
        for cell, workload, threads in cells
        for other in others
    )
    contenders = tuple(name for name in others if name != control)
    return Analysis(
        baseline=baseline,
        contenders=contenders,
        control=control,
        family=len(cells) * len(contenders),
        comparisons=comparisons,
        arms=tuple(_summary(slices, epochs, rates, cell, arm.name) for cell, _, _ in cells for arm in study.arms),
        latencies=tuple(
            LatencyRatio(
                cell=cell, contender=other, operation="event", clock="service", quantile=quantile,
                estimate=_estimate([-c for c in _points(rates, cell, baseline, other)]), error=0.01,
                differs=quantile == 0.99,
            )
            for cell, _, _ in cells for other in contenders for quantile in (0.5, 0.95, 0.99)
        ),
        geometric_mean={
            name: _estimate([c for cell, _, _ in cells for c in _points(rates, cell, baseline, name)])
            for name in contenders
        },
        trusted=None if control is None else True,
        discarded={epoch.epoch: epoch.discard_reason for epoch in run.load_epochs() if not epoch.valid},
        undeclared={"B": {"log_bin": ("OFF", "ON"), "character_set_server": ("latin1", "utf8mb4")}},
        epochs_used=len(epochs),
        stopped=Stop.PRECISE,
    )  # fmt: skip


def _rates(slices: Frame) -> dict[tuple[str, str], list[float]]:
    by = slices.by("cell", "arm", "epoch")
    tps = by.sum(slices["events"]) * by.max(slices["connections"]) / by.sum(slices["busy_ns"]) * 1e9
    rates = by.keys.with_columns(tps=tps).sort("epoch")
    return {key: part["tps"].tolist() for key, part in rates.by("cell", "arm").frames().items()}


def _points(rates: dict[tuple[str, str], list[float]], cell: str, baseline: str, other: str) -> list[float]:
    return [math.log(b / a) for a, b in zip(rates[cell, baseline], rates[cell, other], strict=True)]


def _estimate(values: list[float]) -> Estimate:
    n = len(values)
    mean = sum(values) / n
    if n < 2:
        return Estimate(mean=mean, interval=Interval(low=None, high=None), n=n)
    sd = math.sqrt(sum((value - mean) ** 2 for value in values) / (n - 1))
    half = float(scipy_stats.t.ppf(0.975, n - 1)) * sd / math.sqrt(n)
    return Estimate(mean=mean, interval=Interval(low=mean - half, high=mean + half), n=n)


def _comparison(
    epochs: list[EpochData],
    rates: dict[tuple[str, str], list[float]],
    cell: str,
    workload: str,
    threads: int,
    baseline: str,
    other: str,
    *,
    is_control: bool,
) -> Comparison:
    values = _points(rates, cell, baseline, other)
    estimate = _estimate(values)
    low, high = estimate.interval.low, estimate.interval.high
    if low is None or high is None:
        verdict = Verdict(
            words=(Word.INCONCLUSIVE,), at_least=None, sentence="INCONCLUSIVE: one epoch gives no interval."
        )
    elif low > 0:
        verdict = Verdict(
            words=(Word.FASTER,), at_least=low, sentence=f"FASTER by at least {math.expm1(low) * 100:.1f}%."
        )
    elif high < 0:
        verdict = Verdict(
            words=(Word.SLOWER,), at_least=high, sentence=f"SLOWER by at least {-math.expm1(high) * 100:.1f}%."
        )
    elif max(-low, high) < math.log(1.01):
        verdict = Verdict(words=(Word.EQUIVALENT,), at_least=None, sentence="EQUIVALENT within ±1%.")
    else:
        verdict = Verdict(
            words=(Word.INCONCLUSIVE,), at_least=None, sentence="INCONCLUSIVE: about 4 more epochs are needed."
        )
    return Comparison(
        cell=cell, workload=workload, threads=threads, baseline=baseline, contender=other, is_control=is_control,
        points=tuple(EpochPoint(epoch=e.epoch, build=e.build, value=v) for e, v in zip(epochs, values, strict=True)),
        estimate=estimate, live=estimate.interval, stop=Stop.PRECISE, verdict=verdict, trimmed=estimate, disagree=False,
        p_value=0.001, p_adjusted=0.004, sd_restart=0.004, sd_within=0.006,
        carry_over=CarryOver(common=None, bias=None), flags=(), more_epochs=0, more_s=0.0,
    )  # fmt: skip


def _summary(slices: Frame, epochs: list[EpochData], rates: dict, cell: str, arm: str) -> ArmSummary:
    part = slices.rows((slices["cell"] == cell) & (slices["arm"] == arm))
    events = int(part["events"].sum())
    tps = rates[cell, arm]
    mean = sum(tps) / len(tps)
    spread = 0.01 * mean
    found = [h for epoch in epochs for h in epoch.histograms if h["cell"] == cell and h["arm"] == arm]
    quantiles = {
        key: math.exp(sum(math.log(h["quantiles_ns"][key]) for h in found) / len(found))
        for key in found[0]["quantiles_ns"]
    }

    def per_event(*columns: str) -> float:
        return float(sum(part[column].sum() for column in columns)) / events

    host = ("host_user_ns", "host_system_ns", "host_iowait_ns", "host_steal_ns", "host_idle_ns")
    whole = sum(part[column].sum() for column in host)
    return ArmSummary(
        cell=cell, arm=arm, epochs=len(tps), tps=mean, tps_low=mean - spread, tps_high=mean + spread, qps=mean,
        quantiles_ns=quantiles, clock="service", server_cpu_ns_per_event=per_event("server_cpu_ns"),
        client_cpu_ns_per_event=per_event("client_user_ns", "client_system_ns"),
        context_switches_per_event=per_event("context_switches"),
        server_read_bytes_per_event=per_event("server_read_bytes"),
        server_write_bytes_per_event=per_event("server_write_bytes"),
        received_bytes_per_event=per_event("received_bytes"), errors_per_million=0.0, retries_per_million=0.0,
        client_cpu_share=0.2, steal_share=float(part["host_steal_ns"].sum() / whole),
    )  # fmt: skip
