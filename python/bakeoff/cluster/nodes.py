"""Connects to a Ray cluster, names its nodes, chooses those that measure, and compares them."""

import contextlib
import os
import re
import shutil
import signal
import socket
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil

from bakeoff.cli.arguments import Nodes
from bakeoff.cluster import worker
from bakeoff.errors import HostError, SpecError
from bakeoff.results.manifest import Host, bakeoff_version
from bakeoff.spec import Study
from bakeoff.units import format_bytes

RUNNING = "auto"  # $RAY_ADDRESS, else the cluster that this machine is a node of, else one of this machine alone
LOCAL = "local"
NAMESPACE = "bakeoff"
# For a cluster that we start: results are small, and /dev/shm takes memory from the servers.
STORE_BYTES = 80_000_000
_SESSION = "bakeoff-ray-"
_TMP = Path("/tmp")  # short, because the path of a socket, such as Ray's, has at most 107 bytes
_CLIENT = "ray://"
_CONNECT_S = 10.0
_ANSWER_S = 90.0  # a node starts a Python program for the first answer
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # send no usage statistics
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


_OF_EVERY_NODE = ("memory", "object_store_memory")  # resources that Ray itself names


@dataclass(frozen=True)
class Node:
    """A live node. `name` is unique; `facts` are empty until asked."""

    name: str
    id: str
    resources: Mapping[str, float]
    facts: worker.Facts

    @property
    def host(self) -> Host:
        return Host.model_validate(self.facts["host"])

    @property
    def may_measure(self) -> bool:
        """Whether it offers a CPU or a custom resource; a head with `--num-cpus 0` only leads."""
        return any(name not in _OF_EVERY_NODE and not name.startswith("node:") for name in self.resources)


def import_ray(address: str) -> Any:  # noqa: ANN401 — there may be no such module
    """Import Ray and set it up as a driver of the cluster at an address."""
    # Ray finds its token unaided, but its client does so only if the mode is set.
    by_client = (address if address != RUNNING else os.environ.get("RAY_ADDRESS", "")).startswith(_CLIENT)
    set_here = _QUIET | ({"RAY_AUTH_MODE": "token"} if by_client and _has_token() else {})
    os.environ.update({name: value for name, value in set_here.items() if name not in os.environ})
    try:
        import ray
    except ImportError:
        raise HostError("ray is not installed.", hint="Write: pip install 'bakeoff[ray]'") from None
    return ray


