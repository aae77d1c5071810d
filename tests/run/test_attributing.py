"""Arms in between are tried before they are measured, on servers that are none."""

import contextlib
import threading
from types import SimpleNamespace

import pytest

from bakeoff.cli.run import RunOptions
from bakeoff.errors import ServerError, SpecError
from bakeoff.explain import command as explain
from bakeoff.search import attribute
from bakeoff.spec import Arm, Study, Workload, parse_server
from bakeoff.stats.model import Analysis

GTID = "mysql:8.0.33,sync_binlog=0,gtid_mode=ON,enforce_gtid_consistency=ON"


class FakePool:
    """Makes servers that do not start with GTIDs unless these are enforced."""

    def __init__(self, _root):
        self.tried = []

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        pass

    def create(self, _name, _installation, options):
        def start():
            if options.get("gtid_mode") == "ON" and "enforce_gtid_consistency" not in options:
                raise ServerError("it does not start")

        return SimpleNamespace(start=start, ignored_settings=list, remove=lambda: self.tried.append(options))


@pytest.fixture
def pool(monkeypatch):
    fake = FakePool(None)
    seen = SimpleNamespace(plan=SimpleNamespace(budget_needed_s=1.0))
    for name, value in {
        "ServerPool": lambda _root: fake,
        "install": lambda *_: None,
        "settings_of": lambda arm, *_: dict(arm.server.options),
        "forecast": lambda _: seen,
        "require_disk": lambda _: None,
    }.items():
        monkeypatch.setattr(attribute, name, value)
    return fake


def asked_of(theirs):
    servers = "mysql:8.0.33", theirs
    arms = tuple(Arm(name=n, label=n.lower(), server=parse_server(s)) for n, s in zip("AB", servers, strict=True))
    study = Study(title="t", arms=arms, workloads=(Workload(script="oltp_write_only"),))
    analysis = SimpleNamespace(baseline="A", comparisons=())
    run = SimpleNamespace(study=lambda: study, read=lambda *_: analysis, newest_variables=dict)
    listener = SimpleNamespace(stage=lambda _: None, note=lambda _: None)
    return attribute.arms_in_between(run, "B", baseline="A", listener=listener, stop=threading.Event(), budget_s=60.0)


def test_a_setting_that_needs_another_is_refused_before_anything_is_loaded(pool):
    with pytest.raises(SpecError) as refused:
        asked_of(GTID)
    assert str(refused.value) == (
        "attribute: with gtid_mode=ON a does not start without the other options that differ (sync_binlog, "
        "enforce_gtid_consistency). Give the arms only options that stand alone."
    )


def test_every_arm_in_between_is_tried_once_and_its_server_removed(pool):
    _, made = asked_of("mysql:8.0.33,sync_binlog=0,sort_buffer_size=32K")
    assert len(made.arms) == 4
    assert pool.tried == [{"sync_binlog": "0"}, {"sort_buffer_size": "32K"}]


def test_a_pair_that_cannot_be_measured_does_not_end_the_attribution(monkeypatch, tmp_path, capsys):
    """Its reason is said, and the other pair is measured; where no pair can be, it is the command's error."""
    measured, refused = [], {"B"}

    def attribute_arms(_run, asked, *_args, **_options):
        if asked in refused:
            raise ServerError("it does not start")
        measured.append(asked)

    study = Study(
        title="t",
        arms=tuple(Arm(name=name, label=name, server=parse_server("mysql:8.0.33")) for name in "ABC"),
        workloads=(Workload(script="oltp_write_only"),),
    )
    for name, value in {
        "arms_in_between": lambda _run, contender, **_: (contender, study),
        "attribute_arms": attribute_arms,
        "explained_pairs": lambda _: {"c": ("B", "C")},
        "build_view": lambda *_: None,
        "render_html": lambda _: "",
        "show_report": lambda *_: None,
    }.items():
        monkeypatch.setattr(explain, name, value)
    run = SimpleNamespace(
        read=lambda _name, model: model is Analysis, hold=contextlib.nullcontext, write_text=lambda *_: None
    )
    options = RunOptions(runs_root=tmp_path, json=True)
    assert explain._attribute(run, study, None, None, options) == 0
    assert measured == ["C"] and "it does not start" in capsys.readouterr().err
    with pytest.raises(ServerError):
        explain._attribute(run, study, ("A", "B"), None, options)
    refused.add("C")
    with pytest.raises(ServerError):
        explain._attribute(run, study, None, None, options)
