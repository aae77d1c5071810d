"""Sections on what was compared and how: settings, data, slices, environment, method, wall time, the command."""

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from bakeoff.files import from_here
from bakeoff.plan.workloads import kind_of, options_of
from bakeoff.report import numbers
from bakeoff.report.context import Context
from bakeoff.report.view import ArmView, Charts, Code, Fold, Panel, Prose, Row, Section, Series, Status, Steps, Table
from bakeoff.results.epoch_data import wall_time
from bakeoff.spec import Arm, Data, Placement, Study, Workload
from bakeoff.spec.dumps import TEXTS_DIFFER, as_loaded
from bakeoff.spec.server_name import values_of
from bakeoff.stats.differences import AllAnswers, Answer, row_differences
from bakeoff.stats.model import FlagKind
from bakeoff.stats.slice_length import SliceChoice
from bakeoff.units import format_bytes, format_duration, format_ns, shortened

_ABSENT = "—"
_PILOT_LINES = 6
_DATA_CHECK_LINES = 40
_SETTING_MAX = 120  # characters of a value

METHOD = (
    "All servers run side by side. In each short slice one of them alone is loaded, in the order ABBA or BAAB by a "
    "fair coin, so that whatever else the machine does reaches all of them alike.",
    "An epoch restores the same data, starts every server anew and measures every cell once. It gives one number a "
    "cell: the log of the ratio of throughputs, total events over total time.",
    "Epochs, not seconds and not requests, are what is counted: restarting a server moves its speed by more than any "
    "measurement inside one start can show.",
    "The 95% interval is Student's over epochs, widened for stopping as soon as it is narrow enough; verdicts are "
    "corrected for the number of cells (Holm). An interval shown before the end is valid however often one looks.",
    "No epoch and no slice is dropped for being slow; epochs are discarded only for mechanical failures, for all arms "
    "at once, and are counted. A control is a second instance of the baseline: its true ratio is 1.",
)

WORDS = {
    "arm": "one of the setups compared: a server with its settings, its data and the way to talk to it",
    "cell": "a workload at a number of threads; every cell has its own verdict",
    "slice": "some milliseconds in which one arm alone is loaded",
    "block": "slices of all arms in turn, the order drawn anew for each",
    "epoch": "one restart of all servers from the same data, in which every cell is measured once",
    "build": "one load of the data; epochs take the builds in turn",
    "baseline": "the arm that every ratio is over",
    "control": "a second instance of the baseline, whose true ratio is 1; its 95% interval misses 1 one time in 20, "
    "and the report is UNTRUSTED only when that of 99% does",
    "ratio": "throughput of an arm over that of the baseline; 1.10 is 10% more",
    "95% interval": "holds the true ratio 95 times in 100",
}
"""The words of a report that a reader may not know."""


def settings_section(context: Context) -> Section | None:
    """Everything that differs between the arms, asked for or not, and the files as used."""
    other = _other_settings_table(context)
    declared, undeclared = _declared_table(context), _undeclared_table(context)
    return Section.of(
        "Settings",
        Section.of(
            "Asked for",
            declared if declared.rows else Prose(text="The study sets nothing differently on any arm."),
            _setting_notes_table(context),
        ),
        Section.of("Different without being asked for", undeclared if undeclared.rows else Prose(text="None found.")),
        Fold(
            title=f"Other variables that differ: names, paths, and what only one version has ({len(other.rows)})",
            content=other,
        ),
        *_configuration_files(context),
        anchor="settings",
        nav="Settings",
    )


def _declared_table(context: Context, *, files: bool = True) -> Table:
    """Everything that the study sets differently on some arm: options, data, connection, injected slowdown.

    `files`: also the options that cnf files set.
    """
    facts = {name: _facts(arm) for name, arm in context.arms.items()}
    for name, notes in _server_notes(context).items() if files else ():
        read = dict(text.partition("=")[::2] for text in notes.get("files", []))
        facts[name] |= {option: value or "on" for option, value in read.items()}
    names = dict.fromkeys(key for arm in facts.values() for key in arm)
    values = {name: [arm.get(name, _ABSENT) for arm in facts.values()] for name in names}
    rows = tuple(Row.of(name, *texts) for name, texts in values.items() if len(set(texts)) > 1)
    columns = ("asked for", *(context.labels[arm] for arm in context.arms))
    return Table(id="declared", columns=columns, rows=rows, all_text=True)


