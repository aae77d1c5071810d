"""`bakeoff duel`: compare two or more servers on this machine."""

from collections.abc import Sequence
from string import ascii_uppercase
from typing import Annotated, Any

from bakeoff.cli.arguments import ClusterOutput, DataOptions, InjectSlowdown, Publish, Verdict, WorkloadOptions
from bakeoff.cli.options import Take, command
from bakeoff.cli.run import RunOptions, check_and_run, explaining
from bakeoff.errors import SpecError
from bakeoff.plan.workloads import kind_of, named_workloads
from bakeoff.run.own_data import OwnData, own_data
from bakeoff.spec import Arm, Connection, Data, Frozen, ServerSpec, Study, Workload, control_of, parse_server
from bakeoff.spec.factors import ArmParts, check_level
from bakeoff.spec.fields import Argument, Conditions, Option, Sizes, split_list
from bakeoff.spec.server_name import running_at, url_password
from bakeoff.spec.study import OptionValue


class DuelOptions(Frozen):
    servers: Annotated[
        list[str], Argument("The baseline first: mysql:5.7 mysql:8.0,innodb_flush_method=fsync …", "SERVER")
    ]
    control: Annotated[
        bool | None,
        Option(
            "Run a second instance of the baseline as a control.",
            flags="--control/--no-control",
            default="no-control",
            section="What is compared",
        ),
    ] = None
    inject_slowdown: InjectSlowdown = None
    allow_same: Annotated[bool, Option("Compare a running server with itself.", section="What is compared")] = False
    publish: Publish = False
    dry_run: Annotated[
        bool, Option("Show what it would take, as `bakeoff plan`; start nothing.", section="How long")
    ] = False


@command(
    "bakeoff duel mysql:5.7 mysql:8.0",
    "bakeoff duel mysql:8.0 mysql:8.0,innodb_flush_method=fsync -w oltp_write_only",
    "bakeoff duel mysql:8.0 mariadb:10.11 --threads 1,16 --budget 30m",
    most_used=("--workload", "--threads", "--table-size", "--data", "--budget"),
)
def duel(
    duel: DuelOptions,
    workload: WorkloadOptions,
    data: DataOptions,
    sizes: Sizes,
    conditions: Annotated[Conditions, Take("database", "profile", "freeze", "placement", "cache", "seed")],
    verdict: Verdict,
    output: ClusterOutput,
) -> int:
    """Compare setups on real servers until the interval is narrow enough, and say which is faster and by how much."""
    if duel.publish and duel.control is False:
        raise SpecError("--publish and --no-control contradict each other.", hint="Leave one out.")
    specs = parse_servers(duel.servers, "duel")
    workloads = workloads_of(workload)
    if not duel.allow_same:
        hint = "Name another server, or write --allow-same to test the method."
        by_url = any(not kind_of(each.script).fills_tables for each in workloads)
        refuse_twins(specs, "duel", hint=hint, with_database=by_url)
    own, tables_data, connection = data_and_connection(data)
    arms = [arm_of(at, specs, tables_data, connection) for at in range(len(specs))]
    if duel.inject_slowdown:
        arms[-1] = arms[-1].model_copy(update={"slowdown_percent": duel.inject_slowdown})
    if duel.control or duel.publish:
        arms.append(control_of(arms[0]))
    study = study_of(
        own.database,
        sizes,
        conditions,
        title=" against ".join(map(str, specs)),
        arms=tuple(arms),
        workloads=workloads,
        capture_database=conditions.given().get("database", ""),
    )
    study = study if output.client is None else study.loaded_from(output.client)
    options = RunOptions.of(
        output,
        verdict,
        passwords=passwords_of(arms, duel.servers, own),
        publish=duel.publish,
        explaining=explaining(verdict, of_s=study.budget_s),
        cluster=output.nodes(verdict.explain_budget),
    )
    return check_and_run(study, options, no_verdict=verdict.no_verdict, dry_run=duel.dry_run)


