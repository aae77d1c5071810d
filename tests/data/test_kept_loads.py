"""Interrupted loads: a resumed load gives the same data as an uninterrupted one, and nothing is left forever."""

import contextlib
import functools
import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import time
from datetime import UTC, datetime
from types import SimpleNamespace

import psutil
import pytest
from made_dumps import HEAD, Listening, checksums, study_of

from bakeoff import servers
from bakeoff.cli import main
from bakeoff.engine import Engine
from bakeoff.errors import EngineError, ServerError
from bakeoff.results import Outcome, RunDirectory, open_run
from bakeoff.run import kept_loads
from bakeoff.run.arms import ArmSetup
from bakeoff.run.kept_loads import MARKS, KeptLoad, KeptLoads, _Record
from bakeoff.run.own_data import databases_in, load_dump
from bakeoff.run.resume import check_sources
from bakeoff.servers import ServerPool
from bakeoff.servers.paths import OWNER_FILE, Owner, cache_root, remove_stale, work_root
from bakeoff.servers.process import ProcessId
from bakeoff.spec import Data, Profile, Workload, parse_server
from tests.conftest import wait_for

NAMES = ("mysql:5.7.22", "mysql:8.0.15")
ROWS_PER_INSERT, INSERTS = 400, 50
TABLES = {
    "parent": "CREATE TABLE `parent` (`id` int NOT NULL AUTO_INCREMENT, `pad` varchar(200), PRIMARY KEY (`id`)) "
    "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci",
    # No primary key, so a row that is loaded twice appears twice.
    "bare": "CREATE TABLE `bare` (`id` int, `pad` varchar(200)) ENGINE=InnoDB DEFAULT CHARSET=latin1",
    "child": "CREATE TABLE `child` (`id` int NOT NULL, `pad` varchar(200), PRIMARY KEY (`id`), "
    "CONSTRAINT `of` FOREIGN KEY (`id`) REFERENCES `parent` (`id`) ON DELETE CASCADE) ENGINE=InnoDB",
}
VIEW = "CREATE DEFINER=`boss`@`%` VIEW `seen` AS select `id` from `parent`"
TRIGGER = "CREATE DEFINER=`boss`@`%` TRIGGER `t` BEFORE INSERT ON `parent` FOR EACH ROW BEGIN SET NEW.pad = 'x'; \nEND"
ROUTINE = "CREATE DEFINER=`boss`@`%` FUNCTION `twice`(x INT) RETURNS int\n DETERMINISTIC\nBEGIN\n RETURN x + x; \nEND"


def rows_of(table):
    draw = random.Random(table)
    for at in range(INSERTS):
        rows = (f"({at * ROWS_PER_INSERT + n + 1},'{draw.randbytes(90).hex()}')" for n in range(ROWS_PER_INSERT))
        yield f"INSERT INTO `{table}` VALUES {','.join(rows)};\n"


def mysqldump(folder):
    """A file as mysqldump writes it, with and without DROP TABLE, and one table's rows in a transaction."""
    text = [HEAD, "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop`;\nUSE `shop`;\n"]
    for name, create in TABLES.items():
        drop = f"DROP TABLE IF EXISTS `{name}`;\n" if name != "bare" else ""
        rows = "".join(rows_of(name))
        rows = f"START TRANSACTION;\n{rows}COMMIT;\n" if name == "child" else rows
        text.append(f"{drop}/*!50503 SET character_set_client = utf8mb4 */;\n{create};\nLOCK TABLES `{name}` WRITE;\n")
        text.append(f"/*!40000 ALTER TABLE `{name}` DISABLE KEYS */;\n{rows}UNLOCK TABLES;\n")
    text.append(f"DELIMITER ;;\n{TRIGGER} ;;\n{ROUTINE} ;;\nDELIMITER ;\n{VIEW};\n")
    folder.mkdir()
    (folder / "shop.sql.gz").write_bytes(gzip.compress("".join(text).encode(), 1))
    return folder / "shop.sql.gz"


