"""Replays on running servers: statements find their tables in both passes, and the server itself refuses writes."""

from contextlib import ExitStack, contextmanager

import pytest

from bakeoff import servers
from bakeoff.plan.factorial import make_study
from bakeoff.plan.workloads import database_on
from bakeoff.results import open_run
from bakeoff.spec import parse_server
from bakeoff.spec.study_file import read_study
from tests.replay.test_duels import made

SHORT = ("--no-verdict", "--budget", "8s", "--seed", "3", "--format", "json")


def url(instance, database=""):
    return f"mysql://root@localhost/{database}?socket={instance.socket_path}"


@contextmanager
def two(name):
    """Two servers with a table, and a view that writes."""
    with ExitStack() as stack:
        boxes = [stack.enter_context(servers.sandbox(parse_server(name))) for _ in "AB"]
        for box in boxes:
            for sql in (
                "CREATE DATABASE shop",
                "CREATE TABLE shop.t (id INT PRIMARY KEY, v TEXT)",
                "INSERT INTO shop.t VALUES (1, 'x'), (2, 'y'), (3, 'z')",
                "SET GLOBAL log_bin_trust_function_creators = 1",
                "CREATE FUNCTION shop.seen() RETURNS INT BEGIN INSERT INTO shop.t VALUES (4, 'f'); RETURN 4; END",
                "CREATE VIEW shop.innocent AS SELECT shop.seen() AS it",  # no lexer sees it
            ):
                box.instance.query(sql)
        yield [box.instance for box in boxes]


@pytest.fixture(scope="module")
def pair():
    with two("mysql:8.0.15") as started:
        yield started


@pytest.fixture
def pair_of_mariadb():
    with two("mariadb:11.8.6") as started:
        yield started


@pytest.fixture
def served(request):
    """The servers of a fixture; before `inside`, which has another cache."""
    return request.getfixturevalue(request.param)


def replayed(command, shell, log, *arguments):
    """Return the run, its capture's answers, and standard error."""
    ran = command("replay", log, *arguments, *SHORT)
    assert ran.code == 0, ran
    run = open_run(next(path for path in shell.runs if path.name != "captures"))
    (answers,) = run.read_json("answers.json").values()
    return run, answers, ran.err


def failures(run):
    found = [row for epoch in run.load_epochs() if epoch.valid for row in epoch.failures]
    assert any(sum(epoch.slices["events"]) for epoch in run.load_epochs()), "nothing was timed"
    return found


@pytest.mark.server
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "form", ["url", *(pytest.param(form, marks=pytest.mark.slow) for form in ("option", "qualified"))]
)
def test_statements_without_a_schema_run_in_the_database_that_is_named(pair, shell, inside, form):
    table = "shop.t" if form == "qualified" else "t"
    (shell.folder / "log.sql").write_text(
        "".join(f"SELECT v FROM {table} WHERE id = {n % 3 + 1};\n" for n in range(60))
    )
    urls = [url(each, "shop" if form == "url" else "") for each in pair]
    run, answers, _ = replayed(inside, shell, "log.sql", *urls, *(("--database", "shop") if form == "option" else ()))
    assert failures(run) == []
    (only,) = answers["digests"].values()
    assert only["compared"]["B"]["failed"] == {}
    assert not [name for each in pair for (name,) in each.query("SHOW DATABASES") if name == "sbtest"]


@pytest.mark.server
@pytest.mark.timeout(200)
def test_a_missing_or_unnamed_database_is_a_one_line_error(pair, shell, inside):
    (shell.folder / "log.sql").write_text("SELECT v FROM t;\n" * 9)
    missing = inside("replay", "log.sql", *(url(each, "nowhere") for each in pair), *SHORT)
    assert (missing.code, "Unknown database 'nowhere'" in missing.complaint) == (3, True), missing
    unnamed = inside("replay", "log.sql", *map(url, pair), *SHORT)
    assert unnamed.code == 2, unnamed
    assert "every statement fails on every server" in unnamed.complaint
    assert "mysql://user@host/DATABASE" in unnamed.err and "--data" not in unnamed.err


