"""What `bakeoff runs prune` may delete: captures made from logs that no run uses any more."""

from collections.abc import Sequence
from pathlib import Path

from bakeoff.servers.paths import locked_if_free, remove_lock


def capture_lock(capture: Path) -> str:
    """Return the lock that replays of one log share, named by the digest in the capture's name."""
    return f"capture-{capture.stem.rpartition('-')[2]}"


def unused(root: Path, kept_runs: Sequence[Path]) -> list[Path]:
    studies = [(run / "study.json").read_text(errors="replace") for run in kept_runs if (run / "study.json").is_file()]
    captures = sorted((root / "captures").glob("*.capture"))
    return [each for each in captures if not any(each.name in study for study in studies)]


def delete(capture: Path) -> bool:
    lock = capture_lock(capture)
    with locked_if_free(lock) as free:
        if not free:
            return False
        capture.unlink()
        for name in (lock, f"{lock}.making"):
            remove_lock(name)
    return True
