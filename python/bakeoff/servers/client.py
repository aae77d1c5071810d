"""Connect to a server, our own or a remote one: queries, variables, status, accounts."""

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
from pymysql.cursors import SSCursor

from bakeoff.errors import ServerError, SpecError, UnreachableError
from bakeoff.servers.cnf import read_client_group
from bakeoff.spec import Origin, ServerSpec
from bakeoff.spec.server_name import url_parts

TCP_USER = "bakeoff"
_ACCESS_DENIED = (1045, 1698)
_LOGIN_LIMIT_S = 60  # what listens there may be no server, and say nothing
_STATEMENT_LIMIT_S = 600
_SCAN_LIMIT_S = 24 * 3600.0  # where it is not known how much there is to read
# A hard disk reads a hundred pages of 16 KiB a second out of order, an index that is fragmented.
_SCANNED_BYTES_A_S = 1_000_000
_NO_ANSWER = (2002, 2003, 2013)
_UNKNOWN_VARIABLE, _SYNTAX_ERROR = 1193, 1064

# Session variables that change answers, with the limits in the comments for the versions that have them.
_OWN_SETTINGS = (
    "SET SESSION sql_mode = '', time_zone = '+00:00', sql_quote_show_create = 1, sql_safe_updates = 0, "
    "sql_select_limit = 18446744073709551615, sql_big_selects = 1 "
    f"/*!50708 , max_execution_time = {1000 * _STATEMENT_LIMIT_S} */ "
    f"/*M!100101 , max_statement_time = {_STATEMENT_LIMIT_S} */"
)


@dataclass(frozen=True)
class Account:
    """Who the client logs in as; the password is kept in memory only."""

    user: str
    password: str = field(default="", repr=False)


ROOT = Account("root")


@dataclass(frozen=True)
class Access:
    """Who reaches our servers over TCP.

    Attributes:
        address: where they listen besides their sockets.
        clients: the hosts that an account for TCP is allowed from.
    """

    address: str = "127.0.0.1"
    # Both names are needed: which one matches depends on whether the server resolves names.
    clients: tuple[str, ...] = ("127.0.0.1", "localhost")


THIS_MACHINE = Access()


class Server(ABC):
    """A server that can be connected to. Each query has a connection of its own, so none is open while measuring.

    Attributes:
        name: the arm's.
        ours: bakeoff started it and may change its settings.
    """

    name: str
    ours: bool = False

    @abstractmethod
    def connect(self, database: str | None = None, *, own_settings: bool = True) -> pymysql.connections.Connection:
        """Open a connection with autocommit on; the caller closes it.

        Args:
            database: the default one; None for none.
            own_settings: set the SQL mode, the time zone and the limits for bakeoff's own questions, so that no option
                of the server changes the answers. Without it the session is as an application's.

        Raises:
            ServerError, UnreachableError: no server there, or it refuses.
        """

    @abstractmethod
    def address(self, transport: str = "socket") -> dict[str, Any]:
        """Where it listens, as the engine's `open` wants it: `{"socket": PATH}` or `{"host": H, "port": P}`."""

    @abstractmethod
    def account(self, transport: str = "socket", *, encrypted: bool = False) -> Account:
        """Who to log in as over that transport; `encrypted`: an account that is made for it is let in with TLS only."""

    @abstractmethod
    def data_bytes(self, database: str) -> int:
        """Data and indexes of a database on disk, bytes."""

    def query(
        self, sql: str, arguments: tuple[Any, ...] = (), database: str | None = None, *, limited: bool = True
    ) -> list[tuple[Any, ...]]:
        """Rows of one statement, which may take ten minutes where it is `limited`, else as long as reading all data.

        Raises:
            ServerError, UnreachableError: the server refuses the statement, or is gone.
        """
        connection = self.connect(database)
        try:
            if not limited:
                lift_limits(connection)
                connection._read_timeout = self.scan_limit_s
            with connection.cursor() as cursor:
                cursor.execute(sql, arguments or None)
                return list(cursor.fetchall())
        except pymysql.MySQLError as problem:
            raise ServerError(f"server {self.name}: {sql[:80]!r} failed: {problem.args[-1]}.") from None
        finally:
            connection.close()

    @property
    def scan_limit_s(self) -> float:
        """Seconds within which any table has been read: a server that takes longer is stuck."""
        return _SCAN_LIMIT_S

    def variables(self) -> dict[str, str]:
        """SHOW GLOBAL VARIABLES."""
        return {str(name): str(value) for name, value in self.query("SHOW GLOBAL VARIABLES")}

    def status(self) -> dict[str, str]:
        """SHOW GLOBAL STATUS."""
        return {str(name): str(value) for name, value in self.query("SHOW GLOBAL STATUS")}

    @property
    def version_string(self) -> str:
        """SELECT VERSION()."""
        return str(self.query("SELECT VERSION()")[0][0])


