"""Runs many duels whose true ratio is known into one journal, and summarises them.

Kinds are mixed at random, and an interrupted campaign continues where it stopped.
"""

import contextlib
import fcntl
import math
import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bakeoff.errors import HostError, SpecError
from bakeoff.plan.epochs import seed_for
from bakeoff.servers.paths import make_open_folder
from bakeoff.stats import interval as iv
from bakeoff.stats.interval import t_quantile
from bakeoff.stats.verdict import enough
from bakeoff.units import format_duration
from validation.check import fewest, most
from validation.duels import Background, Duel, Judgement, LoadClass, Outcome, run_duel
from validation.journal import append_entry, read_entries

JOURNAL = "duels.jsonl"

SWAP = ("mysql:5.7.22", "mysql:8.0.15")
"""Servers of the label swap, which really differ."""

_ATTEMPTS = 2
GRID_WORKLOADS = ("oltp_point_select", "oltp_read_only", "select_random_points", "select_random_ranges")
GRID_THREADS = (1, 2, 4, 8, 16, 32)
GRID_BUDGET = "9m"
"""Six epochs of 24 cells, 2 s each, with room for a crowded machine."""
WARM_UP, BUDGET = "2s", "60s"
"""Six epochs, the fewest a verdict needs: many short duels say more about false claims than few long ones."""


def first_by_key(outcomes: Iterable[Outcome]) -> dict[str, Outcome]:
    """Return the outcomes with a judgement by key.

    The first of a key counts, so that no repetition can be chosen by its result.
    """
    found: dict[str, Outcome] = {}
    for outcome in outcomes:
        if outcome.error is None:
            found.setdefault(outcome.duel.key, outcome)
    return found


def planned(
    kinds: dict[str, int], servers: Sequence[str], *, seed: int, precision: str = "2%", warm_up: str = WARM_UP,
    budget: str = BUDGET, background: bool = False,
) -> tuple[Duel, ...]:  # fmt: skip
    """Return the duels of a campaign in the order to run them: mixed at random, all kinds growing evenly.

    Args:
        kinds: number of duels for each server, by kind: `aa`, `slowK` (K uncounted events per 100), `swap` (pairs of
            duels between servers of its own), `grid`; `aa@SERVER` for one server only.
        servers: as on bakeoff's command line.
        seed: of the order and of the duels' own seeds.
        precision, warm_up, budget: of each duel; a grid has its own budget.
        background: append `+load` to the kinds, because `Background` will run beside the duels.

    Raises:
        SpecError: unknown kind.
    """
    placed: list[tuple[float, Duel]] = []
    for name, count in kinds.items():
        kind, _, alone = name.partition("@")
        for server in SWAP[:1] if kind == "swap" else (alone,) if alone else servers:
            for number in range(count):
                place = (number + seed_for(seed, "place", kind, server, number) / 2**53) / count
                common = Duel(
                    kind=kind,
                    number=number,
                    servers=(server, server),
                    seed=seed_for(seed, "duel", kind, server, number) % 2**31,
                    precision=precision,
                    warm_up=warm_up,
                    budget=budget,
                )
                for duel in _duels(common):
                    named = {"kind": f"{duel.kind}+load"} if background else {}
                    placed.append((place, duel.model_copy(update=named)))
    return tuple(duel for _, duel in sorted(placed, key=lambda each: each[0]))


def _duels(common: Duel) -> Iterator[Duel]:
    if common.kind == "aa":
        yield common
    elif found := re.fullmatch(r"slow(\d+(?:\.\d+)?)", common.kind):
        yield common.model_copy(update={"slowdown_percent": float(found[1])})
    elif common.kind == "swap":
        yield common.model_copy(update={"kind": "swap-ab", "servers": SWAP})
        yield common.model_copy(update={"kind": "swap-ba", "servers": SWAP[::-1], "seed": (common.seed + 1) % 2**31})
    elif common.kind == "grid":
        yield common.model_copy(update={"workloads": GRID_WORKLOADS, "threads": GRID_THREADS, "budget": GRID_BUDGET})
    else:
        raise SpecError(f"--kinds: unknown kind {common.kind!r}.", hint="Use aa, slow2 (any number), swap or grid.")


