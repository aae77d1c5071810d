"""Hundreds of statements fall into the same digests as by the server's STATEMENT_DIGEST()."""

from collections import Counter, defaultdict
from pathlib import Path

import pymysql
import pytest

from bakeoff import servers
from bakeoff.spec import parse_server
from tests.replay.captured import capture
from tests.replay.corpus import statements

DELIMITER = "$%$"
AGREEMENT = 0.99


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """Return the text and name of each statement's digest."""
    folder = tmp_path_factory.mktemp("digests")
    texts = statements() + workload_statements()
    log = folder / "corpus.sql"
    log.write_text(f"DELIMITER {DELIMITER}\n" + "".join(f"{sql}\n{DELIMITER}\n" for sql in texts), encoding="utf-8")
    made = capture(log, output=folder / "corpus.capture")
    assert len(made.statements) == len(texts)
    return [
        (sql, event["digest"], made.texts[event["digest"]])
        for sql, event in zip(texts, made.statements, strict=True)
    ]  # fmt: skip


def workload_statements():
    """What the bundled workloads send, from the streams that their tests keep."""
    streams = sorted((Path(__file__).parents[2] / "crates/script/tests/snapshots").glob("*.sql"))
    assert len(streams) > 5
    return [line for stream in streams for line in stream.read_text(encoding="utf-8").splitlines()]


@pytest.mark.server
@pytest.mark.parametrize("version", ["8.0.33", "9.7.4"])
def test_digests_group_statements_like_the_server(version, ours):
    with servers.sandbox(parse_server(f"mysql:{version}")) as box:
        box.instance.query("CREATE DATABASE shop")
        connection = box.instance.connect("shop")
        theirs = [(sql, mine, text, *digest_of(connection, sql)) for sql, mine, text in ours]
        connection.close()
    compared = [row for row in theirs if row[3]]
    assert len(compared) > 0.95 * len(ours), [row[0] for row in theirs if not row[3]]
    share = agreement([(row[1], row[3]) for row in compared])
    same_text = sum(row[2] == row[4].removesuffix(" ;") for row in compared) / len(compared)
    print(f"MySQL {version}: {len(compared)} statements, groups agree {share:.2%}, texts {same_text:.2%}")
    assert share >= AGREEMENT
    assert same_text >= AGREEMENT


def digest_of(connection, sql):
    """Return the server's digest and its text; empty if it cannot parse the statement."""
    with connection.cursor() as cursor:
        try:
            cursor.execute("SELECT STATEMENT_DIGEST(%s), STATEMENT_DIGEST_TEXT(%s)", (sql, sql))
        except pymysql.MySQLError:
            return "", ""
        return cursor.fetchone()


def agreement(pairs):
    """Return the share of statements in matching groups: each holds more than half of the other."""
    by_ours, by_theirs = defaultdict(Counter), defaultdict(Counter)
    for mine, server in pairs:
        by_ours[mine][server] += 1
        by_theirs[server][mine] += 1
    return sum(
        by_ours[mine].most_common(1)[0][0] == server and by_theirs[server].most_common(1)[0][0] == mine
        for mine, server in pairs
    ) / len(pairs)


def test_agreement_is_lost_by_lumping_and_by_splitting():
    assert agreement([("a", 1), ("a", 1), ("b", 2)]) == 1
    assert agreement([("a", 1), ("a", 1), ("a", 2), ("a", 2)]) == 0.5
    assert agreement([("a", 1), ("a", 1), ("b", 1), ("c", 1)]) == 0.5