def open_connection(
    where: dict[str, Any], account: Account, database: str | None, connect_timeout_s: int, *, own_settings: bool
) -> pymysql.connections.Connection:
    """Connect to `{"unix_socket": PATH}` or `{"host": H, "port": P}`, as `Server.connect` says."""
    connection = pymysql.connect(
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
    connection._read_timeout = _STATEMENT_LIMIT_S  # PyMySQL has one for both
    return connection


def _is_of_tls(problem: Exception) -> bool:
    """Whether a server answered, and client and server did not agree on TLS."""
    return isinstance(getattr(problem, "original_exception", None), ssl.SSLError)


def scan_seconds(data_bytes: int) -> float:
    """Seconds in which so much data has been read by all means, beside other scans and from the slowest disk."""
    return _STATEMENT_LIMIT_S + data_bytes / _SCANNED_BYTES_A_S


def lift_limits(connection: pymysql.connections.Connection) -> None:
    """Let this session read for as long as it takes; where a server lacks a limit of time there is none to lift."""
    for setting in ("max_execution_time = 0", "max_statement_time = 0", "net_write_timeout = 3600"):
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SET SESSION {setting}")
        except pymysql.MySQLError as problem:
            if problem.args[0] != _UNKNOWN_VARIABLE:
                raise


def raw_rows(
    connection: pymysql.connections.Connection, sql: str, arguments: tuple[Any, ...] = (), at_once: int = 1000
) -> Iterator[Sequence[tuple[bytes | None, ...]]]:
    """Rows of one statement as they come over the connection, in bytes, `at_once` of them together.

    When not all of them are taken the connection is of no further use.
    """
    plain: Any = connection
    kept = plain.decoders, plain.use_unicode
    plain.decoders, plain.use_unicode = {}, False
    try:
        with connection.cursor(SSCursor) as cursor:
            try:
                cursor.execute(sql, arguments or None)
                while rows := cursor.fetchmany(at_once):
                    yield rows
            except BaseException:
                # Else the cursor would read all the others before it closes, even from a broken connection.
                if cursor._result:
                    cursor._result.unbuffered_active = False
                raise
    finally:
        plain.decoders, plain.use_unicode = kept


def make_tcp_account(
    connection: pymysql.connections.Connection,
    clients: Sequence[str] = THIS_MACHINE.clients,
    *,
    encrypted: bool = False,
) -> Account:
    """Make an account that may do everything, with a fresh random password; an older one is replaced.

    Its plugin is the server's default.

    Args:
        connection: as root.
        clients: hosts that it is let in from.
        encrypted: it is let in with TLS only.

    Raises:
        ServerError: the server refuses.
    """
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
    except pymysql.MySQLError as problem:
        raise ServerError(f"an account for TCP could not be made: {problem.args[-1]}.") from None
    return account


def _require_tls(cursor: pymysql.cursors.Cursor, host: str) -> None:
    """MySQL 8.0 knows the first form only, 5.6 and MariaDB before 10.2 the second only."""
    try:
        cursor.execute("ALTER USER %s@%s REQUIRE SSL", (TCP_USER, host))
    except pymysql.ProgrammingError as problem:
        if problem.args[0] != _SYNTAX_ERROR:
            raise
        cursor.execute("GRANT USAGE ON *.* TO %s@%s REQUIRE SSL", (TCP_USER, host))


class RemoteServer(Server):
    """A running server, by URL (`mysql://user@host:3306/` or `?socket=PATH`): never started, stopped or reconfigured.

    Args:
        spec: of origin URL, without mysqld options.
        name: the arm's.
        password: what `spec.server_name.url_password` found in the URL; None: MYSQL_PWD, then `[client]` of ~/.my.cnf.
            It is in no message.
        encrypted: stay with TLS, also where the server has none of its versions that can be had here.

    Raises:
        SpecError: not a URL, or options were given for a server that is not ours to start.
    """

    def __init__(
        self, spec: ServerSpec, name: str = "", password: str | None = None, *, encrypted: bool = False
    ) -> None:
        if spec.origin is not Origin.URL:
            raise SpecError(f"server {spec}: not the URL of a running server.")
        if spec.options or spec.cnf_files or spec.env:
            raise SpecError(
                f"server {spec}: a running server takes no options.",
                hint="Set them there, or let bakeoff start a server of its own.",
            )
        self.host, self.port, self.socket, user = url_parts(spec.location)
        client = read_client_group(Path.home() / ".my.cnf")
        if password is None:
            password = os.environ.get("MYSQL_PWD", client.get("password", ""))
        self._account = Account(user or client.get("user") or os.environ.get("USER", "root"), password)
        self._encrypted = encrypted
        self.name = name or spec.location

    def address(self, transport: str = "socket") -> dict[str, Any]:
        """The URL's socket, or its host and port, whatever transport is asked for."""
        return {"socket": self.socket} if self.socket else {"host": self.host, "port": self.port}

    def account(self, transport: str = "socket", *, encrypted: bool = False) -> Account:
        """The URL's, with its password."""
        return self._account

    def connect(self, database: str | None = None, *, own_settings: bool = True) -> pymysql.connections.Connection:
        """Open a connection as `Server.connect` says.

        Raises:
            UnreachableError: nothing answers there. ServerError: it answers and refuses.
        """
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
                # An old server may have TLS 1.0 and 1.1 alone, which nothing here speaks.
                if self._encrypted or not _is_of_tls(problem):
                    raise
                return connecting(how | {"ssl_disabled": True})
        except (pymysql.MySQLError, UnicodeError) as problem:  # the latter of a host's name that cannot be one
            if problem.args[0] in _ACCESS_DENIED:
                raise ServerError(
                    f"server {where} refuses user {user}: {'wrong password' if password else 'no password was given'}.",
                    hint="Put it into MYSQL_PWD or ~/.my.cnf.",
                ) from None
            if problem.args[0] in _NO_ANSWER and not _is_of_tls(problem):
                raise UnreachableError(
                    f"no server answers at {where}.", hint="Is it running, and is the address right?"
                ) from None
            raise ServerError(f"server {where}: {problem.args[-1]}.") from None

    def data_bytes(self, database: str) -> int:
        """Data and indexes as the server itself estimates them: its files are out of reach."""
        rows = self.query(
            "SELECT COALESCE(SUM(data_length + index_length), 0) FROM information_schema.tables WHERE table_schema=%s",
            (database,),
        )
        return int(rows[0][0])
