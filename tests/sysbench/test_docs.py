"""docs/reference/sysbench.md lists what the program has: no more, no less."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "sysbench.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([^`]+)` \| (\w+) \|", PAGE, re.MULTILINE)
STATES = dict(ROWS)


def words_after(start: str) -> set[str]:
    """Names in the paragraph that begins so."""
    paragraph = PAGE.split(start, 1)[1].split("\n\n", 1)[0]
    return set(re.findall(r"`([A-Za-z_]+)`", paragraph))


def reported(ours, script: str) -> set[str]:
    ran = ours("/dev/stdin", "prepare", stdin=script)
    assert ran.code == 0, ran.out
    return {line.removeprefix("name ") for line in ran.out.splitlines() if line.startswith("name ")}


def test_every_state_is_one_of_three_and_no_name_comes_twice():
    assert {state for _, state in ROWS} <= {"same", "better", "refused"}
    assert len(STATES) == len(ROWS)


def test_the_page_lists_exactly_the_options_of_the_program(ours):
    of_program = set(re.findall(r"^  (--[a-z-]+)", ours("--help").out, re.MULTILINE))
    of_page = {name for name in STATES if name.startswith("--")}
    assert of_page == of_program


def test_every_option_of_the_original_is_on_the_page(original):
    theirs = set(re.findall(r"^  (--[a-z-]+)", original("--help").out, re.MULTILINE))
    assert theirs <= set(STATES)


def test_the_page_and_help_agree_on_refused_options(ours):
    refused = ours("--help").out.split("Options that are refused here:\n")[1].split("\n\n")[0]
    assert set(re.findall(r"--[a-z-]+", refused.replace("--mysql-compression\n", "\n"))) == {
        name for name, state in STATES.items() if name.startswith("--") and state == "refused"
    }


WALK = """
local function walk(prefix, map)
  for key in pairs(map) do print("name " .. prefix .. tostring(key)) end
end
function prepare()
  walk("sysbench.", sysbench)
  walk("sysbench.cmdline.", sysbench.cmdline)
  walk("sysbench.rand.", sysbench.rand)
  walk("sysbench.histogram.", sysbench.histogram)
  walk("sysbench.sql.", sysbench.sql)
  walk("bakeoff.", bakeoff)
end
function event() end
"""
TABLES = {f"sysbench.{name}" for name in ("cmdline", "rand", "histogram", "sql", "db")}


def test_the_page_lists_exactly_the_functions_of_the_program(ours):
    of_program = {
        name for name in reported(ours, WALK) if not re.search(r"\.(ARG_\w+|PARALLEL_COMMAND)$", name)
    } - TABLES
    # Set by scripts.
    of_program |= {"sysbench.cmdline.options", "sysbench.cmdline.commands", "sysbench.cmdline.command"}
    of_page = {name for name in STATES if name.startswith(("sysbench.", "bakeoff."))}
    assert of_page == of_program


METHODS = """
function prepare()
  local con = sysbench.sql.driver():connect()
  local stmt = con:prepare("SELECT ?")
  local param = stmt:bind_create(sysbench.sql.type.INT)
  stmt:bind_param(param)
  param:set(1)
  local objects = { con = con, stmt = stmt, param = param, drv = sysbench.sql.driver() }
  for _, name in ipairs({%s}) do
    local object, method = name:match("(.*):(.*)")
    if objects[object] and objects[object][method] then print("name " .. name) end
  end
end
function event() end
"""


def test_every_method_on_the_page_exists(ours):
    methods = {name for name in STATES if ":" in name and not name.startswith("rs:")}
    methods = {name.replace("con:connect", "drv:connect") for name in methods}
    script = METHODS % ", ".join(f'"{name}"' for name in sorted(methods))
    ran = ours("/dev/stdin", "--mysql-dry-run", "prepare", stdin=script)
    assert {line.removeprefix("name ") for line in ran.out.splitlines() if line.startswith("name ")} == methods


@pytest.mark.parametrize("test", ["memory", "fileio", "threads", "mutex"])
def test_refused_tests_are_refused(ours, test):
    assert STATES[test] == "refused"
    assert ours(test, "run", PATH="/nowhere").code == 1


def test_every_legacy_global_exists(ours):
    names = words_after("The API of 0.5 and 1.0 scripts:")
    script = "".join(f'if {name} ~= nil then print("name {name}") end\n' for name in sorted(names))
    assert reported(ours, script + "function prepare() end") == names


def test_every_symbol_is_there_for_ffi(ours):
    names = words_after("C symbols for `ffi.C`:")
    script = "".join(f'if ffi.C.{name} ~= nil then print("name {name}") end\n' for name in sorted(names))
    assert reported(ours, script + "function prepare() end") == names
