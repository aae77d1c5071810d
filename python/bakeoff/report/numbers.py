"""Numbers as text: as many digits as the interval supports."""

import math
from collections.abc import Callable, Iterable

from bakeoff.stats.model import Estimate, Interval
from bakeoff.stats.resolution import OUT_OF_REACH_S, Resolution, TimeNeeded
from bakeoff.units import format_duration, format_ns, interval_texts, ratio_decimals

Form = Callable[[float], str]
Floats = Iterable[float]

MINUS = "−"


def ratio(log_ratio: float, half_width: float | None = None) -> str:
    """`0.888×` from a log ratio."""
    return f"{math.exp(log_ratio):.{ratio_decimals(log_ratio, half_width)}f}×"


def ratio_of(estimate: Estimate) -> str:
    return ratio(estimate.mean, estimate.interval.half_width) if estimate.n else "n/a"


def ratio_fields(of: Estimate) -> dict[str, float | None]:
    """Ratio and ends of its interval, unrounded, for programs."""
    ends = of.mean if of.n else None, of.interval.low, of.interval.high
    names = ("ratio", "ratio_low", "ratio_high")
    return {name: None if end is None else math.exp(end) for name, end in zip(names, ends, strict=True)}


def interval(of: Interval) -> str:
    """`0.880 to 0.896`, or "" without an interval."""
    if of.low is None or of.high is None:
        return ""
    return " to ".join(interval_texts(of.low, of.high))


def size(log_ratio: float, half_width: float | None = None) -> str:
    """`11.2%`: a change without its sign, from a log ratio."""
    return f"{abs(math.expm1(log_ratio) * 100):.{percent_decimals(log_ratio, half_width)}f}%"


def change(log_ratio: float, half_width: float | None = None) -> str:
    """`−11.2%` from a log ratio."""
    text = size(log_ratio, half_width)
    if float(text[:-1]) == 0:
        return text
    return ("+" if log_ratio > 0 else MINUS) + text


def change_interval(of: Interval) -> str:
    """`−12.0% to −10.4%`, rounded outwards, or "" without an interval."""
    if of.low is None or of.high is None:
        return ""
    ends = interval_texts(of.low, of.high)
    digits = max(0, len(ends[0].partition(".")[2]) - 2)
    texts = (f"{(float(end) - 1) * 100:+.{digits}f}%".replace("-", MINUS) for end in ends)
    return " to ".join(text.lstrip("+" + MINUS) if float(text[1:-1]) == 0 else text for text in texts)


def percent_decimals(log_ratio: float, half_width: float | None) -> int:
    return max(0, ratio_decimals(log_ratio, half_width) - 2)


def estimate_short(of: Estimate) -> str:
    """`1.08× [1.05, 1.11]`."""
    text = ratio(of.mean, of.interval.half_width)
    if of.interval.low is None or of.interval.high is None:
        return text
    return f"{text} [{', '.join(interval_texts(of.interval.low, of.interval.high))}]"


def plain_ratio(contender: float | None, baseline: float | None) -> str:
    """`1.12×`; "" if either value is missing or the baseline is 0."""
    if contender is None or baseline is None or baseline <= 0:
        return ""
    found = contender / baseline
    return f"{found:.2g}×" if 0 < found < 0.1 else f"{found:.2f}×"


def count(value: float) -> str:
    """A count per operation: `2.01`, `14.5`, `1,204`."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def share(value: float) -> str:
    """`62%`, `0.4%`."""
    if not math.isfinite(value):
        return "n/a"
    percent = value * 100
    return f"{percent:.0f}%" if percent >= 10 or percent == 0 else f"{percent:.1f}%"


def percent(value: float) -> str:
    """`62%`, `−4%` of a share that may be negative."""
    text = f"{abs(value):.0%}"
    return text if value >= 0 or text == "0%" else MINUS + text


def of_event(ns: float) -> str:
    """`37 ns`, `1.2 µs`."""
    return format_ns(round(ns)) if abs(ns) >= 1 else "0 ns"


def signed(value: float, form: Form) -> str:
    """`+1.2 µs`, `−3.1`."""
    text = form(abs(value))
    if text.partition(" ")[0] == "0":
        return text
    return ("+" if value > 0 else MINUS) + text


def signed_interval(of: Interval, form: Form) -> str:
    """`−1.2 µs to +3.4 µs`, or "" without an interval."""
    if of.low is None or of.high is None:
        return ""
    return f"{signed(of.low, form)} to {signed(of.high, form)}"


def restarts(n: int) -> str:
    return counted(n, "restart")


def threads(n: int) -> str:
    return counted(n, "thread")


def counted(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def rounded(values: Floats) -> tuple[float, ...]:
    """Round to five significant digits, more than a chart can show."""
    return tuple(float(f"{value:.5g}") for value in values)


# What a machine can resolve.


def resolution(found: Resolution) -> str:
    """`This machine now resolves ±1% in about 7 min (at worst 12 min); ±0.3% is out of reach`."""
    within = [each for each in found.forecast if each.seconds <= OUT_OF_REACH_S]
    beyond = [each for each in found.forecast if each.seconds > OUT_OF_REACH_S]
    # If several half-widths take the same shortest time, show the narrowest.
    quickest = [each for each in within if each.seconds == within[0].seconds]
    shown = [*quickest[-1:], *within[len(quickest) :]]
    parts = [
        f"{_plus_minus(each)} in about {format_duration(each.seconds)} (at worst {_at_worst(each)})" for each in shown
    ]
    if beyond:
        parts.append(f"{_plus_minus(beyond[0])} is out of reach (over {format_duration(OUT_OF_REACH_S)})")
    return f"This machine now resolves {'; '.join(parts)}." if shown else f"On this machine now {parts[-1]}."


def resolution_basis(found: Resolution, test_run: str) -> str:
    restart, within = (math.expm1(sd) for sd in (found.sd_restart, found.sd_within))
    return (
        f"From {found.epochs} restarts of two equal servers ({test_run}): restart to restart {restart:.1%}, within "
        f"{found.measured_s:.0f} s of measuring {within:.1%}, {found.overhead_s:.1f} s overhead a restart."
    )


def _plus_minus(each: TimeNeeded) -> str:
    return f"±{each.half_width:.1%}".replace(".0%", "%")


def _at_worst(each: TimeNeeded) -> str:
    return format_duration(each.at_worst_s) if each.at_worst_s <= OUT_OF_REACH_S else "out of reach"
