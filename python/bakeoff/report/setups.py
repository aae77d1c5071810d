"""Sections on what was compared and how: settings, data, environment, method."""

import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import PurePath

from bakeoff.files import from_here
from bakeoff.plan.workloads import kind_of, options_of
from bakeoff.report import numbers
from bakeoff.report.charts import TEMPLATES
from bakeoff.report.context import Context
from bakeoff.report.view import ArmView, Code, Column, Fold, Prose, Row, Section, Status, Table
from bakeoff.results.epoch_data import wall_time
from bakeoff.spec import Arm, Data, Placement, Study, Workload
from bakeoff.spec.dumps import TEXTS_DIFFER, as_loaded
from bakeoff.spec.server_name import values_of
from bakeoff.stats.differences import BY_RELEASE, AllAnswers, Answer, row_differences
from bakeoff.stats.model import FlagKind
from bakeoff.units import format_bytes, format_duration

_ABSENT = "—"

_TEXTS = tomllib.loads((TEMPLATES / "texts.toml").read_text(encoding="utf-8"))
METHOD: list[str] = _TEXTS["method"]
WORDS: dict[str, str] = _TEXTS["words"]


def settings_section(context: Context) -> Section | None:
    declared, undeclared = _declared_table(context), _undeclared_table(context)
    return Section.of(
        "Settings",
        Section.of(
            "Requested",
            declared if declared.rows else Prose(text="The study sets nothing differently on any arm."),
            _notes_table(context, "setting-notes", "settings", "translated, left out, or ignored by the server"),
        ),
        Section.of(
            "Binaries", _notes_table(context, "binaries", "binaries", "where they came from, and how they were checked")
        ),
        Section.of("Different without being requested", undeclared if undeclared.rows else Prose(text="None found.")),
        *_configuration_files(context),
        anchor="settings",
        nav="Settings",
    )


def _declared_table(context: Context, *, files: bool = True) -> Table:
    """List what the study sets differently on some arm; `files` adds cnf files and what releases decide."""
    facts = {name: _facts(arm) for name, arm in context.arms.items()}
    for name, own in facts.items() if files else ():
        values = context.variables.get(name, {})
        decided = {each: f"{values[each]} (not requested)" for each in BY_RELEASE if each in values and each not in own}
        facts[name] = decided | own
    for name, notes in server_notes(context).items() if files else ():
        read = dict(text.partition("=")[::2] for text in notes.get("files", []))
        facts[name] |= {option: value or "on" for option, value in read.items()}
    return _differing(context, "declared", "requested", facts)


def _differing(context: Context, name: str, title: str, values: Mapping[str, Mapping[str, str]]) -> Table:
    keys = dict.fromkeys(key for own in values.values() for key in own)
    texts = {key: [own.get(key, _ABSENT) for own in values.values()] for key in keys}
    rows = ((key, *own) for key, own in texts.items() if len(set(own)) > 1)
    return Table.listed(name, (title, *(context.labels[arm] for arm in values)), rows)


def server_notes(context: Context) -> dict[str, dict[str, list[str]]]:
    """Return the newest epoch's notes on each arm's server, by kind."""
    newest = context.run.newest("notes.json")
    notes = {each: context.run.server_json(each, "notes.json", dict[str, list[str]]) for each in set(newest.values())}
    return {arm: notes[newest[arm]][arm] for arm in context.arms if arm in newest}


def _notes_table(context: Context, name: str, kind: str, title: str) -> Table:
    notes = [(arm, text) for arm, own in server_notes(context).items() for text in own.get(kind, [])]
    return Table.of(
        name,
        notes,
        Column(title, itemgetter(1)),
        group=lambda note: context.labels[note[0]],
        slot=lambda note: context.slots[note[0]],
        group_title="arm",
        all_text=True,
    )


_LIST_MAX = 4  # arms; with more, a table is clearer than a list


def arms_table(context: Context, arms: Sequence[ArmView]) -> Table | None:
    """Show many arms, with a column for each factor or differing setting; None if a list will do."""
    if len(arms) <= _LIST_MAX:
        return None
    design = context.study.design
    if design and design.factors:
        varied = [at for at, factor in enumerate(design.factors) if len(factor.levels) > 1]
        names = [design.factors[at].name for at in varied]
        settings = {arm: [own[at] for at in varied] for arm, own in design.levels.items()}
    else:
        declared = _declared_table(context, files=False).rows
        names = [row.values[0].text for row in declared]
        settings = {arm: [row.values[at].text for row in declared] for at, arm in enumerate(context.arms, start=1)}
    rows = tuple(
        Row.of(arm.label, arm.role.value, arm.version or "n/a", *settings[arm.name], slot=arm.slot) for arm in arms
    )
    return Table(id="arms", columns=("arm", "role", "version", *names), rows=rows, all_text=True)


