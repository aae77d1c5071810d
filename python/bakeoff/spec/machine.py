"""A server's share of the machine: storage, data directory, memory, CPUs, huge pages.

Written in a server's name (`mysql:8.0,storage=gp3,memory=2G`) or as settings of a study.
"""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files

from bakeoff.errors import SpecError
from bakeoff.units import format_bytes, parse_bytes, parse_duration_s

PRESETS: dict[str, dict[str, str]] = tomllib.loads(files("bakeoff.spec").joinpath("storage.toml").read_text("utf-8"))
UNLIMITED = "unlimited"
FILE_SYSTEMS = ("ext4", "xfs", "btrfs")
HUGE_PAGES = ("always", "madvise", "never")
_KINDS = {"iops": ("read_iops", "write_iops"), "bandwidth": ("read_bandwidth", "write_bandwidth")}
_LIMITS = (*_KINDS, *(each for both in _KINDS.values() for each in both), "latency")
NAMES: tuple[str, ...] = (
    "storage", *(f"storage.{each}" for each in _LIMITS), "data_dir", "file_system", "memory", "cpus", "thp"
)  # fmt: skip
_MEMORY_MIN_BYTES = 128 * 2**20

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Storage:
    """Limits of a server's storage; None for what is not limited."""

    read_iops: int | None = None
    write_iops: int | None = None
    read_bandwidth: int | None = None  # bytes a second
    write_bandwidth: int | None = None
    latency_ms: int | None = None  # added to every request

    @property
    def limits(self) -> dict[str, int]:
        """The rate limits by name, without the latency."""
        return {name: value for name, value in vars(self).items() if value is not None and name != "latency_ms"}

    def __str__(self) -> str:
        parts = []
        for what, unit in (("iops", " IOPS"), ("bandwidth", "")):
            read, write = (self.limits.get(f"{way}_{what}") for way in ("read", "write"))
            form = format_bytes if what == "bandwidth" else "{:,}".format
            per_s = "/s" if what == "bandwidth" else unit
            if read is not None and read == write:
                parts.append(f"{form(read)}{per_s} each way")
            else:
                parts += [f"{form(n)}{per_s} {way}" for way, n in (("read", read), ("written", write)) if n is not None]
        parts += [f"{self.latency_ms} ms more a request"] if self.latency_ms else []
        return ", ".join(parts)


@dataclass(frozen=True)
class Machine:
    """One server's share of the machine; empty or None for what is left as it is."""

    storage: Storage = Storage()
    data_dir: str = ""
    file_system: str = ""
    memory_bytes: int | None = None
    cpus: int | None = None
    thp: str = ""

    @property
    def grouped(self) -> bool:
        """Whether it needs a control group."""
        return bool(self.storage.limits) or self.memory_bytes is not None


NOTHING = Machine()


def machine_of(pairs: Iterable[tuple[str, str]]) -> Machine:
    """Return what settings ask for. A single limit overrides the preset's; one for reads or writes overrides both."""
    given = dict(pairs)
    storage = dict(PRESETS.get(given.get("storage", ""), {}))
    storage |= {name.removeprefix("storage."): text for name, text in given.items() if name.startswith("storage.")}
    limits: dict[str, int] = {}
    for kind, directions in _KINDS.items():
        read = int if kind == "iops" else parse_bytes
        for name in directions:
            if text := storage.get(name, storage.get(kind)):
                limits[name] = read(text)
    if text := storage.get("latency"):
        limits["latency_ms"] = round(parse_duration_s(text) * 1000)
    return Machine(
        storage=Storage(**limits),
        data_dir=given.get("data_dir", ""),
        file_system=given.get("file_system", ""),
        memory_bytes=parse_bytes(given["memory"]) if "memory" in given else None,
        cpus=int(given["cpus"]) if "cpus" in given else None,
        thp=given.get("thp", ""),
    )


def check_machine(name: str, value: str) -> None:
    """Check one setting; the SpecError says what is allowed."""
    match name:
        case "storage" if "=" not in value:
            if value not in (*PRESETS, UNLIMITED):
                near = difflib.get_close_matches(value, PRESETS, n=1)
                known = f"Write {UNLIMITED}, a preset ({', '.join(PRESETS)}) or {{iops: 10000}}."
                raise SpecError(f"storage {value!r} is unknown.", hint=f"Did you mean {near[0]}?" if near else known)
        case "storage":
            for limit, text in limits_in(value).items():
                check_machine(limit, text)
        case "storage.latency":
            _check_latency(value)
        case "storage.bandwidth" | "storage.read_bandwidth" | "storage.write_bandwidth":
            if parse_bytes(value) < 2**16:
                raise SpecError(f"{name} {value!r} is too small.", hint="Write bytes a second: 125M.")
        case "data_dir":
            if not value.startswith("/"):
                raise SpecError(f"data_dir {value!r} is not an absolute path.", hint="Write /mnt/xfs.")
        case "file_system" | "thp":
            words = FILE_SYSTEMS if name == "file_system" else HUGE_PAGES
            if value not in words:
                raise SpecError(f"{name} cannot be {value!r}.", hint=f"Write one of {', '.join(words)}.")
        case "memory":
            if parse_bytes(value) < _MEMORY_MIN_BYTES:
                least = format_bytes(_MEMORY_MIN_BYTES)
                raise SpecError(f"memory {value!r} is below {least}, too little for a server.", hint="Write 2G.")
        case _:  # a count
            if not re.fullmatch(r"[1-9]\d{0,8}", value):
                hint = "Write how many: cpus: 4." if name == "cpus" else "Write requests a second: 10000."
                raise SpecError(f"{name} {value!r} is not a whole number above zero.", hint=hint)


def with_setting(pairs: Pairs, name: str, value: str) -> Pairs:
    """Add a setting in its final form: `iops=3000,latency=1ms` becomes one pair for each limit."""
    if name == "storage" and value == UNLIMITED:
        return pairs
    added = limits_in(value) if name == "storage" and "=" in value else {name: value}
    return tuple((dict(pairs) | added).items())


def storage_text(written: Mapping[object, object]) -> str:
    """Write the mapping of a study (`{iops: 10000, bandwidth: 125M}`) as one level."""
    return ",".join(f"{name}={value}" for name, value in written.items())


def limits_in(text: str) -> dict[str, str]:
    """Split `iops=3000,latency=1ms` into one setting per limit: `storage.iops`, `storage.latency`."""
    found: dict[str, str] = {}
    for part in text.split(","):
        limit, equals, value = part.replace(" ", "").partition("=")
        if limit not in _LIMITS or not equals:
            near = difflib.get_close_matches(limit, _LIMITS, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Write one of {', '.join(_LIMITS)}."
            raise SpecError(f"storage has no limit {limit!r}.", hint=hint)
        found[f"storage.{limit}"] = value
    return found


def _check_latency(text: str) -> None:
    ms = parse_duration_s(text) * 1000
    if abs(ms - round(ms)) > 1e-6:
        raise SpecError(
            f"storage.latency {text!r}: the kernel's delay target waits for whole milliseconds.", hint="Write 1ms."
        )
