"""What the driver decides without a cluster: refusals, choice of nodes, and what a node sends back."""

import contextlib
import functools
import io
import socket
import subprocess
import sys
import tarfile
from dataclasses import asdict, replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from messages import study

from bakeoff.cli.arguments import Nodes
from bakeoff.cli.duel import duel
from bakeoff.cli.run import RunOptions, check_study
from bakeoff.cluster import command, driver, nodes, worker
from bakeoff.cluster.driver import RayHosts, kept_share, require_cluster_run, require_like_machines, smallest_share
from bakeoff.cluster.nodes import Node, choose, differences, require_same_programs
from bakeoff.errors import BakeoffError, HostError, ResultsError, RunInvalid, ServerError, SpecError
from bakeoff.plan import epoch_draft, plan_study
from bakeoff.plan.timing import EpochCost
from bakeoff.results import Outcome, RunDirectory
from bakeoff.run import arms, forecast
from bakeoff.run.arms import MemoryShare
from bakeoff.run.epoch import EpochDone, EpochOrder
from bakeoff.run.resume import check_machine, keep_memory, read_before
from bakeoff.servers import ServerMemory
from bakeoff.spec import Arm, Study, Workload, parse_server

facts_of_here = functools.cache(worker.facts)


def node(name, *, resources=None, **facts):
    here = facts_of_here()
    changed = {key: value for key, value in facts.items() if key not in here["host"]}
    host = here["host"] | {key: value for key, value in facts.items() if key in here["host"]}
    return Node(name, name * 8, resources or {"CPU": 1.0}, here | {"boot": name} | changed | {"host": host})


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        (["a", "b", "--ray"], "auto"),
        (["a", "b", "--ray", "--hosts", "2"], "auto"),
        (["--ray", "10.0.0.1:6379", "a", "b"], "10.0.0.1:6379"),
        (["a", "b", "--ray", "ray://head:10001"], "ray://head:10001"),
        (["a", "b", "--ray", "local"], "local"),
        (["a", "b"], None),
    ],
)
def test_the_address_after_ray_is_optional(typed, read):
    with duel.make_context("duel", typed) as context:
        assert context.params["ray"] == read


def test_passwords_do_not_travel(inside):
    ran = inside("duel", "mysql://root:secret@db1/", "mysql:8.0.15", "--ray", "--no-verdict")
    assert ran.code == 2
    assert "passwords do not travel to nodes" in ran.complaint
    assert "secret" not in ran.complaint


def test_hosts_without_ray_is_refused(inside):
    ran = inside("duel", "mysql:5.7", "mysql:8.0", "--hosts", "2")
    assert (ran.code, "Write --ray --hosts 2." in ran.complaint) == (2, True)


def test_without_ray_the_error_says_how_to_install_it():
    code = "import sys; sys.modules['ray'] = None\nimport bakeoff.cli.main as m\nsys.exit(m.run(['cluster', 'check']))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 3
    assert ran.stderr == "bakeoff: ray is not installed. Write: pip install 'bakeoff[ray]'\n"


def test_an_unreachable_head_is_an_error(inside):
    ran = inside("cluster", "check", "127.0.0.1:1024")
    assert ran.code == 3
    assert ran.complaint.startswith("bakeoff: ray: no cluster can be reached at 127.0.0.1:1024: Connection refused.")


def test_a_node_whose_daemons_cannot_be_watched_is_a_problem_of_its_own(monkeypatch):
    def get(_ray, name, _answer, *, what):
        if name == "a":
            raise HostError(f"node {name}: {what}")
        return {"raylet": 0.001}

    task = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda _: None))
    monkeypatch.setattr(nodes, "alive_nodes", lambda _: [node(name) for name in "ab"])
    monkeypatch.setattr(
        nodes, "ask_facts", lambda _, asked: [replace(each, facts=each.facts | {"time_s": 0}) for each in asked]
    )
    monkeypatch.setattr(nodes, "on_node", lambda *_: {})
    monkeypatch.setattr(nodes, "get", get)
    checked = command._check(SimpleNamespace(remote=lambda **_: lambda _: task))
    assert [each.problem for each in checked] == ["node a: its daemons could not be watched", ""]
    assert [each.daemons for each in checked] == [{}, {"raylet": 0.001}]