def mydumper(folder):
    """A directory as mydumper writes it; each table's rows are in four files."""
    files = {
        "shop-schema-create": "CREATE DATABASE `shop`;\n",
        "shop.seen-schema": "CREATE TABLE `seen` (`id` int) ENGINE=MyISAM;\n",
        "shop.seen-schema-view": f"DROP TABLE IF EXISTS `seen`;\nDROP VIEW IF EXISTS `seen`;\n{VIEW};\n",
        "shop-schema-post": f"{ROUTINE};\n",
        "shop.parent-schema-triggers": f"{TRIGGER};\n",
    }
    for name, create in TABLES.items():
        files[f"shop.{name}-schema"] = f"{create};\n"
        rows = list(rows_of(name))
        files |= {f"shop.{name}.{part:05}": "".join(rows[part::4]) for part in range(4)}
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.sql.gz").write_bytes(gzip.compress((HEAD + text).encode(), 1))
    return folder


def mysql_shell(folder):
    """A directory as MySQL Shell writes it: rows without SQL, in two files a table."""
    base = {name: f"shop@{name}" for name in TABLES}
    files = {
        "@.json": json.dumps({"basenames": {"shop": "shop"}}),
        "@.done.json": "{}",
        "shop.json": json.dumps({"tables": list(TABLES), "views": ["seen"], "basenames": base | {"seen": "shop@seen"}}),
        "shop.sql": f"CREATE DATABASE IF NOT EXISTS `shop`;\nUSE `shop`;\nDELIMITER //\n{ROUTINE}//\nDELIMITER ;\n",
        "shop@seen.sql": f"{VIEW};\n",
        "shop@parent.triggers.sql": f"DELIMITER //\n{TRIGGER}//\n",
    }
    for name, create in TABLES.items():
        files[f"shop@{name}.sql"] = f"{create};\n"
        options = {"schema": "shop", "table": name, "columns": ["id", "pad"], "decodeColumns": {}}
        files[f"shop@{name}.json"] = json.dumps({"options": options, "extension": "tsv", "chunking": True})
        draw = random.Random(name)
        rows = [f"{n + 1}\t{draw.randbytes(90).hex()}\n" for n in range(ROWS_PER_INSERT * INSERTS)]
        files[f"shop@{name}@0.tsv"], files[f"shop@{name}@@1.tsv"] = "".join(rows[::2]), "".join(rows[1::2])
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


class HalfCreatedError(Exception):
    """MySQL 5.7 was killed between the steps of a CREATE TABLE, from which it cannot continue; bakeoff loads anew."""


HALF_CREATED = (1033, 1146, 1813)


class KillingAt(Listening):
    """Kills a server at a share of the dump."""

    def __init__(self, server, share):
        super().__init__()
        self.server, self.share = server, share

    def progress(self, label, done, total, unit):
        super().progress(label, done, total, unit)
        if self.share is not None and done >= self.share * total and self.server.running:
            os.kill(self.server.pid, signal.SIGKILL)


def start(pool, name, home):
    spec = parse_server(name)
    installation = servers.install(spec)
    memory = servers.ServerMemory(buffer_pool_bytes=64 << 20, redo_bytes=64 << 20)
    settings = servers.settings_for(installation, spec, Profile.STOCK, Data(), memory, connections=50)
    instance = pool.create("A", installation, settings, home=home)
    instance.start()
    return instance


def load_kept(pool, name, home, source, share=None):
    """Load into a folder's server. Return its contents, the INSERT count and the listener, or None if it was killed."""
    server, study = start(pool, name, home), study_of(source, name=name)
    listener, kept = KillingAt(server, share), KeptLoad(home, _Record(basis={}))
    kept_loads._check_safe_from_crash(server, same_boot=True)
    if "shop" not in databases_in(str(source)):
        server.query("CREATE DATABASE IF NOT EXISTS shop")
    try:
        with Engine() as engine:
            loaded = load_dump(engine, ArmSetup(study.arms[0]), server, study, listener, threads=2, kept=kept)
        kept.fill(server, loaded)
        inserted = int(server.status()["Com_insert"])
        return (contents(server), loaded), inserted, listener
    except ServerError:
        wait_for(lambda: not server.running, what="the end of the killed server")
        return None
    except EngineError as error:
        if error.sql_errno in HALF_CREATED and name.startswith("mysql:5.7"):
            raise HalfCreatedError from error
        raise
    finally:
        server.remove(keep_files=True)


def contents(server):
    """Checksums, and the definition of everything."""
    created = {}
    for kind, names in {"TABLE": TABLES, "VIEW": ["seen"], "TRIGGER": ["t"], "FUNCTION": ["twice"]}.items():
        for name in names:
            column = 2 if kind in ("TRIGGER", "FUNCTION") else 1
            created[name] = server.query(f"SHOW CREATE {kind} shop.`{name}`")[0][column]
    schemas = {name for (name,) in server.query("SHOW DATABASES")}
    return checksums(server), created, MARKS in schemas, server.query("SELECT COUNT(*) FROM shop.bare")


