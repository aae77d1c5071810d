"""Captures in studies, without a server: their names, what is refused, how their slices are judged."""

import os

import pytest

from bakeoff.errors import SpecError
from bakeoff.plan.factorial import make_study
from bakeoff.replay import command as replay
from bakeoff.replay.captures import make_capture
from bakeoff.replay.measuring import capture_facts
from bakeoff.replay.workload import is_capture
from bakeoff.results import RunDirectory
from bakeoff.results.epoch_data import SLICE_SCHEMA
from bakeoff.results.frame import Frame
from bakeoff.run.epoch import _now_and_then
from bakeoff.run.measuring import resolved
from bakeoff.run.resume import resumed_study
from bakeoff.spec.study import Data
from bakeoff.spec.study_file import read_study
from bakeoff.stats.estimate import _carry_over, with_rates


@pytest.mark.parametrize(
    ("schemas", "database"),
    [
        (["", "shop", "mysql"], "shop"),
        (["mysql", "Information_Schema", "shop"], "shop"),
        (["Kunden \u00e4", "shop"], "shop"),
        (["sys"], ""),
    ],
)
def test_the_database_is_the_first_ordinary_user_schema(schemas, database):
    assert replay._schema_of({"digests": [{"schema": schema} for schema in schemas]}) == database


STUDY = """title: shop
servers: [{servers}]
workloads:
  - {{script: shop.capture, speed: 2{more}}}
"""


def made(folder, *lines):
    (folder / "shop.sql").write_text("".join(f"{line};\n" for line in lines))
    logs = [str(folder / "shop.sql")]
    make_capture(logs, folder / "shop.capture", redact=False, log_format=None, on_progress=lambda _done, _total: None)
    return folder / "shop.capture"


def study_of(folder, servers="mysql:8.0.15, mysql:8.0.33", more=""):
    (folder / "shop.yaml").write_text(STUDY.format(servers=servers, more=more))
    return make_study(read_study(folder / "shop.yaml"), seed=1)


def test_a_capture_beside_the_study_is_found_and_checked_for_writes(tmp_path):
    path = made(tmp_path, "SELECT 1", "SHOW TABLES")
    assert is_capture(str(path))
    assert not is_capture(str(tmp_path / "shop.sql"))
    assert not is_capture("oltp_read_only")
    (workload,) = resolved(study_of(tmp_path)).workloads
    assert (workload.script, workload.speed, workload.writes) == (str(path), 2.0, False)
    capture_facts.cache_clear()
    made(tmp_path, "SELECT 1", "DELETE FROM t")
    (workload,) = resolved(study_of(tmp_path)).workloads
    assert workload.writes is True
    urls = "'mysql://root@db1/', 'mysql://root@db2/'"
    (workload,) = resolved(study_of(tmp_path, urls)).workloads
    assert workload.writes is False
    with pytest.raises(SpecError, match=r"shop\.yaml:4: .*only the reads of a capture are replayed"):
        study_of(tmp_path, urls, ", writes: true")


def test_a_capture_run_resumes_with_the_study_it_was_started_with(tmp_path):
    made(tmp_path, "SELECT 1", "DELETE FROM t")
    asked = study_of(tmp_path)
    run = RunDirectory.create(tmp_path, resolved(asked))
    assert resumed_study(run, budget_s=None, asked=asked) == run.study()
    begun, asked = (
        asked.model_copy(
            update={"arms": tuple(arm.model_copy(update={"data": Data(source=place)}) for arm in asked.arms)}
        )
        for place in ("/var/cache/taken", "mysql://root@db1/shop")
    )
    run = RunDirectory.create(tmp_path, resolved(begun))
    assert resumed_study(run, budget_s=None, asked=asked) == run.study()
    with pytest.raises(SpecError, match="started with another study: threads differ"):
        resumed_study(run, budget_s=None, asked=asked.model_copy(update={"threads": (7,)}))


def test_unequal_chunks_are_not_taken_for_carry_over():
    def slices(events):
        rows = []
        for block in range(40):
            order = "ABBA" if block % 3 else "BAAB"
            for position, arm in enumerate(order):
                number = 2 * block + position // 2
                # The second chunk of a block takes three times as long as the first, on both arms.
                busy_ns = 100_000_000 * (1 + 2 * (number % 2)) + 1_000 * (block * 7919 % 13)
                start_ns = (4 * block + position) * 10**9
                rows.append(
                    {"cell": "x/1", "arm": arm, "block": block, "position": position, "start_ns": start_ns,
                     "length_ns": busy_ns, "busy_ns": busy_ns, "connections": 1, "events": events(number, position)}
                )  # fmt: skip
        return with_rates(Frame.of_rows(rows, {name: SLICE_SCHEMA[name] for name in rows[0]}))

    same_work, _ = _carry_over(slices(lambda number, _: 100 + number % 5))
    assert max(map(abs, same_work.values())) < 0.001
    own_work, _ = _carry_over(slices(lambda number, position: 100 + number % 5 + position))
    assert max(map(abs, own_work.values())) > 0.3


def test_checks_after_many_short_slices_are_throttled(monkeypatch):
    clock_s, asked = [0.0], []
    monkeypatch.setattr("bakeoff.run.epoch.time.monotonic", lambda: clock_s[0])

    def is_warm(slices):
        asked.append(len(slices))
        return len(slices) >= 2500

    ask = _now_and_then(is_warm)
    for count in range(1, 5000):
        clock_s[0] += 0.001
        if ask([{}] * count):
            break
    assert len(asked) == 25 and 2500 <= asked[-1] < 2600


@pytest.mark.parametrize("stem", ["general", "größe (1)"])
def test_the_capture_of_a_log_is_private_and_a_single_session_is_explained(inside, shell, stem):
    head = "mysqld, Version: 8.0.15 (x). started with:\nTcp port: 0  Unix socket: x\nTime  Id Command    Argument\n"
    lines = [f"2026-11-23T10:00:0{n}.000000Z\t    {1 + n % 2} Query\tSELECT {n}\n" for n in range(6)]
    (shell.folder / f"{stem}.log").write_text(head + "".join(lines))
    command = ("replay", f"{stem}.log", "mysql:8.0.15", "mysql:5.7.22", "--dry-run")
    ran = inside(*command)
    assert ran.code == 0, ran
    (capture,) = (shell.folder / "runs" / "captures").glob(f"{stem}-*.capture")
    assert capture.stat().st_mode & 0o777 == 0o600
    assert capture.name in ran.err and "runs prune" in ran.err
    assert "one session, because no two statements" in " ".join(ran.err.split())
    assert "one session" not in inside(*command, "--threads", "2").err
    assert inside(*command, "--quiet").err == ""


def test_a_log_whose_name_is_not_utf_8_is_refused(inside, shell):
    name = os.fsdecode(b"caf\xe9.sql")
    (shell.folder / name).write_text("SELECT 1;\n")
    ran = inside("replay", name, "mysql:5.7.22", "mysql:8.0.15", "--dry-run")
    assert ran.code == 2 and "is not UTF-8" in ran.complaint
    assert not list(shell.folder.glob("**/*.capture"))
