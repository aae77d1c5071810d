"""Fractional designs: resolution, balance, which studies get one, and how the report describes them."""

from itertools import combinations

import pytest

from bakeoff.errors import SpecError
from bakeoff.plan.factorial import generators, make_study, points, words
from bakeoff.spec.study_file import read_study


@pytest.mark.parametrize(
    ("count", "runs", "resolution"),
    [(4, 8, 4), (5, 16, 5), (6, 16, 4), (7, 16, 4), (8, 16, 4), (9, 32, 4), (16, 32, 4)],
)
def test_the_smallest_fraction_with_at_least_resolution_four_is_chosen(count, runs, resolution):
    chosen = generators(count)
    basic = count - len(chosen)
    made = points(chosen, basic)
    assert len(set(made)) == len(made) == runs
    assert made[0] == (0,) * count
    assert min(word.bit_count() for word in words(chosen, basic)) == resolution
    # Any two factors have all four combinations of levels equally often, so no main effect is mixed with another.
    for first, second in combinations(range(count), 2):
        seen = [(point[first], point[second]) for point in made]
        assert {seen.count(corner) for corner in ((0, 0), (0, 1), (1, 0), (1, 1))} == {runs // 4}
    for word in words(chosen, basic):
        assert {sum(point[at] for at in range(count) if word >> at & 1) % 2 for point in made} == {0}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_three_factors_or_fewer_have_no_fraction(count):
    assert generators(count) == ()


FACTORS = """\
  prepare_mode: [client, server]
  transport: [socket, tcp]
  tls: [disabled, required]
  option.innodb_adaptive_hash_index: ["ON", "OFF"]
  option.innodb_flush_neighbors: ["0", "1"]
  row_format: [dynamic, compact]
"""


def study_of(folder, *, factors=FACTORS, more="", servers='["mysql:8.0.15"]'):
    (folder / "my.yaml").write_text(
        f"title: many\nservers: {servers}\nworkloads: [oltp_read_only]\nthreads: [4]\n{more}factors:\n{factors}"
    )
    return make_study(read_study(folder / "my.yaml"), seed=1)


def test_six_factors_get_a_fraction_and_the_aliases_are_named(tmp_path):
    study = study_of(tmp_path)
    fraction = study.design.fraction
    assert (len(study.arms), fraction.measured, fraction.complete, fraction.resolution) == (16, 16, 64, 4)
    assert study.design.levels["A"] == ("mysql:8.0.15", "client", "socket", "disabled", "ON", "0", "dynamic")
    groups = fraction.mixed_pairs()
    assert sum(map(len, groups)) == 15 and len(groups) == 7
    first, second = groups[0][:2]
    assert fraction.mixed_with(*first)[0] == second
    said = " ".join(fraction.sentences())
    assert "16 of 64 combinations, of resolution IV" in said
    assert f"{first[0]} × {first[1]} = {second[0]} × {second[1]}" in said


def test_five_factors_keep_two_factor_interactions_distinct(tmp_path):
    fraction = study_of(tmp_path, factors="".join(FACTORS.splitlines(keepends=True)[:5])).design.fraction
    assert (fraction.measured, fraction.complete, fraction.resolution) == (16, 32, 5)
    assert all(len(group) == 1 for group in fraction.mixed_pairs())
    assert "cannot be distinguished" not in " ".join(fraction.sentences())


def test_all_combinations_are_measured_if_asked_or_with_four_factors(tmp_path):
    assert len(study_of(tmp_path, more="design: full\n").arms) == 64
    four = "".join(FACTORS.splitlines(keepends=True)[:4])
    assert (len(study_of(tmp_path, factors=four).arms), study_of(tmp_path, factors=four).design.fraction) == (16, None)
    half = study_of(tmp_path, factors=four, more="design: fraction\n")
    assert (len(half.arms), half.design.fraction.resolution) == (8, 4)


def test_factors_with_three_levels_or_in_where_are_fully_crossed(tmp_path):
    where = 'where: [{not: {server: "mysql:5.7.22", transport: tcp}}]\n'
    study = study_of(tmp_path, servers='["mysql:8.0.15", "mysql:5.7.22"]', more=where)
    fraction = study.design.fraction
    assert "transport" not in fraction.factors and "server" not in fraction.factors
    assert (fraction.measured, fraction.complete) == (16 * 3, 32 * 3)
    three = FACTORS + "  collation: [latin1_swedish_ci, utf8mb4_bin, utf8mb4_general_ci]\n"
    study = study_of(tmp_path, factors=three)
    assert len(study.arms) == 16 * 3 and study.design.excluded == 0


def test_asking_for_an_impossible_fraction_is_an_error_with_its_line(tmp_path):
    with pytest.raises(SpecError, match=r"my.yaml:5: design: 2 two-level factors have no fraction of resolution IV"):
        study_of(tmp_path, factors="".join(FACTORS.splitlines(keepends=True)[:2]), more="design: fraction\n")
