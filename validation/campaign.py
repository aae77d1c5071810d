"""Many duels whose answers are known, several at a time, in a random order of kinds, into one journal.

    python -m validation.campaign --folder DIR --kinds aa=50,plant2=20 --server mysql:8.0.15 --lanes 2

Started again with the same words it goes on where it stopped. The first SIGTERM (or Ctrl-C) lets the duels that run
come to their end and starts no more; the second ends them.
"""

import argparse
import contextlib
import fcntl
import math
import os
import re
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import FrameType

from pydantic import ValidationError

from bakeoff.errors import BakeoffError, HostError, ResultsError, SpecError
from bakeoff.plan.model import seed_for
from bakeoff.servers.paths import make_open_folder
from bakeoff.units import format_duration
from validation.duels import Background, Duel, Outcome, run_duel

# A journal of duels: a line each, only ever appended to: a campaign of hours can be killed and gone on with.

NAME = "duels.jsonl"


class DuelJournal:
    """Outcomes on disk; failed duels are kept too, so that nothing is left out in silence.

    Args:
        path: the file; made when missing. A last line that a kill cut off is passed over, and so is never counted.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._outcomes = list(read_outcomes(path))
        self._failures = Counter(outcome.duel.key for outcome in self._outcomes if outcome.error)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """All that are there, failed ones too, in the order of their ends."""
        with self._lock:
            return tuple(self._outcomes)

    def append(self, outcome: Outcome) -> None:
        """Keep one; it is on disk when this returns."""
        line = (outcome.model_dump_json() + "\n").encode()
        with self._lock:
            begun = self.path.exists() and not _ends_in_newline(self.path)
            with self.path.open("ab") as file:
                file.write(b"\n" + line if begun else line)
                file.flush()
                os.fsync(file.fileno())
            self._outcomes.append(outcome)
            self._failures[outcome.duel.key] += outcome.error is not None

    def finished(self) -> dict[str, Outcome]:
        """Duels with a judgement by key; of two of one key the first."""
        return first_by_key(self.outcomes)

    def failures(self, key: str) -> int:
        """How often a duel was tried in vain."""
        with self._lock:
            return self._failures[key]


def read_outcomes(path: Path) -> Iterable[Outcome]:
    """The outcomes of a journal; none when there is no such file.

    Raises:
        ResultsError: a line that is not the last is damaged.
    """
    if not path.exists():
        return
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield Outcome.model_validate_json(line)
        except ValidationError as error:
            if _cut_off(line):
                continue
            reason = error.errors()[0]["msg"]
            raise ResultsError(
                f"{path}:{number}: not a duel's outcome: {reason}.", hint="Remove the line, or use another journal."
            ) from None


def first_by_key(outcomes: Iterable[Outcome]) -> dict[str, Outcome]:
    """Those with a judgement; of two of one key the first, so that no repetition can be chosen by its result."""
    found: dict[str, Outcome] = {}
    for outcome in outcomes:
        if outcome.error is None:
            found.setdefault(outcome.duel.key, outcome)
    return found


def _cut_off(line: str) -> bool:
    """A line that a kill cut off begins like an outcome and does not end like one."""
    return line.startswith('{"format"') and not line.endswith("}")


def _ends_in_newline(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


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
"""Six epochs, as few as a verdict takes: many short duels tell more of false claims than few long ones."""


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
        kinds: how many of each: `aa`, `plantK` (K uncounted events per 100), `swap` (pairs of duels), `grid`;
            `aa@SERVER` for one server alone.
        servers: each of them gets that many of the other kinds; `swap` has servers of its own.
        seed: of the duels' own seeds and of the order.
        precision: of each duel.
        warm_up: of each duel.
        budget: of each duel but a grid.
        background: they will be run beside load of our own: kinds of their own, with `+load` in their names.

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
    elif found := re.fullmatch(r"plant(\d+(?:\.\d+)?)", kind):
        yield common.model_copy(update=same | {"plant": float(found[1])})
    elif kind == "swap":
        yield common.model_copy(update={"kind": "swap-ab", "servers": SWAP})
        yield common.model_copy(update={"kind": "swap-ba", "servers": SWAP[::-1], "seed": (common.seed + 1) % 2**31})
    elif kind == "grid":
        cells = {"workloads": GRID_WORKLOADS, "threads": GRID_THREADS, "budget": GRID_BUDGET}
        yield common.model_copy(update=same | cells)
    else:
        raise SpecError(f"--kinds: {kind!r} is unknown.", hint="Kinds are aa, plant2 (any number), swap and grid.")


class Campaign:
    """Runs planned duels that the journal does not hold yet.

    Args:
        folder: of the journal and of the runs' own folders; servers' accounts must be able to enter.
        background: run bursts of our own beside the duels.

    Attributes:
        stop: set it, and no more duels are started.
        kill: set it too, and those that run are ended and not counted.
    """

    def __init__(self, folder: Path, *, lanes: int = 1, background: bool = False, seed: int = 1) -> None:
        self.folder = make_open_folder(folder)
        self.journal = DuelJournal(folder / NAME)
        self.stop = threading.Event()
        self.kill = threading.Event()
        self._lanes = lanes
        self._background = background
        self._seed = seed

    def run(self, duels: Iterable[Duel], *, tell: Callable[[str], None] = lambda text: None) -> dict[str, Outcome]:
        """Run those that are missing; a duel that failed is tried once more.

        Returns:
            By key, the outcomes of all these duels that have a judgement.

        Raises:
            HostError: another campaign runs in this folder.
        """
        with self._alone():
            return self._run(tuple(duels), tell)

    def _run(self, asked: tuple[Duel, ...], tell: Callable[[str], None]) -> dict[str, Outcome]:
        shutil.rmtree(self.folder / "runs", ignore_errors=True)  # what a kill left
        make_open_folder(self.folder / "runs")
        finished = self.journal.finished()
        queue = [duel for duel in asked if duel.key not in finished]
        tell(f"{len(queue)} of {len(asked)} duels to run")
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
                    tell(f"{line(outcome)}; {len(queue)} left, about {format_duration(left_s)}")
        keys = {duel.key for duel in asked}
        return {key: outcome for key, outcome in self.journal.finished().items() if key in keys}

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Two campaigns in one folder would remove each other's runs; the kernel lets go when the process dies."""
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
        """So that nobody waits for minutes after a Ctrl-C."""
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
    told = outcome.only
    width = f"± {told.half_width:.2%}" if math.isfinite(told.half_width) else "without an interval"
    return (
        f"{name}: {told.mean:+.2%} {width}, {'+'.join(told.words)}, n = {len(told.points)}, "
        f"{told.stop}, {outcome.wall_s:.0f} s{machine}"
    )


