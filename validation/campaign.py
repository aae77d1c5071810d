"""Runs duels whose true ratio is known, keeps them in one journal, and sums them up."""

import contextlib
import fcntl
import math
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bakeoff.errors import HostError
from bakeoff.plan.epochs import seed_for
from bakeoff.servers.paths import make_open_folder
from bakeoff.stats import interval as iv
from bakeoff.stats.interval import t_quantile
from bakeoff.units import format_duration
from validation.check import fewest, most
from validation.duels import Background, Duel, Judgement, Outcome, run_duel
from validation.journal import append_entry, read_entries

JOURNAL = "duels.jsonl"

SWAP = ("mysql:5.7.22", "mysql:8.0.15")
"""Servers of the label swap, which really differ."""

_ATTEMPTS = 2
GRID_WORKLOADS = ("oltp_point_select", "oltp_read_only", "select_random_points", "select_random_ranges")
GRID_THREADS = (1, 2, 4, 8, 16, 32)
GRID_BUDGET = "9m"
"""Six epochs of 24 cells, 2 s each, with room for a crowded machine."""
BUDGET = "60s"
"""Six epochs, the fewest a verdict needs: many short duels say more about false claims than few long ones."""


def first_by_key(outcomes: Iterable[Outcome]) -> dict[str, Outcome]:
    """Return the judged outcomes by key. The first counts, so that no repetition is chosen by its result."""
    found: dict[str, Outcome] = {}
    for outcome in outcomes:
        if outcome.error is None:
            found.setdefault(outcome.duel.key, outcome)
    return found


def planned(
    kinds: dict[str, int], servers: Sequence[str], *, seed: int, precision: str = "2%", budget: str = BUDGET,
    background: bool = False,
) -> tuple[Duel, ...]:  # fmt: skip
    """Return duels in the order to run them: mixed at random, all kinds growing evenly.

    Args:
        kinds: number of duels for each server, by kind: `aa`, `slowK` (K uncounted events per 100), `grid`, and `swap`
            (pairs of duels between two real versions).
        seed: of the order and of the duels' own seeds.
        background: append `+load` to the kinds, because `Background` will run beside the duels.
    """
    placed: list[tuple[float, Duel]] = []
    for kind, count in kinds.items():
        for server in SWAP[:1] if kind == "swap" else servers:
            for number in range(count):
                place = (number + seed_for(seed, "place", kind, server, number) / 2**53) / count
                common = Duel(
                    kind=kind,
                    number=number,
                    servers=(server, server),
                    seed=seed_for(seed, "duel", kind, server, number) % 2**31,
                    precision=precision,
                    budget=budget,
                )
                for duel in _duels(common):
                    named = {"kind": f"{duel.kind}+load"} if background else {}
                    placed.append((place, duel.model_copy(update=named)))
    return tuple(duel for _, duel in sorted(placed, key=lambda each: each[0]))


def _duels(common: Duel) -> Iterator[Duel]:
    if slow := re.fullmatch(r"slow(\d+)", common.kind):
        yield common.model_copy(update={"slowdown_percent": float(slow[1])})
    elif common.kind == "swap":
        yield common.model_copy(update={"kind": "swap-ab", "servers": SWAP})
        yield common.model_copy(update={"kind": "swap-ba", "servers": SWAP[::-1], "seed": (common.seed + 1) % 2**31})
    elif common.kind == "grid":
        yield common.model_copy(update={"workloads": GRID_WORKLOADS, "threads": GRID_THREADS, "budget": GRID_BUDGET})
    else:
        yield common


def run_missing(
    asked: Sequence[Duel],
    folder: Path,
    *,
    background_seed: int | None = None,
    report: Callable[[str], None] = lambda text: None,
) -> list[Outcome]:
    """Run the duels that the folder's journal does not have, failed ones once more, and return the whole journal.

    Args:
        folder: for the journal and run directories; server accounts must be able to enter it.
        background_seed: seed of the load to run beside them; None runs none.
    """
    make_open_folder(folder)
    outcomes = read_entries(folder / JOURNAL, Outcome)
    finished = first_by_key(outcomes)
    queue = [duel for duel in asked if duel.key not in finished]
    failures = Counter(outcome.duel.key for outcome in outcomes if outcome.error)
    report(f"{len(queue)} of {len(asked)} duels to run")
    begin, done = time.monotonic(), 0
    load = contextlib.nullcontext() if background_seed is None else Background(background_seed)
    with _locked(folder), load:
        shutil.rmtree(folder / "runs", ignore_errors=True)  # left by a kill
        while queue:
            duel = queue.pop(0)
            runs = make_open_folder(folder / "runs" / str(time.monotonic_ns()))
            outcome = run_duel(duel, runs, background=background_seed is not None)
            append_entry(folder / JOURNAL, outcome)
            outcomes.append(outcome)
            done += 1
            if outcome.error:
                failures[duel.key] += 1
                if failures[duel.key] < _ATTEMPTS:
                    queue.append(duel)
            left_s = (time.monotonic() - begin) / done * len(queue)
            report(f"{outcome}; {len(queue)} left, about {format_duration(left_s)}")
    return outcomes


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder: two runs would remove each other's run directories."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise HostError(f"duels are already running in {folder}.", hint="Wait for them to end.") from None
        yield


