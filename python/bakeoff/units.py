"""Parse and format numbers with units: durations, per cent, bytes, latencies, rates.

Inside bakeoff, effects are natural-log ratios and times are integers of nanoseconds.
"""

import math
import re

from bakeoff.errors import SpecError

_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION_MAX_S = 366 * 86400.0
_BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
"""A number without a unit, as options of scripts are written."""


def parse_duration_s(text: str) -> float:
    """Parse `90s`, `4m`, `1h30m`, `1 min 30 s`, `250ms` or bare seconds, above zero and up to a year."""
    plain = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", plain):
        seconds = float(plain)
    elif plain and not _DURATION_PART.sub("", plain).strip():
        seconds = sum(float(n) * _SECONDS[unit] for n, unit in _DURATION_PART.findall(plain))
    else:
        raise SpecError(f"{text!r} is not a duration.", hint="Write 90s, 4m or 1h30m.")
    if seconds <= 0:
        raise SpecError(f"{text!r} is not above zero.", hint="Write 90s, 4m or 1h30m.")
    if seconds > _DURATION_MAX_S:
        raise SpecError(f"{text[:40]!r} is longer than a year.", hint="Write 90s, 4m or 1h30m.")
    return seconds


def parse_precision(text: str) -> float:
    """Parse a half-width from 0.05 % to 50 % (`1%`, `0.01`) into natural-log units: `1%` is ln 1.01."""
    share = parse_percent(text)
    if not 0.0005 <= share <= 0.5:
        hint = f"Did you mean {text.strip()}%?" if 0.5 < share <= 50 and "%" not in text else "1% is the usual target."
        raise SpecError(f"{text!r} is outside 0.05% to 50%.", hint=hint)
    return math.log1p(share)


def parse_percent(text: str) -> float:
    """Parse `1%`, `0.5 %` or `0.01` into a share of 1."""
    plain = text.strip().replace(" ", "")
    try:
        return float(plain[:-1]) / 100 if plain.endswith("%") else float(plain)
    except ValueError:
        raise SpecError(f"{text!r} is not a percentage.", hint="Write 1% or 0.5%.") from None


def parse_rows(text: str) -> int:
    """Parse `20000`, `100k` or `10m` rows; k and m are 1,000 and 1,000,000."""
    found = re.fullmatch(r"(\d[\d_,]{0,15})([km]?)", text.strip().lower())
    count = int(found[1].replace(",", "").replace("_", "")) if found else 0
    if not found or count < 1:
        raise SpecError(f"{text[:40]!r} is not a number of rows.", hint="Write 20000, 100k or 10m.")
    return count * {"": 1, "k": 1_000, "m": 1_000_000}[found[2]]


def parse_bytes(text: str) -> int:
    """Parse `128M`, `2g` or `4096` in powers of 1024, as mysqld does."""
    found = re.fullmatch(r"(\d{1,15})([kmgt]?)(?:i?b)?", text.strip().lower())
    if not found:
        raise SpecError(f"size {text!r} is not understood.", hint="Write 128M or 2G.")
    return int(found[1]) * _BYTES[found[2]]


def parse_scaled(text: str) -> float | None:
    """Parse a number in a script's option as the engine does (`1M` is 1,048,576), or return None."""
    text = text.strip()
    scale = _BYTES.get(text[-1:].lower(), 1)
    digits = text if scale == 1 else text[:-1].rstrip()
    return float(digits) * scale if NUMBER.fullmatch(digits) else None


def format_bytes(count: float) -> str:
    value = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(value) < 1000 or unit == "TB":
            whole = abs(value) >= 100 or (unit == "B" and not 0 < abs(value) < 1)
            return f"{value:.0f} {unit}" if whole else f"{value:.3g} {unit}"
        value /= 1000
    raise AssertionError("unreachable")


def format_duration(seconds: float) -> str:
    """Format as `45 s`, `3 min 20 s` or `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        minutes, rest = divmod(whole, 60)
        return f"{minutes} min" + (f" {rest} s" if rest else "")
    hours, rest = divmod(whole, 3600)
    return f"{hours} h" + (f" {rest // 60} min" if rest >= 60 else "")


def format_ns(nanoseconds: float) -> str:
    """Format a latency: `870 ns`, `46.2 µs`, `1.35 ms`, `2.10 s`."""
    for limit, unit in ((1e3, "ns"), (1e6, "µs"), (1e9, "ms")):
        if abs(nanoseconds) < 0.9995 * limit:  # from there on three digits round to 1000
            return f"{nanoseconds / (limit / 1e3):.3g} {unit}"
    seconds = nanoseconds / 1e9
    return f"{seconds:.3g} s" if abs(seconds) < 999.5 else f"{seconds:.0f} s"


def format_rate(per_second: float) -> str:
    """Format a throughput: `165,400`, `458`, `12.5`."""
    return f"{per_second:,.0f}" if abs(per_second) >= 100 else f"{per_second:.3g}"


_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """Escape control characters, and characters that hide or reverse text, in someone else's text."""
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def shortened(text: str, limit: int) -> str:
    """Return the text as one line of at most `limit` characters."""
    plain = " ".join(text.split())
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


def decimals_for(half_width: float) -> int:
    """Return the decimals that show the first digit of a half-width, 0 to 5."""
    if not math.isfinite(half_width) or half_width <= 0:
        return 3 if half_width != 0 else 5
    return min(max(-math.floor(math.log10(half_width)), 0), 5)


def ratio_decimals(mean: float, half_width: float | None) -> int:
    """Return the decimals of a ratio and the ends of its interval; 2 without an interval.

    They make the half-width at least two units of the last digit, so that rounding outwards widens little.
    """
    return 2 if half_width is None else max(1, decimals_for(math.exp(mean) * math.sinh(half_width) / 2))


def interval_texts(low: float, high: float) -> tuple[str, str]:
    """Format the ends of an interval of log ratios as ratios, rounded outwards.

    An end that is not 1 has the digits that show it: an interval that excludes 1 never seems to touch it.
    """
    fewest = ratio_decimals((low + high) / 2, (high - low) / 2)
    for digits in range(fewest, 7):
        scale = 10**digits
        bottom, top = math.floor(math.exp(low) * scale + 1e-9) / scale, math.ceil(math.exp(high) * scale - 1e-9) / scale
        if (bottom > 1 or low <= 0) and (top < 1 or high >= 0):
            break
    return f"{bottom:.{digits}f}", f"{top:.{digits}f}"


def ratio_text(mean: float, low: float | None, high: float | None) -> str:
    """Format log ratios as `0.910 (0.905 to 0.914)`."""
    if low is None or high is None:
        return f"{math.exp(mean):.2f} (no interval yet)"
    bottom, top = interval_texts(low, high)
    return f"{math.exp(mean):.{ratio_decimals(mean, (high - low) / 2)}f} ({bottom} to {top})"


def at_least_text(log_ratio: float, half_width: float) -> str:
    """Format the size of an effect as `8.7%`, rounded down so that 'at least' stays true."""
    percent = abs(math.expm1(log_ratio)) * 100
    fewest = decimals_for(half_width * 100)
    for digits in range(fewest, max(fewest, 4) + 1):
        rounded = math.floor(percent * 10**digits + 1e-9) / 10**digits
        if rounded > 0:
            return f"{rounded:.{digits}f}%"
    return "a trace"


def percent_text(log_ratio: float) -> str:
    """Format a half-width or margin as `1%` or `1.4%`, without a sign."""
    percent = abs(math.expm1(log_ratio)) * 100
    return f"{percent:.0f}%" if percent >= 99.5 else f"{percent:.2g}%"
