"""Where the CPU goes: by part of the server and by function, and two flame graphs on one scale, of each comparison.

The graphs are HTML that needs no script to be seen; the page's one script (`templates/flame.js`) adds zoom and search.
"""

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from bakeoff.report import numbers
from bakeoff.report.charts import TEMPLATES
from bakeoff.report.context import Context
from bakeoff.report.view import Flame, FlameFrame, FlameSide, Prose, Row, Section, Table, Value
from bakeoff.results.profiles import PROFILE_FILE, Profile
from bakeoff.stats.model import Interval, Word
from bakeoff.stats.profile import Cost, ProfileComparison, Tree, compare_profiles
from bakeoff.units import format_ns

KIND = "profile"
"""Folder of the explaining epochs in which servers were profiled."""

_COMPARISONS_MAX = 4
_FUNCTIONS_MAX = 12
_GROUPS_MAX = 12
_GROUP_SHARE = 0.02  # of the time of either arm, or of the difference: what a part needs for a line
_FRAME_SHARE = 0.003  # of the graph's width
_DEPTH_MAX = 60
# Difference of a function, as a share of the graph's width, from which its colour is one step stronger.
_STEPS = (0.002, 0.01, 0.03, 0.08)
_INCOMPLETE = 0.2
_LABEL_SHARE = 0.06  # of the width: narrower frames get their name from the script


@dataclass(frozen=True)
class Pair:
    """Two arms in one cell, and how far apart they are by the verdict."""

    cell: str
    baseline: str
    contender: str
    size: float


def profile_section(context: Context) -> Section | None:
    """Every comparison that was profiled, the largest differences first; why there is none, where that was noted."""
    notes = (context.run.read("explain/notes.json", dict[str, list[str]]) or {}).get(KIND, [])
    parts = []
    for number, (pair, found) in enumerate(compared(context), start=1):
        parts.append(_comparison_section(context, pair, found, number))
    return Section.of("Where the CPU goes", *(Prose(text=note) for note in notes), *parts, anchor="profiles")


def compared(context: Context) -> Iterator[tuple[Pair, ProfileComparison]]:
    """The largest differences that were profiled, at most `_COMPARISONS_MAX` of them.

    Raises:
        ResultsError: a profile is damaged.
    """
    pairs = sorted(_pairs(context), key=lambda pair: -pair.size)[:_COMPARISONS_MAX]
    if not pairs:
        return
    profiles = _profiles(context)
    for pair in pairs:
        sides = (profiles.get((pair.cell, arm), {}) for arm in (pair.baseline, pair.contender))
        if found := compare_profiles(*sides):
            yield pair, found


def _pairs(context: Context) -> Iterator[Pair]:
    claimed = set()
    for each in context.primary:
        if {Word.FASTER, Word.SLOWER} & set(each.verdict.words):
            claimed.add((each.cell, context.analysis.baseline, each.contender))
            yield Pair(each.cell, context.analysis.baseline, each.contender, abs(each.estimate.mean))
    asked = context.run.read("explain/asked.json", list[tuple[str, str]]) or []
    sizes = {(each.cell, each.contender): abs(each.estimate.mean) for each in context.primary}
    for baseline, contender in asked:
        context.of_the_study("explain/asked.json", {baseline: 0, contender: 0})
        for cell in context.cells:
            if (cell, baseline, contender) not in claimed:
                yield Pair(cell, baseline, contender, sizes.get((cell, contender), 0.0))


def _profiles(context: Context) -> dict[tuple[str, str], dict[int, Profile]]:
    """(cell, arm) -> epoch -> profile."""
    run = context.run.explaining(KIND)
    found: dict[tuple[str, str], dict[int, Profile]] = {}
    for epoch in run.finished_epochs():
        if run.outcome(epoch).valid:
            by_arm = context.of_the_study(PROFILE_FILE, run.server_json(epoch, PROFILE_FILE, dict[str, Profile]))
            for arm, by_cell in by_arm.items():
                for cell, profile in by_cell.items():
                    found.setdefault((cell, arm), {})[epoch] = profile
    return found


