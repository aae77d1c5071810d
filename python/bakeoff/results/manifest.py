"""`manifest.json`: the program, the command line and the machine that made a run directory."""

import os
import platform
import re
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import psutil
from pydantic import AwareDatetime, JsonValue

from bakeoff.spec import Frozen
from bakeoff.units import format_bytes


class FileSystem(Frozen):
    path: str
    device: str
    kind: str
    options: str
    total_bytes: int
    free_bytes: int


class Host(Frozen):
    """A machine as /proc and /sys describe it when a run begins; None for a fact that cannot be read."""

    system: str
    kernel: str
    machine: str
    cpu_model: str
    cpus: int
    cpus_usable: int
    cores: int | None
    numa_nodes: int | None
    memory_bytes: int
    swap_bytes: int
    virtualisation: str | None
    container: str | None
    governor: str | None
    transparent_huge_pages: str | None
    microcode: str | None
    load_average: tuple[float, float, float]
    run_files: FileSystem | None
    data_files: FileSystem | None

    def __str__(self) -> str:
        return f"{self.cpus} × {self.cpu_model}, {format_bytes(self.memory_bytes)}"

    def differences(self, other: "Host") -> list[str]:
        """Say how two machines differ in processors, or in memory by more than 2%: `CPUs 4 and 64`."""
        pairs = (("processor", self.cpu_model, other.cpu_model), ("CPUs", self.cpus, other.cpus))
        found = [f"{what} {own} and {others}" for what, own, others in pairs if own != others]
        if abs(self.memory_bytes - other.memory_bytes) > 0.02 * self.memory_bytes:
            found.append(f"memory {format_bytes(self.memory_bytes)} and {format_bytes(other.memory_bytes)}")
        return found


NETWORK = "network.json"  # in the run directory: a `Network`


class Network(Frozen):
    """The network between the client's host and the servers', measured once before the run.

    `rtt_ns` is the median round trip of small messages, `bytes_per_s` the bandwidth from the servers to the client.
    """

    client_address: str
    servers_address: str
    client_machine: str
    rtt_ns: float
    bytes_per_s: float


def gather_host(run_path: Path, data_path: Path | None = None) -> Host:
    """Describe this machine; `data_path` is where the servers keep their data."""
    cpu = _cpu_info()
    return Host(
        system=_os_name(),
        kernel=platform.release(),
        machine=platform.machine(),
        cpu_model=_cpu_model(cpu),
        cpus=os.cpu_count() or 1,
        cpus_usable=len(os.sched_getaffinity(0)),
        cores=psutil.cpu_count(logical=False),
        numa_nodes=len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or None,
        memory_bytes=psutil.virtual_memory().total,
        swap_bytes=psutil.swap_memory().total,
        virtualisation=_virtualisation(cpu),
        container=_container(),
        governor=read_fact("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        transparent_huge_pages=_chosen(read_fact("/sys/kernel/mm/transparent_hugepage/enabled")),
        microcode=cpu.get("microcode"),
        load_average=os.getloadavg(),
        run_files=file_system_of(run_path),
        data_files=file_system_of(data_path) if data_path else None,
    )


def kinds_of(machines: Mapping[str, Host]) -> dict[str, str]:
    """Return the kind of each machine in words; machines without `differences` are of one kind."""
    first: list[Host] = []
    found = {}
    for name, machine in machines.items():
        like = next((each for each in first if not each.differences(machine)), None)
        if like is None:
            first.append(like := machine)
        found[name] = str(like)
    return found


def file_system_of(path: Path) -> FileSystem | None:
    """Return the file system of a path, or of its nearest existing parent; None if unknown."""
    existing = next((place for place in (path.absolute(), *path.absolute().parents) if place.exists()), Path("/"))
    real = existing.resolve()
    mounts = [part for part in psutil.disk_partitions(all=True) if real.is_relative_to(part.mountpoint)]
    if not mounts:
        return None
    mount = max(mounts, key=lambda part: len(part.mountpoint))
    usage = psutil.disk_usage(str(real))
    return FileSystem(
        path=str(path),
        device=mount.device,
        kind=mount.fstype,
        options=mount.opts,
        total_bytes=usage.total,
        free_bytes=usage.free,
    )


def read_fact(path: str) -> str | None:
    try:
        return Path(path).read_text(errors="replace").strip() or None
    except OSError:
        return None


def _cpu_model(cpu: Mapping[str, str]) -> str:
    """Return the model name, with family and model number if a hypervisor has shortened it (AMD EPYC)."""
    name, numbers = cpu.get("model name", "unknown"), (cpu.get("cpu family"), cpu.get("model"))
    if all(numbers) and not re.search(r"\d", name):
        return f"{name} (family {numbers[0]}, model {numbers[1]})"
    return name


def _chosen(choices: str | None) -> str | None:
    """Return the word in brackets: `madvise` for `always [madvise] never`."""
    return choices.partition("[")[2].partition("]")[0] or choices if choices else None


def _cpu_info() -> dict[str, str]:
    first = (read_fact("/proc/cpuinfo") or "").partition("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


def _virtualisation(cpu: dict[str, str]) -> str | None:
    if "hypervisor" not in cpu.get("flags", "").split():
        return None
    vendor, product = read_fact("/sys/class/dmi/id/sys_vendor"), read_fact("/sys/class/dmi/id/product_name")
    return " ".join(part for part in (vendor, product) if part) or "hypervisor"


def _container() -> str | None:
    if Path("/.dockerenv").exists():
        return "docker"
    if Path("/run/.containerenv").exists():
        return "podman"
    return None


FORMAT = 4  # version of the run directory's format (docs/reference/results.md)


class Manifest(Frozen):
    """What made a run directory."""

    format: int = FORMAT
    name: str
    title: str
    created_at: AwareDatetime
    bakeoff: str
    commit: str | None
    python: str
    command: tuple[str, ...]
    seed: int
    engine: dict[str, JsonValue]
    host: Host


def bakeoff_version() -> str:
    return version("bakeoff")


def checkout_commit() -> str | None:
    """Return the commit of bakeoff's own checkout, with `+` if it has changes; None if installed."""
    here = Path(__file__).resolve().parent
    try:
        if Path(_git(here, "rev-parse", "--show-toplevel")) / "python" / "bakeoff" / "results" != here:
            return None
        commit = _git(here, "rev-parse", "--short=12", "HEAD")
        dirty = _git(here, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}+" if dirty else commit


def _git(directory: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(directory), *arguments], capture_output=True, text=True, timeout=10, check=True
    )
    return done.stdout.strip()
