"""Arguments that several commands share: options, and a study named with a scale, a budget and a seed."""

import contextlib
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bakeoff.cluster import Wanted
from bakeoff.errors import HostError, KeyPath, SpecError
from bakeoff.plan.factorial import make_study
from bakeoff.spec import Profile, Study, parse_server
from bakeoff.spec.study import SEED_MAX
from bakeoff.spec.study_file import LoadedStudy, find_study, read_study
from bakeoff.units import parse_duration_s, parse_precision


@dataclass(frozen=True)
class StudyRequest:
    """A study and the file that it comes from."""

    loaded: LoadedStudy
    study: Study


def request_study(
    name: str,
    *,
    scale: str,
    budget: str | None = None,
    precision: str | None = None,
    seed: int | None = None,
    control: bool = False,
    servers: Sequence[str] = (),
) -> StudyRequest:
    """Read a study file and let the command line change its budget, precision and seed, or add a control.

    `servers`, the baseline first, are the arms in place of those in the file.

    Raises:
        SpecError: a mistake in the file or on the command line.
    """
    loaded = read_study(find_study(name), scale=scale, installed=_installed)
    changed: dict[str, float | int] = {"control": True} if control else {}
    if budget is not None:
        changed["budget"] = parse_duration_s(budget)
    if precision is not None:
        changed["precision"] = parse_precision(precision)
    if seed is not None:
        changed["seed"] = seed
    loaded = replace(loaded, form=loaded.form.model_copy(update=changed))
    if servers:
        loaded = loaded.with_servers(servers)
    return StudyRequest(loaded, make_study(loaded, seed=secrets.randbelow(2**31)))


def _installed(named: Sequence[str]) -> list[str]:
    """Servers of the catalogue that are in the cache, oldest first within a flavour, but for those that are named.

    A name with options of its own is another setup of its server.
    """
    from bakeoff.servers import Catalog, is_installed  # a tenth of a second that `bakeoff report` does without

    catalog = Catalog.load()
    known = set()
    for name in named:
        with contextlib.suppress(SpecError):  # not of the catalogue, or a mistake that is reported with its line
            server = parse_server(name)
            if not (server.options or server.cnf_files or server.env):
                known.add(catalog.resolve(server, is_installed).name)
    here = [entry for entry in catalog.entries if is_installed(entry) and entry.name not in known]
    return [f"{entry.flavour}:{entry.version}" for entry in here]


@contextlib.contextmanager
def naming_the_line(request: StudyRequest) -> Iterator[None]:
    """Add file and line to errors about a field of the study that are found only on this machine or by a server."""
    try:
        yield
    except (SpecError, HostError) as error:
        if not error.field:
            raise
        place = _place_of(error.field, request)
        message = request.loaded.error(*place, reason=error.message).message
        raise type(error)(message, hint=error.hint) from None


def _place_of(field: KeyPath, request: StudyRequest) -> KeyPath:
    """Where the study file sets a field of the study."""
    loaded, design = request.loaded, request.study.design
    match field:
        case ("arms", str(name), *rest) if design and name in design.levels:
            factors = (factor.name for factor in design.factors)
            return loaded.place_of_field(tuple(rest), dict(zip(factors, design.levels[name], strict=True)))
    return field


class Format(StrEnum):
    """Output format of a command."""

    TEXT = "text"
    JSON = "json"


class FailOn(StrEnum):
    """What makes a run fail."""

    SLOWER = "slower"
    ROWS = "rows"
    ERRORS = "errors"
    PLAN = "plan"


format_option = typer.Option("--format", help="text for people, json for programs.")

Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="N",
        min=0,
        max=SEED_MAX,
        help="Everything random follows from it; default: a new one, printed.",
    ),
]
Runs = Annotated[
    Path | None,
    typer.Option("--runs", metavar="DIR", help="Folder of runs. [default: ./bakeoff-runs, or $BAKEOFF_RUNS]"),
]
Open = Annotated[bool, typer.Option("--open", help="Open the report in a browser.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the verdict.")]


