"""CPU profiles: tables by part of the server and by function, and two flame graphs on one scale."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from bakeoff.explain.explained import Explained, Pair
from bakeoff.explain.profiles import PROFILES, ProfileComparison, Tree
from bakeoff.report import numbers
from bakeoff.report.context import Context
from bakeoff.report.html import environment
from bakeoff.report.setups import server_notes
from bakeoff.report.view import Column, Drawing, Prose, Section, Table, Value
from bakeoff.stats.interval import EPOCHS_MIN_PAIRED, Paired
from bakeoff.units import format_ns, visible

TEMPLATES = Path(__file__).parent / "templates"

COMPARISONS_MAX = 4  # comparisons that are shown: the first of those that were measured (`Explained.pairs`)
_FUNCTIONS_MAX = 12
_GROUPS_MAX = 12
_GROUP_SHARE = 0.02  # share of either arm's time, or of the difference, from which a part has a line
_FRAME_SHARE = 0.003  # of the graph's width
_DEPTH_MAX = 60
# Difference of a function, as a share of the graph's width, from which its colour is one step stronger.
_STEPS = (0.002, 0.01, 0.03, 0.08)
_INCOMPLETE = 0.2
_FEW = " They allow for the number of samples, and for restarts that vary as the run's did."
_LABEL_SHARE = 0.06  # of the width: narrower frames get their name from the script


def profile_section(context: Context) -> Section | None:
    explained = context.once(Explained)
    shown = [*explained.profiles.items()][:COMPARISONS_MAX]
    parts = [_comparison_section(context, *each, number) for number, each in enumerate(shown, start=1)]
    return Section.of("CPU profiles", *explained.notes(PROFILES), *_minimal_builds(context), *parts, anchor="profiles")


def _minimal_builds(context: Context) -> Iterator[Prose]:
    for arm, notes in server_notes(context).items():
        if any("-minimal" in text for text in notes.get("binaries", ())):
            server = str(context.arms[arm].server.with_settings(options=(), env=(), cnf_files=()))
            yield Prose(
                text=f"{context.labels[arm]} is a minimal build without debug symbols: some of its functions have no "
                f"name. `bakeoff server install {server} --full` gets a build with all names."
            )


def title_of(context: Context, pair: Pair) -> str:
    title = context.cell_title(pair.cell)
    if len(context.study.arms) <= 2:
        return title
    return f"{title}, {context.labels[pair.contender]} against {context.labels[pair.baseline]}"


def _comparison_section(context: Context, pair: Pair, found: ProfileComparison, number: int) -> Section | None:
    labels = (context.labels[pair.baseline], context.labels[pair.contender])
    return Section.of(
        title_of(context, pair),
        _groups_table(found, labels, number),
        _flame(context, pair, found, number),
        Section.of("Functions", _functions_table(found, labels, number)),
        note=" ".join(_sentences(context, pair, found, labels)),
        in_terminal=True,
    )


def _sentences(context: Context, pair: Pair, found: ProfileComparison, labels: tuple[str, str]) -> Iterator[str]:
    cost = found.all
    within = numbers.signed_interval(cost.difference.interval, numbers.of_event)
    yield (
        f"CPU per event: {format_ns(cost.baseline)} on {labels[0]}, {format_ns(cost.contender)} on {labels[1]} "
        f"({_signed(cost)}{f', {within}' if within else ''}). Sampled in {numbers.restarts(found.epochs)} that "
        f"{'do' if found.epochs > 1 else 'does'} not count towards the verdict."
    )
    if all(known := [context.server_cpu_ns(pair.cell, arm) for arm in pair[1:]]):
        yield f"Without the profiler: {format_ns(known[0])} and {format_ns(known[1])}."
    if any(event.endswith(":u") for event in found.events):
        yield "Kernel time is missing: kernel.perf_event_paranoid does not allow it."
    for label, share in zip(labels, found.incomplete, strict=True):
        if share > _INCOMPLETE:
            yield (
                f"{numbers.share(share)} of the stacks of {label} are incomplete, as in a binary without frame "
                "pointers: functions' own time is right, callers are missing."
            )


def _groups_table(found: ProfileComparison, labels: tuple[str, str], number: int) -> Table:
    whole = found.all
    least = _GROUP_SHARE * max(whole.baseline, whole.contender), _GROUP_SHARE * abs(whole.difference.mean)
    shown = [
        (name, cost)
        for name, cost in found.groups
        if max(cost.baseline, cost.contender) >= least[0] or abs(cost.difference.mean) >= least[1]
    ]
    return Table.of(
        f"profile-{number}-parts",
        [*shown[:_GROUPS_MAX], ("all", whole)],
        Column("part of the server", itemgetter(0)),
        *cost_columns(labels, itemgetter(1), whole),
        Column("of the difference", lambda each: share_of_all(each[1], whole) if each[1] is not whole else ""),
        note="CPU per event. Small: share of the arm's whole time. Intervals are not corrected; those with · exclude 0."
        + (" They are over restarts." if found.epochs >= EPOCHS_MIN_PAIRED else _FEW),
    )


def _functions_table(found: ProfileComparison, labels: tuple[str, str], number: int) -> Table:
    return Table.of(
        f"profile-{number}-functions",
        found.functions[:_FUNCTIONS_MAX],
        Column("function", lambda each: Value(text=each.name, sub=each.group)),
        *cost_columns(labels, attrgetter("own"), found.all),
        Column("with callees", lambda each: _signed(each.total)),
        note="The largest differences in functions' own time. An inlined function counts as part of its caller, which "
        "may differ between builds.",
    )


def cost_columns(
    labels: tuple[str, str], cost_of: Callable[[Any], Paired], whole: Paired | None = None
) -> Iterator[Column[Any]]:
    """Yield columns of both arms' costs (small: their share of `whole`), their difference, and its interval."""

    def side(name: str, item: object) -> Value:
        own, total = getattr(cost_of(item), name), getattr(whole, name, 0.0)
        return Value(text=numbers.of_event(own), sub=numbers.share(own / total) if own and total else "")

    def interval(item: object) -> str:
        cost = cost_of(item)
        return numbers.signed_interval(cost.difference.interval, numbers.of_event) + (" ·" if cost.is_clear else "")

    yield Column(labels[0], partial(side, "baseline"))
    yield Column(labels[1], partial(side, "contender"))
    yield Column("difference", lambda item: _signed(cost_of(item)))
    yield Column("95% interval", interval, wide=whole is not None)


