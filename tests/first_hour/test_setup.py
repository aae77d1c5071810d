"""`tools/setup` on machines that lack libraries, with stubs in place of their programs."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

STUBS = {
    "id": "echo 1000",
    "sudo": 'exec env -i PATH="$PATH" "$@"',
    "rustc": "echo 'rustc 1.90.0 (x)'",
    **dict.fromkeys(("cargo", "mvn", "cc", "unzip", "maturin"), "true"),
    "python3": """case "$2" in
      *python_version*) echo 3.12.3;;
      *ctypes*) test -e LIBRARIES/"$3";;
    esac""",
    "dpkg": "echo /usr/share/doc/libaio1t64; echo LIBRARIES/libaio.so.1t64",
    "apt-cache": "test $2 = PACKAGE",
    "apt-get": """echo "$DEBIAN_FRONTEND $*" >> CALLS
    case "$*" in update*) exit 0;; *" PACKAGE") touch LIBRARIES/LIBRARY;; *) exit 100;; esac""",
}


@pytest.mark.parametrize(("package", "library"), [("libaio1", "libaio.so.1"), ("libaio1t64", "libaio.so.1t64")])
def test_setup_installs_libaio_and_links_the_name_that_servers_load(tmp_path, package, library):
    libraries, calls = tmp_path / "libraries", tmp_path / "calls"
    for folder in ("bin", "libraries", "clone/tools", "clone/.venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (libraries / "libnuma.so.1").touch()
    words = {"LIBRARIES": libraries, "LIBRARY": library, "PACKAGE": package, "CALLS": calls}
    for name, script in STUBS.items():
        for word, value in words.items():
            script = script.replace(word, str(value))
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    shutil.copy(Path(__file__).parents[2] / "tools/setup", tmp_path / "clone/tools")
    shutil.copy(tmp_path / "bin/cargo", tmp_path / "clone/.venv/bin/python")
    for name in ("requirements.txt", ".venv/bin/activate"):
        (tmp_path / "clone" / name).touch()
    env = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    for _ in range(2):  # the second time nothing is missing
        ran = subprocess.run(
            [tmp_path / "clone/tools/setup"], env=env, capture_output=True, text=True, timeout=60, check=False
        )
        assert ran.returncode == 0, ran
        assert calls.read_text().splitlines() == [
            " update -qq", f"noninteractive install -y -qq --no-install-recommends {package}",
        ]  # fmt: skip
    assert (libraries / "libaio.so.1").resolve() == libraries / library