def _fail_on(text: str) -> frozenset[FailOn]:
    known = ", ".join(FailOn)
    words = [word.strip() for word in text.split(",")]
    if odd := [word for word in words if word not in list(FailOn)]:
        raise typer.BadParameter(f"{odd[0]!r} is none of {known}.")
    return frozenset(map(FailOn, words))


FailOnOption = Annotated[
    frozenset[FailOn] | None,
    typer.Option(
        "--fail-on",
        parser=_fail_on,
        metavar="KIND",
        help="Exit with 1 when a contender is SLOWER, and not EQUIVALENT too: slower. Of a replay also rows, errors, "
        "plan: a query answers or plans otherwise; several with commas.",
    ),
]
Precision = Annotated[
    str | None, typer.Option(metavar="PERCENT", help="Half-width to reach; else 1% or the budget's best.")
]
Budget = Annotated[str, typer.Option(metavar="DURATION", help="Wall time from loading to verdict: 90s, 4m, 1h.")]
ProfileOption = Annotated[
    Profile, typer.Option(help="matched: same memory and durability; stock: each version's defaults.")
]
Publish = Annotated[
    bool, typer.Option("--publish", help="For a report to be published: with a control; fails when that does not hold.")
]
NoVerdict = Annotated[
    bool, typer.Option("--no-verdict", help="Measure even if the budget is too small for a verdict on any machine.")
]
ExplainBudget = Annotated[
    str | None,
    typer.Option(
        "--explain-budget",
        metavar="DURATION",
        help="Wall time, after the verdict, to explain what is FASTER or SLOWER. [default: a quarter of the budget]",
    ),
]
NoExplain = Annotated[bool, typer.Option("--no-explain", help="Leave differences unexplained.")]

Tables = Annotated[int, typer.Option("--tables", metavar="N", min=1, max=1000, help="Tables to load.")]
TableSize = Annotated[
    str, typer.Option("--table-size", metavar="ROWS", help="Rows a table; k and m are 1,000 and 1,000,000.")
]
ScriptOptions = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="NAME=VALUE", help="Option of the workload's script; repeatable."),
]
Dump = Annotated[
    str | None, typer.Option(metavar="DUMP", help="Your own tables instead of the script's (docs/data.md).")
]

Database = Annotated[
    str | None, typer.Option(metavar="NAME", help="Database of the tables. [default: the dump's, or sbtest]")
]

Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="[ADDRESS]",
        help="Measure on the nodes of a Ray cluster: HOST:PORT, ray://HOST:PORT or local; without an address that of "
        "$RAY_ADDRESS, or the one that this machine is a node of (docs/cluster.md).",
    ),
]
Hosts = Annotated[int | None, typer.Option("--hosts", metavar="N", min=1, help="With --ray: on so many nodes.")]
On = Annotated[
    str | None, typer.Option("--on", metavar="RESOURCE", help="With --ray: on nodes that offer this resource.")
]

Client = Annotated[
    str | None,
    typer.Option(
        "--client",
        metavar="[USER@]HOST",
        help="Send the load from this host, reached by ssh; the servers stay here "
        "(docs/how-to/client-on-another-host.md).",
    ),
]


def nodes_wanted(
    ray: str | None, hosts: int | None, on: str | None, *, explain_budget: str | None, client: str | None = None
) -> Wanted | None:
    """Where a run is measured; None: on this machine.

    Raises:
        SpecError: an option of a cluster without one, or of one machine with one.
    """
    if ray is not None and client is not None:
        raise SpecError("--client and --ray cannot be combined.", hint="Leave one out.")
    if ray is not None and explain_budget is not None:
        raise SpecError("--explain-budget: differences are explained on one machine.", hint="Leave it or --ray out.")
    if ray is None:
        for option, given in (("--hosts", hosts), ("--on", on)):
            if given is not None:
                raise SpecError(f"{option}: it chooses nodes of a cluster.", hint=f"Write --ray {option} {given}.")
        return None
    return Wanted(ray, hosts, on or "")
