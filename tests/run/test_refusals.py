"""Errors while data is prepared are blamed on the server or the study, not on bakeoff."""

import pymysql
import pytest
from messages import study

from bakeoff.errors import EngineError, HostError, ServerError, SpecError
from bakeoff.run import forecast
from bakeoff.run.arms import _database_charset
from bakeoff.run.loading import _create_database, _has_tables, _load_failed
from bakeoff.servers import Server
from bakeoff.spec import Data, parse_server


class Refusing(Server):
    """Answers every statement with one error."""

    name = "db:3306"

    def __init__(self, number, words):
        self._error = pymysql.err.OperationalError(number, words)

    def connect(self, database=None):
        return self

    def cursor(self):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def execute(self, *_):
        raise self._error

    def close(self):
        pass

    def address(self, transport="socket"):
        raise NotImplementedError

    account = data_bytes = address


ARM = study().arms[1]


@pytest.mark.parametrize(
    ("number", "words"),
    [(1044, "Access denied for user 'bench'"), (1290, "The MySQL server is running with the --read-only option")],
)
def test_a_database_that_cannot_be_created_is_a_server_error(number, words):
    with pytest.raises(ServerError) as caught:
        _create_database(Refusing(number, words), "sbtest", ARM)
    assert str(caught.value).startswith("mysql:8.0: CREATE DATABASE")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1115, "Unknown character set: 'utf8mb4'"),
        (1253, "COLLATION 'latin1_bin' is not valid for CHARACTER SET 'utf8mb4'"),
        (1273, "Unknown collation: 'utf8mb4_0900_ai_ci'"),
    ],
)
def test_an_unknown_character_set_is_a_spec_error(number, words):
    with pytest.raises(SpecError) as caught:
        _create_database(Refusing(number, words), "sbtest", ARM)
    assert words in str(caught.value)
    assert caught.value.field[:2] == ("arms", "B")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1114, "The table 'sbtest1' is full"),
        (1021, "Disk full (/tmp/#sql_1); waiting for someone to free some space..."),
        (1030, "Got error 28 from storage engine"),
        (1026, "Error writing file './sbtest/sbtest1.frm' (Errcode: 28 - No space left on device)"),
    ],
)
def test_a_disk_that_fills_while_loading_is_a_host_error(number, words):
    failed = _load_failed(EngineError(f"arm B: {words}", code="sql_error", sql_errno=number), ARM)
    assert isinstance(failed, HostError)
    assert failed.message.startswith("disk: mysql:8.0 has no room")
    assert words in failed.message


@pytest.mark.parametrize(
    ("number", "name"),
    [(3750, "sql_require_primary_key=ON"), (1173, "innodb_force_primary_key=ON"), (3098, "Group Replication")],
)
def test_a_server_that_requires_primary_keys_is_a_spec_error_with_a_hint(number, name):
    refused = EngineError("arm B: tpcc.lua:23: SQL error", code="script_error", sql_errno=number)
    failed = _load_failed(refused, ARM)
    assert isinstance(failed, SpecError)
    assert failed.message == "mysql:8.0: tpcc.lua:23: SQL error."
    assert failed.field == ("arms", "B", "server")
    assert name in failed.hint and "-o force_pk=on" in failed.hint


def test_a_dump_with_a_table_without_a_primary_key_names_the_option():
    arm = ARM.model_copy(update={"data": Data(source="/x/shop.sql")})
    refused = EngineError("arm B: shop.sql:4: Unable to create", code="sql_error", sql_errno=3750)
    assert "sql_require_primary_key=ON" in _load_failed(refused, arm).hint


def test_other_load_failures_are_translated_or_passed_on():
    unknown = EngineError("arm B: Unknown collation: 'x'", code="sql_error", sql_errno=1273)
    assert isinstance(_load_failed(unknown, ARM), SpecError)
    deadlock = EngineError("arm B: error 280 after 28 rows", code="sql_error", sql_errno=1213)
    assert _load_failed(deadlock, ARM) is deadlock


@pytest.mark.parametrize("ask", [_has_tables, _database_charset])
def test_a_refused_query_is_a_server_error(ask):
    with pytest.raises(ServerError, match="db:3306"):
        ask(Refusing(1142, "SELECT command denied"), "sbtest")


@pytest.mark.parametrize("collation", ["utf8mb4_0900_ai_ci", "UTF8MB4_0900_AI_CI"])
def test_a_collation_that_a_server_lacks_is_refused_before_it_is_fetched(monkeypatch, collation):
    monkeypatch.setattr(forecast, "is_installed", lambda _: False)
    monkeypatch.setattr(forecast, "share_memory", lambda *_, **__: None)
    asked = study()
    data = Data(charset="utf8mb4", collation=collation)
    lacks = asked.arms[0].model_copy(update={"server": parse_server("mysql:5.7.22"), "data": data})
    with pytest.raises(SpecError, match=f"has no collation {collation}") as caught:
        forecast.forecast(asked.model_copy(update={"arms": (lacks, *asked.arms[1:])}))
    assert caught.value.field == ("arms", "A", "data", "collation")
