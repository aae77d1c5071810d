"""Runs many duels whose true ratio is known into one journal, and sums them up.

The kinds are mixed at random. A campaign that was ended continues where it stopped: the first SIGTERM (or Ctrl-C) lets
the running duels finish and starts no more, the second ends them.
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
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
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


class DuelJournal:
    """Outcomes on disk. Failed duels are kept too.

    Args:
        path: the file; made when missing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._outcomes = read_entries(path, Outcome)
        self._failures = Counter(outcome.duel.key for outcome in self._outcomes if outcome.error)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """All that are there, failed ones too, in the order of their ends."""
        with self._lock:
            return tuple(self._outcomes)

    def append(self, outcome: Outcome) -> None:
        """Keep one; it is on disk when this returns."""
        with self._lock:
            append_entry(self.path, outcome)
            self._outcomes.append(outcome)
            self._failures[outcome.duel.key] += outcome.error is not None

    def finished(self) -> dict[str, Outcome]:
        """Duels with a judgement by key; of two of one key the first."""
        return first_by_key(self.outcomes)

    def failures(self, key: str) -> int:
        """How often a duel failed."""
        with self._lock:
            return self._failures[key]


def first_by_key(outcomes: Iterable[Outcome]) -> dict[str, Outcome]:
    """Those with a judgement; of two of one key the first, so that no repetition can be chosen by its result."""
    found: dict[str, Outcome] = {}
    for outcome in outcomes:
        if outcome.error is None:
            found.setdefault(outcome.duel.key, outcome)
    return found


SWAP = ("mysql:5.7.22", "mysql:8.0.15")
"""Two servers that differ by themselves, for the label swap; the shipped standard pair."""

_ATTEMPTS = 2
GRID_WORKLOADS = (
    "oltp_point_select", "oltp_read_only", "select_random_points", "select_random_ranges",
)  # fmt: skip
GRID_THREADS = (1, 2, 4, 8, 16, 32)
GRID_BUDGET = "9m"
"""Six epochs of 24 cells, 2 s each, with room for a crowded machine."""
WARM_UP, BUDGET = "2s", "60s"
"""Six epochs, as few as a verdict takes: many short duels say more about false claims than few long ones."""


def planned(
    kinds: dict[str, int],
    servers: Sequence[str],
    *,
    seed: int,
    precision: str = "2%",
    warm_up: str = WARM_UP,
    budget: str = BUDGET,
    background: bool = False,
) -> tuple[Duel, ...]:
    """The duels of a campaign, in the order to run them: kinds and servers mixed at random, all growing evenly.

    Args:
        kinds: how many of each: `aa`, `slowK` (K uncounted events per 100), `swap` (pairs of duels), `grid`;
            `aa@SERVER` for one server alone.
        servers: each of them gets that many of the other kinds; `swap` has servers of its own.
        seed: of the duels' own seeds and of the order.
        precision: of each duel.
        warm_up: of each duel.
        budget: of each duel but a grid.
        background: they will run beside `Background`: their kinds end in `+load`.

    Raises:
        SpecError: a kind that does not exist.
    """
    placed: list[tuple[float, Duel]] = []
    for name, count in kinds.items():
        kind, _, alone = name.partition("@")
        for server in SWAP[:1] if kind == "swap" else (alone,) if alone else servers:
            for number in range(count):
                place = (number + seed_for(seed, "place", kind, server, number) / 2**53) / count
                own = seed_for(seed, "duel", kind, server, number) % 2**31
                common = Duel(
                    kind=kind,
                    number=number,
                    servers=(server,),
                    seed=own,
                    precision=precision,
                    warm_up=warm_up,
                    budget=budget,
                )
                for duel in _duels(common):
                    named = {"kind": f"{duel.kind}+load"} if background else {}
                    placed.append((place, duel.model_copy(update=named)))
    return tuple(duel for _, duel in sorted(placed, key=lambda each: each[0]))


