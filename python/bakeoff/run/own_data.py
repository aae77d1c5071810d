"""Load one's own data, a dump, into a server of ours, in place of what a script's `prepare` makes (docs/data.md)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bakeoff.engine import Engine, Message, head_of
from bakeoff.errors import EngineError, SpecError
from bakeoff.run.arms import ArmSetup, address_of
from bakeoff.run.listener import Listener
from bakeoff.servers import Instance, Server
from bakeoff.spec import Origin, Study, parse_server
from bakeoff.spec.dumps import SYSTEM_SCHEMAS, default_database, is_url, read_dump, used_databases
from bakeoff.spec.server import url_password

# Rows as large as servers take, and functions that a binary log would not like; both end with the server.
_WHILE_LOADING = ("max_allowed_packet = 1073741824", "log_bin_trust_function_creators = 1")


@dataclass(frozen=True)
class OwnData:
    """What `--data` names.

    Attributes:
        source: for `Data.source`, without a password.
        database: the one that it is of; empty: it names none or several.
    """

    source: str = ""
    database: str = ""
    password: str | None = None


def own_data(text: str) -> OwnData:
    """Look at what was written after `--data`.

    Raises:
        SpecError: no dump, or the URL of no database. HostError: it cannot be read.
    """
    if not is_url(text):
        source = str(Path(text).absolute())
        databases = databases_in(source)
        return OwnData(source, databases[0] if len(databases) == 1 else "")
    server = parse_server(text)
    database = default_database(server.location) if server.origin is Origin.URL else ""
    if not database:
        shown = text.partition("://")[0] + "://…"
        raise SpecError(f"--data {shown}: no database is named.", hint="Write mysql://user@host/DATABASE.")
    return OwnData(server.location, database, url_password(text))


def databases_in(source: str) -> tuple[str, ...]:
    """Databases that a dump makes or uses itself, as far as the names of its files or a file's beginning tell.

    Raises:
        SpecError: no dump. HostError: it cannot be read.
    """
    dump = read_dump(source)
    return dump.databases if Path(source).is_dir() else used_databases(head_of(source).decode(errors="replace"))


@dataclass(frozen=True)
class Loaded:
    """What a load of a dump gave.

    Attributes:
        databases: those that hold tables.
        translated: collations, character sets and SQL modes of the dump that the server does not know, each with the
            one that took its place, or "".
    """

    databases: tuple[str, ...]
    translated: dict[str, str]


def load_dump(
    engine: Engine, setup: ArmSetup, server: Instance, study: Study, listener: Listener, *, threads: int
) -> Loaded:
    """Load the arm's dump into its server; the study's database is there already, unless the dump makes it.

    Raises:
        SpecError: the dump is not for this server, or fills other databases than the study measures.
        EngineError: the engine or the server is gone; the disk is full.
    """
    source, label = setup.arm.data.source, setup.arm.label
    dump = read_dump(source)
    # A database that the dump makes itself has the character set that the dump says.
    database = "information_schema" if study.database in databases_in(source) else study.database
    for setting in _WHILE_LOADING:
        server.query(f"SET GLOBAL {setting}")
    engine.open([address_of(setup, server, database, pid=server.pid)])
    try:
        found = engine.load(
            setup.arm.name,
            dump.stages,
            threads=threads,
            on_progress=lambda done, total: listener.progress(f"{label} {Path(source).name}", done, total, "bytes"),
        )
    except EngineError as error:
        if error.code in ("sql_error", "script_error"):
            error.hint = "The dump was read up to there; nothing of it is kept."
        raise
    databases = databases_of(server)
    _note(found, label, listener)
    return Loaded(databases, found["names"])


def databases_of(server: Server) -> tuple[str, ...]:
    """Databases with tables, those of the server itself left out."""
    rows = server.query(
        "SELECT DISTINCT table_schema FROM information_schema.tables WHERE table_type = 'BASE TABLE' ORDER BY 1"
    )
    return tuple(str(name) for (name,) in rows if str(name) not in SYSTEM_SCHEMAS)


def check_source(study: Study) -> None:
    """Check before anything is started that each dump is of the database that the study measures.

    Raises:
        SpecError: it is of others, or none is there. HostError: it cannot be read.
    """
    for arm in study.arms:
        source = arm.data.source
        databases = () if not source or is_url(source) else databases_in(source)
        if databases and study.database not in databases:
            raise SpecError(
                f"data {source}: it is of {', '.join(databases)}, and the study measures {study.database}.",
                hint=f"Write --database {databases[0]} (`database:` in a study file).",
                field=("database",),
            )


def check_databases(study: Study, loaded: Loaded) -> None:
    """Check that the database that the study measures was filled.

    Raises:
        SpecError: it was not; with those that were.
    """
    if study.database not in loaded.databases:
        there = ", ".join(loaded.databases) or "no database"
        raise SpecError(
            f"data {study.baseline.data.source}: it fills {there}, and the study measures {study.database}.",
            hint=f"Write --database {(*loaded.databases, 'NAME')[0]} (`database:` in a study file).",
            field=("database",),
        )


def translated_sentences(label: str, translated: Mapping[str, str]) -> list[str]:
    """What was put in the place of names that a server does not know, in words: for the run's notes."""
    texts = [f"{name} as {other}" for name, other in translated.items() if other]
    modes = [name for name, other in translated.items() if not other]
    found = []
    if texts:
        found.append(
            f"{label} does not know all names of the dump and has loaded {', '.join(texts)}: which texts are equal, "
            "and their order, can differ from the other arms'"
        )
    if modes:
        found.append(f"{label} does not know the dump's SQL mode {', '.join(modes)}, which was left out")
    return found


def _note(found: Message, label: str, listener: Listener) -> None:
    for sentence in translated_sentences(label, found["names"]):
        listener.note(sentence)
    if found["left_out"]:
        what = ", ".join(f"{reason} ({count})" for reason, count in found["left_out"].items())
        listener.note(f"{label}: statements of the dump that were left out: {what}")
