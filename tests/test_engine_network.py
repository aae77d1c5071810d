"""The load engine's client against real servers, which only Python can start (crates/load/tests/main.rs)."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from bakeoff.servers import ServerMemory, ServerPool, install, settings_for
from bakeoff.spec import Data, Profile, parse_server

ROOT = Path(__file__).parent.parent
SERVERS = {"MYSQL57": "mysql:5.7.22", "MYSQL80": "mysql:8.0.15", "MARIADB": "mariadb:10.11"}

pytestmark = pytest.mark.server


def built_test():
    """The test program of crates/load, built with the whole workspace, as `cargo test --workspace` did before."""
    build = ["cargo", "test", "--quiet", "--workspace", "--no-run", "--message-format=json"]
    messages = subprocess.run(build, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    artifacts = [json.loads(line) for line in messages if '"compiler-artifact"' in line]
    (program,) = {
        artifact["executable"]
        for artifact in artifacts
        if artifact["target"]["src_path"] == str(ROOT / "crates" / "load" / "tests" / "main.rs")
    }
    return program


@pytest.mark.timeout(900)
def test_the_engines_client_passes_its_tests_on_three_servers():
    with ServerPool() as pool:
        environment = {}
        for name, text in SERVERS.items():
            spec = parse_server(text)
            installation = install(spec)
            memory = ServerMemory(buffer_pool_bytes=64 << 20, redo_bytes=32 << 20)
            settings = settings_for(installation, spec, Profile.STOCK, Data(), memory, connections=50, tls=True)
            instance = pool.create(name.lower(), installation, settings)
            instance.start()
            environment[f"BAKEOFF_TEST_{name}_SOCKET"] = str(instance.socket_path)
            environment[f"BAKEOFF_TEST_{name}_PORT"] = str(instance.port)
            authority = instance.datadir / "ca.pem"
            if authority.exists():
                environment[f"BAKEOFF_TEST_{name}_CA"] = str(authority)
        ran = subprocess.run(
            [built_test(), "--ignored"],
            cwd=ROOT,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " 0 failed" in ran.stdout
    assert "0 passed" not in ran.stdout
