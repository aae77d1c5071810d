"""Plants causes on real servers: one setting makes the difference, and the section "Why" must name its family first.

Each cause is a study of two arms and one cell, run as a user runs it. With `attribute` the arms differ in two more
settings that change nothing, and `bakeoff explain --attribute` must name the one that does.
"""

import json
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bakeoff.errors import RunInvalid
from bakeoff.explain.explained import Explained
from bakeoff.explain.named_causes import Evidence, causes, why
from bakeoff.explain.profiles import OFF_CPU, PROFILES
from bakeoff.explain.sections import evidence
from bakeoff.explain.waits import WAITS
from bakeoff.report.context import Context
from bakeoff.results import open_run
from bakeoff.search.attribution import DOCUMENT, FOLDER
from bakeoff.search.model import search_of
from bakeoff.search.sections import believed_of
from bakeoff.stats.model import Analysis, Frozen
from validation.check import Checks, Finding, Setting, Size
from validation.duels import run_bakeoff

CAUSE_CHECKS = Checks(Size.FULL)

_LIMIT_S = 900.0  # of one run: fetching, loading, a busy machine
_PROFILE_BUDGET = "60s"  # for one epoch with a profile, on a busy machine, too
_ATTRIBUTE_LIMIT_S = 1800.0  # of the search, whose budget is eight times the run's

_WITHOUT_EFFECT = {"option.max_connections": "200", "option.table_definition_cache": "1000"}


class Cause(Frozen):
    """One planted cause.

    Attributes:
        arms: settings of the baseline and the contender, as in a study file.
        families: one of these must be named first.
        common: settings of both arms.
        profiled: the evidence has a profile of one epoch besides the counters.
    """

    arms: tuple[dict[str, Any], dict[str, Any]]
    families: tuple[str, ...]
    workload: str = "oltp_point_select"
    options: dict[str, Any] = {}
    server: str = "mysql:8.0.15"
    common: dict[str, Any] = {}
    table_size: int = 20_000
    budget: str = "4m"
    profiled: bool = False

    def study(self, name: str, *, seed: int, attribute: bool) -> dict[str, Any]:
        more = _WITHOUT_EFFECT if attribute else {}
        return {
            "title": name,
            "servers": [self.server],
            "factors": {"cause": {"without": dict(self.arms[0]), "with": dict(self.arms[1]) | more}},
            "settings": dict(self.common),
            "workloads": [{"script": self.workload, "options": dict(self.options)}],
            "threads": [4],
            "tables": 1,
            "table_size": self.table_size,
            "builds": 1,
            "warm_up": "2s",
            "precision": "2%",
            "budget": self.budget,
            "seed": seed,
        }


