"""Estimate what a study takes before anything is started: arms, shared builds, minutes, memory, disk."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from bakeoff.errors import HostError, SpecError, within
from bakeoff.plan import Plan, plan_study, timing
from bakeoff.plan.epochs import turns
from bakeoff.plan.factorial import arm_names
from bakeoff.plan.workloads import data_bytes
from bakeoff.run.arms import MemoryShare, load_key, max_servers_for_aio, settings_of, share_memory
from bakeoff.run.measuring import resolved
from bakeoff.run.own_data import check_source
from bakeoff.servers import RemoteServer, find_entry, install, is_installed
from bakeoff.servers.instance import preload_libraries
from bakeoff.servers.options import refuse_passwords
from bakeoff.servers.paths import work_root
from bakeoff.servers.profile import check_collations
from bakeoff.spec import Arm, Origin, Study
from bakeoff.spec.server_name import is_url
from bakeoff.units import format_bytes, format_duration

# Measured on a small machine (bench/results/harness-*.json). A run measures its own in the first epoch.
_LOAD_BYTES_PER_S = 25e6
_LOAD_FIXED_S = 4.0  # to start, analyse, flush, stop and copy a server
_COPY_BYTES_PER_S = 500e6
_EPOCH_FIXED_S = 1.5
_EPOCH_PER_SERVER_S = 0.9
_DATADIR_BYTES = 120 * 2**20  # system tables and InnoDB's initial files
_WRITE_GROWTH = 1.3
_TAKEN_SHARE = 0.5  # compressed SQL over data and indexes; about a fifth for text, more for binary data


@dataclass(frozen=True)
class ArmForecast:
    arm: Arm
    build: str  # letter of its loads; arms of one letter share them
    settings: str  # number of its server's settings; arms of one number differ in the client alone
    download_bytes: int | None  # still to be fetched; None if unknown


@dataclass(frozen=True)
class Forecast:
    study: Study
    arms: tuple[ArmForecast, ...]
    plan: Plan
    share: MemoryShare
    loads: int
    load_bytes: int
    disk_bytes: int  # at the worst moment: snapshots, running servers, data taken from others
    disk_free_bytes: int
    disk_path: Path

    @property
    def is_too_small(self) -> bool:
        """Whether the budget cannot hold a verdict on a typical machine. Running servers get no verdict."""
        return self.study.budget_s < self.plan.budget_needed_s and not self.study.has_running_server


def forecast(study: Study, *, elsewhere: bool = False) -> Forecast:
    """Estimate what a study takes. With `elsewhere` other machines measure it, and check memory and files."""
    check_source(study)
    study = resolved(study)
    study = study.with_arms(study.starting_arms)  # arms that join are loaded when needed
    memory_bytes, at_most = (sys.maxsize, None) if elsewhere else (None, max_servers_for_aio())
    share = share_memory(study, available_bytes=memory_bytes, at_most=at_most)
    ours = [arm for arm in study.arms if not arm.server.is_running]
    for arm in () if elsewhere else ours:
        preload_libraries(dict(arm.server.env).get("LD_PRELOAD", ""))
    downloads = {arm.name: _check(arm, study, share, elsewhere=elsewhere) for arm in study.arms}
    sizes = {load_key(arm): data_bytes(study, arm.data) for arm in ours}
    joining = int(study.question.adds_arms)  # one at a time
    kept = len(sizes) + joining
    load_bytes = max(sizes.values(), default=0)
    fixed = _DATADIR_BYTES + share.memory.redo_bytes
    snapshots = study.builds * (sum(sizes.values()) + load_bytes * joining + kept * fixed)
    running = share.at_once * int(load_bytes * _WRITE_GROWTH + fixed)
    taken = {arm.data.source: arm.data.source_bytes for arm in ours if is_url(arm.data.source)}
    plan = _duration(study, share, list(sizes.values()))
    folder = work_root()
    place = next(path for path in (folder, *folder.parents) if path.exists())
    return Forecast(
        study=study,
        arms=tuple(_arms(study, downloads)),
        plan=plan,
        share=share,
        loads=kept * study.builds,
        load_bytes=load_bytes,
        disk_bytes=snapshots + running + int(_TAKEN_SHARE * sum(taken.values())),
        disk_free_bytes=shutil.disk_usage(place).free,
        disk_path=folder,
    )


def _duration(study: Study, share: MemoryShare, sizes: list[int]) -> Plan:
    cells = len(study.workloads) * len(study.threads)
    rounds = turns(share.servers, at_once=share.at_once) - share.servers + 1
    every_turn = len(study.arms) + rounds - 1
    build_s = sum(_LOAD_FIXED_S + size / _LOAD_BYTES_PER_S for size in sizes)
    server_s = _EPOCH_PER_SERVER_S + max(sizes, default=0) / _COPY_BYTES_PER_S
    machine_s = rounds * _EPOCH_FIXED_S + share.servers * server_s
    return plan_study(
        study,
        overhead_s=machine_s + rounds * len(study.workloads) * timing.warm_seconds(study.warm_s),
        load_s=study.builds * build_s + timing.report_seconds(cells),
        turns=every_turn,
    )


def require_disk(seen: Forecast, there_bytes: int = 0) -> None:
    if seen.disk_bytes > seen.disk_free_bytes + there_bytes:
        raise HostError(
            f"disk: {seen.loads} loads and {seen.share.at_once} servers take about {format_bytes(seen.disk_bytes)} in "
            f"{seen.disk_path}, and {format_bytes(seen.disk_free_bytes)} is free.",
            hint="Load fewer rows or builds, or set XDG_CACHE_HOME to a larger disk.",
            field=("table_size",),
        )


def require_budget(seen: Forecast) -> None:
    if not seen.is_too_small:
        return
    study, needed_s = seen.study, seen.plan.budget_needed_s
    cells = "1 cell" if len(seen.plan.cells) == 1 else f"{len(seen.plan.cells)} cells"
    anyway = "; --no-verdict measures anyway" if study.question.is_verdict else ""
    raise SpecError(
        f"a budget of {format_duration(study.budget_s)} is too small for a verdict: {seen.plan.epochs_min} restarts of "
        f"{len(study.arms)} servers with {cells} take about {format_duration(needed_s)} with loading.",
        hint=f"Give --budget {needed_s:.0f}s or more, or take fewer servers or cells{anyway}.",
    )


def _check(arm: Arm, study: Study, share: MemoryShare, *, elsewhere: bool) -> int | None:
    """Return the bytes still to be downloaded for an arm, after checking what can be checked without them."""
    with within("arms", arm.name):
        refuse_passwords(str(arm.server.with_settings(options=())), dict(arm.server.options))
        if arm.server.is_running:
            RemoteServer(arm.server, password="")  # refuses options
            return 0
        if arm.server.origin is Origin.CATALOG:
            entry = find_entry(arm.server)
            check_collations(entry.name, entry.family, entry.numbers, arm.data)  # before it is fetched
            if not is_installed(entry):
                return entry.download_bytes or None
        elif arm.server.origin is not Origin.PATH:
            return None
        if elsewhere and (arm.server.origin is Origin.PATH or not all(Path(f).is_file() for f in arm.server.cnf_files)):
            return 0
        settings_of(arm, install(arm.server), study, share.memory)
    return 0


def _arms(study: Study, downloads: dict[str, int | None]) -> list[ArmForecast]:
    loads = list(dict.fromkeys(load_key(arm) for arm in study.arms if not arm.server.is_running))
    builds = dict(zip(loads, map(str.lower, arm_names(len(loads))), strict=True))
    settings = list(dict.fromkeys((arm.server, arm.data) for arm in study.arms))
    seen: set[object] = set()
    found = []
    for arm in study.arms:
        server = (arm.server.origin, arm.server.flavour, arm.server.version, arm.server.location)
        bytes_left = downloads[arm.name]
        build = "-" if arm.server.is_running else builds[load_key(arm)]
        number = str(settings.index((arm.server, arm.data)) + 1)
        found.append(ArmForecast(arm, build, number, 0 if server in seen and bytes_left else bytes_left))
        seen.add(server)
    return found
