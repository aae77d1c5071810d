"""Servers for the tests: fetched once into the ordinary cache, run from a work folder that goes away."""

import contextlib
import shutil
import tempfile
from pathlib import Path

import pytest

from bakeoff.servers import ServerMemory, ServerPool, install, settings_for
from bakeoff.servers.paths import work_root
from bakeoff.spec import Data, Profile, parse_server

SMALL = ServerMemory(buffer_pool_bytes=64 << 20, redo_bytes=32 << 20)


@contextlib.contextmanager
def work_folder():
    """A folder on the cache's disk that servers may enter, which pytest's own (mode 700) is not."""
    work_root().mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="test-", dir=work_root()))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def work():
    with work_folder() as folder:
        yield folder


@pytest.fixture
def pool(work):
    with ServerPool(work) as opened:
        yield opened


@pytest.fixture
def make(pool):
    """`make("mysql:8.0.15", name)`: a created, not started server."""
    return creating(pool)


@pytest.fixture(scope="module")
def make_lasting():
    """`make` for servers that the tests of a module share."""
    with work_folder() as folder, ServerPool(folder) as opened:
        yield creating(opened)


def creating(pool):
    def create(text, name="A", *, profile=Profile.MATCHED, data=None, connections=8, memory=SMALL, **more):
        spec = parse_server(text)
        installation = install(spec)
        settings = settings_for(installation, spec, profile, data or Data(), memory, connections=connections)
        return pool.create(name, installation, settings, machine=spec.machine, **more)

    return create
