"""Lists of commands, workloads and options, and what a duel would take."""

import io
import json
import subprocess
import sys
from datetime import timedelta

import pytest
from synthetic import duel_study, make_run

from bakeoff.engine import describe_workloads
from bakeoff.results import RunDirectory
from bakeoff.servers import free_cache
from bakeoff.servers.paths import cache_root, locked
from tests.conftest import is_installed

COMMANDS = (
    "duel",
    "gate",
    "bisect",
    "replay",
    "run",
    "plan",
    "report",
    "explain",
    "compare",
    "history",
    "capture",
    "list",
    "doctor",
    "cluster",
    "server",
    "runs",
    "cache",
    "sysbench",
)
HEAVY = {"arro3", "numpy", "pydantic", "ray"}


def test_the_help_names_every_command_and_imports_none_of_them(inside):
    ran = inside("--help")
    assert ran.code == 0
    assert all(f"\n  {name} " in ran.out for name in COMMANDS if is_installed(name))
    code = f"import sys, bakeoff.cli.main as m; m.run(['--help']); assert not {HEAVY!r} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_workloads_are_listed_with_a_description(inside):
    lines = inside("list", "workloads").out.splitlines()
    for workload in describe_workloads():
        (line,) = [line for line in lines if line.split()[:1] == [workload["name"]]]
        assert len(line.split()) > 4