def _option(name: str, without: str, with_it: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return {f"option.{name}": without}, {f"option.{name}": with_it}


_SETTINGS = {"buffer_pool": "innodb_buffer_pool_size", "preload": "LD_PRELOAD", "script.create_secondary": "data"}
"""Key in a study file -> name of the setting, if it differs."""

_SORTS = {"point_selects": 0, "simple_ranges": 0, "sum_ranges": 0, "distinct_ranges": 0, "order_ranges": 1}
_LOGGING = ("logging and durability",)

CAUSES = {
    "dropped index": Cause(
        arms=({"script.create_secondary": True}, {"script.create_secondary": False}),
        families=("row access",),
        workload="select_random_ranges",
        profiled=True,
    ),
    "log flush": Cause(
        arms=_option("innodb_flush_log_at_trx_commit", "2", "1"), families=_LOGGING, workload="oltp_update_non_index"
    ),
    "sync_binlog": Cause(
        arms=_option("sync_binlog", "0", "1"),
        families=_LOGGING,
        workload="oltp_update_non_index",
        common={"option.log_bin": "binlog", "option.server_id": "1", "option.innodb_flush_log_at_trx_commit": "2"},
    ),
    "buffer pool": Cause(
        arms=({"buffer_pool": "2x"}, {"buffer_pool": "0.25x"}), families=("buffer pool",), table_size=400_000
    ),
    "sort spill": Cause(
        arms=_option("sort_buffer_size", "4M", "32K"),
        families=("temporary tables and sorts",),
        workload="oltp_read_only",
        options=_SORTS | {"range_size": 5000},
        profiled=True,
    ),
    "query cache": Cause(
        arms=(
            {"option.query_cache_type": "0", "option.query_cache_size": "0"},
            {"option.query_cache_type": "1", "option.query_cache_size": "64M"},
        ),
        families=("query cache",),
        server="mysql:5.7.22",
        workload="oltp_read_only",
        table_size=1000,
    ),
    "adaptive hash index": Cause(
        arms=_option("innodb_adaptive_hash_index", "ON", "OFF"),
        families=("row access",),
        table_size=100_000,
        budget="5m",
    ),
    "performance schema": Cause(
        arms=_option("performance_schema", "OFF", "ON"),
        families=("performance schema",),
        budget="5m",
        profiled=True,
    ),
    "allocator": Cause(
        arms=({"preload": "default"}, {"preload": "libtcmalloc_minimal.so.4"}),
        families=("memory allocation",),
        workload=str(Path(__file__).with_name("large_values.lua")),
        profiled=True,
    ),
    "CPU loop": Cause(arms=({"preload": "default"}, {"preload": "LOOP"}), families=("library loop.so",), profiled=True),
}

# Overrides a function that a server calls about once per statement.
_LOOP = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/socket.h>
ssize_t recv(int descriptor, void *buffer, size_t length, int flags) {
    static ssize_t (*real)(int, void *, size_t, int);
    if (!real) real = dlsym(RTLD_NEXT, "recv");
    for (volatile int i = 0; i < 20000; i++) {}
    return real(descriptor, buffer, length, flags);
}
"""


@dataclass(frozen=True)
class Reported:
    """What the report of one run said.

    Attributes:
        claimed: whether the verdict was FASTER or SLOWER; otherwise there is nothing to explain.
        right: whether the right family came first.
        settings: settings found to have an effect, the largest first; None if not asked.
    """

    cause: str
    seed: int
    claimed: bool
    named: tuple[str, ...]
    right: bool
    sentence: str
    settings: tuple[str, ...] | None = None

    @property
    def setting_right(self) -> bool | None:
        planted = {_SETTINGS.get(each, each.removeprefix("option.")) for each in CAUSES[self.cause].arms[1]}
        return None if self.settings is None else self.settings[:1] != () and self.settings[0] in planted


def plant(name: str, folder: Path, *, seed: int, attribute: bool = False) -> Reported:
    """Run the study of a cause and return what its report says; raise RunInvalid if a command failed."""
    cause = CAUSES[name]
    shutil.rmtree(folder, ignore_errors=True)  # left by a kill
    folder.mkdir(parents=True)
    text = json.dumps(cause.study(name, seed=seed, attribute=attribute)).replace(
        "LOOP", str(_loop(folder)) if name == "CPU loop" else "LOOP"
    )
    study = folder / "study.yaml"  # YAML holds JSON
    study.write_text(text, encoding="utf-8")
    explaining = ("--explain-budget", _PROFILE_BUDGET) if cause.profiled else ("--no-explain",)
    runs = folder / "runs"
    try:
        _bakeoff("run", str(study), "--no-verdict", *explaining, runs=runs, limit_s=_LIMIT_S)
        (path,) = runs.iterdir()
        if cause.profiled:
            keep_one_profile(path)
        reported = judge(name, found_in(path), seed=seed)
        if not (attribute and reported.claimed):
            return reported
        _bakeoff("explain", path.name, "--attribute", runs=runs, limit_s=_ATTRIBUTE_LIMIT_S)
        return replace(reported, settings=settings_found(path))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _bakeoff(*words: str, runs: Path, limit_s: float) -> None:
    code, _, err = run_bakeoff([*words, "--runs", str(runs), "--quiet"], limit_s)
    if code != 0:
        raise RunInvalid(f"{' '.join(words)}: exit code {code}: {err.strip()[-300:]}")


def keep_one_profile(path: Path) -> None:
    """Leave only the first profile, as a run with a short budget has it; raise RunInvalid if there is none."""
    run = open_run(path)
    profiles, explain = run.explaining(PROFILES).finished_epochs(), path / "explain"
    if not profiles:
        notes = run.read("explain/notes.json", dict[str, list[str]]) or {}
        raise RunInvalid(f"no profile: {' '.join(notes.get(PROFILES, ()))}")
    for epoch in profiles[1:]:
        shutil.rmtree(explain / PROFILES / f"{epoch:03d}")
    for kind in (WAITS, OFF_CPU):
        shutil.rmtree(explain / kind, ignore_errors=True)


def settings_found(path: Path) -> tuple[str, ...]:
    (document,) = (path / FOLDER).glob(f"*/{DOCUMENT}")
    run = open_run(document.parent)
    believed = believed_of(Context(run, Analysis.model_validate(run.read_json("analysis.json"))))
    named = sorted(believed.named or (), key=lambda each: -abs(believed.effects[each])) if believed else []
    return tuple(search_of(run.study()).settings[each].name for each in named)


def found_in(path: Path) -> Evidence:
    run = open_run(path)
    context = Context(run, Analysis.model_validate(run.read_json("analysis.json")))
    (explanation,) = context.once(Explained).explanations
    return evidence(context, explanation)


def judge(name: str, found: Evidence, *, seed: int) -> Reported:
    named = causes(found)
    return Reported(
        cause=name,
        seed=seed,
        claimed=found.costs.claimed,
        named=named,
        right=found.costs.claimed and named[:1] != () and named[0] in CAUSES[name].families,
        sentence=" ".join(why(found, name)),
    )


def _loop(folder: Path) -> Path:
    source, library = folder / "loop.c", folder / "loop.so"
    source.write_text(_LOOP, encoding="ascii")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    library.chmod(0o755)
    return library


@CAUSE_CHECKS.add("G25", "the right family is named first >= 90 %")
def planted(setting: Setting) -> Finding:
    """Planted causes on real servers."""
    reported = []
    for name in CAUSES:
        reported.append(plant(name, setting.folder / name.replace(" ", "-"), seed=setting.seed))
        setting.report(f"{name}: {reported[-1].sentence}")
    wrong = [f"{each.cause}: {each.sentence}" for each in reported if not each.right]
    right = len(reported) - len(wrong)
    return Finding(
        found="; ".join([f"{right} of {len(reported)} named", *wrong]),
        passed=10 * right >= 9 * len(reported),
        figures={each.cause: {"right": each.right, "named": each.named} for each in reported},
    )