# Each form of a dump once, and each of two servers; the other pairs are slow tests.
OFTEN = ((NAMES[0], mysqldump), (NAMES[1], mydumper), (NAMES[1], mysql_shell))


@pytest.fixture
def pool():
    with ServerPool(work_root()) as pool:
        yield pool


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """`whole(name, make)`: a load in one go, made once: the dump, what `load_kept` gave, and the server's files."""
    with ServerPool(work_root()) as pool:

        @functools.cache
        def loaded(name, make):
            source = make(tmp_path_factory.mktemp("whole") / "dump")
            home = pool.work / f"whole-{make.__name__}-{name.replace(':', '-')}"
            return source, load_kept(pool, name, home, source), home

        yield loaded


@pytest.mark.server
@pytest.mark.parametrize(
    ("name", "make"),
    [
        pytest.param(name, make, marks=() if (name, make) in OFTEN else pytest.mark.slow)
        for name in (*NAMES, "mariadb:11.8.6")
        for make in (mysqldump, mydumper, mysql_shell)
    ],
)
def test_a_load_killed_repeatedly_ends_the_same_as_an_uninterrupted_one(pool, whole, name, make):
    source, (at_once, inserts, _), _ = whole(name, make)
    assert at_once[0][3] == [(ROWS_PER_INSERT * INSERTS,)]
    for attempt in range(4):
        # The last kills may come too late. The load is then complete and does not start again.
        with contextlib.suppress(HalfCreatedError):
            killed, ended = 0, None
            for share in (0.1, 0.35, 0.6, 0.85, 0.97, None):
                if ended := load_kept(pool, name, pool.work / f"parts-{attempt}", source, share):
                    break
                killed += 1
            break
    else:
        pytest.fail("four times a kill fell into a CREATE TABLE")
    assert killed >= 3
    parts, inserts_at_last, listener = ended
    assert parts == at_once
    assert inserts_at_last < 0.6 * inserts
    assert all(done == total for done, total, _ in listener.seen[-1:])


@pytest.mark.server
@pytest.mark.parametrize("table", ["child", "bare"])
def test_a_half_created_table_is_reloaded_only_if_the_dump_drops_it(pool, whole, table):
    """MySQL 5.7 killed within CREATE TABLE. The dump drops `child` before it creates it; `bare` ends the kept load."""
    source, (at_once, _, _), home = whole("mysql:5.7.22", mysqldump)
    assert load_kept(pool, "mysql:5.7.22", pool.work / "parts", source, 0.1) is None
    definition = f"data/shop/{table}.frm"
    made, missing = home / definition, pool.work / "parts" / definition
    assert made.exists() and not missing.exists()
    shutil.copy2(made, missing)
    shutil.chown(missing, made.owner(), made.group())
    with pytest.raises(HalfCreatedError) if table == "bare" else contextlib.nullcontext():
        assert load_kept(pool, "mysql:5.7.22", pool.work / "parts", source)[0] == at_once


OWN = """
function thread_init() con = sysbench.sql.driver():connect() end
function event() con:query("SELECT * FROM t WHERE a = 1") end
"""
# Beyond what is worth keeping, so that Ctrl-C comes in time.
SLOW = """CREATE TABLE t (a int PRIMARY KEY);
INSERT INTO t VALUES (1), (2), (3);
INSERT INTO t VALUES (4);
INSERT INTO t SELECT 5 + SLEEP({seconds});
INSERT INTO t VALUES (6);
"""


# Temporary tables are lost with the connection, so a resumed load cannot use them.
TEMPORARY = """CREATE TABLE t (a int PRIMARY KEY);
CREATE TEMPORARY TABLE apart (a int PRIMARY KEY);
INSERT INTO apart VALUES (7);
INSERT INTO t SELECT 5 + SLEEP({seconds});
INSERT INTO t SELECT a FROM apart;
"""


