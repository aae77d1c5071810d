"""`bakeoff duel`: compare two or more servers on this machine."""

import secrets
from collections.abc import Sequence
from string import ascii_uppercase
from typing import Annotated

import typer

from bakeoff.cli.arguments import (
    Budget,
    Client,
    Database,
    ExplainBudget,
    FailOnOption,
    Format,
    Hosts,
    NoExplain,
    NoVerdict,
    On,
    Open,
    Precision,
    ProfileOption,
    Publish,
    Quiet,
    Ray,
    Runs,
    ScriptOptions,
    Seed,
    Tables,
    TableSize,
    format_option,
    nodes_wanted,
)
from bakeoff.cli.run import RunOptions, check_and_run, explaining
from bakeoff.errors import SpecError
from bakeoff.plan.workloads import kind_of
from bakeoff.results import runs_root
from bakeoff.run.own_data import OwnData, own_data
from bakeoff.spec import (
    Arm,
    Connection,
    Data,
    Origin,
    Placement,
    Profile,
    ServerSpec,
    Study,
    Workload,
    control_of,
    parse_server,
)
from bakeoff.spec.factors import DEFAULT, ArmParts, check_level, rows_of
from bakeoff.spec.server_name import running_at, url_password
from bakeoff.spec.study import CONNECTION_WORDS, LOADS_MAX, RATE_MAX, THREADS_MAX, OptionValue
from bakeoff.units import parse_duration_s, parse_percent, parse_precision


def duel(
    servers: Annotated[
        list[str],
        typer.Argument(metavar="SERVER", help="The baseline first: mysql:5.7 mysql:8.0,innodb_flush_method=fsync …"),
    ],
    workload: Annotated[
        list[str],
        typer.Option("--workload", "-w", metavar="SCRIPT", help="One script, or several with commas; repeatable."),
    ] = ["oltp_read_only"],  # noqa: B006 — typer's own way of a default list
    threads: Annotated[str, typer.Option(metavar="N,...", help="Connections; several with commas: 1,16,64.")] = "4",
    tables: Tables = 4,
    table_size: TableSize = "100000",
    database: Database = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DUMP",
            help="Your own tables instead of the script's: a file of mysqldump, a directory of mydumper or MySQL "
            "Shell, or mysql://user@host/DATABASE (docs/data.md).",
        ),
    ] = None,
    warehouses: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=100_000, help="Warehouses of the workload tpcc. [default: 2]"),
    ] = None,
    option: ScriptOptions = None,
    rate: Annotated[float | None, typer.Option(metavar="N", help="Open loop at this many events per second.")] = None,
    precision: Precision = None,
    equivalence: Annotated[
        str | None,
        typer.Option(metavar="PERCENT", help="Margin of the word EQUIVALENT. [default: the precision, or 1%]"),
    ] = None,
    budget: Budget = "10m",
    no_verdict: NoVerdict = False,
    warm_up: Annotated[
        str, typer.Option("--warm-up", metavar="DURATION", help="Load before each workload is measured: 2s, 5m.")
    ] = "3s",
    builds: Annotated[
        int, typer.Option(metavar="N", min=1, max=LOADS_MAX, help="Independent loads of the data per arm.")
    ] = 2,
    profile: ProfileOption = Profile.MATCHED,
    control: Annotated[
        bool | None,
        typer.Option(
            "--control/--no-control",
            help="Run a second instance of the baseline as a control. [default: no-control]",
        ),
    ] = None,
    publish: Publish = False,
    fail_on: FailOnOption = None,
    explain_budget: ExplainBudget = None,
    no_explain: NoExplain = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what it would take, as `bakeoff plan`; start nothing.")
    ] = False,
    charset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Of the tables and the connection; `server`: each server's default. [default: utf8mb4]"
        ),
    ] = None,
    collation: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the tables. [default: the charset's default in each version]")
    ] = None,
    engine: Annotated[
        str, typer.Option("--mysql-storage-engine", metavar="NAME", help="Storage engine of the tables.")
    ] = "innodb",
    table_options: Annotated[
        str, typer.Option("--create-table-options", metavar="TEXT", help="Appended to CREATE TABLE.")
    ] = "",
    ps_mode: Annotated[
        str,
        typer.Option(
            "--db-ps-mode", metavar="MODE", help="server, client (literals in the text) or text (the same as client)."
        ),
    ] = "server",
    transport: Annotated[str, typer.Option(metavar="KIND", help="socket or tcp.")] = "socket",
    tls: Annotated[
        str, typer.Option("--mysql-ssl", "--tls", metavar="MODE", help="disabled, preferred or required.")
    ] = "disabled",
    freeze: Annotated[
        bool | None,
        typer.Option("--freeze/--no-freeze", help="Stop resting servers (SIGSTOP). [default: when a workload writes]"),
    ] = None,
    placement: Annotated[
        Placement | None,
        typer.Option(
            help="paired: client and server thread of each connection on one CPU; free: where the kernel puts them. "
            "[default: paired where it can be had]"
        ),
    ] = None,
    inject_slowdown: Annotated[
        str | None,
        typer.Option(
            "--inject-slowdown",
            metavar="PERCENT",
            help="Give the last server uncounted extra work, to test the verdict: 5% makes its true ratio 1/1.05.",
        ),
    ] = None,
    ray: Ray = None,
    hosts: Hosts = None,
    on: On = None,
    client: Client = None,
    allow_same: Annotated[bool, typer.Option("--allow-same", help="Compare a running server with itself.")] = False,
    seed: Seed = None,
    runs: Runs = None,
    open_report: Open = False,
    quiet: Quiet = False,
    output: Annotated[Format, format_option] = Format.TEXT,
) -> int:
    """Compare setups on real servers until the interval is narrow enough, and say which is faster and by how much."""
    if publish and control is False:
        raise SpecError("--publish and --no-control contradict each other.", hint="Leave one out.")
    specs = parse_servers(servers, "duel")
    if not allow_same:
        hint = "Name another server, or write --allow-same to test the method."
        by_url = any(not kind_of(each).fills_tables for each in _split(workload, "--workload"))
        refuse_twins(specs, "duel", hint=hint, with_database=by_url)
    own, tables_data, connection = data_and_connection(
        data,
        charset=DEFAULT if charset == "server" else charset,
        collation=collation,
        table_options=table_options or None,
        engine=engine if engine != "innodb" else None,
        transport=transport,
        tls=_tls(tls),
        prepare_mode=_prepare_mode(ps_mode),
    )
    arms = [arm_of(at, specs, tables_data, connection) for at in range(len(specs))]
    if inject_slowdown:
        arms[-1] = arms[-1].model_copy(update={"slowdown_percent": slowdown_percent(inject_slowdown)})
    if control or publish:
        arms.append(control_of(arms[0]))
    study = Study(
        title=" against ".join(str(spec) for spec in specs),
        arms=tuple(arms),
        workloads=workloads_of(workload, option, warehouses=warehouses, rate=rate),
        threads=threads_of(threads),
        tables=tables,
        database=database or own.database or "sbtest",
        capture_database=database or "",
        table_size=number_of(table_size, "--table-size"),
        precision=parse_precision(precision or "1%"),
        has_target=precision is not None,
        equivalence=parse_precision(equivalence, "equivalence") if equivalence else parse_precision(precision or "1%"),
        budget_s=parse_duration_s(budget),
        warm_s=parse_duration_s(warm_up),
        builds=builds,
        profile=profile,
        freeze=freeze,
        placement=placement,
        seed=secrets.randbelow(2**31) if seed is None else seed,
    )
    study = study.loaded_from(client) if client else study
    run_options = RunOptions(
        runs_root=runs_root(runs),
        passwords=passwords_of(arms, servers, own),
        quiet=quiet,
        json=output is Format.JSON,
        open_report=open_report,
        publish=publish,
        fail_on=fail_on,
        explaining=explaining(explain_budget, none=no_explain, of_s=study.budget_s),
        cluster=nodes_wanted(ray, hosts, on, explain_budget=explain_budget, client=client),
    )
    return check_and_run(study, run_options, no_verdict=no_verdict, dry_run=dry_run)


