"""The environment of a server process: nothing inherited by accident, LD_PRELOAD by name, padding of a known size.

Mytkowicz et al. (2009) showed that the size of the environment moves the stack and with it the speed by several per
cent; so it is the same for every start but for padding that the caller draws at random.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from bakeoff.errors import HostError, ServerError, SpecError
from bakeoff.servers.model import Installation

PADDING = "BAKEOFF_PADDING"
_REFUSED = ("MYSQL_HOME", "MYSQL_TCP_PORT", "MYSQL_UNIX_PORT", "LD_LIBRARY_PATH")
_PACKAGES = {
    "libjemalloc.so.2": "libjemalloc2",
    "libtcmalloc.so.4": "libgoogle-perftools4",
    "libtcmalloc_minimal.so.4": "libtcmalloc-minimal4",
    "libmimalloc.so.2": "libmimalloc2.0",
    "libmimalloc.so.3": "libmimalloc3",
}
_STANDARD_FOLDERS = (
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/lib64",
    "/usr/lib",
    "/lib",
)


def environment(installation: Installation, asked: Mapping[str, str], padding_bytes: int = 0) -> dict[str, str]:
    """The whole environment of a server process.

    Args:
        installation: what will run in it; may need variables of its own.
        asked: the spec's `env.NAME=value`; `LD_PRELOAD` may name libraries without their folder.
        padding_bytes: length of a variable that serves only to move the stack.

    Raises:
        SpecError: a variable that is bakeoff's own. HostError: a library to preload is not on this machine.
    """
    for name in _REFUSED:
        if name in asked:
            raise SpecError(f"server {installation.name}: env.{name} is bakeoff's own to set.", hint="Leave it out.")
    result = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent"}
    if "TZ" in os.environ:
        result["TZ"] = os.environ["TZ"]
    result |= installation.environment
    result |= asked
    if asked.get("LD_PRELOAD"):
        result["LD_PRELOAD"] = ":".join(str(each) for each in preload_libraries(asked["LD_PRELOAD"]))
    result[PADDING] = "x" * padding_bytes
    return result


def preload_libraries(value: str) -> list[Path]:
    """Files that `LD_PRELOAD=value` means: absolute paths, or names found on the system's library path.

    Raises:
        HostError: one is not there; names the Debian package that holds it.
    """
    found: list[Path] = []
    for name in re.split(r"[:\s]+", value.strip()):
        place = Path(name) if "/" in name else _find(name)
        if place is None or not place.is_file():
            package = _PACKAGES.get(Path(name).name)
            raise HostError(
                f"LD_PRELOAD={name}: there is no such library on this machine.",
                hint=f"Run: apt-get install {package}" if package else "Install it, or name its whole path.",
            )
        found.append(place)
    return found


def check_preloaded(installation: Installation, pid: int, env: Mapping[str, str], errors: str) -> None:
    """Check that a running server has mapped what LD_PRELOAD names: the loader only warns when it cannot.

    Raises:
        ServerError: it has not, with the loader's reason.
    """
    if not env.get("LD_PRELOAD"):
        return
    mapped = Path(f"/proc/{pid}/maps").read_text("utf-8", "replace")
    for library in env["LD_PRELOAD"].split(":"):
        if str(Path(library).resolve()) not in mapped and library not in mapped:
            said = next((line for line in errors.splitlines() if "LD_PRELOAD" in line or "version `" in line), "")
            why = (
                "its own C library, older or other than this machine's, refused it"
                if installation.own_loader
                else "the loader refused it"
            )
            raise ServerError(
                f"{installation.name} did not load {library}: {why}{': ' + said.strip() if said else ''}.",
                hint="Choose a server built for this machine's C library, or leave LD_PRELOAD out.",
            )


def _find(name: str) -> Path | None:
    """A library by its file name: the loader's cache first, then the usual folders."""
    program = shutil.which("ldconfig", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program:
        cache = subprocess.run([program, "-p"], capture_output=True, text=True, check=False).stdout
        for line in cache.splitlines():
            entry, arrow, place = line.strip().partition(" => ")
            if arrow and entry.split(" ")[0] == name and "x86-64" in entry:
                return Path(place)
    return next((Path(folder) / name for folder in _STANDARD_FOLDERS if (Path(folder) / name).is_file()), None)
