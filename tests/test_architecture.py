"""The rules of docs/explanation/architecture.md: which package may import which, and how long a file may be."""

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 60
PARAMETERS_MAX = 7
MODULES_MAX = 16
BASE_CRATES = {"bakeoff-wire", "bakeoff-metrics", "bakeoff-script"}
CRATES_ALLOWED = {
    "bakeoff-wire": set(),
    "bakeoff-metrics": set(),
    "bakeoff-script": set(),
    "bakeoff-capture": {"bakeoff-wire"},
    "bakeoff-load": BASE_CRATES | {"bakeoff-capture"},
    "bakeoff-sysbench": BASE_CRATES | {"bakeoff-load"},
    "bakeoff-engine": BASE_CRATES | {"bakeoff-capture", "bakeoff-load", "bakeoff-sysbench"},
    "bakeoff-fakeserver": set(),
}


def test_python_packages_depend_one_way():
    """The contracts of import-linter in pyproject.toml."""
    lint_imports = Path(sys.executable).with_name("lint-imports")
    ran = subprocess.run([lint_imports], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


def test_crates_depend_one_way():
    metadata = subprocess.run(
        ["cargo", "metadata", "--format-version=1", "--no-deps", "--offline"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = {
        package["name"]: {
            dependency["name"]
            for dependency in package["dependencies"]
            if dependency["name"].startswith("bakeoff-") and dependency["kind"] is None
        }
        for package in json.loads(metadata.stdout)["packages"]
    }
    ours = {crate: needed for crate, needed in found.items() if crate.startswith("bakeoff-")}
    assert "bakeoff-engine" in ours
    for crate, needed in ours.items():
        assert needed <= CRATES_ALLOWED.get(crate, set()), crate


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for line in listed.stdout.splitlines() if (path := ROOT / line).exists()]


def test_no_file_is_too_long():
    lengths = {
        path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in tracked("*.py", "*.rs", "*.lua")
    }
    assert lengths
    assert not {name: lines for name, lines in lengths.items() if lines > FILE_LINES_MAX}


@pytest.mark.parametrize("folder", ["python", "validation"])
def test_no_function_is_too_long(folder):
    """Only lines after the docstring count: docstrings, and parameters that become options, are documentation."""
    lengths = {}
    for path in tracked(f"{folder}/*.py", f"{folder}/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
                lengths[f"{path.relative_to(ROOT)}: {node.name}"] = node.end_lineno - body[0].lineno + 1
    assert lengths
    assert not {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES_MAX}


def test_no_function_has_too_many_parameters():
    """Not counting `self` and `cls`."""
    counts = {}
    for path in tracked("python/*.py", "python/**/*.py", "validation/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                own = len(names) - (names[:1] in (["self"], ["cls"]))
                counts[f"{path.relative_to(ROOT)}: {node.name}"] = own
    assert counts
    assert not {name: count for name, count in counts.items() if count > PARAMETERS_MAX}


def test_no_package_has_too_many_modules():
    packages = Counter(path.parent.name for path in tracked("python/bakeoff/*/*.py") if path.name != "__init__.py")
    assert packages
    assert not {name: count for name, count in packages.items() if count > MODULES_MAX}


def rust_modules(crate):
    """The files of a crate by their module's path."""
    found = {}
    for path in (crate / "src").rglob("*.rs"):
        parts = path.relative_to(crate / "src").with_suffix("").parts
        found[parts[:-1] if parts[-1] in ("lib", "main", "mod") else parts] = path
    return found


def used_modules(name, path, modules):
    """The modules that a file names by `crate::`, `super::` or `self::`."""
    text = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
    roots = {"crate": (), "super": name[:-1], "self": name}
    for begin, middle, braces in re.findall(r"\b(crate|super|self)((?:::\w+)*)(?:::\{([^;]*?)\})?", text):
        heads = re.findall(r"(?:^|,)\s*(\w+)", braces) or [""]
        for head in heads:
            used = (*roots[begin], *(part for part in (*middle.split("::"), head) if part))
            while used and used not in modules:
                used = used[:-1]
            if used and used != name:
                yield used


@pytest.mark.parametrize("crate", sorted(CRATES_ALLOWED.keys() - {"bakeoff-fakeserver"}))
def test_modules_of_a_crate_have_no_import_cycles(crate):
    modules = rust_modules(ROOT / "crates" / crate.removeprefix("bakeoff-"))
    assert modules
    sorter = TopologicalSorter({name: set(used_modules(name, path, modules)) for name, path in modules.items()})
    sorter.prepare()  # raises CycleError with the circle
