"""The catalogue as a history of versions: order, one line, one run."""

from synthetic_history import BEGIN, nights

from bakeoff.history.page import lines_of
from validation import __main__ as program
from validation.histories import KINDS, Kind, by_bakeoff, judge, published_table, read_published, simulate
from validation.versions import in_order, versions_of


def test_the_contenders_of_one_run_are_points_of_one_line_in_order():
    names = versions_of("mysql", but="mysql:8.0.15")
    assert names[0].startswith("mysql:5.5") and "mysql:8.0.15" not in names
    measured = [
        point.model_copy(update={"at": BEGIN, "run": "one", "contender": name, "cell": cell})
        for cell in ("a/4", "b/4")
        for point, name in zip(nights(count=len(names)), names, strict=True)
    ]
    lines = lines_of(sorted(in_order(measured), key=lambda point: point.at), alpha=0.05)
    assert [[point.commit for point in line.points] for line in lines] == [[name[6:] for name in names]] * 2


def test_a_duel_that_fails_is_one_line(tmp_path, capsys):
    none = "mysql:nonsense"
    words = ["versions", "--reference", none, "--server", none, "--history", str(tmp_path / "v.db")]
    assert program.run([*words, "--runs", str(tmp_path)]) == 4
    assert capsys.readouterr().err == "validation: the duel ended with exit code 2. Its messages are above.\n"


def test_what_is_found_is_judged_by_the_truth():
    kind = Kind("a step", steps=((10, -0.02),), series=2)
    judged = judge(kind, "x", [[[10], []], [[11], []], [[12], []], [[10], [3]], [[], []]])
    assert (judged.any_false, judged.right) == (2 / 5, 3 / 5)
    stationary = judge(KINDS[0], "x", [[[]], [[4]]])
    assert stationary.any_false == 0.5


def test_a_single_bad_run_is_no_change_and_hides_none():
    for kind in KINDS[-2:]:
        judged = judge(kind, "bakeoff", by_bakeoff(simulate(kind, seed=2, runs=20)))
        assert judged.any_false <= 0.15 and judged.right >= 0.9


def test_published_series_change_where_their_authors_say():
    series = read_published()
    assert [len(each.values) for each in series] == [365, 173, 132]
    heading, _, *rows = published_table(others=False)
    assert heading == "| series | points | its authors | bakeoff |"
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    found = [[int(place) for place in each[-1].split(", ") if place != "none"] for each in cells]
    assert all(min(abs(at - place) for at in found[0]) <= 1 for place in series[0].said)
    assert found[2] == []