@pytest.mark.server
@pytest.mark.timeout(240)
def test_performance_schema_digests_without_connections_are_replayed(pair, shell, inside):
    pair[0].query("TRUNCATE performance_schema.events_statements_summary_by_digest", database="performance_schema")
    connection = pair[0].connect("shop")
    with connection.cursor() as cursor:
        for number in range(200):
            cursor.execute(f"SELECT v FROM t WHERE id = {number % 3}")
    connection.close()
    source = ("--from", "performance-schema", "-o", "kept.capture")
    ran = inside("capture", url(pair[0], "shop"), *source)
    assert ran.code == 0, ran
    run, answers, _ = replayed(inside, shell, "kept.capture", *map(url, pair))
    assert failures(run) == []
    assert answers["executed"] > 90, "of one digest as many as are compared"
    assert {each["text"].split()[0] for each in answers["digests"].values()} >= {"SELECT"}


@pytest.mark.server
@pytest.mark.timeout(240)
@pytest.mark.parametrize("served", ["pair", pytest.param("pair_of_mariadb", marks=pytest.mark.slow)], indirect=True)
def test_the_server_refuses_a_read_that_writes_in_both_passes(served, shell, inside):
    lines = [
        "SET SESSION TRANSACTION READ WRITE",
        "SELECT * FROM shop.innocent",
        "SELECT v FROM shop.t WHERE id = 1",
    ] * 20
    lines += ["START TRANSACTION READ WRITE", "SELECT * FROM shop.innocent", "COMMIT", "SELECT * FROM shop.gone"]
    (shell.folder / "log.sql").write_text("".join(f"{line};\n" for line in lines))
    run, answers, _ = replayed(inside, shell, made(shell.folder, shell.folder / "log.sql").name, *map(url, served))
    assert {row["sql_errno"] for row in failures(run)} == {1792, 1146}
    (seen,) = [each for each in answers["digests"].values() if "innocent" in each["text"]]
    assert seen["compared"]["B"]["failed"] == {"A": 21, "B": 21}
    assert [each.query("SELECT COUNT(*) FROM shop.t WHERE id = 4") for each in served] == [[(0,)]] * 2


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_servers_without_read_only_transactions_replay_their_own_slow_log(shell):
    logging = parse_server("mysql:5.5.34,slow_query_log=1,long_query_time=0,log_output=TABLE")
    with servers.sandbox(logging) as old, servers.sandbox(logging) as new:
        for box in (old, new):
            box.instance.query("CREATE DATABASE shop")
            box.instance.query("CREATE TABLE shop.t (id INT PRIMARY KEY)")
        connection = old.instance.connect("shop")
        with connection.cursor() as cursor:
            for number in range(50):
                cursor.execute(f"SELECT COUNT(*) FROM t WHERE id > {number}")
        connection.close()
        taken = shell.run("capture", url(old.instance, "shop"), "-o", "kept.capture", "--from", "slow-log")
        assert taken.code == 0, taken
        run, answers, _ = replayed(shell.run, shell, "kept.capture", url(old.instance), url(new.instance))
    assert failures(run) == []
    assert answers["executed"] >= 50


STUDY = """title: shop
servers: ['mysql://root@db1/shop', 'mysql://root@db2/']
workloads: [shop.capture]
{more}
"""


@pytest.mark.parametrize(("more", "second"), [("", ""), ("database: sbtest", "sbtest")])
def test_the_database_of_a_url_overrides_that_of_the_study(tmp_path, more, second):
    (tmp_path / "log.sql").write_text("SELECT 1;\n")
    made(tmp_path, tmp_path / "log.sql").rename(tmp_path / "shop.capture")
    (tmp_path / "shop.yaml").write_text(STUDY.format(more=more))
    study = make_study(read_study(tmp_path / "shop.yaml"), seed=1)
    named = [database_on(study, study.workloads[0], arm.server) for arm in study.arms]
    assert named == ["shop", second]
