"""Accounts inside a server: root over the socket, and one made for TCP, whose password never leaves memory."""

import secrets

import pymysql

from bakeoff.errors import ServerError
from bakeoff.servers.model import Account

TCP_USER = "bakeoff"
ROOT = Account("root")


def make_tcp_account(connection: pymysql.connections.Connection) -> Account:
    """Make (again) an account that may do everything from 127.0.0.1, with a fresh random password.

    Its plugin is the server's default. Both host names are needed: which one matches depends on whether the server
    resolves names.

    Raises:
        ServerError: the server refuses.
    """
    account = Account(TCP_USER, secrets.token_hex(16))
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT User, Host FROM mysql.user WHERE User=%s", (TCP_USER,))
            for user, host in cursor.fetchall():
                cursor.execute("DROP USER %s@%s", (user, host))
            for host in ("127.0.0.1", "localhost"):
                cursor.execute("CREATE USER %s@%s IDENTIFIED BY %s", (TCP_USER, host, account.password))
                cursor.execute("GRANT ALL ON *.* TO %s@%s", (TCP_USER, host))
    except pymysql.MySQLError as problem:
        raise ServerError(f"an account for TCP could not be made: {problem.args[-1]}.") from None
    return account
