"""Any feature's folder can be deleted: the rest still imports, shows its help and passes its tests."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bakeoff.features import NAMES

ROOT = Path(__file__).parent.parent
QUICK = (
    "spec",
    "cli/test_help.py",
    "stats/test_interval.py",
    "gate/test_gate_question.py",
    "search/test_first_slow_build.py",
)
IMPORT_ALL = """
import importlib, pkgutil, bakeoff
found = [each.name for each in pkgutil.walk_packages(bakeoff.__path__, "bakeoff.")]
for name in found:
    importlib.import_module(name)
print(bakeoff.__path__[0], len(found))
"""


def tree_without(feature, folder):
    """Copy the package and its tests without this feature's, and link the rest of the tree."""
    for path in ROOT.iterdir():
        if path.name not in ("python", "tests", "target") and not path.name.startswith("."):
            (folder / path.name).symlink_to(path)

    def ignored(inside, names):
        own = [feature] if Path(inside) in (ROOT / "python/bakeoff", ROOT / "tests") else []
        return ["__pycache__", *own]

    for name in ("python", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored, symlinks=True)
    return folder


def python(tree, *arguments):
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env |= {"PYTHONPATH": str(tree / "python"), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=tree, env=env, capture_output=True, text=True, check=False
    )  # fmt: skip


def require_imports(tree):
    ran = python(tree, "-c", IMPORT_ALL)
    assert ran.returncode == 0, ran.stderr
    where, modules = ran.stdout.rsplit(maxsplit=1)
    assert where == str(tree / "python" / "bakeoff")
    assert int(modules) > 150


def require_passes(tree, *arguments, tests_min):
    chosen = ("-m", "not slow and not server and not browser", *arguments)
    ran = python(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen)
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr
    passed = re.search(r"(\d+) passed", ran.stdout)
    assert passed and int(passed[1]) >= tests_min, ran.stdout[-1000:]


@pytest.mark.parametrize("feature", NAMES)
def test_without_a_feature_the_rest_imports_and_passes_a_few_tests(feature, tmp_path):
    tree = tree_without(feature, tmp_path)
    require_imports(tree)
    ran = python(tree, "-m", "bakeoff.cli.start", "--help")
    assert ran.returncode == 0 and "  duel " in ran.stdout, ran
    assert f"  {feature} " not in ran.stdout
    quick = [f"tests/{name}" for name in QUICK if (tree / "tests" / name).exists()]
    require_passes(tree, *quick, tests_min=50)


def test_an_import_of_a_deleted_feature_is_found(tmp_path):
    tree = tree_without("gate", tmp_path)
    with (tree / "python/bakeoff/spec/__init__.py").open("a") as file:
        file.write("\nimport bakeoff.gate.rule\n")
    with pytest.raises(AssertionError, match=r"No module named 'bakeoff\.gate'"):
        require_imports(tree)