def _server_notes(context: Context) -> dict[str, dict[str, list[str]]]:
    """Each arm's `notes.json` in the last epoch that counts and measured it."""
    newest = context.run.newest("notes.json")
    notes = {each: context.run.server_json(each, "notes.json", dict[str, list[str]]) for each in set(newest.values())}
    return {arm: notes[newest[arm]][arm] for arm in context.arms if arm in newest}


def _setting_notes_table(context: Context) -> Table:
    """What was translated or left out for each arm's server, and what the server ignored or changed."""
    rows = tuple(
        Row.of(text, group=context.labels[arm], slot=context.slots[arm])
        for arm, notes in _server_notes(context).items()
        for text in notes.get("settings", [])
    )
    columns = ("translated, left out, or ignored by the server",)
    return Table(id="setting-notes", group_title="arm", columns=columns, rows=rows, all_text=True)


_LIST_MAX = 4  # arms that a list shows as clearly as a table


def arms_table(context: Context, arms: Sequence[ArmView]) -> Table | None:
    """More arms than a list can show: a column for each factor of the study, or for each setting that differs."""
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
    """Settings that differ although nobody asked."""
    rows = tuple(
        Row.of(name, before or "''", after or "''", group=context.labels.get(arm, arm), slot=context.slots.get(arm))
        for arm, differences in context.analysis.undeclared.items()
        for name, (before, after) in sorted(differences.items())
    )
    columns = ("variable", context.labels[context.analysis.baseline], "this arm")
    return Table(id="undeclared", group_title="arm", columns=columns, rows=rows, all_text=True)


def _other_settings_table(context: Context) -> Table:
    """The remaining global variables that differ: names and paths of each server, and what only one version has."""
    variables = {arm: context.variables[arm] for arm in context.arms if arm in context.variables}
    undeclared = {name for differences in context.analysis.undeclared.values() for name in differences}
    rows = []
    for name in sorted({name for values in variables.values() for name in values} - undeclared):
        texts = [values.get(name, _ABSENT) for values in variables.values()]
        if len(set(texts)) > 1:
            rows.append(Row.of(name, *(shortened(text, _SETTING_MAX) or "''" for text in texts)))
    columns = ("variable", *(context.labels[arm] for arm in variables))
    return Table(id="other-settings", columns=columns, rows=tuple(rows), all_text=True)


def _configuration_files(context: Context) -> list[Fold]:
    """Each arm's my.cnf in the last epoch that counts and measured it."""
    found, newest = [], context.run.newest("my.cnf")
    for arm in context.arms:
        text = context.run.server_text(newest[arm], arm, "my.cnf") if arm in newest else None
        if text is not None:
            found.append(Fold(title=f"my.cnf of {context.labels[arm]}", content=Code(text=text.strip())))
    return found


def setup_line(arm: Arm) -> str:
    """What is special about an arm, in a line; empty for nothing."""
    parts = data_parts(arm)
    parts += [
        f"{name}={each}" if each else name for name, value in arm.server.options for each in values_of(name, value)
    ]
    parts += [f"{name}={value}" for name, value in arm.server.env]
    if arm.slowdown_percent:
        parts.append(f"{arm.slowdown_percent:g} uncounted events per 100 (injected slowdown)")
    return " · ".join(part for part in parts if part)


def data_parts(arm: Arm) -> list[str]:
    """What is special about an arm's data and character sets; texts may be empty."""
    data, connection = arm.data, arm.connection
    parts = [data.collation or data.charset or ""]
    for where, charset, collation in (
        ("tables", data.table_charset, data.table_collation),
        ("columns", data.column_charset, data.column_collation),
        ("connection", connection.charset, connection.collation),
    ):
        parts += [f"{where} {collation or charset}"] if collation or charset else []
    parts += [f"{name}={value}" for name, value in data.options]
    return [*parts, data.table_options, "" if data.engine == "innodb" else data.engine]


