import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bakeoff import units
from bakeoff.errors import SpecError


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("4m", 240), ("1h30m", 5400), ("250ms", 0.25), ("1.5h", 5400)]
)
def test_durations_are_read_as_people_write_them(text, seconds):
    assert units.parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "m", "4 parsecs", "-3s", "0", "4m later", "1 min 30"])
def test_what_is_not_a_duration_is_refused_with_an_example(text):
    with pytest.raises(SpecError, match="is not") as caught:
        units.parse_duration_s(text)
    assert "1h30m" in caught.value.hint


def test_precision_is_a_log_ratio():
    assert units.parse_precision("1%") == pytest.approx(math.log(1.01))
    assert units.parse_precision("0.5 %") == pytest.approx(math.log(1.005))
    assert units.parse_precision("0.01") == units.parse_precision("1%")


@pytest.mark.parametrize("text", ["", "wide", "0%", "99%", "1", "-1%"])
def test_precision_out_of_range_is_refused(text):
    with pytest.raises(SpecError, match=r"percentage|outside"):
        units.parse_precision(text)


@pytest.mark.parametrize(("text", "count"), [("4096", 4096), ("128M", 128 << 20), ("2g", 2 << 30), ("1GiB", 1 << 30)])
def test_sizes_are_powers_of_1024_as_mysqld_reads_them(text, count):
    assert units.parse_bytes(text) == count


@given(st.floats(min_value=1, max_value=1e12))
@example(999_600.0)
def test_a_latency_keeps_three_digits_whatever_the_unit(nanoseconds):
    number, unit = units.format_ns(nanoseconds).split()
    scale = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]
    assert float(number) * scale == pytest.approx(nanoseconds, rel=0.006)
    assert "e" not in number


@pytest.mark.parametrize(("seconds", "text"), [(45, "45 s"), (200, "3 min 20 s"), (7500, "2 h 5 min"), (120, "2 min")])
def test_durations_are_formatted_in_at_most_two_units(seconds, text):
    assert units.format_duration(seconds) == text


@given(st.integers(min_value=1, max_value=3599) | st.integers(min_value=60, max_value=40_000).map(lambda n: n * 60))
def test_a_duration_can_be_typed_as_it_reads(seconds):
    assert units.parse_duration_s(units.format_duration(seconds)) == seconds
