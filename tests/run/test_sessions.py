"""Sessions of captured connections, without a server."""

from types import SimpleNamespace

from bakeoff.run.sessions import _Session
from bakeoff.stats.answer_rules import Reply


def test_names_come_before_the_variables_that_they_would_set_again(monkeypatch):
    sent = []
    monkeypatch.setattr(_Session, "run", lambda _, sql: sent.append(sql.decode()) or Reply())
    state = {
        "autocommit": "0",
        "character_set": "latin1",
        "character_set_results": "NULL",
        "collation_connection": "utf8mb4_bin",
        "names": "utf8mb4",
    }
    _Session(SimpleNamespace(connect=SimpleNamespace), {"session": state}, read_only=False)
    assert sent[:5] == [
        "SET NAMES utf8mb4",
        "SET CHARACTER SET latin1",
        "SET SESSION autocommit = 0",
        "SET SESSION character_set_results = NULL",
        "SET SESSION collation_connection = 'utf8mb4_bin'",
    ]
