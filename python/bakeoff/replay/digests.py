"""Compare the times of every digest of a replay: ratio, interval and verdict over epochs, from the histograms.

A ratio is the baseline's mean time over the contender's, so above 1 the contender is faster.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from bakeoff.results.epoch_data import quantiles_of
from bakeoff.stats import hosts
from bakeoff.stats import interval as iv
from bakeoff.stats.model import Estimate, Frozen, Stop

OTHER = "other"  # operation that holds the digests beyond the thousand with the most time
QUANTILES = (0.5, 0.95, 0.99)

DigestWord = Literal["FASTER", "SLOWER", "unclear", "not tested"]

_DIGEST = re.compile(r"[0-9a-f]{16}")
_Round = tuple[int, int]  # epoch and round: arms of one round ran together
_Rows = Mapping[_Round, Mapping[str, Any]]


class DigestTimes(Frozen):
    """The times of one digest, or of `OTHER`, on a contender and the baseline in one cell.

    Attributes:
        share: of the baseline's time in all digests; `contender_share` is that of the contender's.
        estimate: log ratio of speeds over the epochs that count.
        p_adjusted: after Holm over all digests tested in the run.
        note: why it was not tested.
        time_lost: share × (1/ratio − 1): the contender's extra time as a share of the baseline's total time.
        quantiles_ns: by arm, one per item of `QUANTILES`.
        means_ns: mean time by arm.
    """

    cell: str
    contender: str
    digest: str
    executions: dict[str, int]
    share: float
    contender_share: float
    estimate: Estimate | None
    p_value: float | None = None
    p_adjusted: float | None = None
    word: DigestWord = "not tested"
    note: str = ""
    time_lost: float | None = None
    quantiles_ns: dict[str, tuple[int, ...]] = {}
    means_ns: dict[str, float] = {}


def digest_times(
    histograms: Mapping[int, Sequence[Mapping[str, Any]]],
    *,
    baseline: str,
    ended: Stop,
    running: Collection[str] = (),
    host_of: Mapping[int, str] = MappingProxyType({}),
) -> tuple[DigestTimes, ...]:
    """Judge every digest of every cell and contender, the one with the most time lost first.

    All tested digests are one family. A run ended by hand uses the anytime-valid interval. Arms that are `running`
    already get no verdict.
    """
    rows: dict[tuple[str, str], dict[str, dict[_Round, Mapping[str, Any]]]] = {}
    for epoch, messages in histograms.items():
        for row in messages:
            if _DIGEST.fullmatch(row["operation"]) or row["operation"] == OTHER:
                of_arm = rows.setdefault((row["cell"], row["operation"]), {}).setdefault(row["arm"], {})
                of_arm[epoch, row.get("round", 0)] = row
    whole_ns: Counter[tuple[str, str]] = Counter()
    for (cell, _), arms in rows.items():
        whole_ns.update({(cell, arm): _total_ns(of_arm) for arm, of_arm in arms.items()})
    contenders = {arm: None for arms in rows.values() for arm in arms if arm != baseline}
    measured = {(cell, arm) for (cell, _), arms in rows.items() for arm in arms}
    found = [
        _found((cell, digest), arms, (baseline, contender), whole_ns, ended, running, host_of)
        for (cell, digest), arms in rows.items()
        for contender in contenders
        if (cell, contender) in measured
    ]
    # A run ended at any moment (Ctrl-C) may only use the anytime-valid interval.
    claims = iter(iv.family_claims([values for times, values in found if not times.note], anytime=ended.anytime_only))
    judged = []
    for times, values in found:
        if not times.note:
            claim, p, q = next(claims)
            word = "unclear" if not claim else "FASTER" if values.mean > 0 else "SLOWER"
            times = times.model_copy(update={"word": word, "p_value": p, "p_adjusted": q})
        judged.append(times)
    return tuple(sorted(judged, key=lambda each: (-(each.time_lost or 0.0), -each.share, each.digest)))


def _total_ns(rows: _Rows) -> float:
    return math.fsum(row["count"] * row["mean_ns"] for row in rows.values())


def _found(
    place: tuple[str, str],
    arms: Mapping[str, _Rows],
    pair: tuple[str, str],
    whole_ns: Mapping[tuple[str, str], float],
    ended: Stop,
    running: Collection[str],
    host_of: Mapping[int, str],
) -> tuple[DigestTimes, iv.Moments]:
    cell, digest = place
    baseline, contender = (arms.get(arm, {}) for arm in pair)
    values = {
        at: math.log(baseline[at]["mean_ns"] / row["mean_ns"])
        for at, row in sorted(contender.items())
        if at in baseline and min(each[name] for each in (row, baseline[at]) for name in ("count", "mean_ns")) > 0
    }
    found = hosts.moments([*values.values()], [host_of.get(epoch, "") for epoch, _ in values])
    share, contender_share = (
        _total_ns(arms.get(arm, {})) / whole if (whole := whole_ns[cell, arm]) > 0 else 0.0 for arm in pair
    )
    estimate = iv.estimate(found, iv.precision_interval) if values else None
    executions = {arm: sum(row["count"] for row in arms.get(arm, {}).values()) for arm in pair}
    needed = iv.N_MIN_DECISIVE if ended.anytime_only else iv.N_MIN
    note = ""
    if missing := [arm for arm, count in executions.items() if not count]:
        note = "never completed on " + " or ".join(f"arm {arm}" for arm in missing)
    elif not {*pair}.isdisjoint(running):
        note = "running servers are not restarted"
    elif found.n < needed:
        note = f"completed on both arms in {found.n} {'epoch' if found.n == 1 else 'epochs'}; {needed} are needed"
    times = DigestTimes(
        cell=cell,
        contender=pair[1],
        digest=digest,
        executions=executions,
        share=share,
        contender_share=contender_share,
        estimate=estimate,
        note=note,
        time_lost=share * math.expm1(-estimate.mean) if estimate else None,
        quantiles_ns={arm: quantiles_of(arms.get(arm, {}).values(), QUANTILES) for arm in pair},
        means_ns={arm: _total_ns(arms[arm]) / count for arm, count in executions.items() if count},
    )
    return times, found