def _facts(arm: Arm) -> dict[str, str]:
    """What the study sets on an arm: name -> text."""
    server = arm.server
    facts = {"server": str(server.model_copy(update={"options": (), "env": (), "cnf_files": ()}))}
    facts |= {name: ", ".join(values_of(name, value)) or "on" for name, value in server.options}
    facts |= {f"env.{name}": value for name, value in server.env}
    facts |= {f"@{from_here(file)}": "read" for file in server.cnf_files}
    facts |= {f"data: {key.replace('_', ' ')}": str(value) for key, value in arm.data if value and key != "options"}
    facts |= {f"data: {name.replace('_', ' ')}": str(value) for name, value in arm.data.options}
    facts |= {f"connection: {key.replace('_', ' ')}": str(value) for key, value in arm.connection if value}
    if arm.slowdown_percent:
        facts["uncounted events per 100"] = f"{arm.slowdown_percent:g}"
    return facts


# The data: loads; and what checks the measurement itself: whether all arms hold the same rows, the choice of slices.


def data_section(context: Context) -> Section | None:
    """Each load of the data."""
    return Section.of("Data", _loads_table(context), anchor="data", nav="Data")


def appendix_section(context: Context) -> Section | None:
    """The data check and the choice of the slices, folded away on the page; a difference stands at the report's head.

    In JSON they stay as they are, in Markdown the data check does: who wants to check a run does so there.
    """
    return Section.of(
        "Appendix: data check and slices",
        Section.of("The same rows on every arm", _data_check_table(context)),
        Section.of("Length of the slices", _slices_table(context), Charts(panels=_pilot_panels(context), legend=False)),
        anchor="appendix",
        nav="Appendix",
        folded=True,
    )


def _bytes_by_database(sizes: Mapping[str, float]) -> str:
    names = len(sizes) > 1
    return ", ".join(f"{name} {format_bytes(size)}" if names else format_bytes(size) for name, size in sizes.items())


_LOAD_COLUMNS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("rows", "rows", "{:,}".format),
    ("threads", "threads", str),
    ("seconds", "seconds", "{:.1f} s".format),
    ("data_bytes", "data", _bytes_by_database),
    ("rows_bytes", "of rows", _bytes_by_database),
    ("index_bytes", "of indexes", _bytes_by_database),
    ("snapshot_bytes", "snapshot", format_bytes),
)
"""Field of `builds/ARM-N.json`, heading, form."""


def _loads_table(context: Context) -> Table:
    """Each load of the data: rows, seconds and bytes."""
    builds = context.run.builds().values()
    shown = [column for column in _LOAD_COLUMNS if any(build.get(column[0]) is not None for build in builds)]
    rows = []
    for build in builds:
        values = ("n/a" if build.get(key) is None else form(build[key]) for key, _, form in shown)
        label, slot = context.labels.get(build["arm"], build["arm"]), context.slots.get(build["arm"])
        rows.append(Row.of(str(build["build"]), *values, group=label, slot=slot))
    columns = ("load", *(title for _, title, _ in shown))
    return Table(
        id="data", group_title="arm", columns=columns, rows=tuple(rows), note=_translated(context), page_only=True
    )


def _translated(context: Context) -> str:
    """Collations and the like of a dump that a server does not know, and what it was loaded with."""
    sentences = []
    for build in context.run.builds().values():
        labels = ", ".join(context.labels.get(arm, arm) for arm in build.get("arms", [build["arm"]]))
        if said := as_loaded(labels, build.get("translated", {})):
            sentences.append(f"{said}.")
    if not sentences:
        return ""
    return " ".join([*dict.fromkeys(sentences), TEXTS_DIFFER])


def _slices_table(context: Context) -> Table:
    """The slice length of every cell, and why."""
    choices = _choices(context)
    rows = tuple(
        Row.of(
            numbers.threads(cell.threads),
            format_ns(cell.slices.slice_ns),
            format_ns(cell.guard_ns),
            "resting server stopped" if cell.freeze else "resting server idle",
            cell.placement,
            choices[cell.name].reason if cell.name in choices else "by default",
            group=cell.workload,
        )
        for cell in context.cells_planned
    )
    return Table(
        id="slices",
        group_title="workload",
        columns=("threads", "slice", "guard", "meanwhile", "placement", "chosen because"),
        rows=rows,
        note="In cells with fewer than twenty blocks slices are lengthened until whole blocks fill the cell's time; "
        "those of a replay last as long as their statements.",
        all_text=True,
        page_only=True,
    )


