"""engine.py against a scripted engine that breaks the contract, without a server."""

import sys
import threading
from pathlib import Path

import pytest

from bakeoff.cli import main
from bakeoff.engine import CONTRACT, ArmAddress, Engine, describe_workloads
from bakeoff.errors import EngineError, HostError, SpecError
from bakeoff.run.epoch import discards_epoch

ARM = ArmAddress("A", "/tmp/a.sock", None, None, "root", "hunter2", "sbtest", "utf8mb4", None)

PRELUDE = """#!{python}
import json, sys
def say(**message): print(json.dumps(message), flush=True)
say(type="hello", contract=5, engine="test", build={{}}, pid=1)
def slice(events):
    say(type="slice", id=id, cell="c", arm="A", events=events, errors={{}}, threads={{}}, **dict.fromkeys('''
        block position start_ns length_ns load_ns busy_ns connections outside_events reads writes other retries
        reconnects late_starts dropped latency_sum_ns latency_max_ns sent_bytes received_bytes client_user_ns
        client_system_ns server_cpu_ns server_read_bytes server_write_bytes server_rss_bytes host_user_ns
        host_system_ns host_iowait_ns host_steal_ns host_idle_ns context_switches'''.split(), 0))
for line in sys.stdin:
    request = json.loads(line)
    kind, id = request["type"], request["id"]
"""


@pytest.fixture
def scripted(tmp_path, monkeypatch):
    """An engine whose answers are the given Python lines; they see `request`, `kind`, `id` and `say`."""

    def make(*lines, prelude=PRELUDE):
        path = tmp_path / "engine"
        path.write_text(prelude.format(python=sys.executable) + "".join(f"    {line}\n" for line in lines))
        path.chmod(0o755)
        monkeypatch.setenv("BAKEOFF_ENGINE", str(path))
        return path

    return make


def test_the_page_of_the_contract_names_its_version():
    page = (Path(__file__).parent.parent / "docs" / "reference" / "engine.md").read_text()
    assert f"contract version **{CONTRACT}**" in page


def test_slices_and_histograms_come_back_in_order(scripted):
    scripted(
        "say(type='log', level='notice', message='hello')",
        "say(type='log', level='warning', message='hello from Lua')",
        "for n in range(3): slice(n)",
        "say(type='histogram', id=id, cell='c', arm='A', operation='event', clock='service', count=3, mean_ns=1.5,"
        " min_ns=1, max_ns=2, quantiles_ns={}, hdr='')",
        "say(type='done', id=id, seconds=1.5, blocks=1, cancelled=False)",
    )
    logged = []
    with Engine(on_log=logged.append) as engine:
        measured = engine.measure({"seconds": 1.0})
    assert [message["events"] for message in measured.slices] == [0, 1, 2]
    assert [message["operation"] for message in measured.histograms] == ["event"]
    assert logged == ["hello from Lua"]


def test_an_error_keeps_its_codes_and_arm(scripted):
    scripted(
        "say(type='error', id=id, code='access_denied', arm='A', sql_errno=1045, message='arm A: access denied')",
    )
    with Engine() as engine, pytest.raises(EngineError, match="access denied") as caught:
        engine.open([ARM])
    assert (caught.value.code, caught.value.arm, caught.value.sql_errno) == ("access_denied", "A", 1045)


def test_an_error_about_a_request_the_engine_could_not_read_ends_it(scripted):
    scripted("say(type='error', id=None, code='bad_request', message='the line is not JSON')")
    with Engine() as engine, pytest.raises(EngineError, match="not JSON"):
        engine.open([ARM])


def test_the_password_reaches_the_engine_and_nothing_else(scripted):
    scripted(
        "say(type='log', level='warning', message=str(len(request['arms'][0]['password'])))",
        "say(type='opened', id=id, arms=[])",
    )
    logged = []
    with Engine(on_log=logged.append) as engine:
        engine.open([ARM])
    assert logged == ["7"]
    assert "hunter2" not in repr(ARM)


