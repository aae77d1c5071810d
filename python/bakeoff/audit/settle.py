"""Write the study that would tell which of the differences explains a benchmark's figures."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from bakeoff.audit.compare import Difference, facts_of
from bakeoff.audit.dumps import FACTS
from bakeoff.audit.setups import WORKLOADS, Setup
from bakeoff.errors import SpecError
from bakeoff.servers.options import Target, translate
from bakeoff.servers.profile import check_collations
from bakeoff.spec import Data
from bakeoff.spec.factors import CHARSETS, DEFAULT, charset_of

_WORDS: dict[str, Any] = FACTS["settle"]
_FACTORS_MAX = 4  # besides the server: 32 combinations
_SIZE_MAX = 512 * 2**20  # of a pool or a redo log; larger ones shrink together
_THREADS_MAX, _CELLS_MAX = 64, 3
_MINUTES = 3  # per arm and cell


def draft_study(setups: Sequence[Setup], found: Sequence[Difference]) -> str:
    """Return a study file; SpecError if the setups give nothing to vary."""
    targets = dict(map(_server, setups))
    factors, where = dict[str, list[str]](), list[dict[str, Any]]()
    for each in found:
        if each.counts and each.factor not in factors and len(factors) < _FACTORS_MAX:
            _add_factor(factors, where, each, targets)
    if len(targets) < 2 and not factors:
        raise SpecError("audit: no difference that a study could vary.", hint="Leave --output out.")
    names, runs = " and ".join(setup.name for setup in setups), [run for setup in setups for run in setup.runs]
    workloads = sorted({run.workload for run in runs} & {*WORKLOADS})[:_CELLS_MAX] or _WORDS["workloads"]
    threads = sorted({run.threads for run in runs if run.threads and run.threads <= _THREADS_MAX})[:_CELLS_MAX]
    threads = threads or _WORDS["threads"]
    sizes = map(len, [targets, workloads, threads, *factors.values()])
    document = {
        "title": f"settle {names}"[:80],
        "question": f"Which of their differences explains the figures of {names}?",
        "servers": [*targets],
        "factors": factors,
        "where": where,
        "settings": {name: value for name, value in _shared(setups) if name not in factors},
        "workloads": workloads,
        "threads": threads,
        "precision": "2%",
        "budget": f"{max(30, _MINUTES * math.prod(sizes))}m",
        "scales": {"demo": _WORDS["demo"]},
    }
    lines = [f"# {setup.name}: {setup.version_text or 'version unknown'}" for setup in setups]
    if left_out := [each.setting for each in found if each.counts and each.factor not in factors]:
        lines.append(f"# Not varied: {', '.join(left_out)}.")
    return "\n".join([*lines, *(f"{key}: {json.dumps(value)}" for key, value in document.items() if value)]) + "\n"


def _server(setup: Setup) -> tuple[str, Target]:
    """Return the published version, or MySQL 8.0 if only a my.cnf is known, and what is known of its options."""
    flavour = "percona" if "percona" in setup.version_text.lower() else setup.family
    number = re.match(r"[\d.]+(-\d+)?" if flavour == "percona" else r"[\d.]+", setup.version_text)
    name = f"{flavour}:{number[0].rstrip('.') if number else '8.0'}"
    return name, Target(name, setup.family, setup.version or (8, 0))


def _add_factor(
    factors: dict[str, list[str]], where: list[Any], difference: Difference, targets: dict[str, Target]
) -> None:
    factor = difference.factor
    levels = [*dict.fromkeys(_levels(difference))]
    refused = [(name, level) for name in targets for level in levels if not _accepts(targets[name], factor, level)]
    levels = [level for level in levels if any((name, level) not in refused for name in targets)]
    # The baseline, each factor's first level on the first server, must exist.
    levels.sort(key=lambda level: (next(iter(targets)), level) in refused)
    if factor and len(levels) > 1:
        factors[factor] = levels
        where += [{"not": {"server": name, factor: level}} for name, level in refused if level in levels]


def _levels(difference: Difference) -> Iterator[str]:
    factor, said_by = difference.factor, _WORDS["said_by"]
    sizes = [int(value) for value in difference.values if value and value.isdecimal()]
    is_size = factor in ("buffer_pool", "option.innodb_redo_log_capacity")
    shrink = _SIZE_MAX / max(sizes) if is_size and sizes and max(sizes) > _SIZE_MAX else 1.0
    for value in difference.values if difference.setting in said_by.get(factor, [difference.setting]) else ():
        if value is None:
            yield DEFAULT
        elif shrink < 1 and value.isdecimal():
            yield f"{max(16, round(int(value) * shrink / 2**20))}M"
        elif factor not in said_by or (value.isidentifier() and charset_of(value) in (None, *CHARSETS)):
            yield value
        elif value in _WORDS["levels"]:
            yield _WORDS["levels"][value]


def _accepts(target: Target, factor: str, level: str) -> bool:
    try:
        if factor == "tls":
            return level == "disabled" or target.version >= tuple(_WORDS["tls_since"][target.family])
        if factor == "collation":
            check_collations(target.name, target.family, target.version, Data(collation=level))
        elif factor.startswith("option.") and level != DEFAULT:
            translate(target, {factor.removeprefix("option."): level})
    except SpecError:
        return False
    return True


def _shared(setups: Sequence[Setup]) -> Iterator[tuple[str, str]]:
    facts = [facts_of(setup) for setup in setups]
    for name, matched in _WORDS["matched"].items():
        value = facts[0].get(name)
        if value not in (None, matched) and all(each.get(name) == value for each in facts):
            yield f"option.{name}", str(value)