def _pilot_panels(context: Context) -> tuple[Panel, ...]:
    """The pilot's curve of every cell: how the interval's width depends on the slice length."""
    lines: list[Series] = []
    for cell, choice in _choices(context).items():
        known = [(point.slice_ns, point.j_s) for point in choice.curve if point.j_s is not None]
        if len(known) >= 2 and len(lines) < _PILOT_LINES:
            best = min(j for _, j in known) or 1.0
            title = context.cell_title(cell)
            lines.append(
                Series(
                    name=title,
                    key="ink" if not lines else "second",
                    x=tuple(slice_ns / 1e6 for slice_ns, _ in known),
                    y=tuple(round(math.sqrt(j / best), 4) for _, j in known),
                    group=(len(lines),) * len(known),  # most lines share a colour
                    tips=tuple(f"{title}: {format_ns(slice_ns)}" for slice_ns, _ in known),
                )
            )
    panel = Panel(
        id="pilot",
        title="width of the interval for the same time, by slice length",
        x_title="slice, ms",
        y_title="times the best",
        series=tuple(lines),
        x_kind="threads",
    )
    return (panel,) if lines else ()


def _choices(context: Context) -> dict[str, SliceChoice]:
    """Cell -> what its pilot found; empty when there was no pilot."""
    return context.run.read("pilot.json", dict[str, SliceChoice]) or {}


def data_check_status(context: Context) -> Iterator[Status]:
    """The warning at the head of the report when arms hold different rows."""
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
    """One line a table of each load: what was compared, and what came out; every difference with its arms."""
    rows: list[Row] = []
    for moment, answers in _row_answers(context).items():
        differences = row_differences(context.study.arms, answers)
        for table in dict.fromkeys(table for tables in answers.values() for table in tables):
            queries = dict.fromkeys(query for each in answers.values() for query in each.get(table, {}))
            found = [each.text(context.labels) for each in differences if each.table == table]
            if not queries and not found:
                continue  # a restored server is not asked what takes long
            arms = sum(table in tables for tables in answers.values())
            rows.append(Row.of(table, ", ".join(queries), "; ".join(found) or f"same on {arms} arms", group=moment))
    left = len(rows) - _DATA_CHECK_LINES
    return Table(
        id="data-check",
        group_title="asked",
        columns=("table", "queries", "answers"),
        rows=tuple(rows[:_DATA_CHECK_LINES]),
        note=(
            "Counts and checksums of rows, rows sampled by primary key, and the first rows in the order of a text; "
            "texts compared as utf8mb4, orders only between equal collations, arms only where rows are to be equal. "
            "Columns of times, floating-point numbers, JSON, BIT and geometry are left out, and tables without any "
            "other; arms whose remaining columns differ (JSON is a text on MariaDB) are compared by number of rows."
            + (f" {left} more tables are in the run directory." if left > 0 else "")
        ),
        all_text=True,
    )


def _row_answers(context: Context) -> dict[str, AllAnswers]:
    """When asked -> arm -> table -> query -> answer."""
    found: dict[str, AllAnswers] = {}
    build = 0
    while (loaded := context.run.read(f"rows/{build}.json", AllAnswers)) is not None:
        found[f"load {build}"] = context.of_the_study(f"rows/{build}.json", loaded)
        build += 1
    # A discarded epoch has perhaps been asked on some arms only.
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
    """Answers of a restored server, which are kept without their questions, with the questions of the load."""
    unknown = Answer(sql="", answer="")
    return {
        query: loaded.get(query, unknown).model_copy(update={"answer": answer}) for query, answer in answers.items()
    }


# The machine, the method, the time it took, the command.


def environment_section(context: Context) -> Section | None:
    """Machine, programs and what the run was given."""
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
    rows = tuple(Row.of(name, value) for name, value in facts if value)
    table = Table(id="environment", columns=("", ""), rows=rows, all_text=True)
    about = study.design.about if study.design else ""
    return Section.of("Environment", Prose(text=about), table, anchor="environment")


def _placement(context: Context) -> str:
    """Where the two threads of a connection ran, and why."""
    cells = context.cells_planned
    paired = [cell.name for cell in cells if cell.placement is Placement.PAIRED]
    if context.plan and context.plan.unpaired:
        return f"free: {context.plan.unpaired}"
    if len(paired) < len(cells):
        return f"on one CPU in {', '.join(paired)}; free elsewhere" if paired else "free"
    return "client's and server's on one CPU" if cells else ""


