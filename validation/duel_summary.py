"""What duels of a known truth add up to: false claims, coverage, claims, time; and each miss, to be looked at.

python -m validation.duel_summary DIR/duels.jsonl…       a table and the misses, as Markdown
"""

import argparse
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bakeoff.stats import interval as iv
from bakeoff.stats.verdict import enough
from validation.campaign import first_by_key, read_outcomes
from validation.duels import Judgement, LoadClass, Outcome
from validation.model import fewest, most


@dataclass(frozen=True)
class Judged:
    """One cell of one duel beside the truth, a log ratio."""

    outcome: Outcome
    judgement: Judgement
    truth: float

    @property
    def wrong(self) -> bool:
        """A difference was claimed between equal arms, or the wrong sign between unequal ones."""
        sign = int(math.copysign(1, self.truth)) if self.truth else 0
        return self.judgement.claim not in (0, sign)

    @property
    def right(self) -> bool:
        """A difference that is there was claimed."""
        return self.truth != 0 and self.judgement.claim == int(math.copysign(1, self.truth))

    @property
    def covered(self) -> bool:
        """The interval told holds the truth."""
        return self.judgement.covers(self.truth)

    @property
    def measured_s(self) -> float:
        """Seconds that its cell was measured in an epoch, the mean over cells and epochs."""
        return self.outcome.measured_s / max(len(self.judgement.points) * len(self.outcome.judgements), 1)

    @property
    def load(self) -> LoadClass | None:
        """Of other work while it measured."""
        return self.outcome.machine.load if self.outcome.machine else None


@dataclass(frozen=True)
class Tally:
    """Sums over duels of one truth; widths are log ratios, times wall seconds of the whole command.

    Attributes:
        able: those with enough epochs for any verdict; the others cannot claim, and prove nothing about claims.
        most_wrong: what 5 % of false claims allow in `able` duels.
        fewest_covered: what 93 % of coverage demand in `duels` duels.
        epoch_sd: standard deviation of a duel's epochs, a log ratio, the median over duels; NaN when none has two.
        epoch_s: seconds that a cell is measured in an epoch, the median over duels.
        bias: mean over duels of what they told less the truth, a log ratio; `bias_se` its standard error. What no
            single interval can show: an arm that is treated worse.
    """

    duels: int
    able: int
    wrong: int
    right: int
    covered: int
    most_wrong: int
    fewest_covered: int
    half_width: float
    epochs: float
    epoch_sd: float
    epoch_s: float
    wall_s: float
    measured_share: float
    bias: float
    bias_se: float

    @property
    def biased(self) -> bool:
        """The bias is beyond chance: it would be once in a thousand times."""
        return self.duels > 2 and abs(self.bias) > iv.t_quantile(0.9995, self.duels - 1) * self.bias_se

    @classmethod
    def of(cls, judged: Sequence[Judged]) -> "Tally":
        """Add up; at least one."""
        n = len(judged)
        errors = [each.judgement.mean - each.truth for each in judged]
        sds = [iv.standard_deviation(each.judgement.points) for each in judged if len(each.judgement.points) > 1]
        able = sum(enough(len(each.judgement.points), each.judgement.stop) for each in judged)
        return cls(
            duels=n,
            able=able,
            wrong=sum(each.wrong for each in judged),
            right=sum(each.right for each in judged),
            covered=sum(each.covered for each in judged),
            most_wrong=most(able, 0.05),
            fewest_covered=fewest(n, 0.93),
            half_width=median(each.judgement.half_width for each in judged),
            epochs=median(len(each.judgement.points) for each in judged),
            epoch_sd=median(sds) if sds else math.nan,
            epoch_s=median(each.measured_s for each in judged),
            wall_s=median(each.outcome.wall_s for each in judged),
            measured_share=median(each.outcome.measured_s / each.outcome.wall_s for each in judged),
            bias=math.fsum(errors) / n,
            bias_se=iv.standard_deviation(errors) / math.sqrt(n),
        )


def judged(outcomes: Iterable[Outcome]) -> list[Judged]:
    """Every cell of every duel whose truth is known."""
    return [
        Judged(outcome, judgement, outcome.duel.truth)
        for outcome in outcomes
        if outcome.duel.truth is not None
        for judgement in outcome.judgements
    ]


