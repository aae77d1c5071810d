"""Say what explains a difference: what was declared, plans, profiles, counters and waits, as far as intervals allow."""

from collections.abc import Sequence
from dataclasses import dataclass

from bakeoff.explain.costs import BUSY, NAMED_FROM, TIME, Cost, Explanation, name_of
from bakeoff.explain.off_cpu import OffCpuComparison, OffCpuCost
from bakeoff.explain.profiles import CALLER_UNKNOWN, KERNEL_OTHER, NAMELESS, OTHER, ProfileComparison, family_of
from bakeoff.explain.waits import WaitDifference
from bakeoff.stats import interval as iv
from bakeoff.stats.model import Estimate
from bakeoff.units import format_ns

_SAID_FROM = 0.1  # share of a difference from which a part is mentioned
_SAID_MAX = 3  # parts of the server, and waits
_FUNCTIONS_MAX = 2  # of one part
_NO_CAUSE = frozenset({OTHER, KERNEL_OTHER, CALLER_UNKNOWN, "kernel"})  # parts of the server that name nothing
# Stages and table I/O include CPU time, so they are not counted as waits.
_NO_WAITS = ("stage/", "wait/io/table/")


@dataclass(frozen=True)
class Evidence:
    """All that is known about one comparison. What was not recorded is None.

    Attributes:
        declared: the one declared setting in which the arms differ; empty if there are several, or only the version.
        plans: statements with another plan, and all whose plans were compared.
        cpu_ratio: the contender's server CPU per event over the baseline's, measured without the profiler.
    """

    costs: Explanation
    profile: ProfileComparison | None = None
    waits: Sequence[WaitDifference] | None = None
    longer_ns: float = 0.0
    off_cpu: OffCpuComparison | None = None
    plans: tuple[int, int] = (0, 0)
    declared: str = ""
    cpu_ratio: float | None = None


def causes(evidence: Evidence) -> tuple[str, ...]:
    """Name the causes in order: families of counters, else parts of the server that take the CPU.

    Parts are looked at only if the whole CPU difference is clear. On equal servers that happens in at most 5 % of runs.
    """
    found, profile = evidence.costs, evidence.profile
    if found.causes or not found.claimed or profile is None:
        return tuple(cost.family for cost in found.causes)
    if profile.all.difference.mean * found.time.mean <= 0:  # the slower arm takes less CPU
        return ()
    names = (family_of(name) for name, share in _parts(profile) if share >= NAMED_FROM)
    return tuple(name for name in dict.fromkeys(names) if name not in _NO_CAUSE)


def why(evidence: Evidence, contender: str) -> tuple[str, ...]:
    """Return sentences in the order of evidence: what was declared, plans, the profile, counters, waits."""
    found, (other, all_plans) = evidence.costs, evidence.plans
    tested = [cost for cost in found.costs if cost.word != "not tested"]
    too_few = f"Counters are compared from {iv.N_MIN_DECISIVE} restarts on."
    said = [
        f"Only {evidence.declared} differs between the arms, so it is the cause." if evidence.declared else "",
        f"{other} of {all_plans} statements {'has' if other == 1 else 'have'} another plan." if other else "",
        *_cpu(evidence.profile, evidence.cpu_ratio, contender),
        *((_measured(tested), _counters(found.causes)) if tested else (too_few,)),
        _off_cpu(evidence),
        _waits(evidence),
    ]
    waited = any(_wait_explains(evidence, each) for each in evidence.waits or ()) or _off_cpu_explains(evidence)
    if tested and not other and not causes(evidence) and not waited:
        said.append(_not_found(evidence))
    return tuple(filter(None, said))


def _not_found(evidence: Evidence) -> str:
    what = "How it acts was not found." if evidence.declared else "The cause was not found."
    if evidence.profile and evidence.profile.epochs >= iv.EPOCHS_MIN_PAIRED:
        return what
    return f"{what} Next step: `bakeoff explain RUN --explain-budget 3m`"


def _changed(ratio: float, what: str) -> str:
    if ratio > 2:
        return f"{_number(ratio)} times the {what}"
    share = abs(ratio - 1)
    return f"{_percent(share) if share < 0.1 else f'{share:.0%}'} {'more' if ratio > 1 else 'less'} {what}"


def _measured(costs: Sequence[Cost]) -> str:
    parts = [
        ("waiting" if cost.counter == BUSY else name_of(cost.counter), cost.explains)
        for cost in costs
        if cost.family == TIME and cost.word in ("more", "less") and not cost.counter.startswith("cpu.thread.")
        if cost.explains is not None
    ]
    text = _shares(parts)
    return f"Of the difference in time: {text}." if text else ""


