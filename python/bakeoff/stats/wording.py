"""Numbers in sentences: rounded to what their interval supports, and never so that a claim grows by rounding."""

import math


def decimals_for(half_width: float) -> int:
    """Decimals at which a value with that uncertainty is told: those of the half-width's first digit; 0 to 5."""
    if not math.isfinite(half_width) or half_width <= 0:
        return 3 if half_width != 0 else 5
    return min(max(-math.floor(math.log10(half_width)), 0), 5)


def ratio_text(mean: float, low: float | None, high: float | None) -> str:
    """`0.910 (0.905 to 0.914)` from log ratios; the ends are rounded outwards."""
    ratio = math.exp(mean)
    if low is None or high is None:
        return f"{ratio:.2f} (no interval yet)"
    bottom, top = math.exp(low), math.exp(high)
    digits = decimals_for((top - bottom) / 2)
    scale = 10**digits
    bottom, top = math.floor(bottom * scale + 1e-9) / scale, math.ceil(top * scale - 1e-9) / scale
    return f"{ratio:.{digits}f} ({bottom:.{digits}f} to {top:.{digits}f})"


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
    return f"{abs(math.expm1(log_ratio)) * 100:.{digits}g}%"
