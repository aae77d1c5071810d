"""Simulated duels: epochs drawn from a known distribution, judged by the real rule or by a wrong one."""

import random
from datetime import UTC, datetime

from bakeoff.stats import interval as iv
from bakeoff.stats.interval import around
from bakeoff.stats.model import Stop, Word
from bakeoff.units import parse_precision
from validation.duels import Judgement, Outcome
from validation.simulation import run_to_end

NATURAL = 0.01  # log ratio between the two servers of a label swap


def honest(points, precision):
    """Half-width and whether a claim may be made, by the rule."""
    if len(points) < iv.N_MIN_DECISIVE:
        return iv.precision_half_width(iv.standard_deviation(points), len(points)), False
    end = run_to_end(points, precision=precision)
    return (end.interval.high - end.interval.low) / 2, end.claimed


def too_narrow(points, precision):
    """Like an interval computed from the requests or slices of one start, which ignores restarts."""
    half, _ = honest(points, precision)
    return half / 8, abs(sum(points) / len(points)) > half / 8


def simulated_duel(judge=honest, *, spread=0.02, bias=0.0, epochs=7, seed=1):
    """A `run_duel` whose epochs are normal around the truth and a bias."""
    generator = random.Random(seed)

    def run(duel, folder, *, background=False):
        truth = duel.truth
        if truth is None:
            truth = NATURAL if duel.kind.startswith("swap-ab") else -NATURAL
        cells = [f"{workload}/{threads}" for workload in duel.workloads for threads in duel.threads]
        judgements = []
        for cell in cells:
            points = [generator.gauss(truth + bias, spread) for _ in range(epochs)]
            half, claimed = judge(points, parse_precision(duel.precision))
            mean = sum(points) / len(points)
            word = (Word.FASTER if mean > 0 else Word.SLOWER) if claimed and len(cells) == 1 else Word.INCONCLUSIVE
            judgements.append(
                Judgement(
                    cell=cell,
                    mean=mean,
                    low=mean - half,
                    high=mean + half,
                    live=around(mean, iv.anytime_half_width(iv.standard_deviation(points), epochs, alpha=0.05)),
                    words=(word,),
                    stop=Stop.BUDGET,
                    points=tuple(points),
                    flags=(),
                )
            )
        return Outcome(
            duel=duel,
            judgements=tuple(judgements),
            started_at=datetime.now(UTC),
            wall_s=100.0,
            measured_s=14.0,
            other_share=0.02,
            background=background,
        )

    return run