def refuse_twins(servers: list[ServerSpec], command: str, *, hint: str, with_database: bool) -> None:
    """Refuse a running server that is given twice; `with_database`: two databases of one server may be compared.

    Raises:
        SpecError: it is.
    """
    places: set[tuple[str | int, ...]] = set()
    for server in (each for each in servers if each.origin is Origin.URL):
        place = running_at(server, with_database=with_database)
        if place in places:
            raise SpecError(f"{command}: {server} is given twice, so it would be compared with itself.", hint=hint)
        places.add(place)


def arm_of(at: int, servers: list[ServerSpec], data: Data, connection: Connection) -> Arm:
    """The server at a place as an arm; its label has the arm's name when the server is given more than once."""
    name, server = ascii_uppercase[at], servers[at]
    label = str(server) if servers.count(server) == 1 else f"{server} ({name})"
    return Arm(name=name, label=label, server=server, data=data, connection=connection)


def passwords_of(arms: Sequence[Arm], servers: list[str], own: OwnData) -> dict[str, str]:
    """Those in the URLs that were typed, by arm (a control's is the baseline's) and by the source of the data."""
    typed = {arm.name: url_password(text) for arm, text in zip(arms, servers, strict=False)}
    typed |= {own.source: own.password, arms[-1].name: typed.get(arms[-1].name, typed[arms[0].name])}
    return {name: password for name, password in typed.items() if password}


def parse_servers(texts: list[str], command: str) -> list[ServerSpec]:
    """The servers to compare.

    Raises:
        SpecError: one of them is none, or there are too few or too many. `command`: as it begins in an example.
    """
    name = command.partition(" ")[0]
    if len(texts) < 2:
        example = f"Example: bakeoff {command} mysql:5.7 mysql:8.0"
        raise SpecError(f"{name}: it takes at least two servers.", hint=example)
    if len(texts) > (most := len(ascii_uppercase)):
        raise SpecError(f"{name}: {len(texts)} servers are more than {most}.", hint="Split them over runs.")
    return [parse_server(text) for text in texts]


