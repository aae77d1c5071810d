"""G3, G5, G8, G16: what is there is found, with its size and its sign, again and again."""

import math
from dataclasses import replace
from itertools import combinations

from bakeoff.gauntlet.model import Check, Finding, Setting, Size
from bakeoff.gauntlet.replay.judged import Bias, Count, bias_of, finding, scaled, seed_of
from bakeoff.gauntlet.replay.machines import EPOCH_S, OVERHEAD_S, Machine, Simulated, recorded_sets
from bakeoff.gauntlet.replay.method import SOUND, Method
from bakeoff.gauntlet.replay.runs import End, Question, single_runs

_COVERAGE = 0.93
_PRECISION = 0.01
_TRACES_MIN = 4.0  # minutes on a crowded machine, which reaches no such target in ten either
_WRONG_SIGNS_UNRESOLVED = 0.025
_ABOUT_ZERO = 0.005  # a quarter of what the stalls cost


def slowed_by(percent: float) -> float:
    """Log effect of that many uncounted events for every 100 counted ones."""
    return math.log(100 / (100 + percent))


def epochs_in(minutes: float) -> int:
    """How many epochs fit into so much wall time."""
    return int(minutes * 60 / (EPOCH_S + OVERHEAD_S))


def planted(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """G3: 1, 2, 5 and 10 % on a cloud-class machine and on every set of traces."""
    held, right, wrong = [], [], []
    machines: list[Machine] = [Simulated("cloud"), *recorded_sets()]
    for machine in machines:
        cloud = isinstance(machine, Simulated)
        opposite = runs = 0
        for percent, minutes, claimed in ((1, 10.0, None), (2, 10.0, 0.9), (5, 5.0, 0.99), (10, 5.0, 0.99)):
            truth = slowed_by(percent)
            ends = single_runs(
                machine,
                Question(precision=_PRECISION, epochs_max=epochs_in(minutes if cloud else _TRACES_MIN), effect=truth),
                runs=scaled(300, scale),
                seed=seed_of(setting, "G3", machine, percent),
                method=method,
            )
            name = f"{percent}%, {'cloud' if cloud else machine}"
            found = sum(end.claim < 0 for end in ends)
            held.append(Count(f"held {name}:", sum(end.holds(truth) for end in ends), len(ends), at_least=_COVERAGE))
            right.append(Count(f"claimed {name}:", found, len(ends), at_least=claimed if cloud else None))
            opposite += sum(end.claim > 0 for end in ends)
            runs += len(ends)
        # Where the interval is many times the effect, an effect is hardly anything else than none: half of its false
        # claims have the wrong sign.
        limit = 0.0 if cloud else _WRONG_SIGNS_UNRESOLVED
        wrong.append(Count(f"wrong signs, {'cloud' if cloud else machine}:", opposite, runs, at_most=limit))
    all_of_them = finding([*held, *right, *wrong])
    least = min(held, key=lambda count: count.hits / count.runs)
    broken = [count for count in (*held, *right, *wrong) if not count.kept]
    told = [f"least often {least}", *right[:4], *wrong, *(["not kept:", *broken] if broken else [])]
    return replace(all_of_them, found="; ".join(map(str, told)))


def swapped(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """G5: B over A and A over B say the same."""
    counts = []
    machines: list[Machine] = [Simulated("cloud"), *recorded_sets()]
    for machine in machines:
        there, back = (
            single_runs(
                machine,
                Question(effect=effect),
                runs=scaled(300, scale),
                seed=seed_of(setting, "G5", machine, effect),
                method=method,
            )
            for effect in (slowed_by(3), -slowed_by(3))
        )
        agree = sum(
            abs(one.mean + other.mean) <= math.hypot(one.half_width, other.half_width)
            for one, other in zip(there, back, strict=True)
        )
        counts.append(Count(f"{machine}: opposite within both intervals", agree, len(there), at_least=_COVERAGE))
    return finding(counts)


def stalls(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """G8: one arm stands still for 20 ms of each second."""
    truth = math.log(0.98)
    question = Question(precision=0.002, epochs_max=8)
    stalled, calm = (
        single_runs(
            Simulated("calm", stalls=with_them),
            question,
            runs=scaled(300, scale),
            seed=seed_of(setting, "G8", with_them),
            method=method,
        )
        for with_them in (True, False)
    )
    results: list[Count | Bias] = [
        Count("-2% held", sum(end.holds(truth) for end in stalled), len(stalled), at_least=_COVERAGE),
        bias_of("trimmed", [end.trimmed for end in stalled], truth=0.0, at_most=_ABOUT_ZERO),
        Count("DISAGREE", sum(end.disagree for end in stalled), len(stalled), at_least=0.95),
        Count("DISAGREE without stalls", sum(end.disagree for end in calm), len(calm), at_most=0.05),
    ]
    return finding(results)


def repeated(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """G16: 20 repeats of one question, in hours that are calm, busy and crowded."""
    truth = slowed_by(2)
    hours: list[Machine] = [Simulated("quiet"), Simulated("cloud"), Simulated("loaded"), *recorded_sets()]
    groups = scaled(40, scale)
    by_hour = [
        single_runs(
            hour,
            Question(effect=truth),
            runs=groups * -(-20 // len(hours)),
            seed=seed_of(setting, "G16", hour),
            method=method,
        )
        for hour in hours
    ]
    together = [end for ends in zip(*by_hour, strict=True) for end in ends]
    agree = pairs = apart = 0
    for begin in range(0, 20 * groups, 20):
        repeats = together[begin : begin + 20]
        agree += sum(_agree(one, other) for one, other in combinations(repeats, 2))
        pairs += math.comb(len(repeats), 2)
        apart += sum(_agree(one, other) for one, other in zip(repeats[::2], repeats[1::2], strict=True))
    counts = [
        Count("disjoint pairs agree:", apart, 10 * groups, at_least=_COVERAGE),
        Count("all pairs agree:", agree, pairs),
    ]
    return finding(counts)


def _agree(one: End, other: End) -> bool:
    return abs(one.mean - other.mean) <= math.hypot(one.half_width, other.half_width)


_REPLAY = frozenset({Size.REPLAY})
CHECKS = (
    Check(
        "G3",
        "1, 2, 5 and 10% slower",
        "held >= 93%; cloud-class: claimed 2% >= 90% in 10 min, 5% >= 99% in 5 min, wrong signs 0; elsewhere <= 2.5%",
        _REPLAY,
        planted,
    ),
    Check("G5", "B over A, and A over B", "opposite within both intervals in >= 93%", _REPLAY, swapped),
    Check(
        "G8",
        "one arm stalls for 2% of its time",
        "primary holds -2%, trimmed about 0 (within 0.5%), DISAGREE >= 95%",
        _REPLAY,
        stalls,
    ),
    Check("G16", "20 repeats in different hours", "pairs within both intervals in >= 93%", _REPLAY, repeated),
)
