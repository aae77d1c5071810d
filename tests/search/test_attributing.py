"""`bakeoff explain --attribute` over several pairs of arms."""

import contextlib
from types import SimpleNamespace

import pytest

from bakeoff.cli.run import RunOptions
from bakeoff.errors import ServerError
from bakeoff.search import attribute
from bakeoff.spec import Arm, Study, Workload, parse_server
from bakeoff.stats.model import Analysis


def test_a_pair_that_cannot_be_measured_does_not_end_the_attribution(monkeypatch, tmp_path, capsys):
    """The reason is reported and the other pair is measured; if no pair can be, the command fails with it."""
    measured, refused, both = [], {"B"}, [("A", "B"), ("A", "C")]

    def searched(_run, asked, *_args, **_options):
        if asked in refused:
            raise ServerError("it does not start")
        measured.append(asked)

    study = Study(
        title="t",
        arms=tuple(Arm(name=name, label=name, server=parse_server("mysql:8.0.33")) for name in "ABC"),
        workloads=(Workload(script="oltp_write_only"),),
    )
    for name, value in {
        "_prepare": lambda _run, pair, *_: (pair[1], study),
        "_search": searched,
        "build_view": lambda *_: None,
        "render_html": lambda _: "",
        "show_report": lambda *_: None,
    }.items():
        monkeypatch.setattr(attribute, name, value)
    run = SimpleNamespace(
        read=lambda _name, model: model is Analysis, hold=contextlib.nullcontext, write_text=lambda *_: None
    )
    options = RunOptions(runs_root=tmp_path, json=True)
    assert attribute.attribute_pairs(run, study, both, None, options) == 0
    assert measured == ["C"] and "it does not start" in capsys.readouterr().err
    with pytest.raises(ServerError):
        attribute.attribute_pairs(run, study, both[:1], None, options)
    refused.add("C")
    with pytest.raises(ServerError):
        attribute.attribute_pairs(run, study, both, None, options)