def test_an_engine_that_dies_is_an_error_with_its_last_words(scripted):
    scripted("print('thread panicked', file=sys.stderr, flush=True)", "sys.exit(3)")
    with Engine() as engine, pytest.raises(EngineError, match=r"status 3.*thread panicked"):
        engine.measure({"seconds": 1.0})


def test_slowly_arriving_slices_do_not_time_out(scripted, monkeypatch):
    monkeypatch.setattr("bakeoff.engine._GRACE_S", 0.8)
    scripted(
        "import time",
        "for n in range(4): time.sleep(0.4); slice(n)",
        "say(type='done', id=id, seconds=1.6, blocks=1, cancelled=False)",
    )
    with Engine() as engine:
        assert len(engine.measure({"blocks": 1, "arms": ["A"], "slice_ns": 1_000_000}).slices) == 4


def test_a_script_that_ends_its_connections_is_an_error(scripted):
    scripted("say(type='done', id=id, seconds=1.6, blocks=1, cancelled=False, workers_stopped=2)")
    with Engine() as engine, pytest.raises(EngineError, match=r"event\(\) returned true on 2 connections") as caught:
        engine.measure({"blocks": 1, "arms": ["A"]})
    assert not discards_epoch(caught.value), "it would be the same in every epoch"


def test_a_silent_engine_times_out(scripted, monkeypatch):
    monkeypatch.setattr("bakeoff.engine._GRACE_S", 0.3)
    scripted("slice(1)")
    with Engine() as engine, pytest.raises(EngineError, match="did not answer in time"):
        engine.measure({"blocks": 1, "arms": ["A"], "slice_ns": 1_000_000})


def test_last_words_may_hold_any_byte(scripted):
    scripted("sys.stderr.buffer.write(b'caf\\xe9\\n'); sys.stderr.flush(); sys.exit(3)")
    with Engine() as engine, pytest.raises(EngineError, match="caf\ufffd"):
        engine.measure({"seconds": 1.0})


def test_describe_errors_may_contain_any_bytes(scripted):
    scripted(prelude="#!{python}\nimport sys\nsys.stderr.buffer.write(b'caf\\xe9.lua')\nsys.exit(1)\n")
    with pytest.raises(SpecError, match="caf\ufffd"):
        describe_workloads()


def test_a_script_that_never_finishes_loading_is_a_spec_error(scripted, monkeypatch):
    monkeypatch.setattr("bakeoff.engine._DESCRIBE_S", 0.3)
    scripted(prelude="#!{python}\nimport time\ntime.sleep(60)\n")
    with pytest.raises(SpecError, match=r"slow\.lua did not load within"):
        describe_workloads(["slow.lua"])


def test_setting_stop_cancels_a_running_measure(scripted):
    scripted(
        "if kind == 'cancel': say(type='done', id=asked, seconds=0.1, blocks=0, cancelled=True)",
        "else: asked = id",
    )
    stop = threading.Event()
    with Engine(stop=stop) as engine:
        threading.Timer(0.2, stop.set).start()
        engine.measure({"seconds": 60.0})  # it ends


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("say(type='surprise', id=id)", "surprise"),
        ("say(type='done', id=id)", "done.seconds: Field required"),
        ("say(type='failures', id=id, cell='c', arm='A', failures=[{'count': 'many'}])", "failures.failures.0"),
        ("print('{', flush=True)", "Invalid JSON"),
    ],
)
def test_a_malformed_answer_is_a_clear_error(scripted, line, named):
    scripted(line)
    with Engine() as engine, pytest.raises(EngineError, match=f"does not understand .*{named}"):
        engine.measure({"seconds": 1.0})


def test_another_contract_is_refused(scripted):
    scripted("pass", prelude=PRELUDE.replace("contract=5", "contract=7"))
    with pytest.raises(EngineError, match="contract 7"):
        Engine()


def test_a_missing_engine_says_how_to_get_one(monkeypatch, capsys):
    monkeypatch.setenv("BAKEOFF_ENGINE", "/nowhere/bakeoff-engine")
    with pytest.raises(HostError, match="make setup"):
        Engine()
    assert main.run(["duel", "mysql:8.0.15", "mysql:8.0.15", "--range-size=5"]) == 2
    assert "No such option '--range-size'" in capsys.readouterr().err
