"""How a report describes a bisection: found, undecided, or nothing to be found."""

import html
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from screens import screen_of
from synthetic import Truth, duel_study, make_run

from bakeoff.errors import SpecError
from bakeoff.report import build_view, render_html, render_json
from bakeoff.report.charts import VERDICTS, picture_svg
from bakeoff.report.markdown import published_charts
from bakeoff.search.model import Search, Setting
from bakeoff.spec import parse_server
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Stop

OPTIONS = tuple(Setting(factor=f"option.{name}", good="1", bad="2", pairs=((name, "2"),)) for name in ("a", "b", "c"))


def built(root, study, effect, *, ended=Stop.ANSWERED):
    run = make_run(root, study, Truth(effect=effect, sd_restart=0.002, sd_slice=0.002), epochs=8, blocks=2)
    return build_view(run, analyse(list(run.load_epochs()), study, ended=ended))


def of_builds(names="ABCD"):
    study = duel_study(workloads=("oltp_read_only",), threads=(4,), control=False)
    first = study.arms[0]
    arms = tuple(first.model_copy(update={"name": name, "label": f"build {name}"}) for name in "ABCD")
    measured = tuple(arm for arm in (arms[0], arms[3], *arms[1:3]) if arm.name in names)
    return study.model_copy(update={"arms": measured, "question": Search(builds=arms)})


def of_options():
    study = duel_study(workloads=("oltp_read_only",), threads=(4,), control=False)
    values = {"A": (1, 1, 1), "B": (2, 2, 2), "C": (2, 1, 1), "D": (1, 2, 1)}
    arms = tuple(
        study.arms[0].model_copy(
            update={
                "name": name,
                "label": name,
                "server": parse_server("mysql:8.0.15").with_options(**dict(zip("abc", map(str, own), strict=True))),
            }
        )
        for name, own in values.items()
    )
    return study.model_copy(update={"arms": arms, "question": Search(settings=OPTIONS)})


def test_the_build_that_changed_is_named_with_its_ratio(tmp_path):
    view = built(tmp_path, of_builds(), {"C": math.log(0.9), "D": math.log(0.9)})
    assert view.question == "With which of 4 builds did the throughput change?"
    answer = view.summary[0]
    assert answer.startswith("The throughput changed with build C, with a probability of > 99.9%: −10")
    assert answer.endswith("from there on, against build A.")
    assert view.summary[1] == "This rests on 8 restarts of the baseline and one other arm."
    rows = [[value.text for value in row.values] for row in view.tables["bisection"].rows]
    assert rows[0] == ["build A", "good", "8", "–"] and rows[2][3] == "> 99.9%"
    assert view.conditions and view.conditions in render_html(view)
    assert view.verdicts == () and answer in html.unescape(render_html(view).replace("<wbr>", ""))
    assert list(published_charts(view)) == ["time-0"], "no chart of verdicts"
    document = json.loads(render_json(view))
    assert document["bisection"]["named"] == ["build C"] and "gate" not in document


def test_a_bisection_has_no_chart_of_verdicts(tmp_path):
    view = built(tmp_path, of_builds(), {"C": math.log(0.9), "D": math.log(0.9)})
    with pytest.raises(SpecError, match="'verdicts' is not a chart") as caught:
        picture_svg(view, VERDICTS)
    assert VERDICTS not in caught.value.hint and all(panel.id in caught.value.hint for panel in view.panels)


def test_the_screen_has_the_builds(tmp_path, snapshot):
    view = built(tmp_path, of_builds(), {"C": math.log(0.9), "D": math.log(0.9)})
    assert screen_of(view) == snapshot
    assert screen_of(view, 120) == snapshot


def test_an_epoch_without_events_does_not_change_the_answer(tmp_path):
    study, effect = of_builds(), {"C": math.log(0.9), "D": math.log(0.9)}
    run = make_run(tmp_path, study, Truth(effect=effect, sd_restart=0.002, sd_slice=0.002), epochs=8, blocks=2)
    epochs = list(run.load_epochs())
    slices = epochs[6].slices
    idle = slices.with_columns(events=np.where(slices["arm"] == "D", 0, slices["events"]))
    epochs[6] = replace(epochs[6], slices=idle)
    view = build_view(run, analyse(epochs, study, ended=Stop.ANSWERED))
    assert view.conclusion.document.named == ("build C",)
    rows = [[value.text for value in row.values] for row in view.tables["bisection"].rows]
    assert [row[2] for row in rows] == ["8", "8", "8", "7"]


def test_an_undecided_bisection_names_a_range_of_builds(tmp_path):
    view = built(tmp_path, of_builds("AD"), {"D": math.log(0.9)}, ended=Stop.BUDGET)
    assert "Not decided" in view.summary[0] and "is one from build B to build D." in view.summary[0]
    assert view.conclusion.document.named is None


def test_a_build_that_could_not_be_measured_has_no_ratio(tmp_path):
    effect = {"C": math.log(0.9), "D": math.log(0.9)}
    run = make_run(
        tmp_path, of_builds("ACD"), Truth(effect=effect, sd_restart=0.002, sd_slice=0.002), epochs=8, blocks=2
    )
    study = of_builds()
    run.write_json("study.json", study)
    view = build_view(run, analyse(list(run.load_epochs()), study, ended=Stop.ANSWERED))
    assert {row.values[0].text for row in view.tables["latency"].rows} == {"build A", "build C", "build D"}
    assert "build B" in render_html(view)
    assert json.loads(render_json(view))["bisection"]["named"] == ["build B", "build C"]
    assert "changed with build C, or with build B before it, which could not be measured, " in view.summary[0]


def test_where_nothing_changed_there_is_nothing_to_be_found(tmp_path):
    view = built(tmp_path, of_builds("AD"), {})
    assert view.summary[0] == "Nothing to be found: the last build is as fast as build A within ±1%."
    assert view.conclusion.document.nothing and view.conclusion.document.named == ()


def test_the_guilty_options_are_named_with_what_they_do(tmp_path):
    view = built(tmp_path, of_options(), {"B": math.log(0.9), "C": math.log(0.9)})
    assert view.summary[0].startswith("1 of 3 settings explains the difference of −10")
    whole, option = re.search(r"difference of (−10\.\d+%) .*: a \((−(?:9|10)\.\d+%)\)\.$", view.summary[0]).groups()
    rows = [[value.text for value in row.values] for row in view.tables["bisection"].rows]
    assert rows[0][:2] == ["a: 1 → 2", "yes"] and [row[1] for row in rows[1:]] == ["no", "no"]
    assert rows[0][2] == option and len(option.partition(".")[2]) == len(whole.partition(".")[2])
