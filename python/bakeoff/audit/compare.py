"""Find how setups differ: their servers' settings, tables and machines."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bakeoff.audit.dumps import FACTS
from bakeoff.audit.record import Record, Size
from bakeoff.audit.setups import Setup
from bakeoff.servers.options import Target, option_facts
from bakeoff.servers.profile import ignored_options
from bakeoff.servers.releases import parse_version, version_text
from bakeoff.spec.server_name import stem
from bakeoff.stats.differences import REDO, by_newest_name, redo_bytes, same_value, unequal

_OFF = ("", "off", "0", "no", "none")  # equivalent to a variable that does not exist
_TOPICS: list[dict[str, str]] = FACTS["topic"]
BY_DEFAULT = "defaults"
"""Value of --declared for all differences between version defaults."""


@dataclass(frozen=True)
class Difference:
    """A setting with its value in each setup, None if it does not exist there.

    `rank` orders the settings known to matter, `why` says how, and `sizes` how much; other settings have none of them.
    `factor` is the setting of a study file that varies it. With `by_default` every setup has its version's default.
    """

    setting: str
    values: tuple[str | None, ...]
    rank: int | None
    why: str
    factor: str
    by_default: bool
    declared: bool
    sizes: tuple[Size, ...]

    @property
    def counts(self) -> bool:
        return self.rank is not None and not self.declared


def compare(
    setups: Sequence[Setup], record: Record, declared: Collection[str] = ()
) -> tuple[list[Difference], list[str]]:
    """Return all differences, those known to matter first, and what the files do not show."""
    facts, only_options = [facts_of(setup) for setup in setups], all(setup.options_only for setup in setups)
    found, hidden = list[Difference](), dict[str, list[str]]()
    for name in dict.fromkeys(name for other in facts[1:] for name in unequal(facts[0], other)):
        rank = next((rank for rank, topic in enumerate(_TOPICS) if re.fullmatch(topic["facts"], name)), None)
        topic = {} if rank is None else _TOPICS[rank]
        values = [each.get(name) for each in facts]
        pairs = [*zip(setups, values, strict=True)]
        is_variable = re.fullmatch(r"[a-z][a-z0-9_.]*", name)
        whole = {setup.name for setup in setups if is_variable and (setup.is_whole or only_options)}
        unknown = [setup.name for setup, value in pairs if value is None and setup.name not in whole]
        if unknown and topic and is_variable:
            hidden.setdefault(" and ".join(unknown), []).append(name)
        if (unknown and len({*values} - {None}) < 2) or _absent_is_off(name, values) or _near(values):
            continue
        factor = topic.get("factor", f"option.{name}")
        by_default = all(value is not None and same_value(_default(setup, name), value) for setup, value in pairs)
        words = {name.lower(), factor.removeprefix("option."), *([BY_DEFAULT] if by_default else [])}
        declares = bool(words & {*declared})
        apart = tuple(_apart(values) if name.startswith("table ") else values)
        sizes = tuple(size for size in record.sizes if size.factor == factor)
        found.append(Difference(name, apart, rank, topic.get("why", ""), factor, by_default, declares, sizes))
    found.sort(key=lambda each: (len(_TOPICS) if each.rank is None else each.rank, each.setting))
    unseen = [f"settings of {where}: {', '.join(names)}" for where, names in hidden.items()]
    for lacking in FACTS["unseen"]:
        shown = (any(re.fullmatch(lacking["shown_by"], name) for name in each) for each in facts)
        unseen += [] if all(shown) else [lacking["text"]]
    return found, unseen


def facts_of(setup: Setup) -> dict[str, str]:
    """Return variables under their newest names, what several of them say together, and all else that is known."""
    found = by_newest_name(setup.variables)
    if not setup.options_only:
        if size := redo_bytes(setup.variables):
            found = {name: value for name, value in found.items() if name not in REDO} | {"redo log size": str(size)}
        has_tls = found.pop("have_ssl", "YES" if found.get("tls_version") else "NO" if "tls_version" in found else "")
        found.pop("have_openssl", None)
        found |= {"TLS": "offered" if has_tls == "YES" else "not offered"} if has_tls else {}
        found |= {"innodb_flush_method": "fsync"} if found.get("innodb_flush_method") == "" else {}
    if found.get("query_cache_type", "").upper() in ("OFF", "0"):
        found.pop("query_cache_size", None)
    if protocol := setup.status.get("ssl_version"):
        found["TLS protocol"] = protocol
    for part in ("engine", "collation", "options") if setup.tables else ():
        found[f"tables: {part}"] = " and ".join(sorted({getattr(each, part) for each in setup.tables.values()}))
    found |= {f"table {name}": "; ".join(sorted(each.lines)) for name, each in setup.tables.items()}
    for part in ("tool", "workload", "threads", "seconds") if setup.runs else ():
        found[f"runs: {part}"] = " and ".join(sorted({str(getattr(run, part)) for run in setup.runs}))
    found |= {"runs: series": "logged"} if setup.runs and all(run.series for run in setup.runs) else {}
    return found | {f"machine: {name}": value for name, value in setup.machine.items()}


def _apart(definitions: Sequence[str | None]) -> list[str | None]:
    """Keep the columns and keys that not all definitions of a table have."""
    lines = [each.split("; ") if each else [] for each in definitions]
    shared = set[str].intersection(*(set(each) for each in lines if each))
    return ["; ".join(line for line in each if line not in shared) if each else None for each in lines]


def _absent_is_off(name: str, values: Sequence[str | None]) -> bool:
    neutral = (*_OFF, *option_facts().get(name, {}).get("neutral", ()))
    return None in values and all(value is None or value.lower() in neutral for value in values)


def _near(values: Sequence[str | None]) -> bool:
    """Whether these are sizes within 5%, such as 96 and 100 MiB of redo, or one rounded by pt-mysql-summary."""
    sizes = [int(value) if value and value.isdecimal() else 0 for value in values]
    return min(sizes) >= 2**20 and max(sizes) <= 1.05 * min(sizes)


def _default(setup: Setup, name: str) -> str | None:
    known: Mapping[str, str] = FACTS["defaults"][setup.family].get(name, {})
    since = [each for each in known if setup.version and parse_version(each) <= setup.version]
    return known[since[-1]] if since else None


def ignored(setup: Setup) -> Iterator[str]:
    """Yield a line for each option of my.cnf that the server ignored or rounded."""
    if not setup.is_whole:
        return
    target = Target(version_text(setup.version), setup.family, setup.version)
    told = ignored_options(setup.options, setup.variables)
    for name, value in setup.options.items():
        if (fact := option_facts().get(stem(name))) and target.ignores(fact):
            told.append(f"{name}={value} is ignored: {fact['reason']}")
    files = [f"{name}={setup.options[name]}" for name in REDO[1:] if name in setup.options]
    if files and REDO[0] in setup.variables:
        why = f"only their product counts: {redo_bytes(setup.variables)} bytes in 32 files, whatever {REDO[0]} shows"
        why = f"ignored, because {REDO[0]} is set" if REDO[0] in setup.options else why
        told.append(f"{' and '.join(files)}: {why}")
    yield from (f"{setup.name}: {line}" for line in told)
