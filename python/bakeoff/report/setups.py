"""What differs between the arms (asked for, not asked for, the rest), the files as used, the machine, the command."""

import shlex
from pathlib import PurePath

from bakeoff.plan import Plan
from bakeoff.plan.sizes import is_tpcc, warehouses
from bakeoff.report.context import Context
from bakeoff.report.view import Document, Row, Table, Value
from bakeoff.spec import Arm, Placement, Study
from bakeoff.units import format_bytes

_ABSENT = "—"


def declared_table(context: Context) -> Table:
    """Everything that the study sets differently on some arm: options, data, connection, injected slowdown."""
    facts = {name: _facts(arm) for name, arm in context.arms.items()}
    names = list(dict.fromkeys(key for arm in facts.values() for key in arm))
    differing = [name for name in names if len({arm.get(name, _ABSENT) for arm in facts.values()}) > 1]
    rows = [
        Row(group="", values=(Value(text=name), *(Value(text=arm.get(name, _ABSENT)) for arm in facts.values())))
        for name in differing
    ]
    columns = ("asked for", *(context.labels[arm] for arm in context.arms))
    return Table(id="declared", group_title="", columns=columns, rows=tuple(rows), all_text=True)


def undeclared_table(context: Context) -> Table:
    """Settings that differ although nobody asked: {contender: {variable: (baseline, contender)}}."""
    rows = [
        Row(
            group=context.labels.get(arm, arm),
            values=(Value(text=name), Value(text=before or "''"), Value(text=after or "''")),
            slot=context.slots.get(arm),
        )
        for arm, differences in context.analysis.undeclared.items()
        for name, (before, after) in sorted(differences.items())
    ]
    baseline = context.labels[context.analysis.baseline]
    return Table(
        id="undeclared",
        group_title="arm",
        columns=("variable", baseline, "this arm"),
        rows=tuple(rows),
        all_text=True,
    )


def other_settings_table(context: Context) -> Table:
    """The remaining global variables that differ: names and paths of each server, and what only one version has."""
    variables = {arm: context.variables[arm] for arm in context.arms if arm in context.variables}
    told = {name for differences in context.analysis.undeclared.values() for name in differences}
    names = sorted({name for values in variables.values() for name in values} - told)
    rows = []
    for name in names:
        texts = [values.get(name, _ABSENT) for values in variables.values()]
        if len(set(texts)) > 1:
            rows.append(
                Row(group="", values=(Value(text=name), *(Value(text=_shortened(text) or "''") for text in texts)))
            )
    columns = ("variable", *(context.labels[arm] for arm in variables))
    return Table(id="other-settings", group_title="", columns=columns, rows=tuple(rows), all_text=True)


def documents(context: Context) -> tuple[Document, ...]:
    """Each arm's my.cnf in the last epoch that counts."""
    if not context.valid_epochs:
        return ()
    found = []
    for arm in context.arms:
        text = context.run.server_text(context.valid_epochs[-1], arm, "my.cnf")
        if text is not None:
            found.append(Document(name=f"my.cnf of {context.labels[arm]}", text=text.strip()))
    return tuple(found)


