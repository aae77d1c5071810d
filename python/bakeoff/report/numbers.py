"""How numbers read in a report: as many digits as the interval supports, and no more."""

import math

from bakeoff.stats.model import Estimate, Interval

MINUS = "−"


def ratio_digits(half_width: float | None) -> int:
    """Decimals of a ratio such that its half-width is at least two units of the last one; 2 to 4."""
    if half_width is None or half_width <= 0:
        return 2
    for digits in (2, 3):
        if half_width * 10**digits >= 2:
            return digits
    return 4 if half_width * 1000 < 1 else 3


def ratio(log_ratio: float, half_width: float | None = None) -> str:
    """`0.888×` from a log ratio."""
    value = math.exp(log_ratio)
    return f"{value:.{ratio_digits(half_width)}f}×"


def interval(of: Interval) -> str:
    """`0.880 to 0.896`, or nothing while there is no interval."""
    if of.low is None or of.high is None:
        return ""
    digits = ratio_digits(of.half_width)
    return f"{math.exp(of.low):.{digits}f} to {math.exp(of.high):.{digits}f}"


def change(log_ratio: float, half_width: float | None = None) -> str:
    """`−11.2%` from a log ratio."""
    digits = max(0, ratio_digits(half_width) - 2)
    percent = math.expm1(log_ratio) * 100
    text = f"{abs(percent):.{digits}f}%"
    if float(text[:-1]) == 0:
        return text
    return ("+" if percent > 0 else MINUS) + text


def estimate_short(of: Estimate) -> str:
    """`1.08× [1.05, 1.11]`."""
    text = ratio(of.mean, of.interval.half_width)
    if of.interval.low is None or of.interval.high is None:
        return text
    digits = ratio_digits(of.interval.half_width)
    return f"{text} [{math.exp(of.interval.low):.{digits}f}, {math.exp(of.interval.high):.{digits}f}]"


def plain_ratio(contender: float | None, baseline: float | None) -> str:
    """`1.12×` of two values; nothing when there is no sense in it."""
    if contender is None or baseline is None or baseline <= 0:
        return ""
    return f"{contender / baseline:.2f}×"


def count(value: float) -> str:
    """A count per operation: `2.01`, `14.5`, `1,204`."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def share(value: float) -> str:
    """`62%`, `0.4%`."""
    percent = value * 100
    return f"{percent:.0f}%" if percent >= 10 or percent == 0 else f"{percent:.1f}%"


def epochs(n: int) -> str:
    """`1 restart`, `8 restarts`."""
    return f"{n} restart" if n == 1 else f"{n} restarts"
