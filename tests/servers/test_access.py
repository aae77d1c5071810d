"""Who can reach our servers over TCP: one client at one address, and only with TLS if TLS is required."""

import pymysql
import pytest

from bakeoff.servers import ServerPool, install, settings_for
from bakeoff.servers.client import Access
from bakeoff.servers.profile import ServerMemory
from bakeoff.spec import Data, Profile, parse_server

ACCESS = Access("127.0.0.2", ("127.0.0.3",))
PRESENT = ["mysql:5.6.24", "mysql:5.7.22", "mariadb:10.11"]
OTHERS = ["mysql:5.5.9", "mysql:8.0.15", "mysql:9", "mariadb:11.8"]


def log_in(where, account, **more):
    pymysql.connect(
        user=account.user, password=account.password, **{"bind_address": "127.0.0.3"} | where | more
    ).close()  # fmt: skip


@pytest.mark.server
@pytest.mark.parametrize("text", [*PRESENT, *(pytest.param(each, marks=pytest.mark.slow) for each in OTHERS)])
def test_a_server_accepts_connections_only_from_its_client(text):
    spec = parse_server(text)
    installation = install(spec)
    memory = ServerMemory(buffer_pool_bytes=128 * 2**20, redo_bytes=96 * 2**20)
    settings = settings_for(installation, spec, Profile.STOCK, Data(), memory, connections=20, tls=True)
    with ServerPool(access=ACCESS) as pool:
        server = pool.create("a", installation, settings)
        server.start()
        where = server.address("tcp")
        assert where["host"] == "127.0.0.2"
        account = server.account("tcp")
        log_in(where, account, ssl_disabled=True)
        with pytest.raises(pymysql.OperationalError, match=r"not allowed|denied"):
            log_in(where, account, bind_address="127.0.0.4")
        with pytest.raises(pymysql.OperationalError, match="refused"):
            log_in(where, account, host="127.0.0.1")
        server.stop()
        server.start()
        where, account = server.address("tcp"), server.account("tcp", encrypted=True)
        with pytest.raises(pymysql.OperationalError, match="denied"):
            log_in(where, account, ssl_disabled=True)
        ((kind,),) = server.query("SELECT ssl_type FROM mysql.user WHERE User = 'bakeoff'")
        assert kind in ("ANY", b"ANY")