def environment_table(context: Context) -> Table:
    """Machine, programs and what the run was given."""
    manifest, host, study = context.manifest, context.manifest.host, context.study
    cores = f", {host.cores} cores" if host.cores else ""
    numa = f", {host.numa_nodes} NUMA nodes" if host.numa_nodes and host.numa_nodes > 1 else ""
    facts: list[tuple[str, str | None]] = [
        ("processor", f"{host.cpu_model}; {host.cpus} CPUs{cores}{numa}, {host.cpus_usable} of them usable"),
        (
            "memory",
            format_bytes(host.memory_bytes)
            + (f", swap {format_bytes(host.swap_bytes)}" if host.swap_bytes else ", no swap"),
        ),
        ("system", f"{host.system}, kernel {host.kernel} ({host.machine})"),
        ("virtual machine", host.virtualisation or "no"),
        ("container", host.container),
        ("frequency governor", host.governor or "not told"),
        ("transparent huge pages", host.transparent_huge_pages),
        ("microcode", host.microcode),
        ("load before the run", " ".join(f"{value:.2f}" for value in host.load_average)),
    ]
    for title, files in (("run directory on", host.run_files), ("data on", host.data_files)):
        if files:
            free = f"{format_bytes(files.free_bytes)} of {format_bytes(files.total_bytes)} free"
            facts.append((title, f"{files.kind} ({files.device}, {files.options}), {free}"))
    builds = context.plan.builds if context.plan else study.builds
    build = manifest.engine.get("build")
    profile = f", {build.get('profile')} build" if isinstance(build, dict) else ""
    facts += [
        (
            "bakeoff",
            f"{manifest.bakeoff}" + (f", commit {manifest.commit}" if manifest.commit else "") + f", {manifest.python}",
        ),
        ("engine", f"{manifest.engine.get('engine', 'not told')}{profile}"),
        ("profile of settings", study.profile.value),
        ("data", f"{_sizes(study)}, {builds} builds an arm"),
        ("threads of a connection", _placement(context.plan)),
        ("seed", str(manifest.seed)),
        ("started", f"{manifest.created_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("run", manifest.name),
    ]
    rows = tuple(Row(group="", values=(Value(text=name), Value(text=value))) for name, value in facts if value)
    return Table(id="environment", group_title="", columns=("", ""), rows=rows, all_text=True)


def _placement(plan: Plan | None) -> str:
    """Where the two threads of a connection ran, and why."""
    cells = plan.cells if plan else ()
    paired = [cell.name for cell in cells if cell.placement is Placement.PAIRED]
    if plan and plan.unpaired:
        return f"free: {plan.unpaired}"
    if len(paired) < len(cells):
        return f"on one CPU in {', '.join(paired)}; free elsewhere" if paired else "free"
    return "client's and server's on one CPU" if cells else ""


def _sizes(study: Study) -> str:
    """Tables and rows, warehouses, or both, as the study says them; an arm's own sizes stand in its settings."""
    tables = f"{study.tables} tables of {study.table_size:,} rows"
    found = []
    for workload in study.workloads:
        scale = warehouses(dict(workload.options))
        found.append(f"{scale} warehouse{'s' * (scale > 1)}" if is_tpcc(workload.script) else tables)
    return " and ".join(dict.fromkeys(found))


def command(context: Context) -> str:
    """The command line that made this run, ready to be pasted, with its seed: every random choice is then the same."""
    words = list(context.manifest.command)
    if not words:
        return ""
    if words[1:2] in (["duel"], ["run"]) and not any(word.split("=")[0] == "--seed" for word in words):
        words += ["--seed", str(context.manifest.seed)]
    return shlex.join([PurePath(words[0]).name, *words[1:]])


def setup_line(arm: Arm) -> str:
    """What is special about an arm, in a line; empty for nothing."""
    data, connection = arm.data, arm.connection
    parts = [data.collation or data.charset or ""]
    for place, charset, collation in (
        ("tables", data.table_charset, data.table_collation),
        ("columns", data.column_charset, data.column_collation),
        ("connection", connection.charset, connection.collation),
    ):
        parts += [f"{place} {collation or charset}"] if collation or charset else []
    parts += [f"{name}={value}" for name, value in data.options]
    parts += [arm.data.table_options, "" if arm.data.engine == "innodb" else arm.data.engine]
    parts += [f"{name}={value}" if value else name for name, value in arm.server.options]
    parts += [f"{name}={value}" for name, value in arm.server.env]
    if arm.slowdown_percent:
        parts.append(f"{arm.slowdown_percent:g} uncounted events per 100 (injected slowdown)")
    return " · ".join(part for part in parts if part)


def _facts(arm: Arm) -> dict[str, str]:
    server = arm.server
    facts = {"server": str(server.model_copy(update={"options": (), "env": (), "cnf_files": ()}))}
    facts |= {name: value or "on" for name, value in server.options}
    facts |= {f"env.{name}": value for name, value in server.env}
    facts |= {f"@{file}": "read" for file in server.cnf_files}
    facts |= {f"data: {key.replace('_', ' ')}": str(value) for key, value in arm.data if value and key != "options"}
    facts |= {f"data: {name.replace('_', ' ')}": str(value) for name, value in arm.data.options}
    facts |= {f"connection: {key.replace('_', ' ')}": str(value) for key, value in arm.connection if value}
    if arm.slowdown_percent:
        facts["uncounted events per 100"] = f"{arm.slowdown_percent:g}"
    return facts


def _shortened(text: str, limit: int = 120) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