def _duels(common: Duel) -> Iterator[Duel]:
    """One duel of a kind against itself, or the two of a swap; `common` names the one server."""
    kind, (server,) = common.kind, common.servers
    same = {"servers": (server, server)}
    if kind == "aa":
        yield common.model_copy(update=same)
    elif found := re.fullmatch(r"slow(\d+(?:\.\d+)?)", kind):
        yield common.model_copy(update=same | {"slowdown_percent": float(found[1])})
    elif kind == "swap":
        yield common.model_copy(update={"kind": "swap-ab", "servers": SWAP})
        yield common.model_copy(update={"kind": "swap-ba", "servers": SWAP[::-1], "seed": (common.seed + 1) % 2**31})
    elif kind == "grid":
        cells = {"workloads": GRID_WORKLOADS, "threads": GRID_THREADS, "budget": GRID_BUDGET}
        yield common.model_copy(update=same | cells)
    else:
        raise SpecError(f"--kinds: {kind!r} is unknown.", hint="Kinds are aa, slow2 (any number), swap and grid.")


class Campaign:
    """Runs planned duels that the journal does not hold yet.

    Args:
        folder: of the journal and of the runs' own folders; servers' accounts must be able to enter.
        background: run `Background` beside the duels.

    Attributes:
        stop: set it, and no more duels are started.
        kill: set it too, and those that run are ended and not counted.
    """

    def __init__(self, folder: Path, *, lanes: int = 1, background: bool = False, seed: int = 1) -> None:
        self.folder = make_open_folder(folder)
        self.journal = DuelJournal(folder / JOURNAL)
        self.stop = threading.Event()
        self.kill = threading.Event()
        self._lanes = lanes
        self._background = background
        self._seed = seed

    def run(self, duels: Iterable[Duel], *, report: Callable[[str], None] = lambda text: None) -> dict[str, Outcome]:
        """Run those that are missing; a duel that failed is tried once more.

        Returns:
            By key, the outcomes of all these duels that have a judgement.

        Raises:
            HostError: another campaign runs in this folder.
        """
        with self._alone():
            return self._run(tuple(duels), report)

    def _run(self, asked: tuple[Duel, ...], report: Callable[[str], None]) -> dict[str, Outcome]:
        shutil.rmtree(self.folder / "runs", ignore_errors=True)  # what a kill left
        make_open_folder(self.folder / "runs")
        finished = self.journal.finished()
        queue = [duel for duel in asked if duel.key not in finished]
        report(f"{len(queue)} of {len(asked)} duels to run")
        begin, done = time.monotonic(), 0
        burners = Background(self._seed) if self._background else contextlib.nullcontext()
        with burners, ThreadPoolExecutor(self._lanes) as lanes, self._ending_all_on_an_error():
            running: set[Future[Outcome]] = set()
            while running or (queue and not self.stop.is_set()):
                while queue and len(running) < self._lanes and not self.stop.is_set():
                    running.add(lanes.submit(self._one, queue.pop(0)))
                ended, running = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                for future in ended:
                    outcome = future.result()
                    if self.kill.is_set() and outcome.error:
                        continue
                    self.journal.append(outcome)
                    done += 1
                    if outcome.error and self.journal.failures(outcome.duel.key) < _ATTEMPTS:
                        queue.append(outcome.duel)
                    left_s = (time.monotonic() - begin) / done * (len(queue) + len(running))
                    report(f"{line(outcome)}; {len(queue)} left, about {format_duration(left_s)}")
        keys = {duel.key for duel in asked}
        return {key: outcome for key, outcome in self.journal.finished().items() if key in keys}

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the folder's lock: two campaigns would remove each other's runs. It is freed when the process dies."""
        with (self.folder / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise HostError(
                    f"campaign: another one runs in {self.folder}.", hint="Wait for its end, or use another folder."
                ) from None
            yield

    @contextlib.contextmanager
    def _ending_all_on_an_error(self) -> Iterator[None]:
        """End the duels that run, so that nobody waits for minutes after a Ctrl-C."""
        try:
            yield
        except BaseException:
            self.stop.set()
            self.kill.set()
            raise

    def _one(self, duel: Duel) -> Outcome:
        folder = make_open_folder(self.folder / "runs" / f"{threading.get_ident()}-{time.monotonic_ns()}")
        return run_duel(duel, folder, background=self._background, stop=self.kill)


def line(outcome: Outcome) -> str:
    """One duel in a line of progress."""
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
    """Read `aa=50,slow2=20`.

    Raises:
        SpecError: an entry is not KIND=NUMBER.
    """
    kinds: Counter[str] = Counter()
    for entry in text.split(","):
        kind, _, count = entry.strip().rpartition("=")
        if not kind or not count.isdigit():
            raise SpecError(f"--kinds: {entry!r} is not KIND=NUMBER.", hint="Write --kinds aa=50,slow2=20.")
        kinds[kind] += int(count)
    return dict(kinds)


# Sums over duels.


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
        """The true difference was claimed."""
        return self.truth != 0 and self.judgement.claim == int(math.copysign(1, self.truth))

    @property
    def covered(self) -> bool:
        """The reported interval holds the truth; False without one."""
        return self.judgement.covers(self.truth)

    @property
    def missed(self) -> bool:
        """There is an interval, and it does not hold the truth."""
        return self.judgement.has_interval and not self.covered

    @property
    def measured_s(self) -> float:
        """Seconds that its cell was measured in an epoch, the mean over cells and epochs."""
        return self.outcome.measured_s / max(len(self.judgement.points) * len(self.outcome.judgements), 1)

    @property
    def load(self) -> LoadClass | None:
        """Class of the other work while it measured."""
        return self.outcome.machine.load if self.outcome.machine else None


@dataclass(frozen=True)
class Summary:
    """Sums over duels of one truth; widths are log ratios, times are wall seconds of the whole command.

    Attributes:
        able: those with enough epochs for any verdict; the others cannot claim, and prove nothing about claims.
        most_wrong: what 5 % of false claims allow in `able` duels.
        intervals: those with an interval: the others prove nothing about coverage.
        fewest_covered: what 93 % of coverage demand of `intervals`.
        epoch_sd: standard deviation of a duel's epochs, a log ratio, the median over duels; NaN when none has two.
        epoch_s: seconds that a cell is measured in an epoch, the median over duels.
        bias: mean over duels of estimate less truth, a log ratio; `bias_se` its standard error. It shows an arm that is
            treated worse by less than any single interval can show.
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
        """The bias is beyond chance (p < 0.001)."""
        return self.duels > 2 and abs(self.bias) > t_quantile(0.9995, self.duels - 1) * self.bias_se

    @classmethod
    def of(cls, judged: Sequence[Judged]) -> "Summary":
        """Add up; at least one."""
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
    """Every cell of every duel whose truth is known."""
    return [
        Judged(outcome, judgement, outcome.duel.truth)
        for outcome in outcomes
        if outcome.duel.truth is not None
        for judgement in outcome.judgements
    ]


def ever_excludes(points: Sequence[float], truth: float) -> bool:
    """Whether the live interval excluded the truth after any epoch: who watches it would have stopped there."""
    looks = (iv.estimate_of(points[:n], iv.live_interval).interval for n in range(2, len(points) + 1))
    return any(live.low is not None and not live.holds(truth) for live in looks)


def summary_table(outcomes: Iterable[Outcome]) -> str:
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
        *(_row(*name, Summary.of(each)) for name, each in sorted(groups.items())),
    ]
    odd = [each for each in found if each.wrong or each.missed]
    spent = _phases([each.outcome for each in found])
    return "\n".join(
        [*rows, "", *spent, f"Misses and wrong claims: {len(odd)} of {len(found)}.", "", *map(describe, odd)]
    )


def _phases(outcomes: Sequence[Outcome]) -> list[str]:
    """Where the wall time of a duel goes, in a line; nothing when the outcomes do not hold it."""
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
    """A line about a miss: the verdict, its epochs, its flags and the other load."""
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
