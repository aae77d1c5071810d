"""A server with one loaded warehouse for the tests that share it; each leaves it as found."""

import shutil
import tempfile
from pathlib import Path

import pytest
from tpcc_shop import SMALL, Shop

from bakeoff.engine import Engine
from bakeoff.servers import ServerPool, install, settings_for
from bakeoff.servers.paths import work_root
from bakeoff.spec import Data, Profile, parse_server


@pytest.fixture(scope="session")
def open_shop():
    """Start `open_shop("mysql:8.0")`: one server of that kind for all tests, empty at first."""
    work_root().mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="test-", dir=work_root()))
    folder.chmod(0o755)
    shops = {}
    with Engine() as engine, ServerPool(folder) as pool:

        def create(text):
            if text not in shops:
                spec = parse_server(text)
                installation = install(spec)
                settings = settings_for(installation, spec, Profile.MATCHED, Data(), SMALL, connections=32)
                instance = pool.create(f"S{len(shops)}", installation, settings)
                instance.start()
                shops[text] = Shop(engine, instance)
            shops[text].open()
            return shops[text]

        yield create
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def loaded_shop(open_shop):
    """Load one warehouse that stays; returns the shop and the progress of the load."""
    loaded = {}

    def create(text):
        shop = open_shop(text)
        if text not in loaded:
            loaded[text] = shop.command("prepare")
        return shop, loaded[text]

    return create
