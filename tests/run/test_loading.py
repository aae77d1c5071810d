"""Loading, with a fake engine and fake servers."""

import threading
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from messages import study

from bakeoff.errors import ServerError
from bakeoff.results import RunDirectory
from bakeoff.run import loading, runner
from bakeoff.run.arms import ArmSetup
from bakeoff.run.kept_loads import CannotGoOnError
from bakeoff.run.loading import Loader
from bakeoff.servers import ServerPool
from bakeoff.spec import parse_server
from bakeoff.stats.progress import Listener


class Pool:
    """Makes servers that do nothing, and remembers their names; kills them as the real one does."""

    killed_once = ServerPool.killed_once

    def __init__(self, kind=None):
        self.made, self.removed, self._instances = [], [], []
        self._kind = kind or Server

    def create(self, name, *_, **__):
        self.made.append(name)
        self._instances.append(self._kind(name, self.removed))
        return self._instances[-1]


class Server:
    def __init__(self, name, removed):
        self.name, self._removed = name, removed

    def start(self):
        pass

    def remove(self, **_):
        self._removed.append(self.name)

    def kill(self):
        pass


class Engine:
    """Does what `during` says while it loads."""

    def __init__(self, during):
        self._during, self.loads, self.seeds = during, 0, []

    def open(self, _arms):
        pass

    def command(self, *_, seed, **__):
        self.loads += 1
        self.seeds.append(seed)
        self._during()


@pytest.fixture
def pretended(monkeypatch):
    monkeypatch.setattr(loading, "_create_database", lambda *_: None)
    monkeypatch.setattr(loading, "address_of", lambda *_, **__: None)
    monkeypatch.setattr(loading, "script_options", lambda *_: {})
    monkeypatch.setattr(loading, "arm_options", lambda *_: {})
    monkeypatch.setattr(ArmSetup, "table_engine", "innodb")


def setups():
    return [ArmSetup(arm, installation=object(), settings=object()) for arm in study().arms]


def test_an_interrupted_load_is_not_kept_and_no_other_starts(tmp_path, pretended):
    stop, pool, run = threading.Event(), Pool(), RunDirectory.create(tmp_path, study())
    engine = Engine(stop.set)
    loader = Loader(study(), pool, run, Listener(), engine, stop)
    with pytest.raises(KeyboardInterrupt):
        loader.load_all(setups())
    # Two servers may have started together; the engine fills one at a time.
    assert engine.loads == 1
    assert sorted(pool.made) == sorted(pool.removed)
    assert not (run.path / "builds").exists()
    assert not (run.path / "rows").exists()


@pytest.mark.parametrize("failure", [CannotGoOnError("the server cannot use it"), ServerError("it was killed")])
def test_stopping_a_recovering_server_is_not_a_failure_and_keeps_its_load(tmp_path, monkeypatch, failure):
    """Crash recovery may take an hour; the next run continues it."""

    class Recovering(Server):
        def __init__(self, *given):
            super().__init__(*given)
            self.killed, self.kept = threading.Event(), None

        def kill(self):
            self.killed.set()

        def remove(self, *, keep_files=False):
            self.kept = keep_files

    def start(server):
        stop.set()
        assert server.killed.wait(30)
        raise failure

    stop, pool, run = threading.Event(), Pool(Recovering), RunDirectory.create(tmp_path, study())
    kept = SimpleNamespace(home=tmp_path, start=start, write=lambda: None)
    loader = Loader(study(), pool, run, Listener(), Engine(None), stop)
    monkeypatch.setattr(Loader, "_load", lambda self, setup, build, **_: self._filled(setup, build, kept))
    with pytest.raises(KeyboardInterrupt):
        loader.load_further(setups()[0], 0, setups=setups())
    assert [server.kept for server in pool._instances] == [True]


def test_nothing_is_loaded_after_a_stop(tmp_path, pretended):
    stop, pool = threading.Event(), Pool()
    stop.set()
    loader = Loader(study(), pool, RunDirectory.create(tmp_path, study()), Listener(), Engine(None), stop)
    with pytest.raises(KeyboardInterrupt):
        loader.load_all(setups())
    assert pool.made == []


def test_the_huge_pages_of_one_arm_concern_every_server_started_here(monkeypatch):
    baseline, contender, *_ = study().arms
    limited = contender.model_copy(update={"server": parse_server("mysql:8.0,thp=always")})
    running = contender.model_copy(update={"name": "C", "server": parse_server("mysql://root@localhost/")})
    loader, asked = MagicMock(), []
    loader.study = study().model_copy(update={"arms": (baseline, limited, running)})
    monkeypatch.setattr(runner.machine, "require", lambda machines, _root: asked.extend(each.thp for each in machines))
    runner.load(loader, (), SimpleNamespace(at_once=3, servers=3))
    assert asked == ["", "always"]
    assert [each.thp for each in loader.pool.prepare.call_args.args[0]] == asked


def test_rows_do_not_depend_on_the_seed_if_one_arm_is_a_running_server(monkeypatch, pretended):
    """A running server's tables are reused, so a server that bakeoff starts must get the same rows."""
    monkeypatch.setattr(loading, "_has_tables", lambda *_: False)
    monkeypatch.setattr(loading, "check_data", lambda *_: None)
    url = parse_server("mysql://root@localhost/")

    def seed_of(seed, *, running):
        arms = study().arms
        arms = (arms[0].model_copy(update={"server": url}), *arms[1:]) if running else arms
        asked = study().model_copy(update={"seed": seed, "arms": arms})
        engine = Engine(lambda: None)
        loader = Loader(asked, None, None, Listener(), engine, threading.Event())
        loader.load_remote(ArmSetup(arms[0], remote=object()))
        loader._fill_all(ArmSetup(arms[1], installation=object()), SimpleNamespace(ours=True), build=0, kept=None)
        assert len(set(engine.seeds)) == 1 and len(engine.seeds) == 2
        return engine.seeds[0]

    assert seed_of(1, running=True) == seed_of(2, running=True)
    assert seed_of(1, running=False) != seed_of(2, running=False)
