"""Profiles of servers, and the CPU time per event that two arms differ in: by function, by part, and as call trees.

Differences are taken within an epoch, in which both arms were sampled in turns. Intervals are Student's t over
epochs. With fewer than three epochs they allow for the Poisson error of the samples, and for as much variation as the
run's own epochs had.
"""

import math
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt, PositiveInt

from bakeoff.spec import Frozen
from bakeoff.stats import interval as iv
from bakeoff.stats.interval import Moments, Paired
from bakeoff.stats.model import Estimate

PROFILES = "profile"  # kind of the explaining epochs in which servers are profiled
PROFILE_FILE = "profile.json.gz"  # an arm's document in an explaining epoch: cell -> `Profile`
OFF_CPU = "off-cpu"
"""Kind of the explaining epochs in which the threads' switches are recorded.

An arm has a `PROFILE_FILE` there, too. A sample is then a microsecond in which a thread was off the CPU. Its stack,
where the thread waited, begins with `SERVING` or `BACKGROUND`, and ends with `PREEMPTED` if it could have run."""

_WHOLE_LEAST = 0.02  # least standard deviation assumed for the ratio of CPU per event between restarts
_PART_TIMES = 2.0  # factor on it for one part or function, because the scatter of parts cancels out in the whole

KERNEL = "[kernel]"  # object of functions of the kernel and its modules


class Function(NamedTuple):
    """A function's name without arguments, and its file: `mysqld`, `libc.so.6`, `KERNEL`."""

    name: str
    object: str


SERVING, BACKGROUND = Function("thread of a connection", "[thread]"), Function("other thread", "[thread]")
"""First frame of a stack of `OFF_CPU`: whether its thread ever runs statements."""

PREEMPTED = Function("preempted", "[thread]")  # last frame if the thread waited only for a processor
Stack = tuple[Function, ...]  # functions from the thread's first one to that which runs


class Profile(Frozen):
    """Samples in the slices that counted, as a tree of calls; parents come before their children.

    Attributes:
        event: what made the kernel sample: `cpu-clock`, `cpu-clock:u` (without the kernel) or `context-switches`.
        period_ns: time that a sample stands for, on the CPU or (`OFF_CPU`) off it.
        outside: samples between the slices, which are left out.
        incomplete: samples whose stack reaches neither a thread's beginning nor the C library.
        calls: index into `functions` of each node; `counts` its own samples.
    """

    event: str
    period_ns: PositiveInt
    events: NonNegativeInt
    seconds: float
    outside: NonNegativeInt
    incomplete: NonNegativeInt
    functions: tuple[Function, ...]
    parents: tuple[int, ...]
    calls: tuple[NonNegativeInt, ...]
    counts: tuple[NonNegativeInt, ...]

    @classmethod
    def of_stacks(cls, stacks: Mapping[Stack, int], **fields: str | float) -> "Profile":
        functions: dict[Function, int] = {}
        nodes: dict[tuple[int, int], int] = {}
        counts: Counter[int] = Counter()
        for stack, count in sorted(stacks.items()):
            node = -1
            for function in stack:
                call = functions.setdefault(function, len(functions))
                node = nodes.setdefault((node, call), len(nodes))
            counts[node] += count
        return cls(
            functions=tuple(functions),
            parents=tuple(parent for parent, _ in nodes),
            calls=tuple(call for _, call in nodes),
            counts=tuple(counts[node] for node in range(len(nodes))),
            **fields,  # type: ignore[arg-type] # checked by the class
        )


OTHER, KERNEL_OTHER, CALLER_UNKNOWN = "other server code", "kernel: other", "libraries, caller unknown"
NAMELESS = "(no symbol)"
_SERVERS = re.compile(r"(mysqld|mariadbd)(-\w+)?")
# Libraries that come with every server. Their time belongs to the caller.
_COMMON = re.compile(
    r"(lib(c|m|pthread|stdc\+\+|gcc_s|dl|rt|aio|numa|uring|z|lz4|lzma|zstd|crypt|atomic|tirpc|unwind|resolv|event\w*|"
    r"protobuf\w*|pcre\w*|systemd|icu\w*|fido2?|udev|snappy|lzo\w*|bz2)|ld(-linux[\w-]*)?)[-.\d]*(\.so[.\d]*)?|"
    r"\[\w+\]|"
)
_SO = re.compile(r"[-.]?[\d.]*\.so[.\d]*$")

Column = NDArray[np.float64]


class _Group(NamedTuple):
    name: str
    family: str
    kernel: bool
    functions: re.Pattern[str]
    objects: re.Pattern[str]


def _group(entry: Mapping[str, Any]) -> _Group:
    functions, objects = (re.compile("|".join(entry.get(key, ["(?!)"]))) for key in ("functions", "objects"))
    return _Group(entry["name"], entry["family"], bool(entry.get("kernel")), functions, objects)


