"""Every content in every character set that is said to hold it, loaded by the engine into a real server."""

import pytest

from bakeoff.engine import ArmAddress, Engine
from bakeoff.run.data_check import ask_tables
from bakeoff.servers import RemoteServer
from bakeoff.spec import parse_server
from bakeoff.spec.factors import CONTENTS, client_charset, holds

CHARSETS = (
    "utf8mb4", "utf8", "ucs2", "utf16", "utf32", "latin1", "cp850", "koi8r", "cp1251", "sjis", "ujis", "gbk", "gb18030",
)  # fmt: skip

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def server(sandbox):
    return RemoteServer(parse_server(f"mysql://root@localhost/?socket={sandbox['socket']}"), name="sandbox")


@pytest.fixture(scope="module")
def engine():
    with Engine() as running:
        yield running


def load(server, engine, charset, content):
    """Load one content in one character set; returns the answers of its tables and a sample text."""
    server.query(f"CREATE DATABASE held CHARACTER SET {charset}")
    spoken = client_charset(charset)
    spoken = spoken if spoken in ("utf8", "latin1") else "utf8mb4"
    try:
        engine.open(
            [
                ArmAddress(
                    name="A", socket=server.socket, host=None, port=None, user="root", password="", database="held",
                    charset=spoken, collation=None,
                )
            ]
        )  # fmt: skip
        options = {"tables": 1, "table_size": 40, "content": content, "column_type": "varchar"}
        engine.command("A", "oltp_read_write", "prepare", options=options, threads=1, seed=11)
        ((shortest, longest, text),) = server.query(
            "SELECT MIN(CHAR_LENGTH(c)), MAX(CHAR_LENGTH(c)), CONVERT(MAX(c) USING utf8mb4) FROM held.sbtest1"
        )
        assert (shortest, longest) == (119, 119), charset
        return ask_tables(server, ["held"]), str(text)
    finally:
        server.query("DROP DATABASE held")


@pytest.mark.parametrize("content", CONTENTS)
def test_the_same_texts_come_out_of_every_character_set(server, engine, content):
    loaded = {charset: load(server, engine, charset, content) for charset in CHARSETS if holds(charset, content)}
    texts = {charset: answers["held.sbtest1"]["rows"].answer for charset, (answers, _) in loaded.items()}
    assert len(texts) >= 2
    assert len(set(texts.values())) == 1, texts
    text = loaded["utf8mb4"][1]
    assert text.isascii() == (content not in ("latin", "cyrillic", "japanese", "chinese", "emoji")), text