def share_of_all(cost: Paired, whole: Paired) -> str:
    return numbers.percent(cost.difference.mean / whole.difference.mean) if whole.is_clear else ""


def _signed(cost: Paired) -> str:
    return numbers.signed(cost.difference.mean, numbers.of_event)


# ---- the graphs ------------------------------------------------------------------------------------------------------


def _flame(context: Context, pair: Pair, found: ProfileComparison, number: int) -> Drawing:
    """Draw two graphs on one scale. They need no script to be seen; the script adds zoom and search."""
    axis_ns = max(found.all.baseline, found.all.contender)
    functions = {each.name: each.total for each in found.functions}
    numbered: dict[str, int] = {}
    totals = (found.all.baseline, found.all.contender)
    sides = []
    for arm, tree, total_ns in zip((pair.baseline, pair.contender), found.trees, totals, strict=True):
        drawn = [*_frames(tree, axis_ns)]
        frames = [
            {
                "number": numbered.setdefault(name, len(numbered)),
                "tone": _tone(functions[name].difference.mean / axis_ns),
                "box": (left, width, level),
                "label": visible(name) if width >= 100 * _LABEL_SHARE else "",
            }
            for name, level, left, width in drawn
        ]
        label, slot = visible(context.labels[arm]), context.slots[arm]
        levels = 1 + max((level for _, level, *_ in drawn), default=-1)
        sides.append({"label": label, "slot": slot, "total": format_ns(total_ns), "frames": frames, "levels": levels})
    of_functions = [
        (visible(name), round(functions[name].baseline, 1), round(functions[name].contender, 1)) for name in numbered
    ]
    template = environment(TEMPLATES).get_template("flame.html.j2")
    html = template.render(
        id=f"flame-{number}",
        title=visible(context.cell_title(pair.cell)),
        axis_ns=axis_ns,
        functions=json.dumps(of_functions, ensure_ascii=False, separators=(",", ":")),
        sides=sides,
    )
    # Safe: the template escapes; style and script are ours.
    return Drawing(html=Markup(html), style=Markup(_file("flame.css")), script=Markup(flame_script()))


def flame_script() -> str:
    return _file("flame.js")


def _file(name: str) -> str:
    return (TEMPLATES / name).read_text("utf-8").strip()


def _tone(share: float) -> str:
    """Return the class of a function's colour: e, m1 to m4, p1 to p4."""
    step = sum(abs(share) >= least for least in _STEPS)
    return f"{'p' if share > 0 else 'm'}{step}" if step else "e"


def _frames(tree: Tree, axis_ns: float) -> Iterator[tuple[str, int, float, float]]:
    """Yield name, level from 0, left and width (per cent of the axis) of the frames wide enough to be seen."""
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