@dataclass(frozen=True)
class Judged:
    outcome: Outcome
    judgement: Judgement
    truth: float

    @property
    def wrong(self) -> bool:
        """Whether a difference was claimed between equal arms, or the wrong sign between unequal ones."""
        return self.judgement.claim not in (0, _sign(self.truth))

    @property
    def right(self) -> bool:
        return self.truth != 0 and self.judgement.claim == _sign(self.truth)

    @property
    def covered(self) -> bool:
        return self.judgement.covers(self.truth)

    @property
    def missed(self) -> bool:
        return self.judgement.has_interval and not self.covered

    def __str__(self) -> str:
        judgement = self.judgement
        points = " ".join(f"{point:+.3f}" for point in judgement.points)
        other = self.outcome.other_share
        load = "unknown" if other is None else f"{other:.0%}"
        ends = (
            "without an interval"
            if judgement.low is None or judgement.high is None
            else f"{judgement.low:+.2%} to {judgement.high:+.2%}"
        )
        flags = "; ".join(flag.kind for flag in judgement.flags) or "no flags"
        return (
            f"{self.outcome.duel.key} {judgement.cell}: {'+'.join(judgement.words)} ({ends}, truth {self.truth:+.2%}), "
            f"{judgement.stop}, epochs {points}, {flags}, other work {load}"
        )


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


@dataclass(frozen=True)
class Summary:
    """Sums and medians over duels of one truth; widths are log ratios, times wall seconds of the whole command.

    Attributes:
        able: duels with enough epochs for a verdict; the others prove nothing about claims.
        most_wrong: largest number of wrong claims that a rate of 5 % allows in `able` duels.
        fewest_covered: smallest number of the `intervals` that must cover, by a coverage of 93 %.
        bias: mean of estimate minus truth, with standard error `bias_se`. It reveals an arm that is treated worse by
            less than any single interval can show.
    """

    duels: int
    able: int
    wrong: int
    right: int
    intervals: int
    covered: int
    most_wrong: int
    fewest_covered: int
    half_width: float
    epochs: float
    wall_s: float
    measured_share: float
    bias: float
    bias_se: float

    @property
    def biased(self) -> bool:
        """Whether the bias is beyond chance (p < 0.001)."""
        return self.duels > 2 and abs(self.bias) > t_quantile(0.9995, self.duels - 1) * self.bias_se

    @classmethod
    def of(cls, judged: Sequence[Judged]) -> "Summary":
        n = len(judged)
        errors = [each.judgement.mean - each.truth for each in judged]
        able = sum(len(each.judgement.points) >= iv.N_MIN for each in judged)
        intervals = sum(each.judgement.has_interval for each in judged)
        return cls(
            duels=n,
            able=able,
            wrong=sum(each.wrong for each in judged),
            right=sum(each.right for each in judged),
            intervals=intervals,
            covered=sum(each.covered for each in judged),
            most_wrong=most(able, 0.05),
            fewest_covered=fewest(intervals, 0.93),
            half_width=median(each.judgement.half_width for each in judged),
            epochs=median(len(each.judgement.points) for each in judged),
            wall_s=median(each.outcome.wall_s for each in judged),
            measured_share=median(each.outcome.measured_s / each.outcome.wall_s for each in judged),
            bias=math.fsum(errors) / n,
            bias_se=iv.standard_deviation(errors) / math.sqrt(n),
        )


def judged(outcomes: Iterable[Outcome]) -> list[Judged]:
    """Return every cell of every duel whose truth is known."""
    return [
        Judged(outcome, judgement, outcome.duel.truth)
        for outcome in outcomes
        if outcome.duel.truth is not None
        for judgement in outcome.judgements
    ]


def ever_excludes(points: Sequence[float], truth: float) -> bool:
    """Return whether the live interval excluded the truth after any epoch, where a watching user would have stopped."""
    looks = (iv.estimate_of(points[:n], iv.live_interval).interval for n in range(2, len(points) + 1))
    return any(live.low is not None and not live.holds(truth) for live in looks)
