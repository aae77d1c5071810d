"""Find what on this machine would spoil a measurement, what it can resolve, and whether it finds a known slowdown.

`examine` takes about two seconds; `resolve` and `prove` run short duels of a server against itself.
"""

import math
import os
import re
import shutil
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import psutil

from bakeoff import features
from bakeoff.engine import Engine, engine_path
from bakeoff.errors import EngineError, HostError
from bakeoff.plan import Plan
from bakeoff.results import RunDirectory
from bakeoff.results.manifest import read_fact
from bakeoff.run.arms import control_groups, free_memory_bytes
from bakeoff.run.forecast import forecast
from bakeoff.run.runner import Invocation, run_study
from bakeoff.servers.install import lacking
from bakeoff.servers.paths import RUNTIME_ROOT, bytes_on_disk, cache_root, other_bakeoffs, require_reachable
from bakeoff.servers.process import server_identity
from bakeoff.spec import Arm, Data, Study, Workload, parse_server
from bakeoff.stats.estimate import epoch_estimates
from bakeoff.stats.model import Analysis, Comparison, Word
from bakeoff.stats.progress import Listener
from bakeoff.stats.resolution import Resolution, resolution
from bakeoff.units import format_bytes, ratio_text

TEST_RUN_S = 60.0  # wall time of the test run for the forecast, roughly
PROOF_S = 120.0  # wall seconds of each duel of a proof, at most
PROOF_SLOWDOWN_PERCENT = 5.0

_PROBE_S = 2.0
_BUSY_SHARE = 0.10  # other programs' CPU: above this, concurrencies below the core count suffer first
_STEAL_SHARE = 0.01
_FREE_DISK_BYTES = 10 * 10**9
_FREE_MEMORY_BYTES = 2 * 10**9
_ANOTHER_CACHE = "Set XDG_CACHE_HOME to a folder that you may write to."
_ROOMY_CPUS = 8  # with fewer, the client takes a noticeable share of the machine
_BURSTABLE = re.compile(r"t[34][ag]?\.")  # Amazon's; other clouds do not name the type there
_THERMAL = "cpu[0-9]*/thermal_throttle/core_throttle_count"
FAR_NS = 250  # near ones took 42 to 100 ns, far ones 370 to 440 (docs/evidence/placement.md)
_FAST_CLOCKS = ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter")  # read without a system call
_JITTER_NS = 2_000_000  # a longer gap in a busy loop means it lost its CPU
_ADVICE: dict[str, str] = tomllib.loads(Path(__file__).with_name("machine_advice.toml").read_text("utf-8"))


class Severity(IntEnum):
    OK = 0
    NOTE = 1
    WARNING = 2
    PROBLEM = 3  # a run cannot start, or cannot be trusted


@dataclass(frozen=True)
class Finding:
    subject: str
    severity: Severity
    found: str
    advice: str = ""


def examine(work_root: Path) -> list[Finding]:
    findings = [*_load(), *_processor(), *_memory(), *_disk(work_root), *_programs(), *_servers()]
    findings += [finding for feature in features.parts("checks") for finding in feature.checks()]
    return sorted(findings, key=lambda finding: -finding.severity)


