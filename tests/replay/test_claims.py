"""One slow query among thirty on real servers is claimed and no other; bench/replay/claims.py does it with restarts."""

import random
from contextlib import ExitStack

import pytest

from bakeoff import servers
from bakeoff.engine import ArmAddress, Engine
from bakeoff.replay.captures import capture_totals
from bakeoff.replay.digests import digest_times
from bakeoff.spec import parse_server
from bakeoff.stats.model import Stop
from tests.replay.captured import capture

DIGESTS, ROWS, STATEMENTS, EPOCHS = 30, 2_000, 6_000, 6
# At most one per CPU: a connection that shares a CPU with the scan really is slower by a tenth.
CONNECTIONS = 2
SLOWED = "SELECT id FROM u WHERE k = {id}"


def statements():
    """Return one statement of each of thirty kinds: reads of 1 to 60 rows by key, and one that needs the index."""
    chance = random.Random(7)
    kinds = [SLOWED]
    for number in range(1, DIGESTS):
        length = 1 if number % 2 else 2 * number
        kinds.append(f"SELECT id AS id{number}, c FROM t WHERE id BETWEEN {{id}} AND {{id}} + {length}")
    chosen = chance.choices(kinds, [1] + [3] * (DIGESTS - 1), k=STATEMENTS)
    return [sql.format(id=chance.randrange(1, ROWS - 60)) for sql in chosen]


def captured(folder):
    head = "mysqld, Version: 8.0.15 (x). started with:\nTcp port: 0  Unix socket: x\nTime  Id Command    Argument\n"
    lines = [
        f"2026-11-23T10:00:{at // 1000:02}.{at % 1000:03}000Z\t    {1 + at % CONNECTIONS} Query\t{sql}\n"
        for at, sql in enumerate(statements())
    ]
    (folder / "shop.log").write_text(head + "".join(lines))
    capture(folder / "shop.log", output=folder / "shop.capture")
    return folder / "shop.capture"


def fill(server):
    """Fill two databases; the second lacks an index."""
    rows = ",".join(f"({row}, {row}, REPEAT('x', 60))" for row in range(1, ROWS + 1))
    for database, index in (("whole", ", KEY (k)"), ("less", "")):
        server.query(f"CREATE DATABASE {database}")
        for table, key in (("t", ""), ("u", index)):
            server.query(f"CREATE TABLE {database}.{table} (id INT PRIMARY KEY, k INT, c CHAR(60){key})")
            server.query(f"INSERT INTO {database}.{table} VALUES {rows}")
        for copy in range(1, 16):  # so long a scan that it is seen on a busy machine, too
            server.query(f"INSERT INTO {database}.u SELECT id + {copy * ROWS}, k + {copy * ROWS}, c FROM {database}.t")


def address(name, server, database):
    place, account = server.address("socket"), server.account("socket")
    return ArmAddress(
        name, place["socket"], None, None, account.user, account.password, database, "utf8mb4", None,
        server_pid=server.pid,
    )  # fmt: skip


@pytest.mark.server
@pytest.mark.timeout(200)
def test_only_the_query_without_its_index_is_clearly_slower(tmp_path):
    """Arms swap servers between epochs instead of restarting them, so a lucky start favours neither arm."""
    path = captured(tmp_path)
    epochs = {}
    with ExitStack() as stack:
        pair = [stack.enter_context(servers.sandbox(parse_server("mysql:8.0.15"))).instance for _ in "AB"]
        for server in pair:
            fill(server)
        engine = stack.enter_context(Engine())
        for epoch in range(EPOCHS):
            engine.open([address("A", pair[epoch % 2], "whole"), address("B", pair[1 - epoch % 2], "less")])
            epochs[epoch] = engine.measure(
                {
                    "cell": f"shop/{CONNECTIONS}", "capture": str(path), "chunk_events": 200, "speed": None,
                    "reads_only": True, "threads": CONNECTIONS, "arms": ["A", "B"], "seconds": 2.5,
                    "slice_ns": 50_000_000, "order_seed": epoch, "key_seed": epoch * 1_000,
                    # As in a real replay. Free placement would slow all queries of the other connection by 3 to 8 %.
                    "placement": "paired",
                }
            ).histograms  # fmt: skip
    texts = {each["digest"]: each["text"] for each in capture_totals(path)["digests"]}
    judged = {texts[each.digest]: each for each in digest_times(epochs, baseline="A", ended=Stop.PRECISE)}
    assert len(judged) == DIGESTS
    assert {each.note for each in judged.values()} == {""}, "all are tested"
    claimed = {text: each for text, each in judged.items() if each.word in ("FASTER", "SLOWER")}
    slow = claimed.pop("SELECT `id` FROM `u` WHERE `k` = ?")
    assert slow.word == "SLOWER" and slow.estimate.mean < -0.5 and slow.time_lost > 0
    # One replay in twenty-five may claim something by chance, which is then about as small as the noise.
    assert all(abs(each.estimate.mean) < 0.1 for each in claimed.values()), claimed