def _has_token() -> bool:
    path = os.environ.get("RAY_AUTH_TOKEN_PATH", "~/.ray/auth_token")
    return "RAY_AUTH_TOKEN" in os.environ or Path(path).expanduser().is_file()


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connect as a driver of a cluster; raise HostError if that fails. A cluster started here ends with the block."""
    ray = import_ray(address)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    session: Path | None = None
    try:
        address = _find(address)
        if address == LOCAL:
            _remove_old_sessions()
            session = Path(tempfile.mkdtemp(prefix=f"{_SESSION}{os.getpid()}-", dir=_TMP))
        _connect(ray, address, session)
        for number, handler in handlers.items():  # Ray installs its own
            signal.signal(number, handler)
        yield ray
    finally:
        ray.shutdown()
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if session:
            shutil.rmtree(session, ignore_errors=True)


def _find(address: str) -> str:
    """Turn `auto` into the address of a known cluster, or `local`."""
    if address != RUNNING:
        return address
    if named := os.environ.get("RAY_ADDRESS"):
        return named
    services = import_module("ray._private.services")
    return RUNNING if services.find_gcs_addresses() else LOCAL


def _connect(ray: ModuleType, address: str, session: Path | None) -> None:
    quiet = {"log_to_driver": False, "logging_level": "error", "namespace": NAMESPACE}
    alone = {
        "include_dashboard": False,
        "object_store_memory": STORE_BYTES,
        "num_cpus": 1,
        "_temp_dir": str(session),
        "_system_config": {
            "worker_niceness": 0,
            # The daemons wake up less often beside what is measured.
            "raylet_report_resources_period_milliseconds": 1000,
            "enable_metrics_collection": False,
            "gcs_pull_resource_loads_period_milliseconds": 10_000,
        },
    }
    _require_listener(address)
    for is_last in (False, False, True):
        try:
            ray.init(address=address, **quiet, **(alone if session else {}))
            return
        except Exception as error:  # Ray has no common class for them
            # The head starts a process for each `ray://` driver, which may fail once on a busy machine.
            if is_last or not isinstance(error, ConnectionAbortedError):
                raise _unreachable(address, last_words(error)) from None


def _require_listener(address: str) -> None:
    """Check that something listens there; Ray would wait for minutes."""
    host, _, port = address.removeprefix(_CLIENT).rpartition(":")
    if not host or not port.isdecimal():  # auto, local
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
    except OSError as error:
        raise _unreachable(address, error.strerror or str(error)) from None


def _unreachable(address: str, reason: str) -> HostError:
    return HostError(
        f"ray: no cluster can be reached at {address}: {reason}.",
        hint="Write the address of its head, HOST:6379, or `--ray local` for this machine alone.",
    )


def _remove_old_sessions() -> None:
    for folder in _TMP.glob(f"{_SESSION}*"):
        owner = re.match(rf"{_SESSION}(\d+)-", folder.name)
        if owner and not psutil.pid_exists(int(owner[1])) and folder.stat().st_uid == os.geteuid():
            shutil.rmtree(folder, ignore_errors=True)


def alive_nodes(ray: ModuleType) -> list[Node]:
    found = [each for each in ray.nodes() if each["Alive"]]
    names = Counter(map(_own_name, found))
    nodes = []
    for each in found:
        name = _own_name(each)
        name = name if names[name] == 1 else f"{name}-{each['NodeID'][:8]}"
        nodes.append(Node(name, each["NodeID"], dict(each["Resources"]), {}))
    return sorted(nodes, key=lambda node: node.name)


def _own_name(node: Mapping[str, Any]) -> str:
    given = str(node.get("NodeName") or "")
    return given if given and given != node["NodeManagerAddress"] else str(node["NodeManagerHostname"])


def choose(nodes: Sequence[Node], wanted: Nodes) -> list[Node]:
    """Return the nodes that measure; raise SpecError if there are too few."""
    resource = wanted.resource or "CPU"
    fitting = [node for node in nodes if node.resources.get(resource, 0) >= 1]
    if not fitting:
        raise SpecError(
            f"ray: no node offers the resource {resource}.",
            hint=f"""Start nodes with --resources='{{"{resource}": 1}}'."""
            if wanted.resource
            else "Name one: --on NAME.",
        )
    if wanted.hosts is not None and len(fitting) < wanted.hosts:
        are = "1 node offers" if len(fitting) == 1 else f"{len(fitting)} nodes offer"
        raise SpecError(f"ray: {are} {resource}, and --hosts asks for {wanted.hosts}.", hint="Start more, or ask less.")
    return fitting[: wanted.hosts]


def on_node(ray: ModuleType, node: Node, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node.id, soft=False)
    return {"num_cpus": 0, "scheduling_strategy": strategy, **more}


def ask_facts(ray: ModuleType, nodes: Sequence[Node], study: Study | None = None) -> list[Node]:
    """Return the nodes with their facts; raise HostError if one does not answer or has no bakeoff."""
    from ray.util import scheduling_strategies  # noqa: F401 — `on_node` finds it in ray.util

    text = study.model_dump_json() if study else None
    task = ray.remote(max_retries=0)(worker.facts)
    asked = [task.options(**on_node(ray, node)).remote(text) for node in nodes]
    return [
        Node(node.name, node.id, node.resources, get(ray, node.name, answer, what="bakeoff could not be asked"))
        for node, answer in zip(nodes, asked, strict=True)
    ]


def get(ray: ModuleType, name: str, reference: Any, *, what: str) -> Any:  # noqa: ANN401
    """Return the value of a call; raise HostError if the node or the call fails or does not answer."""
    try:
        return ray.get(reference, timeout=_ANSWER_S)
    except ray.exceptions.GetTimeoutError:
        raise HostError(f"node {name}: {what}: no answer within {_ANSWER_S:.0f} s.") from None
    except ray.exceptions.RayError as error:
        text = str(error)
        if "ModuleNotFoundError" in text and "bakeoff" in text:
            raise HostError(
                f"node {name}: bakeoff is not installed there.", hint=f"Install bakeoff {bakeoff_version()} on it."
            ) from None
        raise HostError(f"node {name}: {what}: {last_words(error)}.") from None


def last_words(error: BaseException) -> str:
    """Return the last line of Ray's explanation, which is the error itself."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200].rstrip(".") if lines else type(error).__name__


def require_same_programs(nodes: Sequence[Node]) -> None:
    """Raise HostError for a node whose bakeoff or engine differs from ours."""
    here = _programs(worker.facts())
    for node in nodes:
        if node.facts["problem"] and not node.facts["engine"]:
            raise HostError(f"node {node.name}: {node.facts['problem']}")
        for what, there in _programs(node.facts).items():
            if there != here[what]:
                raise HostError(
                    f"node {node.name}: {what} is {there}, and {here[what]} here.",
                    hint="Install the same wheel on both.",
                )


def _programs(facts: worker.Facts) -> dict[str, str]:
    commit = f" ({facts['commit']})" if facts["commit"] else ""
    engine = facts["engine"]
    built = engine.get("build", {}).get("commit", "")
    return {
        "bakeoff": f"{facts['bakeoff']}{commit}",
        "the engine": f"{engine.get('engine', 'missing')} ({built})",
    }


def differences(nodes: Sequence[Node]) -> list[str]:
    """Describe how the nodes that may measure differ in what decides speed, one sentence each."""
    sentences = []
    for label, of in _DECIDING:
        by_value = _grouped((of(node.host), node.name) for node in nodes if node.may_measure)
        if len(by_value) > 1:
            parts = "; ".join(f"{value} on {', '.join(names)}" for value, names in by_value.items())
            sentences.append(f"{label} differ: {parts}")
    machines = _grouped((node.facts["boot"], node.name) for node in nodes).values()
    together = (" and ".join(names) for names in machines if len(names) > 1)
    return sentences + [f"{names} are one machine: each disturbs the others' measurement" for names in together]


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for value, name in pairs:
        found.setdefault(value, []).append(name)
    return found


_DECIDING: tuple[tuple[str, Callable[[Host], str]], ...] = (
    ("CPU models", lambda host: host.cpu_model),
    ("CPUs", lambda host: f"{host.cpus_usable}"),
    ("memories", lambda host: format_bytes(round(host.memory_bytes / 2**30) * 2**30)),
    ("kernels", lambda host: host.kernel),
    ("frequency governors", lambda host: host.governor or "none"),
)