@pytest.mark.parametrize(("failures", "reached"), [(2, True), (3, False)])
def test_a_head_that_cannot_start_its_client_server_is_retried(monkeypatch, failures, reached):
    answers = [
        ConnectionAbortedError(
            "Initialization failure from server:\nTraceback (most recent call last):\n  File 'proxier.py', line 772\n"
            "RuntimeError: Starting Ray client server failed. See ray_client_server_23000.err for detailed logs.\n"
        )
    ] * failures + [None] * (3 - failures)

    def init(**_options):
        if (answer := answers.pop(0)) is not None:
            raise answer

    monkeypatch.setattr(nodes, "import_ray", lambda _address: SimpleNamespace(init=init, shutdown=lambda: None))
    with socket.create_server(("127.0.0.1", 0)) as head:
        expected = contextlib.nullcontext() if reached else pytest.raises(HostError)
        with expected as failed, nodes.connected(f"ray://127.0.0.1:{head.getsockname()[1]}"):
            pass
    assert answers == []
    if failed:
        message = str(failed.value)
        assert "Traceback" not in message
        assert ": RuntimeError: Starting Ray client server failed. See ray_client_server_23000.err for" in message


def test_nodes_are_chosen_by_what_they_offer():
    head, plain, bench = node("h", resources={"CPU": 0.0}), node("p"), node("q", resources={"CPU": 2.0, "bench": 1.0})
    assert choose([head, plain, bench], Nodes()) == [plain, bench]
    assert choose([head, plain, bench], Nodes(resource="bench")) == [bench]
    assert choose([head, plain, bench], Nodes(hosts=1)) == [plain]
    with pytest.raises(SpecError, match="no node offers the resource other"):
        choose([plain], Nodes(resource="other"))
    with pytest.raises(SpecError, match="1 node offers bench, and --hosts asks for 2"):
        choose([plain, bench], Nodes(hosts=2, resource="bench"))


def test_nodes_with_another_version_are_refused():
    require_same_programs([node("a")])
    with pytest.raises(HostError, match=r"node b: bakeoff is 0\.0\.1"):
        require_same_programs([node("a"), node("b", bakeoff="0.0.1")])
    with pytest.raises(HostError, match="node b: the engine is 9"):
        require_same_programs([node("b", engine={"engine": "9", "build": {"commit": "x"}})])


def test_differences_between_nodes_are_named():
    assert differences([node("a"), node("b")]) == []
    leads = node("head", resources={"memory": 1e9, "object_store_memory": 8e7, "node:10.0.0.1": 1.0}, cpu_model="Xeon")
    assert differences([node("a"), node("b"), leads]) == []
    (sentence,) = differences([node("a"), node("b", cpu_model="Xeon")])
    assert sentence.startswith("CPU models differ: ") and sentence.endswith("Xeon on b")
    assert "a and b are one machine" in differences([node("a", boot="x"), node("b", boot="x")])[0]


def test_different_machines_are_refused_unless_combine_hosts_is_set():
    machines = {each.name: each.host for each in (node("a"), node("b", cpu_model="Xeon"), node("c"))}
    with pytest.raises(SpecError, match=r"a is .*; b is .*Xeon.*; c is ") as refused:
        require_like_machines(study(), machines)
    assert "combine_hosts: true" in refused.value.hint
    require_like_machines(study().model_copy(update={"combine_hosts": True}), machines)
    require_like_machines(study(), {name: machines[name] for name in ("a", "c")})


def test_daemons_are_named_by_the_longest_name_that_fits(monkeypatch):
    def daemon(*words):
        return SimpleNamespace(cmdline=lambda: list(words), cpu_times=lambda: SimpleNamespace(user=1.0, system=0.5))

    running = [
        daemon("/opt/ray/core/src/ray/raylet/raylet", "--raylet_socket_name=/tmp/ray/x"),
        daemon("python", "-u", "/opt/ray/_private/log_monitor.py", "--session-dir=/tmp/ray/x"),
        daemon("python", "-u", "/opt/ray/autoscaler/_private/monitor.py", "--logs-dir=/tmp/ray/x"),
        daemon("python", "-u", "/home/me/monitor.py"),
    ]
    monkeypatch.setattr(worker.psutil, "process_iter", lambda: running)
    assert worker.daemons_cpu_s() == {"raylet": 1.5, "log_monitor": 1.5, "monitor": 1.5}


def share(pool, at_once):
    return asdict(MemoryShare(ServerMemory(buffer_pool_bytes=pool, redo_bytes=1), pool, 4, at_once))


def test_every_node_uses_the_memory_share_of_the_smallest():
    given = smallest_share([node("a", share=share(800, 2)), node("b", share=share(400, 4))])
    assert (given.memory.buffer_pool_bytes, given.at_once) == (400, 2)
    with pytest.raises(HostError, match="node c: not even 2 servers fit"):
        smallest_share([node("c", share=None, problem="not even 2 servers fit")])


def test_a_resumed_run_refuses_a_new_node_with_too_little_memory(tmp_path):
    run = RunDirectory.create(tmp_path, study())
    assert kept_share(None, []) is kept_share(run, [node("a", share=share(400, 4))]) is None
    given = smallest_share([node("a", share=share(400, 3))])
    keep_memory(run, given)
    run.write_json("hosts/a.json", node("a").host)
    enough, known = node("b", share=share(400, 4)), node("a", share=share(300, 2))
    assert kept_share(run, [known, enough]) == given
    for less in (share(300, 4), share(400, 2), None):
        with pytest.raises(HostError, match="node c:"):
            kept_share(run, [enough, node("c", share=less)])


