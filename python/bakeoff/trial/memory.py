"""Memory for the servers: the same buffer pool for every arm, and how many of them may run at once.

Besides memory the kernel's asynchronous I/O limits them: each InnoDB takes its share of `fs.aio-max-nr` at its start,
and the server for which too little is left does not start.
"""

from dataclasses import dataclass
from pathlib import Path

import psutil

from bakeoff.errors import HostError
from bakeoff.plan.sizes import data_bytes
from bakeoff.servers import ServerMemory
from bakeoff.spec import Arm, Origin, Study
from bakeoff.units import format_bytes, parse_bytes

# Of the data expected: room for what updates and inserts add, and for InnoDB's own pages.
_HEAD_ROOM = 1.6
_BUFFER_POOL_MIN_BYTES = 128 * 2**20
# Of the memory that is free: the rest is for the page cache, the client and what servers use outside the pool.
_MEMORY_SHARE = 0.6
_BESIDES_POOL_BYTES = 400 * 2**20
_STEP_BYTES = 32 * 2**20
# 256 for each of InnoDB's handler threads: four that read, four that write, two more.
_AIO_EVENTS = 2_700
_POOL_OPTION = "innodb_buffer_pool_size"


@dataclass(frozen=True)
class MemoryShare:
    """What every server of a study is given.

    Attributes:
        memory: buffer pool and redo, the same for every arm.
        per_server_bytes: what one server is expected to take in all, the largest of the arms.
        servers: how many servers of our own the study has.
        at_once: how many of them fit at the same time; at least 2, or 1 when there is only one.
    """

    memory: ServerMemory
    per_server_bytes: int
    servers: int
    at_once: int


def servers_by_aio(proc: Path = Path("/proc/sys/fs")) -> int | None:
    """How many more servers the kernel's asynchronous I/O allows now, 2 at least; None when it does not tell."""
    try:
        most, used = (int((proc / name).read_text()) for name in ("aio-max-nr", "aio-nr"))
    except (OSError, ValueError):
        return None
    return max(2, (most - used) // _AIO_EVENTS)


def share_memory(study: Study, *, available_bytes: int | None = None, at_most: int | None = None) -> MemoryShare:
    """The data and a half more for every buffer pool; fewer servers at once rather than smaller pools.

    When not even two servers fit with that, two run at once with what there is.

    Args:
        study: its arms and data.
        available_bytes: None: what is free now.
        at_most: servers at once, whatever the memory allows (`servers_by_aio`); None: no such limit.

    Raises:
        HostError: not even two servers fit.
    """
    ours = [arm for arm in study.arms if arm.server.origin is not Origin.URL]
    available = psutil.virtual_memory().available if available_bytes is None else available_bytes
    usable = int(available * _MEMORY_SHARE)
    wanted = max((int(data_bytes(study, arm.data) * _HEAD_ROOM) for arm in study.arms), default=0)
    pool = max(_BUFFER_POOL_MIN_BYTES, wanted) // _STEP_BYTES * _STEP_BYTES
    fixed = [size for arm in ours if (size := _asked_pool(arm))]
    everywhere = len(fixed) == len(ours) and bool(ours)  # no arm uses the pool that is shared out
    largest = max([*fixed, *(() if everywhere else (pool,))], default=pool)
    least = min(2, max(len(ours), 1))
    at_once = min(max(len(ours), 1), usable // (largest + _BESIDES_POOL_BYTES))
    at_once = min(at_once, at_most or at_once)
    if at_once < least:
        pool = (usable // least - _BESIDES_POOL_BYTES) // _STEP_BYTES * _STEP_BYTES
        if pool < _BUFFER_POOL_MIN_BYTES or (fixed and max(fixed) > pool):
            needed = least * (max([*fixed, _BUFFER_POOL_MIN_BYTES]) + _BESIDES_POOL_BYTES) / _MEMORY_SHARE
            raise HostError(
                f"memory: not even {least} servers fit into the {format_bytes(available)} that are free; "
                f"about {format_bytes(needed)} would do.",
                hint="End other programs, or ask for smaller buffer pools.",
            )
        at_once, largest = least, max([pool, *fixed])
    return MemoryShare(
        memory=ServerMemory(buffer_pool_bytes=pool),
        per_server_bytes=largest + _BESIDES_POOL_BYTES,
        servers=len(ours),
        at_once=at_once,
    )


def _asked_pool(arm: Arm) -> int | None:
    """The buffer pool that the arm's own options set, bytes."""
    size = dict(arm.server.options).get(_POOL_OPTION)
    return parse_bytes(size) if size else None