@pytest.mark.parametrize(("words", "found"), [("du", "duel"), ("duel --pre", "--precision"), ("server ins", "install")])
def test_the_shell_completes_commands_and_options(shell, words, found):
    asked = {"_BAKEOFF_COMPLETE": "bash_complete", "COMP_WORDS": f"bakeoff {words}"}
    env = shell.env | asked | {"COMP_CWORD": str(len(words.split()))}
    ran = subprocess.run(shell.command, env=env, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [f"plain,{found}"]


def test_a_dry_run_says_what_it_would_take_and_starts_nothing(shell, inside):
    ran = inside("duel", "mysql:8.0.15", "mysql:8.0.15,sort_buffer_size=1M", "--dry-run", "--budget", "20s")
    assert "1 (oltp_read_only/4)" in ran.out and "20 s is too small; a verdict takes about 1 min" in ran.out
    assert (ran.code, "Give --budget 75s or more" in ran.complaint) == (2, True), "as the run would"
    assert inside("duel", "mysql:8.0.15", "mysql:8.0.15", "--dry-run", "--budget", "20s", "--no-verdict").code == 0
    assert shell.runs == []
    assert inside("duel", "mysql:8.0.15", "mysql:8.0.15", "--fail-on", "faster").code == 2


def test_a_list_of_installed_servers_may_be_empty(inside, monkeypatch):
    monkeypatch.setattr("bakeoff.cli.listing.is_installed", lambda _entry: False)
    listed = inside("server", "list", "-v")
    assert listed.code == 0 and listed.out.strip() == "no servers yet"
    assert json.loads(inside("server", "list", "-v", "--format", "json").out) == []


def test_one_workload_is_listed_with_its_options(inside):
    lines = inside("list", "workloads", "oltp_read_only").out.splitlines()
    assert [line.split()[:2] for line in lines if line.split()[:1] == ["range_size"]] == [["range_size", "100"]]
    assert inside("list", "runs", "oltp_read_only").complaint.endswith("Try `bakeoff list runs`.")


def test_a_script_that_requires_a_command_is_listed_with_its_list_options(inside, tmp_path):
    script = tmp_path / "tenants.lua"
    script.write_text(
        'if not sysbench.cmdline.command then error("Command is required") end\n'
        'sysbench.cmdline.options = { tenants = { "Tenants", { "red", "blue" } },\n'
        '  sizes = { "Sizes", nil, sysbench.cmdline.ARG_LIST } }\n'
        "function event() end\n"
    )
    lines = inside("list", "workloads", str(script)).out.splitlines()
    assert [line.split() for line in lines[1:]] == [["sizes", "-", "Sizes"], ["tenants", "red,blue", "Tenants"]]


@pytest.mark.needs("replay")  # it deletes captures too
def test_runs_are_deleted_by_name_or_pruned_to_the_newest(tmp_path, monkeypatch, inside):
    paths = [make_run(tmp_path, duel_study(), epochs=1, name=f"run-{number}").path for number in range(3)]
    listed = json.loads(inside("list", "runs", "--runs", str(tmp_path), "--format", "json").out)
    (size,) = (run["size"] for run in listed if run["name"] == "run-1")
    removed = inside("runs", "rm", "run-1", "--runs", str(tmp_path))
    freed = f"run-1 deleted, {size} freed\n"
    assert (removed.code, removed.out, paths[1].exists()) == (0, freed, False), removed
    (paths[0] / "manifest.json").write_text("{")  # a damaged one is deleted, too
    assert inside("runs", "rm", str(paths[0]), "--runs", str(tmp_path)).code == 0
    with RunDirectory(paths[2]).hold():
        assert inside("runs", "rm", "latest", "--runs", str(tmp_path)).complaint.endswith("by another bakeoff.")
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    unanswered = inside("runs", "prune", "--keep", "0", "--runs", str(tmp_path))
    assert (unanswered.code, paths[2].exists()) == (2, True), unanswered
    captures = [tmp_path / "captures" / f"shop-{number}.capture" for number in "12"]
    captures[0].parent.mkdir()
    for capture in captures:
        capture.write_bytes(b"x")
    study = paths[2] / "study.json"
    study.write_text(study.read_text().replace("oltp_read_only", str(captures[0])))
    with locked("capture-2"):  # by a replay that is about to begin
        assert inside("runs", "prune", "--keep", "1", "--yes", "--runs", str(tmp_path)).out == ""
    pruned = inside("runs", "prune", "--keep", "1", "--yes", "--runs", str(tmp_path))
    assert (pruned.out.splitlines(), captures[0].exists()) == (["shop-2.capture deleted, 4.1 kB freed"], True)
    nothing = inside("runs", "prune", "--keep", "1", "--runs", str(tmp_path))
    assert (nothing.code, nothing.out) == (0, "nothing to delete; runs that stay: 1\n")
    assert inside("runs", "prune", "--keep", "0", "--yes", "--runs", str(tmp_path)).code == 0
    assert not paths[2].exists() and not captures[0].exists()


def test_a_folder_that_is_not_a_run_is_not_deleted(tmp_path, monkeypatch, inside):
    extension = tmp_path / "extension"
    extension.mkdir()
    (extension / "manifest.json").write_text('{"manifest_version": 3, "name": "tabs"}')
    monkeypatch.chdir(extension)
    for name, why in ((str(extension), "is not a run of bakeoff"), ("", "a name is empty"), (".", "is not a run")):
        ran = inside("runs", "rm", name)
        assert (ran.code, why in ran.complaint, extension.exists()) == (2, True, True), ran
    pruned = inside("runs", "prune", "--keep", "0", "--yes", "--runs", str(tmp_path))
    assert (pruned.code, pruned.out, extension.exists()) == (0, "nothing to delete; runs that stay: 0\n", True), pruned


@pytest.mark.parametrize("damage", ["epochs/000/outcome.json", "manifest.json"])
def test_damage_does_not_change_the_age_of_a_run(tmp_path, inside, damage):
    """By its manifest; when that cannot be read, by its name."""
    older = make_run(tmp_path, duel_study(), epochs=1, name="z-20261121T201500Z-0001")
    newer = make_run(tmp_path, duel_study(), epochs=1, name="a-20261122T201500Z-0002")
    later = newer.manifest().model_copy(update={"created_at": older.manifest().created_at + timedelta(days=1)})
    newer.write_json("manifest.json", later)
    (newer.path / damage).write_text("{")
    assert inside("runs", "prune", "--keep", "1", "--yes", "--runs", str(tmp_path)).code == 0
    assert (older.path.exists(), newer.path.exists()) == (False, True)


def test_cache_prune_removes_what_can_be_rebuilt(tmp_path, monkeypatch, inside):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    template, server = (tmp_path / "bakeoff" / part / "mysql-8.0.15" for part in ("templates", "servers"))
    broken = server.with_name("docker-0123456789abcdef")
    broken.mkdir(parents=True)
    for folder in (template, server):
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(b"x" * 10**6)
    (server / "bakeoff-installation.json").write_text("{}")
    pruned = inside("cache", "prune")
    assert pruned.out.startswith("1 MB freed; ") and " has 1.0" in pruned.out, pruned
    assert (template.exists(), server.exists()) == (False, True)
    being_made = server.with_name(".mysql-9.7.0.abcd1234")
    being_made.mkdir()
    with locked("mysql-9.7.0"):
        assert inside("cache", "prune", "--all").code == 0
    assert not server.exists() and not broken.exists() and being_made.exists()


def test_data_that_another_bakeoff_has_taken_is_not_pruned(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    held, free = (cache_root() / "dumps" / name for name in ("held", "free"))
    for folder in (held, free):
        folder.mkdir(parents=True)
    code = "from bakeoff.servers.paths import share; share('held'); print('shared', flush=True); input()"
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "shared\n"
    free_cache(servers=False)
    assert (held.exists(), free.exists()) == (True, False)
    other.communicate("\n")
    free_cache(servers=False)
    assert not held.exists()
