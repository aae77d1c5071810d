"""Connections to servers, our own or remote: queries, variables, status, accounts. PyMySQL is used nowhere else."""

import functools
import os
import secrets
import ssl
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
from pymysql import MySQLError as MySQLError
from pymysql.constants import COMMAND
from pymysql.cursors import SSCursor

from bakeoff.errors import ServerError, SpecError, UnreachableError
from bakeoff.servers.cnf import read_client_group
from bakeoff.spec import ServerSpec
from bakeoff.spec.server_name import url_parts

TCP_USER = "bakeoff"
_ACCESS_DENIED = (1045, 1698)
_LOGIN_LIMIT_S = 60  # what listens there may not be a server
_STATEMENT_LIMIT_S = 600
_SCAN_LIMIT_S = 4 * 3600.0  # 14 GB of a fragmented index on a hard disk, which reads a hundred pages per second
_NO_ANSWER = (2002, 2003, 2013)
_UNKNOWN_VARIABLE, _SYNTAX_ERROR = 1193, 1064
_SEVERAL_STATEMENTS = b"\0\0"  # MYSQL_OPTION_MULTI_STATEMENTS_ON

# Session variables that change answers. The version comments hide the limits from servers without them.
_OWN_SETTINGS = (
    "SET SESSION sql_mode = '', time_zone = '+00:00', sql_quote_show_create = 1, sql_safe_updates = 0, "
    "sql_select_limit = 18446744073709551615, sql_big_selects = 1 "
    f"/*!50708 , max_execution_time = {1000 * _STATEMENT_LIMIT_S} */ "
    f"/*M!100101 , max_statement_time = {_STATEMENT_LIMIT_S} */"
)


class Connection(pymysql.connections.Connection):  # type: ignore[misc]  # PyMySQL has no types
    def limit_reads(self, seconds: float) -> None:
        self._read_timeout = seconds

    def lift_limits(self) -> None:
        for setting in ("max_execution_time = 0", "max_statement_time = 0", "net_write_timeout = 3600"):
            try:
                with self.cursor() as cursor:
                    cursor.execute(f"SET SESSION {setting}")
            except MySQLError as problem:
                if problem.args[0] != _UNKNOWN_VARIABLE:  # a server without this limit
                    raise

    def use_bytes(self) -> None:
        self.decoders: dict[int, Any] = {}
        self.use_unicode = False

    def allow_several_statements(self) -> None:
        self._execute_command(COMMAND.COM_SET_OPTION, _SEVERAL_STATEMENTS)
        self._read_packet()

    def drop(self) -> None:
        self._force_close()

    def raw_rows(
        self, sql: str, arguments: tuple[Any, ...] = (), at_once: int = 1000
    ) -> Iterator[Sequence[tuple[bytes | None, ...]]]:
        """Yield batches of rows as they arrive, in bytes. If not all are read, the connection becomes unusable."""
        kept = self.decoders, self.use_unicode
        self.use_bytes()
        try:
            with self.cursor(StreamCursor) as cursor:
                try:
                    cursor.execute(sql, arguments or None)
                    while rows := cursor.fetchmany(at_once):
                        yield rows
                except BaseException:
                    cursor.abandon()
                    raise
        finally:
            self.decoders, self.use_unicode = kept


class StreamCursor(SSCursor):  # type: ignore[misc]
    @property
    def warnings(self) -> int:
        return int(self._result.warning_count)

    def abandon(self) -> None:
        """Leave the remaining rows unread; closing would read them all."""
        if self._result:
            self._result.unbuffered_active = False


@dataclass(frozen=True)
class Account:
    user: str
    password: str = field(default="", repr=False)


ROOT = Account("root")


@dataclass(frozen=True)
class Access:
    """The address where our servers listen besides their sockets, and the hosts that may connect to it."""

    address: str = "127.0.0.1"
    # Which one matches depends on whether the server resolves names.
    clients: tuple[str, ...] = ("127.0.0.1", "localhost")


THIS_MACHINE = Access()


