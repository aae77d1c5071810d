"""The commands in README, the tutorial and the how-to pages exist, with the options that they are given."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("bakeoff")
PAGES = [ROOT / "README.md", ROOT / "docs" / "tutorial.md", *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
GROUPS = {
    "capture": ("show", "make"),
    "history": ("add", "annotate", "export", "import", "report", "show"),
    "cluster": ("check",),
    "server": ("install", "list", "rm", "start"),
    "runs": ("prune", "rm"),
    "cache": ("prune",),
}
