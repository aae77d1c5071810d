"""Say in a sentence what explains a difference: counters, profiles and waits, as far as their intervals allow."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bakeoff.explain.costs import BUSY, NAMED_FROM, TIME, Cost, Explanation, name_of
from bakeoff.explain.off_cpu import OffCpuComparison, OffCpuCost
from bakeoff.explain.profiles import CALLER_UNKNOWN, KERNEL_OTHER, NAMELESS, OTHER, ProfileComparison, family_of
from bakeoff.explain.waits import WaitDifference
from bakeoff.stats import interval as iv
from bakeoff.stats.model import Estimate
from bakeoff.units import format_ns

_SAID_FROM = 0.1  # share of a difference from which a sentence has a part of it
_SAID_MAX = 3  # parts of the server, and waits
_TWICE = math.log(2.0)
_NO_CAUSE = frozenset({OTHER, KERNEL_OTHER, CALLER_UNKNOWN, "kernel"})  # parts of the server that name nothing
# Stages and table I/O include CPU time, so they are not counted as waits.
_NO_WAITS = ("stage/", "wait/io/table/")


@dataclass(frozen=True)
class Evidence:
    """All that is known about one comparison. What was not recorded is None."""

    costs: Explanation
    profile: ProfileComparison | None = None
    waits: Sequence[WaitDifference] | None = None
    longer_ns: float = 0.0
    off_cpu: OffCpuComparison | None = None


def causes(evidence: Evidence) -> tuple[str, ...]:
    """Name the causes, the first one first: families of counters, else parts of the server that take the CPU.

    Parts are looked at only if the whole CPU difference is clear. On equal servers that happens in at most 5 % of runs.
    """
    found, profile = evidence.costs, evidence.profile
    if found.causes or not found.claimed or profile is None:
        return tuple(cost.family for cost in found.causes)
    if profile.all.difference.mean * found.time.mean <= 0:  # the slower arm takes less CPU
        return ()
    names = (family_of(name) for name, share in _parts(profile) if share >= NAMED_FROM)
    return tuple(name for name in dict.fromkeys(names) if name not in _NO_CAUSE)


def sentence(evidence: Evidence, contender: str) -> str:
    found = evidence.costs
    said = [f"{contender} takes {_longer(found.time)} per event."]
    tested = [cost for cost in found.costs if cost.word != "not tested"]
    if tested:
        said += [_measured(tested), _counters(found.causes)]
    else:
        said.append(f"Counters are compared from {iv.N_MIN_DECISIVE} restarts on.")
    said += [_cpu(evidence.profile), _off_cpu(evidence), _waits(evidence)]
    waited = any(_wait_explains(evidence, each) for each in evidence.waits or ()) or _off_cpu_explains(evidence)
    if tested and not causes(evidence) and not waited:
        said.append("No counter explains it.")
    return " ".join(filter(None, said))


def _longer(time: Estimate) -> str:
    """Format a log ratio as `18% (13% to 23%) more time` or `12 times (9.1 to 16) the time`."""
    ends = [end for end in (time.interval.low, time.interval.high) if end is not None]
    if time.mean > _TWICE:
        within = f" ({' to '.join(_number(math.exp(end)) for end in ends)})" if ends else ""
        return f"{_number(math.exp(time.mean))} times{within} the time"
    sizes = sorted(abs(math.expm1(end)) for end in ends)
    within = f" ({' to '.join(map(_percent, sizes))})" if ends else ""
    return f"{_percent(abs(math.expm1(time.mean)))}{within} {'more' if time.mean > 0 else 'less'} time"


def _measured(costs: Sequence[Cost]) -> str:
    parts = [
        ("waiting" if cost.counter == BUSY else name_of(cost.counter), cost.explains)
        for cost in costs
        if cost.family == TIME and cost.word in ("more", "less") and not cost.counter.startswith("cpu.thread.")
        if cost.explains is not None
    ]
    text = _shares(parts)
    return f"Of the difference: {text}." if text else ""


def _counters(best: Sequence[Cost]) -> str:
    said = []
    for cost in best[:2]:
        share = cost.explains or 0.0
        part = "can explain all of it" if share > 0.995 else f"can explain up to {share:.0%} of it"
        if cost.counter.startswith("cpu."):  # time itself: its share is measured, and no bound
            part = f"explains {share:.0%} of it"
        form = format_ns if cost.counter.endswith("_ns") else _number
        counted = f"{name_of(cost.counter)} {form(cost.baseline)} → {form(cost.contender)} per event"
        said.append(f"{cost.family} {part} ({counted})")
    text = ", ".join(said)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _cpu(profile: ProfileComparison | None) -> str:
    if profile is None or not profile.all.is_clear:
        return ""
    text = f"CPU per event by samples: {_more_ns(profile.all.difference)}"
    parts = [(share, f"{name}{_function(profile, name)}") for name, share in _parts(profile)]
    most = [f"{share:.0%} of it in {part}" for share, part in parts if share >= _SAID_FROM][:_SAID_MAX]
    word = "less" if profile.all.difference.mean > 0 else "more"  # what goes against the whole
    against = [f"{-share:.0%} {word} in {part}" for share, part in parts if share <= -_SAID_FROM][-_SAID_MAX:]
    return "; ".join([", ".join([text, *most]), *([", ".join(against)] if against else [])]) + "."


def _parts(profile: ProfileComparison) -> list[tuple[str, float]]:
    if not profile.all.is_clear:
        return []
    whole = profile.all.difference.mean
    shares = [(name, part.difference.mean / whole) for name, part in profile.groups if part.is_clear]
    return sorted(shares, key=lambda each: -each[1])


def _function(profile: ProfileComparison, part: str) -> str:
    (whole,) = [cost.difference.mean for name, cost in profile.groups if name == part]
    for each in profile.functions:  # by size
        is_most = each.own.is_clear and each.own.difference.mean / whole >= NAMED_FROM
        if each.group == part and is_most and not each.name.startswith(NAMELESS):
            return f" (`{each.name}`)"
    return ""


def _off_cpu(evidence: Evidence) -> str:
    found = evidence.off_cpu
    if not found or not evidence.longer_ns or not found.all.is_clear:
        return ""
    whole = found.all.difference
    if abs(whole.mean) < _SAID_FROM * abs(evidence.longer_ns):
        return ""
    clear = [(each.time.difference.mean / whole.mean, each) for each in found.statements if each.time.is_clear]
    clear.sort(key=lambda part: -part[0])
    parts = [f"{share:.0%} of it {_waited(each)}" for share, each in clear if share >= _SAID_FROM][:_SAID_MAX]
    return ", ".join([f"Off-CPU time of statements per event: {_more_ns(whole)}", *parts]) + "."


def _more_ns(clear: Estimate) -> str:
    """Format a difference whose interval excludes 0: `1.2 µs (1 µs to 1.4 µs) more`."""
    low, high = sorted(abs(end) for end in (clear.interval.low, clear.interval.high) if end is not None)
    word = "more" if clear.mean > 0 else "less"
    return f"{format_ns(abs(clear.mean))} ({format_ns(low)} to {format_ns(high)}) {word}"


def _off_cpu_explains(evidence: Evidence) -> bool:
    found = evidence.off_cpu
    if not found or not evidence.longer_ns or not found.all.is_clear:
        return False
    shares = [each.time.difference.mean / evidence.longer_ns for each in found.statements if each.time.is_clear]
    return any(share >= NAMED_FROM for share in shares)


def _waited(each: OffCpuCost) -> str:
    if not each.waiting.way:
        return f"with {each.waiting.part}"
    function = f" (`{each.function}`)" if each.function else ""
    return f"in {each.waiting.part}: {each.waiting.way}{function}"


def _waits(evidence: Evidence) -> str:
    waits = [each for each in evidence.waits or () if _is_wait(each)]
    if evidence.waits is None or not evidence.longer_ns:
        return ""
    least = _SAID_FROM * abs(evidence.longer_ns)
    differ = [each for each in waits if each.differs and abs(each.difference.mean) >= least]
    if differ:
        listed = (
            f"`{each.name}` {format_ns(round(each.baseline))} → {format_ns(round(each.contender))}"
            for each in differ[:_SAID_MAX]
        )
        return f"Waits per event: {', '.join(listed)}."
    # Stages count as known, too: waits that are shorter than is compared are not listed, and then stages can be alone.
    known = [each for each in evidence.waits if each.difference.interval.low is not None]
    ends = [end for each in waits for end in (each.difference.interval.low, each.difference.interval.high)]
    if known and all(end is not None and abs(end) < NAMED_FROM * abs(evidence.longer_ns) for end in ends):
        return f"No wait changes by as much as {NAMED_FROM:.0%} of it."
    return ""


def _is_wait(each: WaitDifference) -> bool:
    return not each.name.startswith(_NO_WAITS)


def _wait_explains(evidence: Evidence, each: WaitDifference) -> bool:
    if not _is_wait(each) or not each.differs or not evidence.longer_ns:
        return False
    return each.grows == (evidence.longer_ns > 0) and each.difference.mean / evidence.longer_ns >= NAMED_FROM


def _shares(parts: Sequence[tuple[str, float]]) -> str:
    for_it = [f"{name} {share:.0%}" for name, share in parts if share >= _SAID_FROM]
    against = [f"{name} {-share:.0%}" for name, share in parts if share <= -_SAID_FROM]
    if not for_it:
        return ""
    return ", ".join(for_it) + (f"; against it {', '.join(against)}" if against else "")


def _percent(share: float) -> str:
    return f"{_number(100 * share)}%"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