def _undeclared_table(context: Context) -> Table:
    found = [(arm, *each) for arm, own in context.analysis.undeclared.items() for each in sorted(own.items())]
    return Table.of(
        "undeclared",
        found,
        Column("variable", itemgetter(1)),
        Column(context.labels[context.analysis.baseline], lambda each: each[2][0] or "''"),
        Column("this arm", lambda each: each[2][1] or "''"),
        group=lambda each: context.labels.get(each[0], each[0]),
        slot=lambda each: context.slots.get(each[0]),
        group_title="arm",
        all_text=True,
    )


def _configuration_files(context: Context) -> Iterator[Fold]:
    newest = context.run.newest("my.cnf")
    for arm in context.arms:
        if arm in newest and (text := context.run.server_text(newest[arm], arm, "my.cnf")):
            yield Fold(title=f"my.cnf of {context.labels[arm]}", content=Code(text=text.strip()))


def setup_line(arm: Arm) -> str:
    """Say what is special about an arm, in one line; may be empty."""
    parts = data_parts(arm)
    parts += [
        f"{name}={each}" if each else name for name, value in arm.server.options for each in values_of(name, value)
    ]
    parts += [f"{name}={value}" for name, value in (*arm.server.env, *arm.server.limits)]
    if arm.slowdown_percent:
        parts.append(f"{arm.slowdown_percent:g} uncounted events per 100 (injected slowdown)")
    return " · ".join(part for part in parts if part)


def data_parts(arm: Arm) -> list[str]:
    data, connection = arm.data, arm.connection
    special = {
        "tables": data.table_collation or data.table_charset,
        "columns": data.column_collation or data.column_charset,
        "connection": connection.collation or connection.charset,
    }
    return [
        data.collation or data.charset or "",
        *(f"{where} {name}" for where, name in special.items() if name),
        *(f"{name}={value}" for name, value in data.options),
        data.table_options,
        "" if data.engine == "innodb" else data.engine,
    ]


def _facts(arm: Arm) -> dict[str, str]:
    server = arm.server
    facts = {"server": str(server.with_settings(options=(), env=(), cnf_files=(), limits=()))}
    facts |= {name: ", ".join(values_of(name, value)) or "on" for name, value in server.options}
    facts |= {f"env.{name}": value for name, value in server.env} | dict(server.limits)
    facts |= {f"@{from_here(file)}": "read" for file in server.cnf_files}
    facts |= {f"data: {key.replace('_', ' ')}": str(value) for key, value in arm.data if value and key != "options"}
    facts |= {f"data: {name.replace('_', ' ')}": str(value) for name, value in arm.data.options}
    facts |= {f"connection: {key.replace('_', ' ')}": str(value) for key, value in arm.connection if value}
    if arm.slowdown_percent:
        facts["uncounted events per 100"] = f"{arm.slowdown_percent:g}"
    return facts


# The data: its loads, and whether all arms hold the same rows.


def data_section(context: Context) -> Section | None:
    return Section.of(
        "Data",
        _loads_table(context),
        Section.of("The same rows on every arm", _data_check_table(context)),
        anchor="data",
        nav="Data",
    )


def _loads_table(context: Context) -> Table:
    return Table.of(
        "data",
        context.run.builds().values(),
        Column("load", lambda build: build["build"]),
        Column("rows", lambda build: build.get("rows"), "{:,}".format),
        Column("threads", lambda build: build.get("threads")),
        Column("seconds", lambda build: build.get("seconds"), "{:.1f} s".format),
        Column("data", lambda build: sum((build.get("data_bytes") or {}).values()) or None, format_bytes),
        Column("snapshot", lambda build: build.get("snapshot_bytes"), format_bytes),
        group=lambda build: context.labels.get(build["arm"], build["arm"]),
        slot=lambda build: context.slots.get(build["arm"]),
        group_title="arm",
        note=_translated(context),
        page_only=True,
    )


