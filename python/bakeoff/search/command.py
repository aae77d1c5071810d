"""`bakeoff bisect`: find the build, or the options, that made a server slower (docs/reference/bisect.md)."""

from collections import Counter
from pathlib import Path
from typing import Annotated

from bakeoff.cli.arguments import DataOptions, Output, WorkloadOptions
from bakeoff.cli.duel import data_and_connection, passwords_of, study_of, workloads_of
from bakeoff.cli.options import Take, command
from bakeoff.cli.printing import print_sentence
from bakeoff.cli.run import RunOptions, check_and_run
from bakeoff.errors import SpecError
from bakeoff.plan.factorial import arm_names
from bakeoff.search.attribution import typed_settings
from bakeoff.search.model import Search
from bakeoff.servers import find_entry, install, known_servers
from bakeoff.servers.cnf import read_cnf
from bakeoff.servers.options import Target, translate
from bakeoff.spec import Arm, Origin, ServerSpec, parse_server
from bakeoff.spec.fields import Argument, Conditions, Option, Sizes

_BUILDS_MIN, _BUILDS_MAX = 3, 500
_OPTIONS_MAX = 100
_FILES = 2


@command(
    "bakeoff bisect path:build/1 path:build/2 path:build/3 path:build/4 --budget 1h",
    "bakeoff bisect --cnf fast.cnf --cnf slow.cnf mysql:8.0 -w oltp_read_write",
    most_used=("--workload", "--threads", "--table-size", "--cnf", "--budget"),
)
def bisect(
    servers: Annotated[
        list[str], Argument("Builds in order, the first one good, the last one slow; or one server.", "SERVER")
    ],
    workload: Annotated[WorkloadOptions, Take("workload", "option")],
    data: Annotated[DataOptions, Take("data")],
    sizes: Annotated[Sizes, Take("threads", "tables", "table_size", "precision", "budget_s", budget_s="30m")],
    conditions: Annotated[Conditions, Take("database", "seed")],
    output: Output,
    cnf: Annotated[
        list[str],
        Option("Twice: the good options and the slow ones, of the one server.", "FILE", section="What is compared"),
    ] = [],  # noqa: B006
) -> int:
    """Measure what is most informative, until it is known which build or which options made a server slower.

    Exit codes: 0 found, 6 not decided in the budget.
    """
    specs = [parse_server(text) for text in servers]
    if running := next((spec for spec in specs if spec.is_running), None):
        message = f"bisect: {running} is a running server, which is not restarted."
        raise SpecError(message, hint="Name a build that bakeoff starts: path:DIR.")
    own, tables_data, connection = data_and_connection(data)
    form = Arm(name="A", label="", server=specs[0], data=tables_data, connection=connection)
    arms, search = _of_options(specs, cnf, form) if cnf else _of_builds(specs, form)
    study = study_of(
        own.database,
        sizes,
        conditions,
        title=f"bisect {arms[0].label} to {arms[-1].label}" if search.builds else f"bisect options of {specs[0]}",
        arms=arms,
        workloads=workloads_of(workload),
        question=search,
    )
    if len(study.workloads) * len(study.threads) > 1:
        raise SpecError("bisect: it takes one workload and one number of threads.", hint="Name the clearest one.")
    options = RunOptions.of(output, passwords=passwords_of(arms, servers, own))
    return check_and_run(study, options, no_verdict=False)


def _of_builds(specs: list[ServerSpec], form: Arm) -> tuple[tuple[Arm, ...], Search]:
    if not _BUILDS_MIN <= len(specs) <= _BUILDS_MAX:
        raise SpecError(
            f"bisect: it takes {_BUILDS_MIN} to {_BUILDS_MAX} builds in order, or one server with --cnf twice.",
            hint="Example: bakeoff bisect path:build/1 path:build/2 path:build/3",
        )
    known = {entry.name for entry in known_servers()}
    for spec in specs:  # find a missing build now
        if spec.origin is Origin.PATH:
            install(spec)
        elif spec.origin is Origin.CATALOG and find_entry(spec).name not in known:
            install(spec)  # whether it exists shows when it is fetched
    count = Counter(map(str, specs))
    builds = tuple(
        form.model_copy(
            update={"name": name, "server": spec, "label": str(spec) if count[str(spec)] == 1 else f"{number}: {spec}"}
        )
        for number, (name, spec) in enumerate(zip(arm_names(len(specs)), specs, strict=True), start=1)
    )
    return (builds[0], builds[-1]), Search(builds=builds)


def _of_options(specs: list[ServerSpec], files: list[str], form: Arm) -> tuple[tuple[Arm, ...], Search]:
    if len(specs) != 1 or len(files) != _FILES:
        raise SpecError(
            "bisect: --cnf takes one server and two files, the good options and the slow ones.",
            hint="Example: bakeoff bisect --cnf fast.cnf --cnf slow.cnf mysql:8.0",
        )
    (spec,) = specs
    target = Target.of(install(spec))
    read = [read_cnf(Path(file), target).overridden_by(dict(spec.options)) for file in files]
    for file, each in zip(files, read, strict=True):
        translate(target, each.options, each.places, each.problems)  # its errors name file and line
        for note in each.all_notes():
            print_sentence(f"{file}: {note}", stderr=True)
    good, bad = (each.options for each in read)
    pairs = typed_settings("option", tuple(good.items()), tuple(bad.items()))
    if not 1 < len(pairs) <= _OPTIONS_MAX:
        raise SpecError(
            f"bisect: {files[0]} and {files[1]} differ in {len(pairs)} options; it takes 2 to {_OPTIONS_MAX}.",
            hint="Write bakeoff duel for one option." if len(pairs) == 1 else "Look at groups and names.",
        )
    baseline = form.model_copy(
        update={"label": f"A: {files[0]}", "server": spec.with_settings(options=tuple(good.items()))}
    )
    last = baseline
    for setting in pairs:
        last = setting.applied(last, last)
    return (baseline, last.model_copy(update={"name": "B", "label": f"B: {files[1]}"})), Search(settings=tuple(pairs))