def _load() -> Iterator[Finding]:
    """Measure CPU use of others, steal and scheduling gaps with a short probe that keeps one CPU busy."""
    own = psutil.Process()
    before, own_before = psutil.cpu_times(), sum(own.cpu_times()[:2])
    gaps, worst_ns = _spin(_PROBE_S)
    after, own_after = psutil.cpu_times(), sum(own.cpu_times()[:2])
    whole_s = sum(after[:8]) - sum(before[:8]) or 1.0
    idle_s = after.idle - before.idle + after.iowait - before.iowait
    steal_s = after.steal - before.steal
    others = max(0.0, (whole_s - idle_s - steal_s - (own_after - own_before)) / whole_s)
    busy = Severity.WARNING if others > _BUSY_SHARE else Severity.OK
    yield _finding("other load", busy, f"other programs use {others:.0%} of the CPUs")
    for pid in other_bakeoffs(RUNTIME_ROOT):
        yield _finding("other bakeoff", Severity.WARNING, f"process {pid} runs servers on this machine")
    stolen = Severity.WARNING if steal_s / whole_s > _STEAL_SHARE else Severity.OK
    yield _finding("steal", stolen, f"the hypervisor takes {steal_s / whole_s:.1%}")
    limit, worst = f"{_JITTER_NS / 1e6:.0f} ms in {_PROBE_S:.0f} s", f"{worst_ns / 1e6:.1f} ms"
    jitter = Severity.NOTE if gaps else Severity.OK
    yield _finding("scheduling", jitter, f"{gaps} gaps above {limit}, the longest {worst}")


def _spin(seconds: float) -> tuple[int, int]:
    end = last = time.perf_counter_ns()
    end += int(seconds * 1e9)
    gaps = worst = 0
    while last < end:
        now = time.perf_counter_ns()
        worst = max(worst, now - last)
        gaps += now - last > _JITTER_NS
        last = now
    return gaps, worst


