"""Dumps of real servers with planted differences, made once, and written in every format that people keep."""

import csv
import dataclasses
import io
import json

import pytest

from bakeoff.servers import ServerMemory, ServerPool, install, settings_for
from bakeoff.spec import Data, Profile, parse_server
from tests.servers.conftest import work_folder

SERVERS = (
    "mysql:5.6.24", "mysql:5.7.22", "mysql:8.0.15", "mysql:8.0.31", "mysql:9.7.4", "mariadb:10.11.19", "mariadb:11.8.9",
)  # fmt: skip
WITH_TLS = ("mysql:8.0.15", "mysql:8.0.31", "mysql:9.7.4", "mariadb:11.8.9")
MEMORY = ServerMemory(buffer_pool_bytes=64 << 20, redo_bytes=32 << 20)


def tabular(rows):
    widths = [max(len(row[at]) for row in (("Variable_name", "Value"), *rows)) for at in (0, 1)]
    border = "+".join(["", *("-" * (width + 2) for width in widths), ""])
    lines = [f"| {name.ljust(widths[0])} | {value.ljust(widths[1])} |" for name, value in rows]
    return "\n".join(
        [
            border,
            *lines[:0],
            f"| {'Variable_name'.ljust(widths[0])} | {'Value'.ljust(widths[1])} |",
            border,
            *lines,
            border,
            "",
        ]
    )


def vertical(rows):
    return "".join(
        f"{'*' * 27} {at}. row {'*' * 27}\nVariable_name: {n}\n        Value: {v}\n"
        for at, (n, v) in enumerate(rows, 1)
    )


def tabs(rows):
    return "Variable_name\tValue\n" + "".join(f"{name}\t{value}\n" for name, value in rows)


def comma(rows):
    page = io.StringIO()
    csv.writer(page, quoting=csv.QUOTE_ALL).writerows([("Variable_name", "Value"), *rows])
    return page.getvalue()


def json_object(rows):
    return json.dumps(dict(rows), indent=1)


def json_lines(rows):
    return "".join(json.dumps({"Variable_name": name, "Value": value}) + "\n" for name, value in rows)


FORMATS = {each.__name__: each for each in (tabular, vertical, tabs, comma, json_object, json_lines)}


def write(folder, dump, form):
    """Write a dump as two files: its variables and its status."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in dump.items():
        folder.joinpath(f"{name}.txt").write_text(FORMATS[form](rows), encoding="utf-8")
    return str(folder)


@dataclasses.dataclass
class Dumps:
    """A server's dumps: `base`, the same `again` later, and those with differences: name -> (dump, settings)."""

    base: dict
    again: dict
    planted: dict


def dump_of(server, *before, scope="GLOBAL"):
    """SHOW VARIABLES and SHOW STATUS of a session that ran these statements."""
    with server.connect(own_settings=False) as connection, connection.cursor() as cursor:
        found = {}
        for statement in before:
            cursor.execute(statement)
        for name in ("VARIABLES", "STATUS"):
            cursor.execute(f"SHOW {scope} {name}")
            found[name.lower()] = [(str(row[0]), str(row[1])) for row in cursor.fetchall()]
    return found


def started(pool, text, name, *, tls=False, options=()):
    spec = parse_server(text)
    installation = install(spec)
    settings = settings_for(installation, spec, Profile.STOCK, Data(), MEMORY, connections=8, tls=tls)
    settings = dataclasses.replace(settings, options={**settings.options, **dict(options)})
    server = pool.create(name, installation, settings)
    server.start()
    return server


def dumps_of(pool, text):
    server = started(pool, text, "base")
    base = dump_of(server)
    variables = dict(base["variables"])
    toggled = {"ON": "OFF", "OFF": "ON", "0": "1", "1": "0"}
    planted = {}
    for setting, value in {
        "innodb_adaptive_hash_index": toggled[variables["innodb_adaptive_hash_index"]],
        "innodb_flush_log_at_trx_commit": "2",
        "collation_server": "utf8mb4_unicode_ci",
        "general_log": "ON",
    }.items():
        server.query(f"SET GLOBAL {setting}={value}")
        planted[setting] = dump_of(server), {setting}
        server.query(f"SET GLOBAL {setting}={variables[setting]}")
    server.query("SET GLOBAL TRANSACTION ISOLATION LEVEL READ COMMITTED")
    planted["transaction_isolation"] = dump_of(server), {"transaction_isolation"}
    server.query("SET GLOBAL TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    client = dump_of(server, "SET NAMES utf8mb4", scope="")
    planted["client charset"] = (
        {**client, "base": dump_of(server, "SET NAMES cp1250", scope="")},
        {"character_set_client"},
    )
    again = dump_of(server)
    server.remove()
    binary_log = "skip_log_bin" if variables["log_bin"] == "ON" else "log_bin=ON"
    schema = f"performance_schema={toggled[variables['performance_schema']]}"
    server = started(pool, f"{text},{schema},innodb_doublewrite=0,{binary_log}", "first")
    planted["restart 1"] = dump_of(server), {"performance_schema", "innodb_doublewrite", "log_bin"}
    server.remove()
    flush = "fsync" if variables["innodb_flush_method"] == "O_DIRECT" else "O_DIRECT"
    other = f"{text},innodb_log_file_size=24M,innodb_flush_method={flush},innodb_buffer_pool_size=64M"
    server = started(pool, other, "second", tls=text in WITH_TLS)
    names = {"redo log size", "innodb_flush_method", "innodb_buffer_pool_size", *(["TLS"] if text in WITH_TLS else [])}
    planted["restart 2"] = dump_of(server), names
    server.remove()
    return Dumps(base, again, planted)


@pytest.fixture(scope="session")
def dumps():
    """`dumps(SERVER)`: its dumps, made on first use."""
    made = {}
    with work_folder() as folder, ServerPool(folder) as pool:

        def of(text):
            if text not in made:
                made[text] = dumps_of(pool, text)
            return made[text]

        yield of


@pytest.fixture(scope="session")
def start():
    """`start(SERVER, NAME, options=…)`: a started server with options that bakeoff would translate."""
    with work_folder() as folder, ServerPool(folder) as pool:
        yield lambda text, name, **more: started(pool, text, name, **more)
