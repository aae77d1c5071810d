"""`bakeoff explain --attribute` over several pairs of arms."""

import contextlib
import signal
import threading
from types import SimpleNamespace

import pytest

from bakeoff.cli.run import RunOptions
from bakeoff.errors import ExitCode, ServerError
from bakeoff.search import attribute
from bakeoff.search.attribution import Attribution
from bakeoff.search.model import SERVER, Setting
from bakeoff.spec import Arm, Study, Workload, parse_server
from bakeoff.stats.model import Analysis

STUDY = Study(
    title="t",
    arms=tuple(Arm(name=name, label=name, server=parse_server("mysql:8.0.33")) for name in "ABC"),
    workloads=(Workload(script="oltp_write_only"),),
)


def replace_measuring(monkeypatch, searched):
    for name, value in {
        "_prepare": lambda _run, pair, *_: (pair[1], STUDY),
        "_search": searched,
        "build_view": lambda *_: None,
        "render_html": lambda _: "",
        "show_report": lambda *_: None,
    }.items():
        monkeypatch.setattr(attribute, name, value)


def finished_run(written):
    return SimpleNamespace(
        read=lambda _name, model: model is Analysis,
        hold=contextlib.nullcontext,
        write_text=lambda name, _text: written.append(name),
    )


def test_a_pair_that_cannot_be_measured_does_not_end_the_attribution(monkeypatch, tmp_path, capsys):
    """The reason is reported and the other pair is measured; if no pair can be, the command fails with it."""
    measured, refused, both = [], {"B"}, [("A", "B"), ("A", "C")]

    def searched(_run, asked, *_args, **_options):
        if asked in refused:
            raise ServerError("it does not start")
        measured.append(asked)

    replace_measuring(monkeypatch, searched)
    run = finished_run([])
    options = RunOptions(runs_root=tmp_path, json=True)
    assert attribute.attribute_pairs(run, STUDY, both, None, options) == 0
    assert measured == ["C"] and "it does not start" in capsys.readouterr().err
    with pytest.raises(ServerError):
        attribute.attribute_pairs(run, STUDY, both[:1], None, options)
    refused.add("C")
    with pytest.raises(ServerError):
        attribute.attribute_pairs(run, STUDY, both, None, options)


def test_ctrl_c_keeps_the_report_of_the_pairs_that_were_searched(monkeypatch, tmp_path):
    written, answers = [], iter((None, KeyboardInterrupt(), KeyboardInterrupt()))

    def searched(*_args):
        if interrupted := next(answers):
            signal.raise_signal(signal.SIGINT)  # the first one, which asks for the report
            raise interrupted

    replace_measuring(monkeypatch, searched)
    options, pairs = RunOptions(runs_root=tmp_path, quiet=True), [("A", "B"), ("A", "C")]
    try:
        assert attribute.attribute_pairs(finished_run(written), STUDY, pairs, None, options) == ExitCode.INTERRUPTED
    except KeyboardInterrupt:
        pytest.fail("the report of the first pair is lost")
    assert written == ["report.html"]
    with pytest.raises(KeyboardInterrupt):
        attribute.attribute_pairs(finished_run(written), STUDY, pairs, None, options)
    assert written == ["report.html"]


FOREIGN = Attribution(
    baseline="A",
    contender="B",
    settings=(
        Setting(factor="option.sync_binlog", good="1", bad="0", pairs=(("sync_binlog", "0"),)),
        Setting(factor=SERVER, good="", bad=""),
    ),
)


class TrialServer:
    """Starts unless its options hold one of `fatal`."""

    def __init__(self, options, fatal):
        self.starts = not set(options) & set(fatal)

    def start(self):
        if not self.starts:
            raise ServerError("it does not start")

    def ignored_settings(self):
        return []

    def remove(self):
        pass


@pytest.fixture
def refused(monkeypatch):
    def of(fatal, *, stop=None):
        pool = SimpleNamespace(create=lambda _name, _installation, settings: TrialServer(settings, fatal))
        for name, value in {
            "install": lambda *_: None,
            "share_memory": lambda _study: SimpleNamespace(memory=None),
            "settings_of": lambda arm, *_: ["plain", *dict(arm.server.options)],
            "ServerPool": lambda _root: contextlib.nullcontext(pool),
        }.items():
            monkeypatch.setattr(attribute, name, value)
        first, other, _ = STUDY.arms
        listener = SimpleNamespace(stage=lambda _text: None)
        return attribute._refused(FOREIGN, STUDY, first, other, listener, stop or threading.Event())

    return of


def test_a_setting_that_keeps_the_server_from_starting_is_left_out(refused):
    assert refused([]) == {}
    assert refused(["sync_binlog"]) == {"option.sync_binlog": "A does not take this value"}


def test_no_setting_is_blamed_if_the_server_does_not_start_without_it_either(refused):
    with pytest.raises(ServerError, match="it does not start"):
        refused(["plain"])


def test_ctrl_c_ends_the_trial_of_settings(refused):
    stop = threading.Event()
    stop.set()
    with pytest.raises(KeyboardInterrupt):
        refused([], stop=stop)