def _processor() -> Iterator[Finding]:
    cpus = len(os.sched_getaffinity(0))
    few, advice = Severity.OK, ""
    if cpus < 2:
        few, advice = Severity.WARNING, "Client and server will share one CPU."
    elif cpus < _ROOMY_CPUS:
        few, advice = Severity.NOTE, "Client and servers take CPU from each other, the same for every arm."
    quota = cpu_quota(control_groups("cpu"))
    limited = quota < cpus
    at_once = f" ({quota:g} at a time, by a quota)" if limited else ""
    yield _finding("CPUs", few, f"{cpus} usable{at_once}, for the client and the servers together", advice)
    instance = read_fact("/sys/class/dmi/id/product_name") or ""
    if _BURSTABLE.match(instance):
        found = f"{instance} runs at full speed only while its CPU credits last"
        yield _finding("burst credits", Severity.WARNING, found)
    governor = read_fact("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if governor and governor != "performance":
        yield _finding("frequency", Severity.NOTE, f"governor {governor}")
    hot = sum(int(read_fact(str(path)) or 0) for path in Path("/sys/devices/system/cpu").glob(_THERMAL))
    if hot:
        found = f"the processor has throttled itself {hot} times since boot because of heat"
        yield _finding("heat", Severity.WARNING, found)
    throttled = times_throttled(control_groups("cpu"))
    if throttled or limited:
        limit = [f"has {quota:g} of {cpus} CPUs"] if limited else []
        stops = [f"was throttled {throttled} times"] if throttled else []
        found = f"a control group that bakeoff is in {' and '.join(limit + stops)}"
        yield _finding("CPU quota", Severity.WARNING, found)
    clock = read_fact("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    if clock and clock not in _FAST_CLOCKS:
        yield _finding("clock", Severity.NOTE, f"clock source {clock} is slow to read")


def times_throttled(groups: Iterable[Path]) -> int:
    stats = (read_fact(str(group / "cpu.stat")) or "" for group in groups)
    return max((int(each) for stat in stats for each in re.findall(r"^nr_throttled (\d+)$", stat, re.M)), default=0)


def cpu_quota(groups: Iterable[Path]) -> float:
    """Return the smallest CPU quota of the control groups, in CPUs; infinite without one."""
    found: list[float] = []
    for group in groups:
        version_1 = " ".join(read_fact(str(group / f"cpu.cfs_{name}_us")) or "" for name in ("quota", "period"))
        limits = [re.fullmatch(r"(\d+) (\d+)", text) for text in (read_fact(str(group / "cpu.max")) or "", version_1)]
        found += [int(each[1]) / int(each[2]) for each in limits if each]  # not "max 100000", "-1 100000"
    return min(found, default=math.inf)


def _memory() -> Iterator[Finding]:
    free = free_memory_bytes()
    tight = Severity.PROBLEM if free < _FREE_MEMORY_BYTES else Severity.OK
    yield _finding("memory", tight, f"{format_bytes(free)} of {format_bytes(psutil.virtual_memory().total)} available")
    swap = psutil.swap_memory()
    if swap.used > 64 * 2**20:
        yield _finding("swap", Severity.WARNING, f"{format_bytes(swap.used)} in use")
    huge = read_fact("/sys/kernel/mm/transparent_hugepage/enabled") or ""
    if "[always]" in huge:
        yield _finding("huge pages", Severity.NOTE, "transparent huge pages: always")


def _disk(work_root: Path) -> Iterator[Finding]:
    cache = cache_root()
    try:
        held = _finding("cache", Severity.OK, f"{cache} holds {_held(cache)}")
    except OSError as problem:
        held = _finding("cache", Severity.WARNING, f"{cache} cannot be read: {problem.strerror}", _ANOTHER_CACHE)
    yield held
    try:
        place = next(path for path in (work_root, *work_root.parents) if path.exists())
        free = shutil.disk_usage(place).free
    except OSError as problem:
        yield _finding("disk", Severity.PROBLEM, f"{work_root} cannot be used: {problem.strerror}", _ANOTHER_CACHE)
        return
    full = Severity.OK
    if free < _FREE_DISK_BYTES:
        full = Severity.PROBLEM if free < _FREE_DISK_BYTES / 10 else Severity.WARNING
    yield _finding("disk", full, f"{format_bytes(free)} free at {place}")
    yield from _access(place)


def _access(place: Path) -> Iterator[Finding]:
    if not os.access(place, os.W_OK | os.X_OK):
        yield _finding("folder", Severity.PROBLEM, f"{place} may not be written to", _ANOTHER_CACHE)
        return
    try:
        identity = server_identity(make=False)
        require_reachable(place, identity.uid, identity.gid)
    except HostError as error:
        yield _finding("account", Severity.PROBLEM, error.message, error.hint)


def _held(cache: Path) -> str:
    folders = sorted(each for each in cache.iterdir() if each.is_dir()) if cache.is_dir() else []
    sizes = {each.name: bytes_on_disk(each) for each in folders}
    parts = ", ".join(f"{name} {format_bytes(size)}" for name, size in sizes.items())
    return format_bytes(sum(sizes.values())) + (f" ({parts})" if parts else "")


def _programs() -> Iterator[Finding]:
    try:
        with Engine() as engine:
            cache_line_ns = engine.cache_line_ns()
    except (HostError, EngineError) as error:
        yield _finding("engine", Severity.PROBLEM, error.message, error.hint)
    else:
        yield _finding("engine", Severity.OK, str(engine_path()))
        time = f"{cache_line_ns} ns" if cache_line_ns else "an unknown time (only one CPU, or the CPUs are busy)"
        far = Severity.NOTE if (cache_line_ns or 0) > FAR_NS else Severity.OK
        yield _finding("CPU distance", far, f"two CPUs pass a cache line to each other and back in {time}")


def _servers() -> Iterator[Finding]:
    for error in lacking():
        yield _finding("servers", Severity.WARNING, error.message, error.hint)


def _finding(subject: str, severity: Severity, found: str, advice: str = "") -> Finding:
    return Finding(subject, severity, found, (advice or _ADVICE.get(subject, "")) if severity > Severity.OK else "")


@dataclass(frozen=True)
class Proof:
    expected: str
    found: str
    holds: bool


def resolve(server: str, *, seed: int, threads: int, listener: Listener, stop: threading.Event) -> Resolution | None:
    """Run two equal servers against each other and forecast what this machine resolves. Only a failed run is kept."""
    study = _duel_of_one_server(server, seed=seed, threads=threads, budget_s=TEST_RUN_S)
    with _folder_of_a_test_run() as folder:
        run, _ = _run(study, folder, listener, stop)
        plan = run.read("plan.json", Plan)
        assert plan, "a run that ended has a plan"
        valid = [data for data in run.load_epochs() if data.valid]
        pairs = [pair for data in valid for pair in epoch_estimates(data, baseline="A").pairs]
    return resolution(pairs, overhead_s=plan.overhead_s, load_s=plan.load_s)


def smallest_budget_s(server: str, *, threads: int) -> float:
    """Return the smallest budget for a verdict on a different server, in a duel of the default tables."""
    study = _duel_of_one_server(server, seed=0, threads=threads, budget_s=TEST_RUN_S)
    arm, other = study.arms
    unlike = other.with_data(Data(charset="utf8mb4"))  # forces separate loads
    duel = Study(
        title=study.title, arms=(arm, unlike), workloads=(Workload(script="oltp_read_only"),), threads=(threads,)
    )
    return forecast(duel).plan.budget_needed_s


def prove(server: str, *, seed: int, threads: int, listener: Listener, stop: threading.Event) -> list[Proof]:
    """Duel two equal servers, then the same with an injected slowdown, and judge both answers.

    A 95 % interval misses the truth once in twenty duels, so a duel that does not hold is repeated once.
    """
    proofs: list[Proof] = []
    for percent in (0.0, PROOF_SLOWDOWN_PERCENT):
        for attempt in range(2):
            study = _duel_of_one_server(
                server, seed=seed + attempt, threads=threads, budget_s=PROOF_S, slowdown_percent=percent
            )
            with _folder_of_a_test_run() as folder:
                _, analysis = _run(study, folder, listener, stop)
            found = judge_duel(analysis.comparisons[0], percent)
            if stop.is_set() or all(proof.holds for proof in found):
                break
        proofs += found
        if stop.is_set():
            break
    return proofs


def judge_duel(comparison: Comparison, slowdown_percent: float) -> list[Proof]:
    interval, words = comparison.estimate.interval, comparison.verdict.words
    truth = -math.log1p(slowdown_percent / 100)
    ratio = ratio_text(comparison.estimate.mean, interval.low, interval.high)
    covered = interval.low is not None and interval.high is not None and interval.low <= truth <= interval.high
    claimed = ", ".join(words)
    if not slowdown_percent:
        return [
            Proof("equal servers: the interval of the ratio holds 1.000", ratio, covered),
            Proof("equal servers: no difference is claimed", claimed, not {Word.FASTER, Word.SLOWER} & set(words)),
        ]
    slower = f"slowdown of {slowdown_percent:g} %"
    return [
        Proof(f"{slower}: the interval of the ratio holds {math.exp(truth):.3f}", ratio, covered),
        Proof(f"{slower}: {Word.SLOWER} is claimed", claimed, Word.SLOWER in words),
    ]


def _duel_of_one_server(
    server: str, *, seed: int, threads: int, budget_s: float, slowdown_percent: float = 0.0
) -> Study:
    spec = parse_server(server)
    arm = Arm(name="A", label=f"{spec} (A)", server=spec)
    other = Arm(name="B", label=f"{spec} (B)", server=spec, slowdown_percent=slowdown_percent)
    return Study(
        title=f"what this machine resolves, by {spec}",
        arms=(arm, other),
        workloads=(Workload(script="oltp_point_select"),),
        threads=(threads,),
        tables=1,
        table_size=10_000,
        budget_s=budget_s,
        builds=1,
        seed=seed,
    )


@contextmanager
def _folder_of_a_test_run() -> Iterator[str]:
    """Yield a folder that is kept if the run fails, because the message names files in it."""
    folder = tempfile.mkdtemp(prefix="bakeoff-doctor-")
    kept = False
    try:
        yield folder
    except Exception:
        kept = any(Path(folder).iterdir())
        raise
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)


def _run(study: Study, folder: str, listener: Listener, stop: threading.Event) -> tuple[RunDirectory, Analysis]:
    return run_study(study, Path(folder), Invocation(("bakeoff", "doctor")), listener=listener, stop=stop)
