"""The connection between the servers' node and the client's, on this machine: whom it lets in, and how it ends."""

import contextlib
import os
import signal
import socket
import threading

import psutil
import pytest

from bakeoff.cluster import apart
from bakeoff.cluster.client_node import EngineHost
from bakeoff.cluster.nodes import Node, pair
from bakeoff.cluster.wire import Identity, tls_handshake
from bakeoff.errors import EngineError, HostError, SpecError
from bakeoff.spec import Apart


@pytest.fixture
def nodes(monkeypatch):
    """The client's node and the servers', which have found each other."""
    monkeypatch.setattr(apart, "address_of", lambda _: "127.0.0.1")
    client = EngineHost()
    link = apart.ClientLink("lo", client.certificate())
    served = []
    serving = threading.Thread(
        target=lambda: served.append(client.serve(link.address, link.port, link.certificate)), daemon=True
    )
    serving.start()
    yield client, link
    link.close()
    serving.join(timeout=10)
    assert len(served) == 1


def engine_of(link):
    return link.engine(stop=threading.Event(), on_log=print)


def ask(engine):
    """Whatever it answers to a request for an arm that it does not know."""
    with pytest.raises(EngineError) as caught:
        engine.command("x", "oltp_read_only", "prepare", options={}, threads=1, seed=1)
    return caught.value


def test_an_engine_elsewhere_answers_as_one_here(nodes):
    _, link = nodes
    with engine_of(link) as engine:
        assert ask(engine).code == "bad_request"
        assert psutil.Process(engine.pid).is_running()
    with engine_of(link) as engine:
        assert ask(engine).code == "bad_request"


def test_long_messages_pass_both_ways(nodes):
    _, link = nodes
    with engine_of(link) as engine:
        name = "y" * 3_000_000
        with pytest.raises(EngineError, match="y" * 1000):
            engine.command(name, "oltp_read_only", "prepare", options={}, threads=1, seed=1)


def test_a_killed_engine_is_lost_with_its_status(nodes):
    _, link = nodes
    with engine_of(link) as engine:
        os.kill(engine.pid, signal.SIGKILL)
        lost = ask(engine)
    assert lost.code == "engine_lost"
    assert "status -9" in str(lost)


def test_the_engine_ends_with_its_connection(nodes):
    client, link = nodes
    with engine_of(link) as engine:
        process = psutil.Process(engine.pid)
        client.close()
        assert ask(engine).code == "engine_lost"
    process.wait(timeout=10)


def test_the_network_is_measured(nodes):
    _, link = nodes
    network = link.measure()
    assert network.client_address == network.servers_address == "127.0.0.1"
    assert 1e3 < network.rtt_ns < 50e6
    assert network.bytes_per_s > 10e6
    assert link.access.clients == ("127.0.0.1",)


def test_a_stranger_is_not_let_in(nodes):
    _, link = nodes
    stranger = Identity()
    raw = socket.create_connection((link.address, link.port))
    with contextlib.suppress(OSError):  # TLS 1.3 tells the client with its first reading
        connection = tls_handshake(
            raw, stranger.context(link.certificate, listens=False), link.certificate, listens=False
        )
        assert connection.recv(6) == b""
    plain = socket.create_connection((link.address, link.port))
    plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
    plain.settimeout(20)
    with contextlib.suppress(ConnectionResetError):
        while plain.recv(100):
            pass
    with engine_of(link) as engine:  # the client's node is served all the same
        assert ask(engine).code == "bad_request"


def test_a_false_server_gets_no_engine(monkeypatch):
    monkeypatch.setattr(apart, "address_of", lambda _: "127.0.0.1")
    client = EngineHost()
    false = apart.ClientLink("lo", client.certificate())
    answer = client.serve(false.address, false.port, Identity().certificate)
    assert isinstance(answer.error, HostError)
    assert "cannot be reached" in str(answer.error)
    false.close()


@pytest.mark.parametrize(
    ("interface", "words"),
    [
        ("0.0.0.0", "servers do not listen at every interface"),
        ("::", "servers do not listen at every interface"),
        ("lo", "no other host reaches a loopback interface"),
        ("127.0.0.1", "no other host reaches a loopback interface"),
        ("192.0.2.1", "there is no such interface or address"),
        ("eth77", "there is no such interface or address"),
    ],
)
def test_an_interface_that_others_do_not_reach_is_refused(interface, words):
    with pytest.raises(SpecError, match=words):
        apart.address_of(interface)


def test_the_pair_is_found_by_name():
    here, there = (Node(name, name, {}, {}) for name in ("a", "b"))
    assert pair([here, there], Apart(client="a", servers="b", interface="eth0")) == (there, here)
    with pytest.raises(SpecError, match=r"--servers c: ray has no node of that name\. It has a, b\."):
        pair([here, there], Apart(client="a", servers="c", interface="eth0"))