_KNOWN = tomllib.loads(Path(__file__).with_name("subsystems.toml").read_text("utf-8"))
_GROUPS = tuple(map(_group, _KNOWN["group"]))
RENAMED: Mapping[str, str] = _KNOWN["renamed"]


@cache
def group_of(function: Function) -> str:
    """Return the part of the server that a function belongs to; empty if it belongs to its caller's."""
    is_kernel = function.object == KERNEL
    if is_kernel or is_servers(function) or _COMMON.fullmatch(function.object):
        fitting = (
            each.name for each in _GROUPS if each.kernel == is_kernel and each.functions.fullmatch(function.name)
        )
        return next(fitting, "")
    # By file, not by function: a preloaded library may also have a `recv`.
    by_file = (each.name for each in _GROUPS if each.objects.fullmatch(function.object))
    return next(by_file, f"library {function.object}")


def family_of(group: str) -> str:
    """Return the DBA's word for a group, or its own name."""
    return next((each.family for each in _GROUPS if each.name == group), group)


@dataclass(frozen=True)
class Tree:
    """One arm's calls in one cell, over several epochs; parents come before children.

    A node's group is that of its innermost function that has one. `own_ns` is CPU per event; rows are nodes, columns
    epochs. `total_ns` includes all below.
    """

    names: tuple[str, ...]
    parents: tuple[int, ...]
    calls: tuple[int, ...]
    groups: tuple[str, ...]
    own_ns: Column
    total_ns: Column

    def by_function(self) -> dict[str, tuple[Column, Column]]:
        """Return own and total time per event and epoch by name. A recursive function is counted once."""
        found = {name: (np.zeros(self.own_ns.shape[1]), np.zeros(self.own_ns.shape[1])) for name in self.names}
        above: list[frozenset[int]] = []
        for node, (parent, call) in enumerate(zip(self.parents, self.calls, strict=True)):
            before = above[parent] if parent >= 0 else frozenset()
            own, total = found[self.names[call]]
            own += self.own_ns[node]
            if call not in before:
                total += self.total_ns[node]
            above.append(before | {call})
        return found

    def by_group(self) -> dict[str, Column]:
        found: dict[str, Column] = {}
        for node, group in enumerate(self.groups):
            found[group] = found.get(group, 0.0) + self.own_ns[node]
        return found


def shown_name(function: Function) -> str:
    """Return a function's latest name, with its file unless that is the server (`memcpy (libc)`)."""
    if function.name == "[unknown]":
        return NAMELESS
    name = RENAMED.get(function.name, function.name)
    if is_servers(function):
        return name
    return f"{name} ({_SO.sub('', function.object).strip('[]')})"


def _nameless(function: Function, group: str, caller: str) -> str:
    if group:
        name = f"{NAMELESS} in {_SO.sub('', function.object)}"
        return "" if caller == name else name
    if caller.startswith(NAMELESS):
        return ""
    return f"{NAMELESS} below {caller}" if caller else NAMELESS


def is_servers(function: Function) -> bool:
    return not function.object or bool(_SERVERS.fullmatch(function.object))


def tree_of(profiles: Sequence[Profile]) -> Tree:
    names: dict[str, int] = {}
    nodes: dict[tuple[int, int], int] = {}
    groups: list[str] = []
    kernel: list[bool] = []
    node_names: list[str] = []
    cells: dict[tuple[int, int], float] = {}
    for epoch, profile in enumerate(profiles):
        shown = [shown_name(each) for each in profile.functions]
        own_groups = [group_of(each) for each in profile.functions]
        places: list[int] = []
        for parent, call, count in zip(profile.parents, profile.calls, profile.counts, strict=True):
            above = places[parent] if parent >= 0 else -1
            name = shown[call]
            if name == NAMELESS:
                name = _nameless(profile.functions[call], own_groups[call], node_names[above] if above >= 0 else "")
            if name:
                key = (above, names.setdefault(name, len(names)))
                node = nodes.setdefault(key, len(nodes))
            else:
                node = above  # nothing tells nameless functions apart
            if node == len(groups):
                is_kernel = profile.functions[call].object == KERNEL
                entered = is_kernel and not (above >= 0 and kernel[above])
                outermost = OTHER if is_servers(profile.functions[call]) else CALLER_UNKNOWN
                inherited = KERNEL_OTHER if entered else groups[above] if above >= 0 else outermost
                groups.append(own_groups[call] or inherited)
                kernel.append(is_kernel)
                node_names.append(name)
            places.append(node)
            cells[node, epoch] = cells.get((node, epoch), 0.0) + count * profile.period_ns / profile.events
    own = np.zeros((len(nodes), len(profiles)))
    for place, value in cells.items():
        own[place] = value
    total = own.copy()
    parents = tuple(parent for parent, _ in nodes)
    for node in range(len(nodes) - 1, -1, -1):
        if parents[node] >= 0:
            total[parents[node]] += total[node]
    return Tree(tuple(names), parents, tuple(call for _, call in nodes), tuple(groups), own, total)