def study_of(database: str, sizes: Sizes, conditions: Conditions, **fields: Any) -> Study:  # noqa: ANN401
    """Make a study from the command line; `database` is the data's, unless the user named another."""
    typed = sizes.given() | ({"database": database} if database else {}) | conditions.given()
    return Study(**typed | {"has_target": "precision" in typed, "seed": conditions.seed} | fields)


def refuse_twins(servers: list[ServerSpec], command: str, *, hint: str, with_database: bool) -> None:
    """Refuse a running server that is given twice; `with_database` allows two databases of one server."""
    places: set[tuple[str | int, ...]] = set()
    for server in (each for each in servers if each.is_running):
        place = running_at(server, with_database=with_database)
        if place in places:
            raise SpecError(f"{command}: {server} is given twice, so it would be compared with itself.", hint=hint)
        places.add(place)


def arm_of(at: int, servers: list[ServerSpec], data: Data, connection: Connection) -> Arm:
    name, server = ascii_uppercase[at], servers[at]
    label = str(server) if servers.count(server) == 1 else f"{server} ({name})"
    return Arm(name=name, label=label, server=server, data=data, connection=connection)


def passwords_of(arms: Sequence[Arm], servers: list[str], own: OwnData) -> dict[str, str]:
    """Return the passwords in URLs, by arm (a control has its baseline's) and by the source of the data."""
    typed = {arm.name: url_password(text) for arm, text in zip(arms, servers, strict=False)}
    typed |= {own.source: own.password, arms[-1].name: typed.get(arms[-1].name, typed[arms[0].name])}
    return {name: password for name, password in typed.items() if password}


def parse_servers(texts: list[str], command: str) -> list[ServerSpec]:
    """Parse the servers to compare, at least two; `command` begins the example in an error."""
    name = command.partition(" ")[0]
    if len(texts) < 2:
        example = f"Example: bakeoff {command} mysql:5.7 mysql:8.0"
        raise SpecError(f"{name}: at least two servers are required.", hint=example)
    if len(texts) > (most := len(ascii_uppercase)):
        raise SpecError(f"{name}: {len(texts)} servers are more than {most}.", hint="Split them over runs.")
    return [parse_server(text) for text in texts]


def data_and_connection(options: DataOptions) -> tuple[OwnData, Data, Connection]:
    own = own_data(options.data) if options.data else OwnData()
    settings = options.settings() | ({"data": own.source} if own.source else {})
    for name, value in settings.items():
        check_level(name, value)
    parts = ArmParts()
    parts.apply(settings)
    return own, parts.data, parts.connection


def workloads_of(options: WorkloadOptions) -> tuple[Workload, ...]:
    parsed = _parse_options(options.option)
    warehouses = options.warehouses
    try:
        named = split_list(",".join(options.workload))
    except SpecError as error:
        raise SpecError(f"--workload: {error.message}", hint=error.hint) from None
    said = next((name for name, _ in parsed if name in ("scale", "warehouses")), None)
    if warehouses is not None:
        if not any(map(_has_warehouses, named)):
            raise SpecError("--warehouses: no workload is TPC-C.", hint="Leave it out, or write -w tpcc.")
        if said:
            raise SpecError(f"--warehouses and -o {said} say the same.", hint="Leave one out.")
    return tuple(
        each.configured((*(() if said else _size_of(each.script, warehouses)), *parsed), options.rate)
        for name in named
        for each in named_workloads(name)
    )


def _parse_options(texts: list[str]) -> tuple[tuple[str, OptionValue], ...]:
    options: dict[str, OptionValue] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise SpecError(f"--option: {text!r} is not NAME=VALUE.", hint="Write -o range_size=10.")
        name = name.lstrip("-").replace("-", "_")
        if name in options:
            raise SpecError(f"--option: {name} is given twice.", hint="Leave one out.")
        options[name] = value
    return tuple(options.items())


def _has_warehouses(script: str) -> bool:
    return "warehouses" in kind_of(script).sizes({})


def _size_of(script: str, warehouses: int | None) -> tuple[tuple[str, OptionValue], ...]:
    if warehouses and _has_warehouses(script):
        return (("scale", warehouses),)
    return kind_of(script).small_options(script)
