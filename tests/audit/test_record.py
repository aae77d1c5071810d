"""Sizes come from the record's data files, and are absent without them."""

import json
import math
import re
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from slices import epoch_of, slice_row

from bakeoff.audit import record
from bakeoff.plan.factorial import arm_names
from bakeoff.spec import Arm, Study, Workload, parse_server
from bakeoff.spec.study import Design, Factor, Part
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Stop
from tests.audit.conftest import write

TLS = ("tls", ("disabled", "required"))
HASH = ("option.innodb_adaptive_hash_index", ("ON", "OFF"))


def keep(folder, factors, rates):
    """Write study and analysis of an eight-epoch run in which throughput is proportional to an arm's rate."""
    names = arm_names(len(rates))
    study = Study(
        title="t",
        arms=tuple(Arm(name=name, label=name, server=parse_server("mysql:8.0")) for name in names),
        workloads=(Workload(script="oltp_point_select"),),
        design=Design(
            factors=tuple(Factor(name=name, parts=(Part.CLIENT,), levels=levels) for name, levels in factors),
            levels=dict(zip(names, rates, strict=True)),
        ),
    )
    history = []
    for epoch in range(8):
        turns = [*zip(names, rates.values(), strict=True)]
        rows = [
            slice_row(arm, block, at, events=round(20_000 * rate * (1 + 0.01 * math.sin(7 * epoch + 3 * ord(arm)))))
            for block in range(4)
            for at, (arm, rate) in enumerate([*turns, *reversed(turns)])
        ]
        history.append(epoch_of(rows, epoch=epoch))
    folder.mkdir(parents=True)
    folder.joinpath("study.json").write_text(study.model_dump_json())
    folder.joinpath("analysis.json").write_text(analyse(history, study, ended=Stop.BUDGET).model_dump_json())


@pytest.fixture
def audited(inside, tmp_path, monkeypatch):
    """`audited(fmt)`: what an audit prints of two setups that differ in TLS, with the record in `tmp_path`."""
    monkeypatch.setattr(record, "FOLDERS", (tmp_path / "record",))
    monkeypatch.chdir(tmp_path)
    for name, tls in (("a", "YES"), ("b", "DISABLED")):
        write(tmp_path / name, {"variables": [("have_ssl", tls), ("version", "8.0.31"), ("wait_timeout", "1")]}, "tabs")
        tmp_path.joinpath(name, "r.log").write_text(
            "sysbench 1.1.0\nNumber of threads: 1\n    transactions:                        9   (3.00 per sec.)\n"
        )
    return lambda form: inside("audit", "a", "b", "--format", form).out


def test_an_effect_size_comes_from_the_record_with_its_cell_and_place(audited, tmp_path):
    keep(tmp_path / "record" / "tls", [TLS], {("disabled",): 1.0, ("required",): 0.9})
    (found,) = json.loads(audited("json"))["differences"][0]["sizes"]
    assert (found["level"], found["over"], found["where"]) == ("required", "disabled", "tls")
    assert found["estimate"]["interval"]["low"] < math.log(0.9) < found["estimate"]["interval"]["high"]
    text = audited("text")
    place = "for required over disabled in oltp_point_select/4, docs/record/tls"
    assert re.search(rf"0\.\d+× \(0\.\d+ to 0\.\d+\) {place}", text), text
    assert "One run a cell shows no difference below" in text


def test_the_size_of_one_of_several_factors_is_its_main_effect(audited, tmp_path):
    rates = {
        (tls, ahi): (0.9 if tls == "required" else 1) * (0.8 if ahi == "OFF" else 1)
        for tls in TLS[1]
        for ahi in HASH[1]
    }
    keep(tmp_path / "record" / "both", [TLS, HASH], rates)
    (found,) = json.loads(audited("json"))["differences"][0]["sizes"]
    assert found["factor"] == "tls"
    assert found["estimate"]["mean"] == pytest.approx(math.log(0.9), abs=0.01)


def test_a_record_that_was_also_copied_for_a_wheel_counts_once(tmp_path, monkeypatch):
    folders = (tmp_path / "none", tmp_path / "record", tmp_path / "copy")
    monkeypatch.setattr(record, "FOLDERS", folders)
    for folder in folders[1:]:
        keep(folder / "tls", [TLS], {("disabled",): 1.0, ("required",): 0.9})
    assert (len(record.read_record().sizes), len(record.read_record().spreads)) == (1, 1)


def test_a_wheel_gets_the_record_as_it_is(tmp_path, monkeypatch):
    names = ("build_editable", "build_sdist", "build_wheel")
    names += ("get_requires_for_build_sdist", "get_requires_for_build_wheel")
    monkeypatch.setitem(sys.modules, "maturin", SimpleNamespace(**dict.fromkeys(names, lambda *_: "x.whl")))
    monkeypatch.chdir(tmp_path)
    old, command = Path("python/bakeoff/audit/record/old"), Path("python/bakeoff.data/scripts/bakeoff")
    old.mkdir(parents=True), command.parent.mkdir(parents=True), command.touch()
    Path("docs/record/new").mkdir(parents=True)
    Path("docs/record/new/study.json").touch()
    monkeypatch.delitem(sys.modules, "tools.build_backend", raising=False)
    monkeypatch.setenv("CARGO_PROFILE_RELEASE_STRIP", "debuginfo")
    import_module("tools.build_backend").build_wheel("dist")
    assert [each.name for each in old.parent.iterdir()] == ["new"]


@pytest.mark.parametrize("damage", [None, "study.json", "analysis.json"])
def test_sizes_are_absent_without_a_readable_record(audited, tmp_path, damage):
    if damage:
        keep(tmp_path / "record" / "tls", [TLS], {("disabled",): 1.0, ("required",): 0.9})
        tmp_path.joinpath("record", "tls", damage).write_text("{}")
    assert json.loads(audited("json"))["differences"][0]["sizes"] == []
    assert "docs/record does not yet say how far restarts spread" in audited("text")