@dataclass(frozen=True)
class FunctionCost:
    name: str
    group: str
    own: Paired
    total: Paired


@dataclass(frozen=True)
class ProfileComparison:
    """Two arms' profiles in one cell, in CPU ns per event, by size of the difference."""

    epochs: int
    all: Paired
    groups: tuple[tuple[str, Paired], ...]
    functions: tuple[FunctionCost, ...]
    trees: tuple[Tree, Tree]
    events: frozenset[str]
    incomplete: tuple[float, float]


@dataclass(frozen=True)
class _Sampling:
    """How well costs are known. `sample_ns` is what a sample adds to an arm's time per event, by epoch."""

    sample_ns: tuple[Column, Column]
    restarts: Moments | None

    def paired(self, baseline: Column, contender: Column, *, times: float = _PART_TIMES) -> Paired:
        found = Paired.of(baseline.tolist(), contender.tolist())
        n, known = len(baseline), self.restarts
        if n >= iv.EPOCHS_MIN_PAIRED or known is None or known.n < iv.EPOCHS_MIN_PAIRED:
            return found
        # One sample more than was seen: even none seen is an uncertain count.
        counted = sum((own + ns) * ns for own, ns in zip((baseline, contender), self.sample_ns, strict=True))
        between = (times * max(known.sd, _WHOLE_LEAST)) ** 2 * (baseline**2 + contender**2) / 2
        seen = iv.standard_deviation((contender - baseline).tolist())  # 0 for one epoch
        sd = max(seen, math.sqrt(float(np.mean(counted + between))))
        half_width = iv.t_quantile(1 - iv.ALPHA_T / 2, known.degrees) * sd / math.sqrt(n)
        mean = found.difference.mean
        return replace(found, difference=Estimate(mean=mean, interval=iv.around(mean, half_width), n=n))


def compare_profiles(
    baseline: Mapping[int, Profile], contender: Mapping[int, Profile], restarts: Moments | None = None
) -> ProfileComparison | None:
    """Compare two arms' profiles, by epoch. `restarts`: the log ratios of CPU per event in the run's own epochs."""
    both = sorted(baseline.keys() & contender.keys())
    common = [each for each in both if all(side[each].events and side[each].counts for side in (baseline, contender))]
    if not common:
        return None
    sides = [[each[epoch] for epoch in common] for each in (baseline, contender)]
    own, other = (np.array([each.period_ns / each.events for each in side]) for side in sides)
    paired = _Sampling((own, other), restarts).paired
    trees = (tree_of(sides[0]), tree_of(sides[1]))
    none = np.zeros(len(common))
    groups = [tree.by_group() for tree in trees]
    functions = [tree.by_function() for tree in trees]
    home = _home_groups(trees)
    costs = [
        FunctionCost(
            name,
            home[name],
            paired(*(each[name][0] if name in each else none for each in functions)),
            paired(*(each[name][1] if name in each else none for each in functions)),
        )
        for name in dict.fromkeys([*functions[0], *functions[1]])
    ]
    by_group = [
        (name, paired(*(each.get(name, none) for each in groups))) for name in dict.fromkeys([*groups[0], *groups[1]])
    ]
    return ProfileComparison(
        epochs=len(common),
        all=paired(trees[0].own_ns.sum(axis=0), trees[1].own_ns.sum(axis=0), times=1.0),
        groups=tuple(sorted(by_group, key=lambda each: -abs(each[1].difference.mean))),
        functions=tuple(sorted(costs, key=lambda each: -abs(each.own.difference.mean))),
        trees=trees,
        events=frozenset(profile.event for side in sides for profile in side),
        incomplete=(_incomplete(sides[0]), _incomplete(sides[1])),
    )


def _home_groups(trees: Sequence[Tree]) -> dict[str, str]:
    spent: dict[str, dict[str, float]] = {}
    for tree in trees:
        own = tree.own_ns.sum(axis=1)
        for node, call in enumerate(tree.calls):
            groups = spent.setdefault(tree.names[call], {})
            groups[tree.groups[node]] = groups.get(tree.groups[node], 0.0) + float(own[node])
    return {name: max(groups, key=groups.__getitem__) for name, groups in spent.items()}


def _incomplete(profiles: Sequence[Profile]) -> float:
    samples = sum(sum(profile.counts) for profile in profiles)
    return sum(profile.incomplete for profile in profiles) / samples if samples else 0.0
