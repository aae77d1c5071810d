"""What bakeoff knows about a workload before it runs: its name, and whether it changes data."""

from collections import Counter
from pathlib import PurePath

from bakeoff.spec import Workload

# Bundled scripts whose run only reads (facts/sysbench.md, 1(c)). Everything else may write: a script that bakeoff
# has not read is treated as the dangerous kind.
READ_ONLY = frozenset({"oltp_point_select", "oltp_read_only", "select_random_points", "select_random_ranges"})


def writes(script: str) -> bool:
    """False only for the bundled scripts that are known to read; a file of one of their names is not one of them."""
    return script not in READ_ONLY


def workload_names(workloads: tuple[Workload, ...]) -> tuple[str, ...]:
    """A short name for each: its own, or the script's without directory and `.lua`, with `#2` where it comes again."""
    seen: Counter[str] = Counter()
    names = []
    for workload in workloads:
        stem = workload.name or PurePath(workload.script).name.removesuffix(".lua") or "script"
        seen[stem] += 1
        names.append(stem if seen[stem] == 1 else f"{stem}#{seen[stem]}")
    return tuple(names)
