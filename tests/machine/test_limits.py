"""How limits on a server's share of the machine are written."""

import pytest

from bakeoff.errors import SpecError
from bakeoff.spec import parse_server
from bakeoff.spec.factors import ArmParts, check_level, fields_set_by
from bakeoff.spec.machine import PRESETS, Storage, check_machine, machine_of
from bakeoff.spec.study_file import level_text


def storage_of(text):
    return parse_server(f"mysql:8.0,{text}").machine.storage


def test_a_limit_holds_for_reads_and_writes_unless_one_has_its_own():
    assert storage_of("storage.iops=10000,storage.write_iops=500") == Storage(read_iops=10_000, write_iops=500)
    assert storage_of("storage.bandwidth=125M").limits == dict.fromkeys(
        ("read_bandwidth", "write_bandwidth"), 125 << 20
    )


def test_an_explicit_limit_overrides_the_preset():
    assert storage_of("storage=gp3,storage.read_iops=9") == Storage(9, 3000, 125 << 20, 125 << 20)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_read_and_names_its_source(name):
    check_machine("storage", name)
    for limit in PRESETS[name].keys() - {"source"}:
        check_machine(f"storage.{limit}", PRESETS[name][limit])
    assert machine_of([("storage", name)]).storage.limits
    assert PRESETS[name]["source"]


def test_server_names_with_limits_round_trip():
    text = "mysql:8.0,innodb_flush_method=fsync,env.X=1,storage.iops=100,data_dir=/mnt/a,memory=2G,cpus=4,thp=never"
    assert str(parse_server(text)) == text
    machine = parse_server(text).machine
    assert (machine.data_dir, machine.memory_bytes, machine.cpus, machine.thp) == ("/mnt/a", 2 << 30, 4, "never")


def test_every_whole_number_of_milliseconds_is_a_latency():
    for latency_ms in range(1, 1000):
        parsed = parse_server(f"mysql:8.0,storage.latency={latency_ms}ms")
        assert parsed.machine.storage.latency_ms == latency_ms


def test_limits_are_not_recorded_if_unset():
    assert "limits" not in parse_server("mysql:8.0").model_dump(mode="json")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mysql:8.0,storage=gp4", "Did you mean gp3"),
        ("mysql:8.0,storage.iops=0", "not a whole number above zero"),
        ("mysql:8.0,storage.latency=0.5ms", "whole milliseconds"),
        ("mysql:8.0,storage.bandwidth=12", "too small"),
        ("mysql:8.0,cpus=1,cpus=2", "appears twice"),
        ("mysql:8.0,memory=2", "too little"),
        ("mysql:8.0,data_dir=mnt", "absolute"),
        ("mysql:8.0,file_system=zfs", "ext4, xfs, btrfs"),
        ("mysql://root@db/,memory=2G", "does not start its process"),
        ("docker:mysql:8,cpus=2", "does not start its process"),
    ],
)
def test_a_mistake_is_one_line(text, said):
    with pytest.raises(SpecError) as error:
        parse_server(text)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_study_writes_limits_as_a_mapping():
    level = level_text({"iops": 10000, "latency": "2ms"})
    check_level("storage", level)
    parts = ArmParts()
    parts.apply({"server": "mysql:8.0", "storage": level, "memory": "1G"})
    assert parts.server.machine.storage == Storage(10_000, 10_000, latency_ms=2)
    assert parts.server.machine.memory_bytes == 1 << 30


def test_unlimited_storage_equals_no_limit():
    parts = ArmParts()
    parts.apply({"server": "mysql:8.0", "storage": "unlimited"})
    assert parts.server == parse_server("mysql:8.0")


def test_an_unknown_limit_of_storage_is_named():
    with pytest.raises(SpecError, match=r"no limit 'iop'.*"):
        check_level("storage", level_text({"iop": 1}))


def test_limits_in_the_server_name_and_the_study_set_the_same_field():
    assert fields_set_by("memory", "2G")[0] in fields_set_by("server", "mysql:8.0,memory=1G")