@pytest.mark.parametrize("server", ["mysql:8.0.15", "path:/nowhere/mysql", "mysql:8.0.15,@/nowhere/my.cnf"])
def test_the_driver_does_not_need_what_only_nodes_need(tmp_path, monkeypatch, server):
    monkeypatch.setattr(arms, "free_memory_bytes", lambda: 2**20)
    monkeypatch.setattr(forecast, "is_installed", lambda _: "@" in server)
    spec = parse_server(server).model_copy(update={"env": (("LD_PRELOAD", "/nowhere/libjemalloc.so"),)})
    asked = Study(
        title="t",
        arms=tuple(Arm(name=name, label=name, server=spec) for name in "AB"),
        workloads=(Workload(script="oltp_read_only"),),
    )
    check_study(asked, RunOptions(tmp_path, cluster=Nodes()), no_verdict=True)
    with pytest.raises(HostError, match="memory: not even 2 servers fit"):
        check_study(asked, RunOptions(tmp_path), no_verdict=True)


@pytest.mark.parametrize("server", ["mysql:8.0.15", "path:/nowhere/mysql", "docker:mysql:8.4", "tarball:mysql.tar.gz"])
def test_a_password_for_other_servers_is_refused_before_it_travels(tmp_path, monkeypatch, server):
    monkeypatch.setattr(forecast, "is_installed", lambda _: False)
    asked = Study(
        title="t",
        arms=tuple(
            Arm(name=name, label=name, server=parse_server(f"{server},report_password=hunter22")) for name in "AB"
        ),
        workloads=(Workload(script="oltp_read_only"),),
    )
    with pytest.raises(SpecError, match="option report_password cannot be used: it is a password") as refused:
        check_study(asked, RunOptions(tmp_path, cluster=Nodes()), no_verdict=True)
    assert "hunter22" not in str(refused.value) and refused.value.field[:2] == ("arms", "A")


def test_a_hosts_rows_are_compared_until_it_has_a_valid_epoch(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "unpack", lambda *_: None)
    run, orders = RunDirectory.create(tmp_path, study()), []
    measure = SimpleNamespace(remote=orders.append)
    remote = driver._Remote(node("a"), SimpleNamespace(measure=measure), ready=True)
    hosts = RayHosts(None, run, study(), None, None, None, None, _remotes=[remote])
    plan = plan_study(study(), overhead_s=0.0, load_s=0.0)
    for number, cost in enumerate((None, EpochCost(1.0, 1.0, 1.0), None)):
        hosts.begin(EpochOrder(plan, epoch_draft(plan, study(), number)))
        hosts._receive(remote, worker.Answer(worker.Parcel(EpochDone(number, "a", cost=cost), b"")))
    assert [order.compare_rows for order in orders] == [True, True, False]


@pytest.mark.parametrize("kind", [HostError, ServerError])
@pytest.mark.parametrize("other", ["ready", "loads", "has not begun"])
def test_a_node_that_cannot_load_is_left_out_if_another_can(kind, other):
    bad, good = (driver._Remote(node(name), None) for name in "ab")
    good.ready = other == "ready"
    hosts = RayHosts(None, None, study(), None, worker.Reports(), None, None, _remotes=[bad, good])
    hosts._waiting = {"x": (good, "prepare")} if other == "loads" else {}
    message = "disk: full"
    hosts._welcome(bad, worker.Answer(error=kind(message)))
    assert (bad.left_out, good.left_out) == (True, False)
    said = [f"node a: {message}", "a is left out from now on"]
    assert hosts.listener.take() == [("note", (text,)) for text in said]
    with pytest.raises(SpecError, match="node b: no such option"):
        hosts._welcome(good, worker.Answer(error=SpecError("no such option")))
    good.ready, hosts._waiting = False, {}
    with pytest.raises(kind, match=f"node b: {message}"):
        hosts._welcome(good, worker.Answer(error=kind(message)))