def _translated(context: Context) -> str:
    sentences: dict[str, None] = {}
    for build in context.run.builds().values():
        labels = ", ".join(context.labels.get(arm, arm) for arm in build.get("arms", [build["arm"]]))
        if said := as_loaded(labels, build.get("translated", {})):
            sentences[f"{said}."] = None
    return " ".join([*sentences, TEXTS_DIFFER]) if sentences else ""


def data_check_status(context: Context) -> Iterator[Status]:
    for moment, answers in _row_answers(context).items():
        differences = row_differences(context.study.arms, answers)
        if differences:
            more = f" and {len(differences) - 1} more" if len(differences) > 1 else ""
            yield Status(
                word=FlagKind.DIFFERENT_WORK,
                text=f"The arms do not hold the same rows ({moment}): table {differences[0].table}, query "
                f"{differences[0].query}: {differences[0].text(context.labels)}{more}. Ratios compare different "
                "work.",
            )
            return


def _data_check_table(context: Context) -> Table:
    rows: list[tuple[str, str, str, str]] = []
    for moment, answers in _row_answers(context).items():
        differences = row_differences(context.study.arms, answers)
        for table in dict.fromkeys(table for tables in answers.values() for table in tables):
            queries = dict.fromkeys(query for each in answers.values() for query in each.get(table, {}))
            found = [each.text(context.labels) for each in differences if each.table == table]
            if queries or found:  # a restored server is not asked the slow questions
                arms = sum(table in tables for tables in answers.values())
                rows.append((moment, table, ", ".join(queries), "; ".join(found) or f"same on {arms} arms"))
    return Table.of(
        "data-check",
        rows,
        Column("table", itemgetter(1)),
        Column("queries", itemgetter(2)),
        Column("answers", itemgetter(3)),
        group=itemgetter(0),
        group_title="asked",
        note="Row counts, checksums, rows sampled by primary key, and the first rows in text order. Texts are compared "
        "as utf8mb4, orders only between equal collations. Columns of times, floating-point numbers, JSON, BIT and "
        "geometry are not compared; arms whose other columns differ are compared by row count.",
        all_text=True,
    )


def _row_answers(context: Context) -> dict[str, AllAnswers]:
    found: dict[str, AllAnswers] = {}
    build = 0
    while (loaded := context.run.read(f"rows/{build}.json", AllAnswers)) is not None:
        found[f"load {build}"] = loaded
        build += 1
    # In a discarded epoch some arms may not have been asked.
    for outcome in sorted(context.outcomes, key=lambda each: not each.valid):
        restored = context.run.server_json(outcome.epoch, "rows.json", dict[str, dict[str, str]])
        if restored:
            known = found.get(f"load {outcome.build}", {})
            found["first epoch" if outcome == context.outcomes[0] else f"epoch {outcome.epoch}"] = {
                arm: {table: _asked_again(asked, known.get(arm, {}).get(table, {})) for table, asked in tables.items()}
                for arm, tables in restored.items()
            }
            break
    return found


def _asked_again(answers: Mapping[str, str], loaded: Mapping[str, Answer]) -> dict[str, Answer]:
    """Add the questions, which are kept with the load, to a restored server's answers."""
    unknown = Answer(sql="", answer="")
    return {query: loaded.get(query, unknown).model_copy(update={"answer": text}) for query, text in answers.items()}


# The machine, the method, the time it took, the command.