def _comparison_section(context: Context, pair: Pair, found: ProfileComparison, number: int) -> Section | None:
    labels = (context.labels[pair.baseline], context.labels[pair.contender])
    title = context.cell_title(pair.cell)
    if len(context.study.arms) > 2:
        title += f", {labels[1]} against {labels[0]}"
    functions = Section.of("Functions", _functions_table(found, labels, number))
    return Section.of(
        title,
        _groups_table(found, labels, number),
        _flame(context, pair, found, number),
        functions,
        note=" ".join(_sentences(context, pair, found, labels)),
        in_terminal=True,
    )


def _sentences(context: Context, pair: Pair, found: ProfileComparison, labels: tuple[str, str]) -> Iterator[str]:
    cost = found.all
    within = _interval(cost.interval)
    yield (
        f"An event takes {format_ns(cost.baseline)} of {labels[0]}'s CPU and {format_ns(cost.contender)} of "
        f"{labels[1]}'s: {_signed(cost.difference)}{f' ({within})' if within else ''}, by CPU samples in "
        f"{found.epochs} epoch{'s' if found.epochs > 1 else ''} that count for no verdict."
    )
    known = [without_profiler(context, pair.cell, arm) for arm in (pair.baseline, pair.contender)]
    if all(known):
        yield f"In the epochs that count, without a profiler: {format_ns(known[0])} and {format_ns(known[1])}."
    if any(event.endswith(":u") for event in found.events):
        yield "The kernel's part is missing: kernel.perf_event_paranoid allows none of it."
    for label, share in zip(labels, found.incomplete, strict=True):
        if share > _INCOMPLETE:
            yield (
                f"{numbers.share(share)} of the stacks of {label} are incomplete, as of a binary without frame "
                "pointers: what functions take themselves is right, and callers are missing."
            )


def without_profiler(context: Context, cell: str, arm: str) -> float:
    """CPU time an event in the epochs that count, ns; 0 when the server was not observed.

    The engine observes a server from the guard of each slice on, and counts events after it.
    """
    mine = context.slices.rows((context.slices["cell"] == cell) & (context.slices["arm"] == arm))
    guards_ns = len(mine) * context.plan.cell(cell).slices.guard_ns if context.plan else 0
    length_ns, events = int(mine["length_ns"].sum()), int(mine["events"].sum())
    if not events:
        return 0.0
    return float(np.nansum(mine["server_cpu_ns"])) / events * length_ns / (length_ns + guards_ns)


def _groups_table(found: ProfileComparison, labels: tuple[str, str], number: int) -> Table:
    least = _GROUP_SHARE * max(found.all.baseline, found.all.contender)
    rows = []
    for name, cost in found.groups:
        worthwhile = max(cost.baseline, cost.contender) >= least or abs(cost.difference) >= _GROUP_SHARE * abs(
            found.all.difference
        )
        if worthwhile:
            rows.append(Row.of(name, *_values(cost, found.all), _of_all(cost, found.all)))
    rows = [*rows[:_GROUPS_MAX], Row.of("all", *_values(found.all, found.all), "")]
    return Table(
        id=f"profile-{number}-parts",
        columns=("part of the server", *labels, "difference", "95% interval", "of the difference"),
        rows=tuple(rows),
        note="CPU an event; a sample belongs to the innermost function that has a part. Small: share of the arm's "
        "whole time. Intervals are over restarts, each for itself; those with · exclude 0.",
        wide=("95% interval",),
    )


def _functions_table(found: ProfileComparison, labels: tuple[str, str], number: int) -> Table:
    rows = tuple(
        Row.of(Value(text=each.name, sub=each.group), *_values(each.own, found.all), _signed(each.total.difference))
        for each in found.functions[:_FUNCTIONS_MAX]
    )
    return Table(
        id=f"profile-{number}-functions",
        columns=("function itself", *labels, "difference", "95% interval", "with all it calls"),
        rows=rows,
        note="The largest differences of what functions take themselves, without what they call. A function that a "
        "compiler has put into its caller counts there, which may differ between two builds.",
    )


def _values(cost: Cost, whole: Cost) -> tuple[Value, ...]:
    sides = ((cost.baseline, whole.baseline), (cost.contender, whole.contender))
    return (
        *(
            Value(text=format_ns(own) if own else "0", sub=numbers.share(own / total) if own and total else "")
            for own, total in sides
        ),
        Value(text=_signed(cost.difference)),
        Value(text=_interval(cost.interval) + (" ·" if cost.is_clear else "")),
    )