def test_the_next_node_loads_first_if_the_first_one_cannot(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "unpack", lambda *_, **__: None)
    monkeypatch.setattr(driver, "get", lambda *_, **__: None)
    monkeypatch.setattr(RayHosts, "_actor", lambda *_: SimpleNamespace(pid=SimpleNamespace(remote=lambda: None)))
    asked, ready = [], worker.Ready(1, {}, {}, {}, b"")

    def prepare(hosts, remote, *, first):
        asked.append((remote.node.name, first))
        hosts._waiting[remote.node.name] = (remote, "prepare")

    def wait(hosts):
        name, (remote, _) = hosts._waiting.popitem()
        hosts._welcome(remote, worker.Answer(error=HostError("disk: full")) if name == "a" else worker.Answer(ready))

    monkeypatch.setattr(RayHosts, "_prepare", prepare)
    monkeypatch.setattr(RayHosts, "wait", wait)
    run = RunDirectory.create(tmp_path, study())
    hosts = RayHosts(None, run, study(), None, worker.Reports(), None, read_before(run))
    assert hosts.prepare([node(name) for name in "abc"]) == 1
    assert asked == [("a", True), ("b", True), ("c", False)]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"setups": {"A": "other"}}, "node b: arm A has another binary or other options there than on the first node"),
        ({"scripts": {"/own.lua": "other"}}, "node b: /own.lua is another file there than on the first node"),
    ],
)
def test_a_node_with_another_binary_options_or_script_is_refused(tmp_path, monkeypatch, changed, words):
    monkeypatch.setattr(driver, "unpack", lambda *_, **__: None)
    monkeypatch.setattr(driver, "script_digests", lambda _: {"/own.lua": "here"})
    same = worker.Ready(1, {"A": "given"}, {"/own.lua": "here"}, {}, b"")
    run = RunDirectory.create(tmp_path, study())

    def hosts():
        remotes = [driver._Remote(node(name), None) for name in "abc"]
        return RayHosts(None, run, study(), None, None, None, read_before(run), _remotes=remotes), remotes

    new, (first, second, third) = hosts()
    new._welcome(first, worker.Answer(same))
    new._welcome(third, worker.Answer(replace(same, scripts={})))  # a bundled one
    with pytest.raises(RunInvalid, match=words):
        new._welcome(second, worker.Answer(replace(same, **changed)))
    assert [each.ready for each in (first, second, third)] == [True, False, True]
    run.epoch(0, 0).finish(Outcome(epoch=0, build=0, started_at=datetime.now(UTC), wall_s=1, measured_s=1))
    resumed, (first, second, _) = hosts()
    because = "another file there than here" if "scripts" in changed else "arm A was measured with another version"
    with pytest.raises(BakeoffError, match=f"node a: .*{because}"):
        resumed._welcome(first, worker.Answer(replace(same, **changed)))
    resumed._welcome(second, worker.Answer(same))


def test_a_study_of_another_version_is_not_reported_as_a_node_problem():
    """The actual problem is the node's version of bakeoff, which `require_same_programs` reports."""
    found = worker.facts('{"a field": "of another version"}')
    assert (found["share"], found["problem"]) == (None, "")


def test_an_epoch_comes_back_as_it_was_written(tmp_path):
    there, here = tmp_path / "there", tmp_path / "here"
    for name, text in (("epochs/004/servers/A/my.cnf", "x"), ("epochs/004/outcome.json", "{}"), ("plan.json", "p")):
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        (there / name).write_text(text)
    here.mkdir()
    worker.unpack(worker.pack(there, only=["epochs/004"]), here)
    assert (here / "epochs/004/servers/A/my.cnf").read_text() == "x"
    assert not (here / "plan.json").exists()
    (here / "plan.json").write_text("own")
    worker.unpack(worker.pack(there, leave_out=("epochs",)), here, replaces=False)
    assert (here / "plan.json").read_text() == "own"


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside-bakeoff"])
def test_a_node_writes_nothing_outside_the_run(tmp_path, name):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(name))
    with pytest.raises(RunInvalid, match="outside its run directory"):
        worker.unpack(archive.getvalue(), tmp_path)


def test_local_and_cluster_runs_resume_only_where_they_started(tmp_path):
    def run_on(*hosts):
        run = RunDirectory.create(tmp_path, study())
        for number, host in enumerate(hosts):
            outcome = Outcome(epoch=number, build=0, started_at=datetime.now(UTC), wall_s=10, measured_s=1, host=host)
            run.epoch(number, 0).finish(outcome)
        return run

    require_cluster_run(run_on("a", "b"))
    with pytest.raises(ResultsError, match="was measured on one machine"):
        require_cluster_run(run_on(""))
    with pytest.raises(ResultsError, match="on the nodes of a cluster"):
        check_machine(run_on("a"))
    # Nodes measure in parallel, so the longest of them counts towards the budget.
    assert read_before(run_on("a", "a", "b")).used_s == pytest.approx(20)


def test_a_search_is_not_resumed_on_a_cluster(tmp_path):
    model = pytest.importorskip("bakeoff.search.model")
    changed = ("sort_buffer_size", "1M")
    setting = model.Setting(factor="option.sort_buffer_size", good="(not set)", bad="1M", pairs=(changed,))
    bisection = study().model_copy(update={"question": model.Search(settings=(setting,))})
    with pytest.raises(ResultsError, match="was measured on one machine"):
        require_cluster_run(RunDirectory.create(tmp_path, bisection))
