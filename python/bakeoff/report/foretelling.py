"""What a machine can resolve, in a sentence: `±1 % in about 7 minutes; ±0.3 % is out of reach`."""

import math

from bakeoff.stats.resolution import OUT_OF_REACH_S, Foretold, Resolution
from bakeoff.units import format_duration


def sentence(found: Resolution) -> str:
    """What a comparison would take here for each half-width, the widest that cannot be had last."""
    within = [each for each in found.foretold if each.seconds <= OUT_OF_REACH_S]
    beyond = [each for each in found.foretold if each.seconds > OUT_OF_REACH_S]
    # Half-widths that the fewest epochs give anyway: the narrowest of them says it all.
    quickest = [each for each in within if each.seconds == within[0].seconds]
    told = [*quickest[-1:], *within[len(quickest) :]]
    parts = [
        f"{_plus_minus(each)} in about {format_duration(each.seconds)} (at worst {_at_worst(each)})" for each in told
    ]
    if beyond:
        parts.append(f"{_plus_minus(beyond[0])} is out of reach (over {format_duration(OUT_OF_REACH_S)})")
    return f"This machine now resolves {'; '.join(parts)}." if told else f"On this machine now {parts[-1]}."


def grounds(found: Resolution, trial: str) -> str:
    """What the sentence rests on."""
    restart, within = (math.expm1(sd) for sd in (found.sd_restart, found.sd_within))
    return (
        f"From {found.epochs} restarts of two equal servers ({trial}): restart to restart {restart:.1%}, within "
        f"{found.measured_s:.0f} s of measuring {within:.1%}, {found.overhead_s:.1f} s overhead a restart."
    )


def _plus_minus(each: Foretold) -> str:
    return f"±{each.half_width:.1%}".replace(".0%", "%")


def _at_worst(each: Foretold) -> str:
    return format_duration(each.at_worst_s) if each.at_worst_s <= OUT_OF_REACH_S else "out of reach"