def begin_duel(shell, seconds, sql=SLOW):
    (shell.folder / "own.lua").write_text(OWN)
    (shell.folder / "slow.sql").write_text(sql.format(seconds=seconds))
    options = ["--threads", "1", "--budget", "30s", "--no-verdict", "--builds", "1", "--warm-up", "1s", "--quiet"]
    duel = [*shell.command, "duel", "mysql:8.0.15", "mysql:5.7.22", "--data", "slow.sql", "-w", "own.lua", *options]
    return subprocess.Popen(
        duel, cwd=shell.folder, env=shell.env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def records(shell):
    """Return when the record of each kept load was written."""
    return {path.parent.name: path.stat().st_mtime for path in shell.cache.glob("bakeoff/work/load-*/*/load.json")}


def filled(shell):
    """Kept loads whose dump is being read or has been loaded."""
    found = shell.cache.glob("bakeoff/work/load-*/*/load.json")
    return {path.parent.name for path in found if json.loads(path.read_bytes())["seconds"] > 0}


def resumed(shell):
    (path,) = shell.runs
    ran = shell.run("run", "--resume", str(path), "--no-verdict", "--budget", "8s", limit_s=280)
    assert ran.code == 0, ran
    assert open_run(path).finished_epochs()
    rows = json.loads((path / "rows" / "0.json").read_text())
    assert rows["A"] == rows["B"]
    assert list(rows["A"]) == ["sbtest.t"]
    assert not list(shell.cache.glob("bakeoff/work/*-*"))
    return ran


@pytest.mark.slow
@pytest.mark.server
def test_a_killed_run_continues_its_loads_when_resumed(shell):
    process = begin_duel(shell, 5)
    try:
        wait_for(lambda: {"A-0", "B-0"} <= filled(shell), what="the second load")
        time.sleep(2)
        children = psutil.Process(process.pid).children(recursive=True)
    finally:
        process.kill()
        process.wait()
    psutil.wait_procs(children, 20)
    ran = resumed(shell)
    assert ran.err.count("continues; ") == 2, ran.err
    assert "starts over" not in ran.err


@pytest.mark.slow
@pytest.mark.server
def test_a_load_that_cannot_continue_starts_over(shell):
    process = begin_duel(shell, 5, TEMPORARY)
    try:
        wait_for(lambda: "A-0" in filled(shell), what="the first load")
        time.sleep(2)
        children = psutil.Process(process.pid).children(recursive=True)
    finally:
        process.kill()
        process.wait()
    psutil.wait_procs(children, 20)
    ran = resumed(shell)
    assert "mysql:8.0.15: the load of build 1 continues; " in ran.err
    assert "mysql:8.0.15: the load of build 1 starts over: data: arm A: slow.sql:5: Table " in ran.err


@pytest.mark.slow
@pytest.mark.server
def test_ctrl_c_keeps_a_long_load_and_says_how_to_resume(shell):
    process = begin_duel(shell, 12)
    wait_for(lambda: len(records(shell)) == 2, what="the second load")
    # The last record is written when one of the loads starts to fill.
    wait_for(lambda: time.time() - max(records(shell).values()) > 11, what="11 s")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    (path,) = shell.runs
    assert f"`bakeoff run --resume {path}` continues with it" in err
    (shell.folder / "slow.sql").write_text(SLOW.format(seconds=0) + "-- changed\n")
    ran = resumed(shell)
    assert "mysql:8.0.15: the load of build 1 starts over: the dump changed" in ran.err


@pytest.mark.server
def test_ctrl_c_soon_after_the_start_leaves_nothing(shell):
    process = begin_duel(shell, 5)
    wait_for(lambda: "A-0" in records(shell), what="the first load")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, shell.runs) == (130, []), err
    assert "kept" not in err
    assert not list(shell.cache.glob("bakeoff/work/*-*"))


def setup_of(source, sha256="a"):
    return SimpleNamespace(
        arm=study_of(source).arms[0],
        load_key=("key",),
        installation=SimpleNamespace(name="mysql-8.0.15", sha256=sha256),
        settings=SimpleNamespace(init_options={}),
    )