def _counters(best: Sequence[Cost]) -> str:
    said = []
    for cost in best[:2]:
        share = cost.explains or 0.0
        part = "can explain all of it" if share > 0.995 else f"can explain up to {share:.0%} of it"
        if cost.counter.startswith("cpu."):  # time itself: its share is measured, not a bound
            part = f"explains {share:.0%} of it"
        form = format_ns if cost.counter.endswith("_ns") else _number
        counted = f"{name_of(cost.counter)} {form(cost.baseline)} → {form(cost.contender)} per event"
        said.append(f"{cost.family} {part} ({counted})")
    text = ", ".join(said)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _cpu(profile: ProfileComparison | None, measured: float | None, contender: str) -> tuple[str, ...]:
    """Say how the CPU per event differs, and which parts of the server make the difference.

    The profiler slows some parts more than others, so the ratio measured without it is preferred if it has the same
    direction.
    """
    if profile is None or not profile.all.is_clear:
        return ()
    said, ratio = _by_part(profile), profile.all.contender / profile.all.baseline
    if measured and (measured > 1) == (ratio > 1):
        ratio = measured
    return (
        f"{contender} needs {_changed(ratio, 'CPU')} per event.",
        f"{said[:1].upper()}{said[1:]}." if said else "",
        "Sampled in one restart." if profile.epochs == 1 else f"Sampled in {profile.epochs} restarts.",
    )


def _by_part(profile: ProfileComparison) -> str:
    """Give the parts' shares of the difference if they add up, else what each part gained or lost."""
    parts = [(share, f"in {name}{_functions(profile, name)}") for name, share in _parts(profile)]
    return _portions(parts, profile.all.difference.mean, "of that is")


def _portions(parts: Sequence[tuple[float, str]], whole_ns: float, of_whole: str) -> str:
    """`57% of that is in sorting, 39% in parsing`, or `4 µs more in sorting, 1 µs less in parsing` if parts cancel."""
    large = sorted((each for each in parts if abs(each[0]) >= _SAID_FROM), key=lambda each: -abs(each[0]))
    shown = large[:_SAID_MAX]
    if len(large) == 1 and 0.995 < large[0][0] < 1 + _SAID_FROM:
        return f"all {of_whole} {large[0][1]}"
    if all(share > 0 for share, _ in large) and sum(round(100 * share) for share, _ in shown) <= 100:
        return ", ".join(f"{share:.0%} {text}" for share, text in shown).replace("% ", f"% {of_whole} ", 1)
    amounts = ((share * whole_ns, text) for share, text in shown)
    return ", ".join(f"{format_ns(abs(ns))} {'more' if ns > 0 else 'less'} {text}" for ns, text in amounts)


def _parts(profile: ProfileComparison) -> list[tuple[str, float]]:
    if not profile.all.is_clear:
        return []
    whole = profile.all.difference.mean
    shares = [(name, part.difference.mean / whole) for name, part in profile.groups if part.is_clear]
    return sorted(shares, key=lambda each: -each[1])


def _functions(profile: ProfileComparison, part: str) -> str:
    (whole,) = [cost.difference.mean for name, cost in profile.groups if name == part]
    names = [
        f"`{each.name}`"
        for each in profile.functions  # by size
        if each.group == part and each.own.is_clear and each.own.difference.mean / whole >= _SAID_FROM
        if not each.name.startswith(NAMELESS)
    ]
    return f" ({', '.join(names[:_FUNCTIONS_MAX])})" if names else ""


def _off_cpu(evidence: Evidence) -> str:
    found = evidence.off_cpu
    if not found or not evidence.longer_ns or not found.all.is_clear:
        return ""
    whole = found.all.difference
    if abs(whole.mean) < _SAID_FROM * abs(evidence.longer_ns):
        return ""
    parts = [(each.time.difference.mean / whole.mean, _waited(each)) for each in found.statements if each.time.is_clear]
    said = filter(None, (_more_ns(whole), _portions(parts, whole.mean, "of it")))
    return f"Off-CPU time of statements per event: {', '.join(said)}."


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
    # Stages count as known, too: waits too short to be compared are not listed, so there may be nothing but stages.
    known = [each for each in evidence.waits if each.difference.interval.low is not None]
    ends = [end for each in waits for end in (each.difference.interval.low, each.difference.interval.high)]
    if known and all(end is not None and abs(end) < NAMED_FROM * abs(evidence.longer_ns) for end in ends):
        return f"No wait changes by as much as {NAMED_FROM:.0%} of the difference."
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
