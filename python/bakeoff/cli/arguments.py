"""Option groups that several commands share. Fields of a study itself are declared in `bakeoff.spec.fields`."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import Field

from bakeoff import features
from bakeoff.errors import SpecError
from bakeoff.spec import Frozen
from bakeoff.spec.factors import DEFAULT
from bakeoff.spec.fields import RATE_MAX, Option
from bakeoff.spec.study import CONNECTION_WORDS
from bakeoff.units import parse_duration_s, parse_percent


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"


class FailOn(StrEnum):
    SLOWER = "slower"
    ROWS = "rows"
    ERRORS = "errors"
    PLAN = "plan"


def parse_fail_on(text: str) -> frozenset[FailOn]:
    words = [word.strip() for word in text.split(",")]
    if odd := [word for word in words if word not in list(FailOn)]:
        raise SpecError(f"{odd[0]!r} is not one of {', '.join(FailOn)}.", hint="Write --fail-on slower.")
    return frozenset(map(FailOn, words))


def parse_rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        raise SpecError(f"{text!r} is not a number.", hint="Write --rate 500.") from None
    if not 0 < rate <= RATE_MAX:
        raise SpecError(f"{rate:g} is not between 0 and {RATE_MAX:g} events per second.", hint="Write --rate 500.")
    return rate


def parse_slowdown(text: str) -> float:
    """Read an injected slowdown: uncounted events per 100 counted."""
    share = parse_percent(text)
    if not 0 <= share <= 1:
        raise SpecError(f"{text!r} is outside 0% to 100%.", hint="Write --inject-slowdown 5%.")
    return share * 100


def _parse_tls(text: str) -> str:
    if text.lower() not in (known := CONNECTION_WORDS["tls"]):
        meant = {"on": "required", "off": "disabled"}.get(text.lower())  # sysbench's words
        hint = f"Write --mysql-ssl {meant}." if meant else f"Write one of {', '.join(known)}."
        raise SpecError(f"{text!r} is unknown.", hint=hint)
    return text.lower()


def _parse_ps_mode(text: str) -> str:
    modes = {"auto": "server", "server": "server", "client": "client", "text": "client", "disable": "client"}
    if text not in modes:
        raise SpecError(f"{text!r} is unknown.", hint="Write server, client or text.")
    return modes[text]


Runs = Annotated[Path | None, Option("Folder of runs.", "DIR", default="./bakeoff-runs, or $BAKEOFF_RUNS")]
FormatOption = Annotated[Format, Option("text for people, json for programs.", flags="--format")]
Publish = Annotated[
    bool, Option("For a published report: add a control, and fail when it does not hold.", section="Output")
]

InjectSlowdown = Annotated[
    float | None,
    Option(
        "Give the last server uncounted extra work, to test the verdict: 5% makes its true ratio 1/1.05.",
        "PERCENT",
        parse_slowdown,
        section="What is compared",
    ),
]


class WorkloadOptions(Frozen):
    SECTION = "Workload"

    workload: Annotated[
        list[str], Option("One script, or several with commas; repeatable.", "SCRIPT", flags="--workload -w")
    ] = ["oltp_read_only"]
    option: Annotated[
        list[str], Option("Option of the workload's script; repeatable.", "NAME=VALUE", flags="--option -o")
    ] = []
    warehouses: Annotated[
        int | None, Field(ge=1, le=100_000), Option("Warehouses of the workload tpcc.", "N", default="2")
    ] = None
    rate: Annotated[float | None, Option("Open loop at this many events per second.", "N", parse_rate)] = None


class DataOptions(Frozen):
    SECTION = "Data"

    data: Annotated[
        str | None,
        Option(
            "Your own tables instead of the script's: a file of mysqldump, a directory of mydumper or MySQL Shell, or "
            "mysql://user@host/DATABASE (docs/reference/data.md).",
            "DUMP",
        ),
    ] = None
    charset: Annotated[
        str | None,
        Option("Character set of tables and connection; `server`: each server's default.", "NAME", default="utf8mb4"),
    ] = None
    collation: Annotated[
        str | None, Option("Collation of the tables.", "NAME", default="the charset's default in each version")
    ] = None
    engine: Annotated[str, Option("Storage engine of the tables.", "NAME", flags="--mysql-storage-engine")] = "innodb"
    table_options: Annotated[str, Option("Appended to CREATE TABLE.", "TEXT", flags="--create-table-options")] = ""
    ps_mode: Annotated[
        str,
        Option(
            "server, client (literals in the text) or text (the same as client).",
            "MODE",
            _parse_ps_mode,
            flags="--db-ps-mode",
            section="Workload",
        ),
    ] = "server"
    transport: Annotated[str, Option("socket or tcp.", "KIND", section="Workload")] = "socket"
    tls: Annotated[
        str,
        Option("disabled, preferred or required.", "MODE", _parse_tls, flags="--mysql-ssl --tls", section="Workload"),
    ] = "disabled"

    def settings(self) -> dict[str, str]:
        """Return the equivalent settings of a study file."""
        names = {"engine": "engine", "table_options": "table_options", "ps_mode": "prepare_mode"}
        found = {names.get(name, name): value for name, value in self.given().items() if name != "data"}
        return found | ({"charset": DEFAULT} if self.charset == "server" else {})


@dataclass(frozen=True)
class Nodes:
    """The nodes of a Ray cluster that measure."""

    address: str = "auto"  # HOST:PORT, ray://HOST:PORT, local, or auto ($RAY_ADDRESS, else a cluster of this machine)
    hosts: int | None = None  # how many nodes; None for all that fit
    resource: str = ""  # what a node must offer, of which one unit is taken; empty for a CPU


class Where(Frozen):
    ray: Annotated[
        str | None,
        Option(
            "Measure on the nodes of a Ray cluster: HOST:PORT, ray://HOST:PORT or local. Without an address: "
            "$RAY_ADDRESS, or the cluster of this machine; then write --ray last, or before another option.",
            "[ADDRESS]",
            section="Where",
        ),
    ] = None
    hosts: Annotated[int | None, Field(ge=1), Option("With --ray: on this many nodes.", "N", section="Where")] = None
    on: Annotated[str | None, Option("With --ray: on nodes that offer this resource.", "RESOURCE", section="Where")] = (
        None
    )
    client: Annotated[
        str | None,
        Option(
            "Send the load from this host, reached by ssh; the servers stay on this machine.",
            "[USER@]HOST",
            section="Where",
        ),
    ] = None

    def nodes(self, explain_budget_s: float | None = None) -> Nodes | None:
        if self.ray is None:
            for option, value in (("--hosts", self.hosts), ("--on", self.on)):
                if value is not None:
                    raise SpecError(f"{option}: it chooses nodes of a cluster.", hint=f"Write --ray {option} {value}.")
            return None
        if features.part("cluster", "commands") is None:
            raise SpecError("--ray: the cluster feature is not installed.", hint="Leave --ray out.")
        if self.client is not None:
            raise SpecError("--client and --ray cannot be combined.", hint="Leave one out.")
        if explain_budget_s is not None:
            raise SpecError(
                "--explain-budget: differences are explained on one machine.", hint="Leave it or --ray out."
            )
        return Nodes(self.ray, self.hosts, self.on or "")


class Output(Frozen):
    SECTION = "Output"

    runs: Runs = None
    open_report: Annotated[bool, Option("Open the report in a browser.", flags="--open")] = False
    quiet: Annotated[bool, Option("Print only the verdict.", flags="--quiet -q")] = False
    output: FormatOption = Format.TEXT


class Verdict(Frozen):
    SECTION = "How long"

    no_verdict: Annotated[bool, Option("Measure even if the budget is too small for a verdict on any machine.")] = False
    fail_on: Annotated[
        frozenset[FailOn] | None,
        Option(
            "Exit with 1 when a contender is SLOWER and not EQUIVALENT: slower. A replay also fails on rows, errors or "
            "plan: a query answers or plans differently. Several with commas.",
            "KIND",
            parse_fail_on,
            section="Output",
        ),
    ] = None
    explain_budget: Annotated[
        float | None,
        Option(
            "Wall time, after the verdict, to explain what is FASTER or SLOWER.",
            "DURATION",
            parse_duration_s,
            default="a quarter of the budget",
        ),
    ] = None
    no_explain: Annotated[bool, Option("Leave differences unexplained.")] = False


class ClusterOutput(Output, Where):
    """Output of a run that may be measured on a cluster."""
