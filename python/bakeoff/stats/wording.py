"""Numbers in sentences: rounded to what their interval supports, and never so that a claim grows by rounding."""

import math


def decimals_for(half_width: float) -> int:
    """Decimals at which a value with that uncertainty is told: those of the half-width's first digit; 0 to 5."""
    if not math.isfinite(half_width) or half_width <= 0:
        return 3 if half_width != 0 else 5
    return min(max(-math.floor(math.log10(half_width)), 0), 5)


def ratio_decimals(mean: float, half_width: float | None) -> int:
    """Decimals of the ratio of a log mean and of its interval's ends; 2 without an interval.

    As many as make the half-width at least two units of the last one, and one at least: rounding outwards then widens
    little, and no ratio is told as 0.
    """
    return 2 if half_width is None else max(1, decimals_for(math.exp(mean) * math.sinh(half_width) / 2))


def interval_texts(low: float, high: float) -> tuple[str, str]:
    """The ends of an interval of log ratios as ratios, rounded outwards: `0.905`, `0.914`."""
    digits = ratio_decimals((low + high) / 2, (high - low) / 2)
    scale = 10**digits
    bottom, top = math.floor(math.exp(low) * scale + 1e-9) / scale, math.ceil(math.exp(high) * scale - 1e-9) / scale
    return f"{bottom:.{digits}f}", f"{top:.{digits}f}"


def ratio_text(mean: float, low: float | None, high: float | None) -> str:
    """`0.910 (0.905 to 0.914)` from log ratios; the ends are rounded outwards."""
    if low is None or high is None:
        return f"{math.exp(mean):.2f} (no interval yet)"
    bottom, top = interval_texts(low, high)
    return f"{math.exp(mean):.{ratio_decimals(mean, (high - low) / 2)}f} ({bottom} to {top})"


def at_least_text(log_ratio: float, half_width: float) -> str:
    """`8.7%`: the size of an effect rounded down, so that 'at least' stays true; more digits when all would be 0."""
    percent = abs(math.expm1(log_ratio)) * 100
    digits = decimals_for(half_width * 100)
    while True:
        rounded = math.floor(percent * 10**digits + 1e-9) / 10**digits
        if rounded > 0 or digits >= 4:
            break
        digits += 1
    return f"{rounded:.{digits}f}%" if rounded > 0 else "a trace"


def percent_text(log_ratio: float, *, digits: int = 2) -> str:
    """`1%`, `1.4%`: size of a half-width or margin, without a sign."""
    percent = abs(math.expm1(log_ratio)) * 100
    return f"{percent:.0f}%" if percent >= 99.5 else f"{percent:.{digits}g}%"