def test_a_load_starts_over_if_the_dump_server_or_program_changed(pool, tmp_path):
    dump = tmp_path / "a.sql"
    dump.write_text("SELECT 1;")
    run, listener = RunDirectory.create(tmp_path / "runs", study_of(dump)), Listening()

    def opened(setup, program="1"):
        load = KeptLoads(pool, run, listener, program, resumed=True).open(setup, 0)
        note = listener.notes.pop()
        (load.home / "data").mkdir(parents=True, exist_ok=True)
        load.write()
        return load.resumed, note.partition(": the load of build 1 ")[2]

    with KeptLoads(pool, run, listener, "1", resumed=True):
        assert opened(setup_of(dump)) == (False, "starts over: none of it was kept")
        assert opened(setup_of(dump)) == (True, "continues; 0% of it is there")
        assert opened(setup_of(dump, "b")) == (False, "starts over: the server changed")
        assert opened(setup_of(dump, "b"), "2") == (False, "starts over: bakeoff changed")
        dump.write_text("SELECT 2;")
        assert opened(setup_of(dump, "b"), "2") == (False, "starts over: the dump changed")
    assert kept_loads.kept_bytes(run) == 0


def test_deleting_a_run_deletes_its_kept_loads(pool, tmp_path, capsys):
    dump = tmp_path / "a.sql"
    dump.write_text("SELECT 1;")
    run = RunDirectory.create(tmp_path / "runs", study_of(dump))
    load = KeptLoads(pool, run, Listening(), "1", resumed=False).open(setup_of(dump), 0)
    load.home.mkdir()
    (load.home / "data").write_bytes(b"x" * 5_000_000)
    locks = set((cache_root() / "locks").glob("load-*"))
    assert main.run(["runs", "rm", str(run.path)]) == 0
    assert len(locks - set((cache_root() / "locks").glob("load-*"))) == 1, "its lock goes with it"
    assert "deleted, 5." in capsys.readouterr().out
    assert not load.home.parent.exists()


@pytest.mark.server
def test_a_resume_that_is_refused_keeps_the_loads(shell):
    dump = shell.folder / "a.sql"
    dump.write_text("SELECT 1;")
    (shell.folder / "own.lua").write_text(OWN)
    study = study_of(dump)
    study = study.model_copy(update={"workloads": (Workload(script=str(shell.folder / "own.lua")),)})
    run = RunDirectory.create(shell.folder / "runs", study)
    run.epoch(0, 0).finish(Outcome(epoch=0, build=0, started_at=datetime.now(UTC), wall_s=1, measured_s=1))
    check_sources(run, study)
    kept = shell.work / kept_loads._folder(run).name / "A-0"
    kept.mkdir(parents=True)
    (kept / "load.json").write_text(_Record(basis={}, seconds=100.0).model_dump_json())
    dump.write_text("SELECT 2;")
    refused = shell.start("run", "--resume", str(run.path))
    _, err = refused.communicate(timeout=60)
    assert (refused.returncode, "a.sql has changed" in " ".join(err.split()), kept.exists()) == (3, True, True), err


@pytest.mark.parametrize("error", [None, KeyboardInterrupt(), ServerError("gone"), ValueError()])
@pytest.mark.parametrize("seconds", [1.0, 100.0])
def test_long_loads_are_kept_after_an_interrupt_or_a_server_error(pool, tmp_path, error, seconds):
    dump = tmp_path / "a.sql"
    dump.write_text("SELECT 1;")
    run = RunDirectory.create(tmp_path / "runs", study_of(dump))
    listener = Listening()
    with KeptLoads(pool, run, listener, "1", resumed=False) as kept:
        load = kept.open(setup_of(dump), 0)
        load.home.mkdir()
        load.before_s = seconds
        load.write()
        kept.__exit__(type(error), error, None)
        stays = seconds > 10 and isinstance(error, (KeyboardInterrupt, ServerError))
        assert (load.home.exists(), kept_loads.kept_bytes(run) > 0, len(listener.notes) == 1) == (stays,) * 3


def test_a_kept_load_is_stale_without_its_run_or_after_days(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    dead = ProcessId(2**22 + 1, 1)

    def left(process=dead, age_s=0.0, kept_for=run, **given):
        folder = tmp_path / "work" / "load-0123abcd"
        folder.mkdir(parents=True, exist_ok=True)
        owner = Owner(Owner.current(()).boot, process, (), str(kept_for))
        owner.write(folder)
        os.utime(folder / OWNER_FILE, (time.time() - age_s,) * 2)
        remove_stale(folder.parent, **given)
        return folder.exists()

    assert left()
    assert left(age_s=2 * 86_400)
    assert not left(age_s=4 * 86_400)
    assert not left(kept_for=tmp_path / "gone")
    assert not left(kept_s=0.0)
    assert left(Owner.current(()).process, age_s=4 * 86_400, kept_s=0.0)
