"""The ways in use against bakeoff, on recorded traces: `python -m validation.procedures_replayed`, half a minute.

Every way has the same wall time and judges the same pair: two servers of the same kind, the contender slowed by a
known amount. A serial run draws a start (its level) and takes the machine as it was recorded, from a random moment on;
the next run follows in the next moments, as time goes by. A recorded start stands for the wall time that an epoch
takes. A recording lasts some ten minutes, so the serial ways' rates are those of a few independent stretches of it.
bakeoff's runs are those of the size `replay`: `validation.machines` says why that is sound.
"""

import argparse
import math
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from validation import traces
from validation.machines import EPOCH_S, OVERHEAD_S, Moments, Recorded, moments
from validation.procedures import Judgement, Procedure, judge_serial, serial
from validation.procedures_measured import INJECTED, Asked, table
from validation.replay_checks import epochs_in
from validation.replay_runs import Question, single_runs

WALL_S = 240.0
"""Of each judgement."""

_PRECISION = 0.01


def replayed(machine: Recorded, *, repeats: int, seed: int) -> list[Asked]:
    """Judgements of every way and every injected slowdown."""
    said = []
    for plant in INJECTED:
        effect = -math.log1p(plant / 100)
        for way in Procedure:
            own = (seed, zlib.crc32(f"{machine}/{way}/{plant}".encode()))
            judged = (
                _by_bakeoff(machine, effect, repeats=repeats, seed=own)
                if way is Procedure.BAKEOFF
                else by_serial(way, moments(machine.name), effect, repeats=repeats, seed=own)
            )
            said += [Asked(way, plant, judgement) for judgement in judged]
    return said


def by_serial(
    way: Procedure, recorded: Moments, effect: float, *, repeats: int, seed: Sequence[int]
) -> list[Judgement]:
    """What a serial way says, `repeats` times."""
    rng = np.random.default_rng(seed)
    order = serial(way, wall_s=WALL_S, overhead_s=0.0).order
    starts, moments_of_start = recorded.seconds.shape
    length = round(WALL_S / len(order) / (EPOCH_S + OVERHEAD_S) * moments_of_start)  # moments of a run
    per_s = recorded.events.ravel(), recorded.seconds.ravel()
    said = []
    for _ in range(repeats):
        levels = recorded.levels[rng.permutation(starts)[: len(order)]]
        begin = int(rng.integers(per_s[0].size))
        tps: dict[str, list[float]] = {"A": [], "B": []}
        for place, arm in enumerate(order):
            events, seconds = (
                np.take(each, np.arange(begin + place * length, begin + (place + 1) * length), mode="wrap").sum()
                for each in per_s
            )
            tps[arm].append(float(events / seconds * np.exp(levels[place] + (effect if arm == "B" else 0.0))))
        said.append(judge_serial(way, tps["A"], tps["B"]))
    return said


def _by_bakeoff(machine: Recorded, effect: float, *, repeats: int, seed: Sequence[int]) -> list[Judgement]:
    question = Question(precision=_PRECISION, epochs_max=epochs_in(WALL_S / 60), effect=effect)
    ends = single_runs(machine, question, runs=repeats, seed=seed)
    return [Judgement((end.low + end.high) / 2, end.claim, end.half_width) for end in ends]


def main() -> int:
    """Print a table for each set of traces."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", default=traces.names(), help="sets that ship, or paths of .npz files")
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for name in options.traces:
        machine = Recorded(name)
        path = Path(name) if name.endswith(".npz") else traces.SHIPPED / f"{name}.npz"
        origin = traces.read(path).origin
        print(f"{machine} ({origin.server}, {origin.machine}, others use {origin.load:.0%}; {WALL_S:.0f} s each):\n")
        print(table(replayed(machine, repeats=options.repeats, seed=options.seed)), "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
