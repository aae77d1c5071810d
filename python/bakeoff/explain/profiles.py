"""Profiles: samples of one server in one cell of an epoch, by call stack, as `profile.json.gz` holds them."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple, Self

from pydantic import NonNegativeInt, PositiveInt, model_validator

from bakeoff.spec import Frozen

PROFILES = "profile"
"""Kind of the explaining epochs in which servers are profiled."""

PMU_FILE = "pmu.json"
"""An arm's document in such an epoch: cell -> `CellCounters` of the processor, if it has counters."""

PROFILE_FILE = "profile.json.gz"
"""An arm's document in an explaining epoch: cell -> `Profile`."""

OFF_CPU = "off-cpu"
"""Kind of the explaining epochs in which the threads' switches are recorded.

An arm has a `PROFILE_FILE` there, too. A sample is then a microsecond in which a thread was off the CPU. Its stack,
where the thread waited, begins with `SERVING` or `BACKGROUND`, and ends with `PREEMPTED` where it could have run."""

KERNEL = "[kernel]"
"""Object of functions of the kernel and its modules."""


class Function(NamedTuple):
    """A function's name without arguments, and its file: `mysqld`, `libc.so.6`, `KERNEL`."""

    name: str
    object: str


SERVING, BACKGROUND = Function("thread of a connection", "[thread]"), Function("other thread", "[thread]")
"""What a stack of `OFF_CPU` begins with: whether its thread ever runs statements."""

PREEMPTED = Function("preempted", "[thread]")
"""What it ends with where the thread waited for a processor alone."""

Stack = tuple[Function, ...]
"""Functions from the thread's first one to that which runs."""


class Profile(Frozen):
    """Samples in the slices that counted, as a tree of calls; parents come before their children.

    Attributes:
        event: what made the kernel sample: `cpu-clock`, `cpu-clock:u` (without the kernel) or `context-switches`.
        period_ns: time that a sample stands for, on the CPU or (`OFF_CPU`) off it.
        events: the workload's, in these slices.
        seconds: length of these slices.
        outside: samples between the slices, which are left out.
        incomplete: samples whose stack reaches neither a thread's beginning nor the C library.
        parents: of each node; -1 for roots.
        calls: index into `functions` of each node.
        counts: samples in which the node's function itself runs.
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

    @model_validator(mode="after")
    def _is_a_tree(self) -> Self:
        if not len(self.parents) == len(self.calls) == len(self.counts):
            raise ValueError("parents, calls and counts are not of one length")
        if any(not -1 <= parent < node for node, parent in enumerate(self.parents)):
            raise ValueError("a parent does not come before its child")
        if any(call >= len(self.functions) for call in self.calls):
            raise ValueError("a node has no function")
        return self

    @classmethod
    def of_stacks(cls, stacks: Mapping[Stack, int], **fields: str | float) -> "Profile":
        """Build a profile from the number of samples of each stack."""
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