def _of_all(cost: Cost, whole: Cost) -> str:
    """Share of the whole difference; nothing where that one is not clear."""
    if not whole.is_clear:
        return ""
    share = f"{cost.difference / whole.difference:.0%}".replace("-", numbers.MINUS)
    return "0%" if share == f"{numbers.MINUS}0%" else share


def _signed(ns: float) -> str:
    """`+1.2 µs`."""
    return ("+" if ns > 0 else numbers.MINUS if ns < 0 else "") + format_ns(abs(ns))


def _interval(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return ""
    return f"{_signed(interval.low)} to {_signed(interval.high)}"


# ---- the graphs ------------------------------------------------------------------------------------------------------


def _flame(context: Context, pair: Pair, found: ProfileComparison, number: int) -> Flame:
    axis_ns = max(found.all.baseline, found.all.contender)
    functions = {each.name: each.total for each in found.functions}
    numbered: dict[str, int] = {}
    sides = []
    for arm, tree, total_ns in zip(
        (pair.baseline, pair.contender), found.trees, (found.all.baseline, found.all.contender), strict=True
    ):
        frames = tuple(
            FlameFrame(
                function=numbered.setdefault(name, len(numbered)), level=level, left=left, width=width,
                step=_step(functions[name].difference / axis_ns),
            )
            for name, level, left, width in _frames(tree, axis_ns)
        )  # fmt: skip
        sides.append(
            FlameSide(label=context.labels[arm], slot=context.slots[arm], total=format_ns(total_ns), frames=frames)
        )
    return Flame(
        id=f"flame-{number}",
        title=context.cell_title(pair.cell),
        axis_ns=axis_ns,
        sides=(sides[0], sides[1]),
        functions=tuple(
            (name, round(functions[name].baseline, 1), round(functions[name].contender, 1)) for name in numbered
        ),
    )


def _step(share: float) -> int:
    """−4 to 4: how strong a function's colour is, by its difference as a share of the graph's width."""
    size = sum(abs(share) >= least for least in _STEPS)
    return size if share > 0 else -size


def _frames(tree: Tree, axis_ns: float) -> Iterator[tuple[str, int, float, float]]:
    """Name, level from 0, left and width (per cent of the axis) of the frames wide enough to be seen."""
    totals = np.asarray(tree.total_ns.mean(axis=1)) * (100.0 / axis_ns)
    below: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parents):
        below.setdefault(parent, []).append(node)
    waiting = [(-1, 0, 0.0)]
    while waiting:
        node, level, left = waiting.pop()
        if node >= 0:
            yield tree.names[tree.calls[node]], level - 1, left, float(totals[node])
        # By name, so that both sides have their functions in the same order; threads by size, the server's own first.
        by_size = {each: -float(totals[each]) if node < 0 else 0.0 for each in below.get(node, [])}
        for child in sorted(by_size, key=lambda each: (by_size[each], tree.names[tree.calls[each]])):
            if totals[child] >= 100 * _FRAME_SHARE and level < _DEPTH_MAX:
                waiting.append((child, level + 1, left))
            left += float(totals[child])


def flame_frames(flame: Flame, side: FlameSide) -> Markup:
    """The frames of one side as HTML."""
    paint = Markup('<i class="{}" data-f="{}" style="--x:{:.3f};--w:{:.3f};--y:{}">{}</i>')
    parts = []
    for frame in side.frames:
        name = flame.functions[frame.function][0] if frame.width >= 100 * _LABEL_SHARE else ""
        tone = f"{'p' if frame.step > 0 else 'm'}{abs(frame.step)}" if frame.step else "e"
        parts.append(paint.format(tone, frame.function, frame.left, frame.width, frame.level, name))
    return Markup("").join(parts)


def flame_functions(flame: Flame) -> str:
    """Name and time on both sides of every function, for the script."""
    return json.dumps(flame.functions, ensure_ascii=False, separators=(",", ":"))


def flame_script() -> str:
    """The script of a page with flame graphs."""
    return (TEMPLATES / "flame.js").read_text("utf-8").strip()


def flame_policy() -> str:
    """What the page's content security policy allows for it: this one script, by its digest."""
    digest = hashlib.sha256(flame_script().encode()).digest()
    return f"; script-src 'sha256-{base64.b64encode(digest).decode()}'"