class Campaign:
    """Runs planned duels that its journal does not have yet.

    Args:
        folder: for the journal and run directories; server accounts must be able to enter.
        background: run `Background` beside the duels.
        seed: of the background load.

    Attributes:
        outcomes: all outcomes in the journal, failed ones too.
        stop: set to start no more duels.
        kill: set as well to end the running duel, which then does not count.
    """

    def __init__(self, folder: Path, *, background: bool = False, seed: int = 1) -> None:
        self.folder = make_open_folder(folder)
        self.outcomes = read_entries(folder / JOURNAL, Outcome)
        self.stop = threading.Event()
        self.kill = threading.Event()
        self._background = background
        self._seed = seed

    def run(self, duels: Iterable[Duel], *, report: Callable[[str], None] = lambda text: None) -> dict[str, Outcome]:
        """Run the missing duels, failed ones once more, and return by key the outcomes that have a judgement.

        Raises:
            HostError: another campaign is running in this folder.
        """
        asked = tuple(duels)
        with self._lock():
            shutil.rmtree(self.folder / "runs", ignore_errors=True)  # left by a kill
            make_open_folder(self.folder / "runs")
            with Background(self._seed) if self._background else contextlib.nullcontext():
                self._run(asked, report)
        keys = {duel.key for duel in asked}
        return {key: outcome for key, outcome in first_by_key(self.outcomes).items() if key in keys}

    def _run(self, asked: tuple[Duel, ...], report: Callable[[str], None]) -> None:
        finished = first_by_key(self.outcomes)
        queue = [duel for duel in asked if duel.key not in finished]
        failures = Counter(outcome.duel.key for outcome in self.outcomes if outcome.error)
        report(f"{len(queue)} of {len(asked)} duels to run")
        begin, done = time.monotonic(), 0
        while queue and not self.stop.is_set():
            folder = make_open_folder(self.folder / "runs" / str(time.monotonic_ns()))
            outcome = run_duel(queue.pop(0), folder, background=self._background, stop=self.kill)
            if self.kill.is_set() and outcome.error:
                break
            append_entry(self.folder / JOURNAL, outcome)
            self.outcomes.append(outcome)
            done += 1
            if outcome.error:
                failures[outcome.duel.key] += 1
                if failures[outcome.duel.key] < _ATTEMPTS:
                    queue.append(outcome.duel)
            left_s = (time.monotonic() - begin) / done * len(queue)
            report(f"{line(outcome)}; {len(queue)} left, about {format_duration(left_s)}")

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Lock the folder: two campaigns would remove each other's runs. The lock is freed when the process dies."""
        with (self.folder / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise HostError(
                    f"campaign: another one is running in {self.folder}.", hint="Wait for it, or use another folder."
                ) from None
            yield


def line(outcome: Outcome) -> str:
    """Format one duel as a line of progress."""
    name = f"{outcome.duel.kind} {outcome.duel.servers[-1]} #{outcome.duel.number}"
    if outcome.error:
        return f"{name}: {outcome.error}"
    machine = f", others {outcome.machine.other:.0%} of the processors" if outcome.machine else ""
    if len(outcome.judgements) > 1:
        return f"{name}: {len(outcome.judgements)} cells, {outcome.wall_s:.0f} s{machine}"
    judgement = outcome.only
    width = f"± {judgement.half_width:.2%}" if judgement.has_interval else "without an interval"
    return (
        f"{name}: {judgement.mean:+.2%} {width}, {'+'.join(judgement.words)}, n = {len(judgement.points)}, "
        f"{judgement.stop}, {outcome.wall_s:.0f} s{machine}"
    )


def parse_kinds(text: str) -> dict[str, int]:
    """Parse `aa=50,slow2=20`; raise SpecError for an entry that is not KIND=NUMBER."""
    kinds: Counter[str] = Counter()
    for entry in text.split(","):
        kind, _, count = entry.strip().rpartition("=")
        if not kind or not count.isdigit():
            raise SpecError(f"--kinds: {entry!r} is not KIND=NUMBER.", hint="Write --kinds aa=50,slow2=20.")
        kinds[kind] += int(count)
    return dict(kinds)


@dataclass(frozen=True)
class Judged:
    """One cell of one duel and its true log ratio."""

    outcome: Outcome
    judgement: Judgement
    truth: float

    @property
    def wrong(self) -> bool:
        """Whether a difference was claimed between equal arms, or the wrong sign between unequal ones."""
        sign = int(math.copysign(1, self.truth)) if self.truth else 0
        return self.judgement.claim not in (0, sign)

    @property
    def right(self) -> bool:
        """Whether the true difference was claimed."""
        return self.truth != 0 and self.judgement.claim == int(math.copysign(1, self.truth))

    @property
    def covered(self) -> bool:
        """Whether the reported interval holds the truth; False without one."""
        return self.judgement.covers(self.truth)

    @property
    def missed(self) -> bool:
        """Whether there is an interval that does not hold the truth."""
        return self.judgement.has_interval and not self.covered

    @property
    def measured_s(self) -> float:
        """Mean seconds that a cell was measured in an epoch."""
        return self.outcome.measured_s / max(len(self.judgement.points) * len(self.outcome.judgements), 1)

    @property
    def load(self) -> LoadClass | None:
        """Other work on the machine during measurement."""
        return self.outcome.machine.load if self.outcome.machine else None


@dataclass(frozen=True)
class Summary:
    """Sums and medians over duels of one truth; widths are log ratios, times wall seconds of the whole command.

    Attributes:
        able: duels with enough epochs for a verdict; the others prove nothing about claims.
        most_wrong: largest number of wrong claims that a rate of 5 % allows in `able` duels.
        intervals: duels with an interval; the others prove nothing about coverage.
        fewest_covered: smallest number of covering intervals that a coverage of 93 % allows.
        epoch_sd: standard deviation of a duel's epochs; NaN if none has two.
        epoch_s: seconds that a cell is measured in an epoch.
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
    epoch_sd: float
    epoch_s: float
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
        """Summarise at least one judged cell."""
        n = len(judged)
        errors = [each.judgement.mean - each.truth for each in judged]
        sds = [iv.standard_deviation(each.judgement.points) for each in judged if len(each.judgement.points) > 1]
        able = sum(enough(len(each.judgement.points), each.judgement.stop) for each in judged)
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
            epoch_sd=median(sds) if sds else math.nan,
            epoch_s=median(each.measured_s for each in judged),
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


def summary_table(outcomes: Iterable[Outcome]) -> str:
    """Format a row for each kind, server, target and load of the machine, then the misses with their epochs."""
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
        *(_row(*name, Summary.of(each)) for name, each in sorted(groups.items())),
    ]
    odd = [each for each in found if each.wrong or each.missed]
    spent = _phases([each.outcome for each in found])
    return "\n".join(
        [*rows, "", *spent, f"Misses and wrong claims: {len(odd)} of {len(found)}.", "", *map(describe, odd)]
    )


def _phases(outcomes: Sequence[Outcome]) -> list[str]:
    known = [outcome for outcome in outcomes if outcome.phases_s]
    if not known:
        return []
    whole = sum(outcome.wall_s for outcome in known)
    seconds = Counter({"outside epochs": whole - sum(sum(outcome.phases_s.values()) for outcome in known)})
    for outcome in known:
        seconds.update(outcome.phases_s)
    parts = [f"{name} {each / whole:.0%}" for name, each in seconds.most_common()]
    return [f"Wall time of {len(known)} duels: {', '.join(parts)}.", ""]


def _row(kind: str, server: str, asked: str, load: str, total: Summary) -> str:
    claimed = f"{total.right}" if kind.startswith("slow") else ""
    return (
        f"| {kind} | {server} | {asked} | {load} | {total.duels} | {total.able} "
        f"| {total.wrong} (at most {total.most_wrong}) "
        f"| {total.covered} of {total.intervals} (at least {total.fewest_covered}) "
        f"| {claimed} | ±{total.half_width:.1%} | {total.epochs:.0f} | {total.epoch_s:.1f} s | {total.epoch_sd:.1%} "
        f"| {total.wall_s:.0f} s | {total.bias:+.1%} ± {2 * total.bias_se:.1%} |"
    )


def describe(each: Judged) -> str:
    """Format a miss as a line: verdict, epochs, flags and other load."""
    judgement = each.judgement
    points = " ".join(f"{point:+.3f}" for point in judgement.points)
    load = f"other work {each.outcome.machine.other:.0%}" if each.outcome.machine else "load unknown"
    ends = (
        "without an interval"
        if judgement.low is None or judgement.high is None
        else f"{judgement.low:+.2%} to {judgement.high:+.2%}"
    )
    flags = "; ".join(flag.kind for flag in judgement.flags) or "no flags"
    return (
        f"- {each.outcome.duel.key} {judgement.cell}: {'+'.join(judgement.words)} ({ends}, truth {each.truth:+.2%}), "
        f"{judgement.stop}, epochs {points}, {flags}, {load}"
    )
