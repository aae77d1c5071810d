"""What a server refuses while its data is made ready is the server's or the study's, and no bug of bakeoff's."""

import pymysql
import pytest
from messages import study

from bakeoff.errors import ServerError, SpecError
from bakeoff.servers import Reading
from bakeoff.trial.arms import _database_charset
from bakeoff.trial.loading import _create_database, _has_tables


class Refusing(Reading):
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
def test_a_database_that_may_not_be_made(number, words):
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
def test_a_character_set_that_the_server_does_not_have(number, words):
    with pytest.raises(SpecError) as caught:
        _create_database(Refusing(number, words), "sbtest", ARM)
    assert words in str(caught.value)
    assert caught.value.arm == "B"


@pytest.mark.parametrize("ask", [_has_tables, _database_charset])
def test_a_question_that_is_refused(ask):
    with pytest.raises(ServerError, match="db:3306"):
        ask(Refusing(1142, "SELECT command denied"), "sbtest")