def data_and_connection(data: str | None, **typed: str | None) -> tuple[OwnData, Data, Connection]:
    """What `--data` names; tables and connection, from it and the settings of a study file; None: not given.

    Raises:
        SpecError: an unknown word, a collation of another charset, texts that do not fit, no dump, or the URL of no
            database. HostError: a dump cannot be read.
    """
    own = own_data(data) if data else OwnData()
    settings = {name: value for name, value in ({"data": own.source or None} | typed).items() if value is not None}
    for name, value in settings.items():
        check_level(name, value)
    parts = ArmParts()
    parts.apply(settings)
    return own, parts.data, parts.connection


def _split(texts: list[str], flag: str) -> list[str]:
    parts = [part.strip() for text in texts for part in text.split(",")]
    if not parts or not all(parts):
        raise SpecError(f"{flag}: an empty entry in {','.join(texts)!r}.", hint=f"Write {flag} a,b,c.")
    if len(set(parts)) < len(parts):
        raise SpecError(f"{flag}: an entry comes twice in {','.join(texts)!r}.", hint="Leave one out.")
    return parts


def number_of(text: str, flag: str) -> int:
    """A number above zero, `100k`.

    Raises:
        SpecError: it is none; `flag` says of what.
    """
    try:
        return rows_of(text)
    except SpecError:
        message = f"{flag}: {text!r} is not a whole number above zero."
        raise SpecError(message, hint=f"Write {flag} {'1,4,16' if flag == '--threads' else '100k'}.") from None


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


def threads_of(text: str) -> tuple[int, ...]:
    """Numbers of connections, `1,16,64`.

    Raises:
        SpecError: one is none, comes twice or is too large.
    """
    counts = tuple(number_of(part, "--threads") for part in _split([text], "--threads"))
    if len(set(counts)) < len(counts):
        raise SpecError(f"--threads: a number comes twice in {text!r}.", hint="Leave one out.")
    if max(counts) > THREADS_MAX:
        raise SpecError(f"--threads: {max(counts)} are more than {THREADS_MAX}.", hint="Write --threads 1,16,64.")
    return counts


def slowdown_percent(text: str) -> float:
    """Uncounted events per 100 counted.

    Raises:
        SpecError: not a share, or outside 0 % to 100 %.
    """
    share = parse_percent(text, "--inject-slowdown")
    if not 0 <= share <= 1:
        meant = f"{text.strip()}%" if 1 < share <= 100 and "%" not in text else ""
        hint = f"Did you mean --inject-slowdown {meant}?" if meant else "Write --inject-slowdown 5%."
        raise SpecError(f"--inject-slowdown: {text!r} is outside 0% to 100%.", hint=hint)
    return share * 100


def workloads_of(
    scripts: list[str], options: list[str] | None, *, warehouses: int | None = None, rate: float | None = None
) -> tuple[Workload, ...]:
    """The workloads that were named, with the options of their scripts.

    Raises:
        SpecError: an empty or repeated name, an option that is none, a rate that cannot be, warehouses of no workload.
    """
    parsed = _parse_options(options or [])
    named = _split(scripts, "--workload")
    said = next((name for name, _ in parsed if name in ("scale", "warehouses")), None)
    if warehouses is not None:
        if not any(map(_has_warehouses, named)):
            raise SpecError("--warehouses: no workload is TPC-C.", hint="Leave it out, or write -w tpcc.")
        if said:
            raise SpecError(f"--warehouses and -o {said} say the same.", hint="Leave one out.")
    if rate is not None and not 0 < rate <= RATE_MAX:
        reason = "is not above zero" if rate <= 0 else f"is more than {RATE_MAX:g} events per second"
        raise SpecError(f"--rate: {rate:g} {reason}.", hint="Write --rate 500.")
    return tuple(
        Workload(
            script=script,
            options=(*(() if said else _size_of(script, warehouses)), *parsed),
            rate_per_s=rate,
        )
        for script in named
    )


def _has_warehouses(script: str) -> bool:
    return "warehouses" in kind_of(script).sizes({})


def _size_of(script: str, warehouses: int | None) -> tuple[tuple[str, OptionValue], ...]:
    """Return the option that sizes a script's data: what was asked for, else what keeps it small."""
    if warehouses and _has_warehouses(script):
        return (("scale", warehouses),)
    return kind_of(script).small_options(script)


def _tls(text: str) -> str:
    if text.lower() not in (known := CONNECTION_WORDS["tls"]):
        of_sysbench = {"on": "required", "off": "disabled"}
        meant = of_sysbench.get(text.lower())
        hint = f"Write --mysql-ssl {meant}." if meant else f"Write one of {', '.join(known)}."
        raise SpecError(f"--mysql-ssl: {text!r} is unknown.", hint=hint)
    return text


def _prepare_mode(text: str) -> str:
    modes = {"auto": "server", "server": "server", "client": "client", "text": "client", "disable": "client"}
    if text not in modes:
        raise SpecError(f"--db-ps-mode: {text!r} is unknown.", hint="Write server, client or text.")
    return modes[text]