class Server(ABC):
    """A server to connect to. Each query opens a new connection, so none is open while measuring."""

    name: str
    ours: bool = False

    @abstractmethod
    def connect(self, database: str | None = None, *, own_settings: bool = True) -> Connection:
        """Open a connection with autocommit on; the caller closes it.

        With `own_settings` no option of the server changes the answers to bakeoff's own queries (SQL mode, time zone,
        limits). Otherwise the session is like an application's.
        """

    @abstractmethod
    def address(self, transport: str = "socket") -> dict[str, Any]:
        """Return the address for the engine's `open`: `{"socket": PATH}` or `{"host": H, "port": P}`."""

    @abstractmethod
    def account(self, transport: str = "socket", *, encrypted: bool = False) -> Account:
        """Return the account for a transport. If it is created with `encrypted`, it requires TLS."""

    @abstractmethod
    def data_bytes(self, database: str) -> int:
        pass

    def query(
        self, sql: str, arguments: tuple[Any, ...] = (), database: str | None = None, *, limited: bool = True
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, which may take ten minutes, or four hours if it is not `limited`."""
        connection = self.connect(database)
        try:
            if not limited:
                connection.lift_limits()
                connection.limit_reads(_SCAN_LIMIT_S)
            with connection.cursor() as cursor:
                cursor.execute(sql, arguments or None)
                return list(cursor.fetchall())
        except MySQLError as problem:
            raise ServerError(f"server {self.name}: {sql[:80]!r} failed: {problem.args[-1]}.") from None
        finally:
            connection.close()

    def variables(self) -> dict[str, str]:
        return {str(name): str(value) for name, value in self.query("SHOW GLOBAL VARIABLES")}

    def status(self) -> dict[str, str]:
        return {str(name): str(value) for name, value in self.query("SHOW GLOBAL STATUS")}

    @property
    def version_string(self) -> str:
        return str(self.query("SELECT VERSION()")[0][0])


def open_connection(
    where: dict[str, Any], account: Account, database: str | None, connect_timeout_s: int, *, own_settings: bool
) -> Connection:
    connection = Connection(
        user=account.user,
        password=account.password.encode(),  # PyMySQL would send latin-1
        database=database,
        charset="utf8mb4",
        autocommit=True,
        init_command=_OWN_SETTINGS if own_settings else None,
        connect_timeout=connect_timeout_s,
        read_timeout=_LOGIN_LIMIT_S,
        **where,
    )
    connection.limit_reads(_STATEMENT_LIMIT_S)
    return connection


def _is_of_tls(problem: Exception) -> bool:
    return isinstance(getattr(problem, "original_exception", None), ssl.SSLError)


def make_tcp_account(
    connection: Connection,
    clients: Sequence[str] = THIS_MACHINE.clients,
    *,
    encrypted: bool = False,
) -> Account:
    """Make or replace an account with all privileges and a random password; TLS is required if `encrypted`."""
    account = Account(TCP_USER, secrets.token_hex(16))
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT User, Host FROM mysql.user WHERE User=%s", (TCP_USER,))
            for user, host in cursor.fetchall():
                cursor.execute("DROP USER %s@%s", (user, host))
            for host in clients:
                cursor.execute("CREATE USER %s@%s IDENTIFIED BY %s", (TCP_USER, host, account.password))
                cursor.execute("GRANT ALL ON *.* TO %s@%s", (TCP_USER, host))
                if encrypted:
                    _require_tls(cursor, host)
    except MySQLError as problem:
        raise ServerError(f"an account for TCP could not be made: {problem.args[-1]}.") from None
    return account


def _require_tls(cursor: pymysql.cursors.Cursor, host: str) -> None:
    try:
        cursor.execute("ALTER USER %s@%s REQUIRE SSL", (TCP_USER, host))
    except pymysql.ProgrammingError as problem:
        if problem.args[0] != _SYNTAX_ERROR:
            raise
        cursor.execute("GRANT USAGE ON *.* TO %s@%s REQUIRE SSL", (TCP_USER, host))


class RemoteServer(Server):
    """A running server, by URL. `password` None takes MYSQL_PWD or ~/.my.cnf; `encrypted` requires TLS."""

    def __init__(
        self, spec: ServerSpec, name: str = "", password: str | None = None, *, encrypted: bool = False
    ) -> None:
        if not spec.is_running:
            raise SpecError(f"server {spec}: not the URL of a running server.")
        if spec.options or spec.cnf_files or spec.env:
            raise SpecError(
                f"server {spec}: options cannot be given to a running server.",
                hint="Set them on that server, or let bakeoff start one.",
            )
        self.host, self.port, self.socket, user = url_parts(spec.location)
        client = read_client_group(Path.home() / ".my.cnf")
        if password is None:
            password = os.environ.get("MYSQL_PWD", client.get("password", ""))
        self._account = Account(user or client.get("user") or os.environ.get("USER", "root"), password)
        self._encrypted = encrypted
        self.name = name or spec.location

    def address(self, transport: str = "socket") -> dict[str, Any]:
        return {"socket": self.socket} if self.socket else {"host": self.host, "port": self.port}

    def account(self, transport: str = "socket", *, encrypted: bool = False) -> Account:
        return self._account

    def connect(self, database: str | None = None, *, own_settings: bool = True) -> Connection:
        where = self.socket or f"{self.host}:{self.port}"
        how: dict[str, Any] = {"unix_socket": self.socket} if self.socket else {"host": self.host, "port": self.port}
        connecting = functools.partial(
            open_connection, account=self._account, database=database, connect_timeout_s=10, own_settings=own_settings
        )
        user, password = self._account.user, self._account.password
        try:
            try:
                return connecting(how)
            except pymysql.OperationalError as problem:
                # An old server may have only TLS 1.0 and 1.1, which OpenSSL refuses.
                if self._encrypted or not _is_of_tls(problem):
                    raise
                return connecting(how | {"ssl_disabled": True})
        except (MySQLError, UnicodeError) as problem:  # UnicodeError: impossible host name
            if problem.args[0] in _ACCESS_DENIED:
                raise ServerError(
                    f"server {where} refuses user {user}: {'wrong password' if password else 'no password was given'}.",
                    hint="Set MYSQL_PWD, or write it to ~/.my.cnf.",
                ) from None
            if problem.args[0] in _NO_ANSWER and not _is_of_tls(problem):
                raise UnreachableError(
                    f"no server answers at {where}.", hint="Is it running, and is the address right?"
                ) from None
            raise ServerError(f"server {where}: {problem.args[-1]}.") from None

    def data_bytes(self, database: str) -> int:
        rows = self.query(
            "SELECT COALESCE(SUM(data_length + index_length), 0) FROM information_schema.tables WHERE table_schema=%s",
            (database,),
        )
        return int(rows[0][0])