def environment_section(context: Context) -> Section | None:
    manifest, host, study = context.manifest, context.host, context.study
    cores = f", {host.cores} cores" if host.cores else ""
    swap = f"swap {format_bytes(host.swap_bytes)}" if host.swap_bytes else "no swap"
    numa = f", {host.numa_nodes} NUMA nodes" if host.numa_nodes and host.numa_nodes > 1 else ""
    facts: list[tuple[str, str | None]] = [
        ("processor", f"{host.cpu_model}; {host.cpus} CPUs{cores}{numa}, {host.cpus_usable} of them usable"),
        ("memory", f"{format_bytes(host.memory_bytes)}, {swap}"),
        ("system", f"{host.system}, kernel {host.kernel} ({host.machine})"),
        ("virtual machine", host.virtualisation or "no"),
        ("container", host.container),
        ("frequency governor", host.governor or "unknown"),
        ("transparent huge pages", host.transparent_huge_pages),
        ("microcode", host.microcode),
        ("load before the run", " ".join(f"{value:.2f}" for value in host.load_average)),
    ]
    for title, files in (("run directory on", host.run_files), ("data on", host.data_files)):
        if files:
            free = f"{format_bytes(files.free_bytes)} of {format_bytes(files.total_bytes)} free"
            facts.append((title, f"{files.kind} ({files.device}, {files.options}), {free}"))
    builds = context.plan.builds if context.plan else study.builds
    commit = f", commit {manifest.commit}" if manifest.commit else ""
    build = manifest.engine.get("build")
    profile = f", {build.get('profile')} build" if isinstance(build, dict) else ""
    facts += [
        ("bakeoff", f"{manifest.bakeoff}{commit}, {manifest.python}"),
        ("engine", f"{manifest.engine.get('engine', 'unknown')}{profile}"),
        ("profile of settings", study.profile.value),
        ("data", _data_text(context, builds)),
        *zip(("hosts", "network"), context.hosts_and_network or (), strict=False),
        ("threads of a connection", _placement(context)),
        ("seed", str(manifest.seed)),
        ("started", f"{manifest.created_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("run", manifest.name),
    ]
    table = Table.listed("environment", ("", ""), ((name, value) for name, value in facts if value))
    about = study.design.about if study.design else ""
    return Section.of("Environment", Prose(text=about), table, anchor="environment")


def _placement(context: Context) -> str:
    cells = context.cells_planned
    paired = [cell.name for cell in cells if cell.placement is Placement.PAIRED]
    if context.plan and context.plan.unpaired:
        return f"free: {context.plan.unpaired}"
    if len(paired) < len(cells):
        return f"on one CPU in {', '.join(paired)}; free elsewhere" if paired else "free"
    return "client's and server's on one CPU" if cells else ""


def _data_text(context: Context, builds: int) -> str:
    study = context.study
    loaded = [PurePath(arm.data.source).name for arm in study.arms if arm.data.source]
    replayed = {cell.workload_index for cell in context.cells_planned if cell.fixed_work}
    if not loaded:
        loaded = [_sizes(study, each) for at, each in enumerate(study.workloads) if at not in replayed]
    found = [*dict.fromkeys(loaded)]
    if replayed and study.has_running_server:
        found.append("what the running servers have")
    text = " and ".join(found) or "none loaded"
    return f"{text}, {numbers.counted(builds, 'build')} an arm" if loaded else text


def _sizes(study: Study, workload: Workload) -> str:
    sizes = kind_of(workload.script).sizes(options_of(study, workload, Data()))
    if "warehouses" not in sizes:
        return f"{sizes['tables']} tables of {sizes['table_size']:,} rows"
    return numbers.counted(sizes["warehouses"], "warehouse")


def method_section(context: Context) -> Section | None:
    return Section.of(
        "Method",
        *(Prose(text=paragraph) for paragraph in METHOD),
        Fold(title="Words of this report", content=_words_table()),
        Prose(text="Formulas and tests: `docs/explanation/method.md`.", small=True),
        anchor="method",
        nav="Method",
    )


def _words_table() -> Table:
    meanings = WORDS | {kind.value: kind.advice for kind in FlagKind}
    return Table.listed("words", ("word", "meaning"), meanings.items())


def wall_sentence(context: Context) -> str:
    taken = wall_time(context.run.builds(), context.outcomes)
    if not taken.total_s:
        return ""
    return (
        f"{numbers.share(taken.measured_share)} of {format_duration(taken.total_s)} was spent measuring (excluding "
        "downloads and report generation)."
    )


def again_section(context: Context) -> Section | None:
    return Section.of(
        "Run it again",
        Code(text=command(context)),
        Prose(
            text=f"The run directory, `{context.run.name}`, holds every slice, setting and log; `bakeoff report` makes "
            "this page from it."
        )
        if context.outcomes
        else None,
        anchor="again",
        nav="Run it again",
    )


_DRAW_A_SEED = (["duel"], ["run"], ["gate"], ["bisect"], ["replay"])  # commands that draw one if none is given


def command(context: Context) -> str:
    """Return the command line that repeats this run with its seed, or "" if unknown."""
    words = list(context.manifest.command)
    if not words:
        return ""
    if words[1:2] in _DRAW_A_SEED and not any(word.split("=")[0] == "--seed" for word in words):
        words += ["--seed", str(context.manifest.seed)]
    return shlex.join([PurePath(words[0]).name, *words[1:]])