def parse_kinds(text: str) -> dict[str, int]:
    """`aa=50,plant2=20`.

    Raises:
        SpecError: an entry is not KIND=NUMBER.
    """
    kinds: Counter[str] = Counter()
    for entry in text.split(","):
        kind, _, count = entry.strip().rpartition("=")
        if not kind or not count.isdigit():
            raise SpecError(f"--kinds: {entry!r} is not KIND=NUMBER.", hint="Write --kinds aa=50,plant2=20.")
        kinds[kind] += int(count)
    return dict(kinds)


def main() -> int:
    """Run a campaign from the command line."""
    parser = argparse.ArgumentParser(prog="python -m validation.campaign", description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="of the journal; servers' accounts may enter it")
    parser.add_argument(
        "--kinds",
        required=True,
        help="aa=50,plant2=20,swap=5,grid=2: of each for every server; aa@mariadb:10.11=50 for that alone",
    )
    parser.add_argument("--server", action="append", required=True, help="as on the command line; repeatable")
    parser.add_argument("--lanes", type=int, default=1, help="duels at a time")
    parser.add_argument("--background", action="store_true", help="bursts of our own load beside them")
    parser.add_argument("--precision", default="2%")
    parser.add_argument("--warm-up", default=WARM_UP)
    parser.add_argument("--budget", default=BUDGET)
    parser.add_argument("--minutes", type=float, help="start no duel after that; those that run come to their end")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    try:
        duels = planned(
            parse_kinds(asked.kinds),
            asked.server,
            seed=asked.seed,
            precision=asked.precision,
            warm_up=asked.warm_up,
            budget=asked.budget,
            background=asked.background,
        )
        campaign = Campaign(asked.folder, lanes=asked.lanes, background=asked.background, seed=asked.seed)
    except BakeoffError as error:
        parser.error(str(error))

    def end(_number: int, _frame: FrameType | None) -> None:
        if campaign.stop.is_set():
            campaign.kill.set()
        campaign.stop.set()
        print("ending when the duels that run have ended; once more to end them now", flush=True)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    if asked.minutes:
        timer = threading.Timer(60 * asked.minutes, campaign.stop.set)
        timer.daemon = True
        timer.start()
    try:
        finished = campaign.run(duels, tell=lambda text: print(time.strftime("%H:%M:%S"), text, flush=True))
    except BakeoffError as error:
        parser.error(str(error))
    return 0 if len(finished) == len(duels) else 1


if __name__ == "__main__":
    raise SystemExit(main())
