"""Write the study that would tell which of the differences explains a benchmark's figures."""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress

from bakeoff.audit.compare import Difference, facts_of
from bakeoff.audit.setups import WORKLOADS, Setup
from bakeoff.errors import SpecError
from bakeoff.servers.catalog import Catalog, Entry, version_text
from bakeoff.servers.options import FIXED, Target, translate
from bakeoff.servers.profile import check_collations
from bakeoff.spec import Data
from bakeoff.spec.factors import CHARSETS, DEFAULT, charset_of
from bakeoff.spec.server_name import parse_server

_FACTORS_MAX = 4  # besides the server: 32 combinations
_SIZE_MAX = 512 * 2**20  # of a pool or a redo log; larger ones shrink together
_THREADS_MAX, _CELLS_MAX = 64, 3
_MINUTES = 3  # for an arm in a cell
_TLS_SINCE = {"mysql": (8, 0), "mariadb": (11, 4)}  # older builds of the catalogue make no certificates
_TLS_LEVELS = {"offered": "required", "not offered": "disabled"}
# Where several settings have one factor, those that give its levels.
_SAID_BY = {
    "tls": ["TLS"],
    "collation": ["tables: collation", "collation_server"],
    "connection_charset": ["character_set_client"],
}


def draft_study(setups: Sequence[Setup], found: Sequence[Difference]) -> str:
    """Return a study file; SpecError if the setups give nothing to vary."""
    entries = {f"{entry.flavour}:{entry.version}": entry for entry in map(_nearest, setups)}
    servers = {name: Target(entry.name, entry.family, entry.numbers) for name, entry in entries.items()}
    factors, where, left_out = dict[str, list[str]](), list[dict[str, object]](), list[str]()
    for each in (each for each in found if each.counts and each.setting in _SAID_BY.get(each.factor, [each.setting])):
        levels = [*dict.fromkeys(_levels(each))]
        refused = {
            (name, level) for name in servers for level in levels if not _accepts(servers[name], each.factor, level)
        }
        levels = [level for level in levels if any((name, level) not in refused for name in servers)]
        # The baseline, each factor's first level on the first server, must exist.
        levels.sort(key=lambda level: (next(iter(servers)), level) in refused)
        if not each.factor or len(levels) < 2 or (len(factors) == _FACTORS_MAX and each.factor not in factors):
            left_out.append(each.setting)
        elif each.factor not in factors:
            factors[each.factor] = levels
            where += (
                {"not": {"server": name, each.factor: level}} for name, level in sorted(refused) if level in levels
            )
    if len(servers) < 2 and not factors:
        raise SpecError("audit: no difference that a study could vary.", hint="Leave --output out.")
    names = " and ".join(setup.name for setup in setups)
    runs = [run for setup in setups for run in setup.runs]
    workloads = sorted({run.workload for run in runs} & {*WORKLOADS})[:_CELLS_MAX]
    threads = sorted({run.threads for run in runs if run.threads and run.threads <= _THREADS_MAX})[:_CELLS_MAX]
    document = {
        "title": f"settle {names}"[:80],
        "question": f"Which of their differences explains the figures of {names}?",
        "servers": [*servers],
        "factors": factors,
        "settings": {name: value for name, value in _shared(setups) if name not in factors},
        "where": where,
        "workloads": workloads or ["oltp_point_select", "oltp_read_only"],
        "threads": threads or [1, 4],
        "precision": "2%",
    }
    cells = len(document["workloads"]) * len(document["threads"])
    document["budget"] = f"{max(30, _MINUTES * cells * len(servers) * math.prod(map(len, factors.values())))}m"
    remarks = [f"# {setup.name}: {setup.version_text or 'version unknown'}" for setup in setups]
    remarks += [f"# Not varied: {', '.join(left_out)}."] if left_out else []
    return "\n".join([*remarks, *(f"{key}: {json.dumps(value)}" for key, value in document.items() if value)]) + "\n"


def _nearest(setup: Setup) -> Entry:
    flavour = "percona" if "percona" in setup.version_text.lower() else setup.family
    version, catalog = setup.version, Catalog.load()
    with suppress(SpecError):
        return catalog.resolve(parse_server(f"{flavour}:{version_text(version)}" if version else flavour))
    family = [entry for entry in catalog.entries if entry.family == setup.family]
    return min(family, key=lambda entry: [abs(a - b) for a, b in zip(entry.numbers, (*version, 0, 0, 0), strict=False)])


def _levels(difference: Difference) -> Iterator[str]:
    sizes = [int(value) for value in difference.values if value and value.isdecimal()]
    is_size = difference.factor in ("buffer_pool", "option.innodb_redo_log_capacity")
    shrink = _SIZE_MAX / max(sizes) if is_size and sizes and max(sizes) > _SIZE_MAX else 1.0
    for value in difference.values:
        if value is None:
            yield DEFAULT
        elif shrink < 1 and value.isdecimal():
            yield f"{max(16, round(int(value) * shrink / 2**20))}M"
        elif difference.factor == "tls":
            yield _TLS_LEVELS[value]
        elif difference.factor not in _SAID_BY or (value.isidentifier() and charset_of(value) in (None, *CHARSETS)):
            yield value


def _accepts(target: Target, factor: str, level: str) -> bool:
    try:
        if factor == "tls":
            return level == "disabled" or target.version >= _TLS_SINCE[target.family]
        if factor == "collation":
            check_collations(target.name, target.family, target.version, Data(collation=level))
        elif factor.startswith("option.") and level != DEFAULT:
            translate(target, {factor.removeprefix("option."): level})
    except SpecError:
        return False
    return True


def _shared(setups: Sequence[Setup]) -> Iterator[tuple[str, str]]:
    """Yield the settings of the profile `matched` in which the setups agree on another value."""
    facts = [facts_of(setup) for setup in setups]
    matched = {
        name: FIXED["matched"][name] for name in ("innodb_flush_log_at_trx_commit", "sync_binlog", "performance_schema")
    }
    for name, value in {**matched, "log_bin": "OFF"}.items():
        values = {each.get(name) for each in facts}
        if len(values) == 1 and (shared := values.pop()) not in (None, value):
            yield f"option.{name}", str(shared)