def ever_excludes(points: Sequence[float], truth: float, *, alpha: float = iv.ALPHA_LIVE) -> bool:
    """Whether the live interval excluded the truth after any epoch: what somebody who peeks would have stopped at."""
    for n in range(2, len(points) + 1):
        mean = math.fsum(points[:n]) / n
        if abs(mean - truth) > iv.anytime_half_width(iv.standard_deviation(points[:n]), n, alpha=alpha):
            return True
    return False


def markdown(outcomes: Iterable[Outcome]) -> str:
    """A row for each kind, server, target and load of the machine, then the misses with their epochs."""
    found = judged(outcomes)
    groups: dict[tuple[str, str, str, str], list[Judged]] = {}
    for each in found:
        duel = each.outcome.duel
        for load in (str(each.load or "unknown"), "all"):
            asked = f"±{duel.precision} in {duel.budget}"
            groups.setdefault((duel.kind, duel.servers[0], asked, load), []).append(each)
    rows = [
        "| duels | server | asked | other load | n | able to claim | false or wrong claims | held by the interval "
        "| claimed | half-width | epochs | each measured | SD of epochs | wall | bias |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
        *(_row(*name, Tally.of(each)) for name, each in sorted(groups.items())),
    ]
    odd = [each for each in found if each.wrong or not each.covered]
    spent = _phases([each.outcome for each in found])
    return "\n".join(
        [*rows, "", *spent, f"Misses and wrong claims: {len(odd)} of {len(found)}.", "", *map(describe, odd)]
    )


def _phases(outcomes: Sequence[Outcome]) -> list[str]:
    """Where the wall time of a duel goes, in a line; nothing when the outcomes do not tell."""
    told = [outcome for outcome in outcomes if outcome.phases_s]
    if not told:
        return []
    whole = sum(outcome.wall_s for outcome in told)
    seconds = Counter({"outside epochs": whole - sum(sum(outcome.phases_s.values()) for outcome in told)})
    for outcome in told:
        seconds.update(outcome.phases_s)
    parts = [f"{name} {each / whole:.0%}" for name, each in seconds.most_common()]
    return [f"Wall time of {len(told)} duels: {', '.join(parts)}.", ""]


def _row(kind: str, server: str, asked: str, load: str, tally: Tally) -> str:
    claimed = f"{tally.right}" if kind.startswith("plant") else ""
    return (
        f"| {kind} | {server} | {asked} | {load} | {tally.duels} | {tally.able} "
        f"| {tally.wrong} (at most {tally.most_wrong}) | {tally.covered} (at least {tally.fewest_covered}) "
        f"| {claimed} | ±{tally.half_width:.1%} | {tally.epochs:.0f} | {tally.epoch_s:.1f} s | {tally.epoch_sd:.1%} "
        f"| {tally.wall_s:.0f} s | {tally.bias:+.1%} ± {2 * tally.bias_se:.1%} |"
    )


def describe(each: Judged) -> str:
    """A line about a miss: what was told, over which epochs, with which flags, beside which load."""
    told = each.judgement
    points = " ".join(f"{point:+.3f}" for point in told.points)
    load = f"other work {each.outcome.machine.other:.0%}" if each.outcome.machine else "load unknown"
    ends = "without an interval" if told.low is None or told.high is None else f"{told.low:+.2%} to {told.high:+.2%}"
    flags = "; ".join(flag.kind for flag in told.flags) or "no flags"
    return (
        f"- {each.outcome.duel.key} {told.cell}: {'+'.join(told.words)} ({ends}, truth {each.truth:+.2%}), "
        f"{told.stop}, epochs {points}, {flags}, {load}"
    )


def main() -> int:
    """Print the summary of journals."""
    parser = argparse.ArgumentParser(prog="python -m validation.duel_summary")
    parser.add_argument("journal", type=Path, nargs="+")
    outcomes = [outcome for path in parser.parse_args().journal for outcome in read_outcomes(path)]
    failed = [outcome for outcome in outcomes if outcome.error]
    print(markdown(first_by_key(outcomes).values()))
    print(f"\nDuels that failed: {len(failed)}.")
    for outcome in failed:
        print(f"- {outcome.duel.key}: {outcome.error}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