def _data_text(context: Context, builds: int) -> str:
    """What was loaded, as the study says it, and how often; an arm's own sizes stand in its settings."""
    study = context.study
    loaded = [PurePath(arm.data.source).name for arm in study.arms if arm.data.source]
    replayed = {cell.workload_index for cell in context.cells_planned if cell.fixed_work}
    if not loaded:
        loaded = [_sizes(study, each) for at, each in enumerate(study.workloads) if at not in replayed]
    found = [*dict.fromkeys(loaded)]
    if replayed and study.has_running_server:
        found.append("what the running servers have")
    text = " and ".join(found) or "none loaded"
    return f"{text}, {builds} build{'' if builds == 1 else 's'} an arm" if loaded else text


def _sizes(study: Study, workload: Workload) -> str:
    """Tables and rows, or warehouses."""
    sizes = kind_of(workload.script).sizes(options_of(study, workload, Data()))
    if "warehouses" not in sizes:
        return f"{sizes['tables']} tables of {sizes['table_size']:,} rows"
    scale = sizes["warehouses"]
    return f"{scale} warehouse{'s' * (scale > 1)}"


def method_section(context: Context) -> Section | None:
    """How the numbers came about, and where the wall time went."""
    return Section.of(
        "Method",
        Steps(items=METHOD),
        Fold(title="Words of this report", content=_words_table()),
        Prose(text="In full, with formulas and the tests that it passes: `docs/method.md` of bakeoff.", small=True),
        Section.of("Where the time went", _wall_table(context), anchor="wall"),
        anchor="method",
        nav="Method",
    )


def _words_table() -> Table:
    meanings = WORDS | {kind.value: kind.advice for kind in FlagKind}
    rows = tuple(Row.of(word, meaning) for word, meaning in meanings.items())
    return Table(id="words", columns=("word", "meaning"), rows=rows, all_text=True)


_PHASES = {
    "load": "loading the data, once a build; ANALYZE, flushing, keeping a copy",
    "restore": "copying the data for every server",
    "start": "starting the servers",
    "readiness": "reading every table into memory; purge and flushing done",
    "check": "comparing rows between the arms, scripts' own checks",
    "warm": "load that is not counted",
    "pilot": "choosing the slice length, in the first epoch",
    "flush": "flushing between writing cells",
    "measure": "measuring",
    "stop": "ending the servers, removing their data",
    "other": "reading variables and counters, statistics between epochs",
}


def _wall_table(context: Context) -> Table:
    """One row a phase, with its share of the wall time."""
    taken = wall_time(context.run.builds(), context.outcomes)
    rows = tuple(
        Row.of(
            phase,
            f"{seconds:.1f} s",
            numbers.share(seconds / taken.total_s),
            f"{seconds / len(context.outcomes):.1f} s" if phase != "load" else "",
            _PHASES[phase],
        )
        for phase, seconds in taken.phases_s.items()
    )
    columns = ("phase", "in all", "share", "an epoch", "what it is")
    return Table(id="wall", columns=columns, rows=rows, note=wall_sentence(context))


def wall_sentence(context: Context) -> str:
    """How much of the wall time was measuring; empty when no time is known."""
    taken = wall_time(context.run.builds(), context.outcomes)
    if not taken.total_s:
        return ""
    return (
        f"{numbers.share(taken.measured_share)} of {format_duration(taken.total_s)} were measuring; fetching servers "
        "and making this report are not counted."
    )


def again_section(context: Context) -> Section | None:
    """The command line that repeats the run."""
    return Section.of(
        "Run it again",
        Code(text=command(context)),
        Prose(
            text="Every slice, every setting and every log of this run is in its run directory, "
            f"`{context.run.name}`; this page is made from it by `bakeoff report`."
        ),
        anchor="again",
        nav="Run it again",
    )


_DRAW_A_SEED = (["duel"], ["run"], ["gate"], ["bisect"], ["replay"])  # commands, where none is given


def command(context: Context) -> str:
    """The command line that made this run, ready to be pasted, with its seed: every random choice is then the same."""
    words = list(context.manifest.command)
    if not words:
        return ""
    if words[1:2] in _DRAW_A_SEED and not any(word.split("=")[0] == "--seed" for word in words):
        words += ["--seed", str(context.manifest.seed)]
    return shlex.join([PurePath(words[0]).name, *words[1:]])
