"""A duel on one's own data, from a running server to the report."""

import json
from pathlib import Path

import pytest
from made_dumps import load
from test_dumps import SHOP
from test_loading_dumps import MORE, ROWS, contents

from bakeoff import servers
from bakeoff.results import open_run
from bakeoff.spec import parse_server

pytestmark = pytest.mark.server

OWN = """
function thread_init() drv = sysbench.sql.driver(); con = drv:connect() end
function event()
  con:query("SELECT * FROM product WHERE id = " .. sysbench.rand.uniform(0, 2))
  con:query("UPDATE kinds SET e = 'x' WHERE id = 1")
end
"""


def written(server):
    """Statements that change something, as the server counts them, and the rows of a table."""
    words = ("insert", "update", "delete", "replace", "create", "drop", "alter", "lock", "truncate", "grant")
    counts = server.status()
    changes = {name: count for name, count in counts.items() if name.removeprefix("Com_").startswith(words)}
    assert "Com_insert" in changes
    assert int(server.query("CHECKSUM TABLE shop.product")[0][1])
    return {name: count for name, count in changes.items() if name.startswith("Com_")}, contents(server, "product")


def test_the_data_of_a_running_server_is_measured_on_two_others(shell):
    (shell.folder / "own.lua").write_text(OWN)
    with servers.sandbox(parse_server("mysql:8.0.15")) as box:
        source = box.instance
        source.query("SET GLOBAL event_scheduler = OFF")
        load(source, SHOP, "mysql:8.0.15")
        for statement in (*filter(str.strip, ROWS.split(";\n")), *MORE):
            source.query(statement, database="shop")
        source.query("CREATE USER reader@localhost IDENTIFIED WITH mysql_native_password BY 's3cret-word'")
        source.query("GRANT SELECT, SHOW VIEW, TRIGGER, EVENT ON *.* TO reader@localhost")
        before = written(source)
        url = f"mysql://reader:s3cret-word@localhost/shop?socket={source.socket_path}"
        ran = shell.run(
            "duel", "mysql:8.0.15", "mysql:5.7.22", "--data", url, "--workload", "own.lua", "--threads", "1",
            "--budget", "10s", "--no-verdict", "--builds", "1", "--warm-up", "1s", "--seed", "5",
        )  # fmt: skip
        assert written(source) == before
    assert ran.code == 0, ran
    (path,) = shell.runs
    run = open_run(path)
    study = run.study()
    assert study.database == "shop"
    folders = {arm.data.source for arm in study.arms}
    assert all(Path(folder).parent.name == "dumps" for folder in folders)
    assert len(folders) == 1
    assert f"was taken to {folders.pop()}" in ran.err
    builds = run.builds()
    assert builds["B-0"]["translated"]["utf8mb4_0900_ai_ci"] == "utf8mb4_unicode_520_ci"
    assert "translated" not in builds["A-0"]
    # Both arms hold the same rows, which a note would deny.
    rows = json.loads((path / "rows" / "0.json").read_text())
    assert set(rows["A"]) == set(rows["B"]) == {"shop.kinds", "shop.nothing", "shop.product"}
    assert "do not hold the same rows" not in ran.err
    page = (path / "report.html").read_text()
    assert "has the dump&#39;s utf8mb4_0900_ai_ci as utf8mb4_unicode_520_ci" in page or (
        "has the dump's utf8mb4_0900_ai_ci as utf8mb4_unicode_520_ci" in page
    )
    everything = (
        ran.out + ran.err + "".join(file.read_text(errors="replace") for file in path.rglob("*") if file.is_file())
    )
    assert "s3cret-word" not in everything
    # The events of the dump do not run.
    variables = json.loads(next(path.glob("epochs/*/servers/A/variables.json")).read_text())
    assert variables["event_scheduler"] == "OFF"
