"""pingcap's go-tpc from the Go module proxy: found, or built once into bakeoff's cache."""

import os
import shutil
import subprocess
from pathlib import Path

from bakeoff.servers.paths import cache_root

MODULE, VERSION = "github.com/pingcap/go-tpc", "v1.0.12"


def find() -> tuple[Path | None, str]:
    """Return go-tpc's path, or None and the reason. $GO_TPC overrides it.

    `go install` of its command asks the proxy for a module of that longer path first; if the proxy refuses that with
    anything but "not found" it gives up. So the module is downloaded and built in a copy of its folder.
    """
    named = os.environ.get("GO_TPC") or shutil.which("go-tpc")
    if named:
        return Path(named), ""
    built = cache_root() / "tools" / f"go-tpc-{VERSION}"
    if built.exists():
        return built, ""
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if not go:
        return None, "go is not installed, and go-tpc is built with it"
    built.parent.mkdir(parents=True, exist_ok=True)
    source = built.with_suffix(".source")
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir()
    try:
        _go(go, source, "mod", "init", "fetch")
        _go(go, source, "mod", "download", f"{MODULE}@{VERSION}")
        modules = _go(go, source, "env", "GOMODCACHE").strip()
        shutil.copytree(Path(modules) / f"{MODULE}@{VERSION}", source / "go-tpc")
        subprocess.run(["chmod", "-R", "u+w", source / "go-tpc"], check=True)
        _go(go, source / "go-tpc", "build", "-o", str(built), "./cmd/go-tpc")
    except subprocess.CalledProcessError as error:
        return None, f"go-tpc {VERSION} could not be built: {(error.stderr or '').strip().splitlines()[-1:]}"
    finally:
        shutil.rmtree(source, ignore_errors=True)
    return built, ""


def _go(go: str, folder: Path, *arguments: str) -> str:
    return subprocess.run([go, *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout
