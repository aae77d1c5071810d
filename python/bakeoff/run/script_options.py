"""Options of scripts, checked before any time is spent: what the engine would refuse is refused here, and no more."""

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache

from bakeoff.engine import Message, describe_workloads
from bakeoff.errors import SpecError
from bakeoff.spec.study import OptionValue, is_capture
from bakeoff.units import NUMBER, parse_scaled

RAND_TYPES = ("uniform", "gaussian", "special", "pareto", "zipfian")
# Shape the random numbers of every script.
_RAND_SHARES = ("rand_spec_pct", "rand_spec_res", "rand_pareto_h", "rand_zipfian_exp")
RAND = ("rand_type", "rand_spec_iter", *_RAND_SHARES)
# Scripts of sysbench 0.5 declare no options and find sysbench's own, and the engine of their tables, as globals.
_GLOBALS = ("mysql_", "db_")
_ELSEWHERE = {
    "db_ps_mode": "Write --db-ps-mode, or prepare_mode in the settings of a study.",
    "mysql_ssl": "Write --mysql-ssl, or tls in the settings of a study.",
    "mysql_storage_engine": "Write --mysql-storage-engine, or engine in the settings of a study.",
    "rand_seed": "Write --seed.",
}
_EXPECTED = {
    "bool": "on or off",
    "int": "a whole number, with K, M, G or T if need be",
    "size": "a number of bytes, with K, M, G or T if need be",
    "double": "a number, with K, M, G or T if need be",
}


@cache
def takes(script: str) -> Callable[[str], bool]:
    """Whether a script may be given an option of that name: it declares it, or no options at all, as sysbench 0.5's.

    Raises:
        SpecError: it does not load; with file and line.
    """
    declared = [] if is_capture(script) else describe_workloads([script])[0]["options"]
    names = {option["name"] for option in declared}
    return lambda name: not names or name in names


def first_unknown(names: Iterable[str], described: Message) -> str | None:
    """The first option that a script does not have, or that is set elsewhere."""
    known = {option["name"] for option in described["options"]} | set(RAND)

    def has(name: str) -> bool:
        return name not in _ELSEWHERE and (name in known or (not described["options"] and name.startswith(_GLOBALS)))

    return next((name for name in names if not has(name)), None)


def remedy_for(unknown: str, described: Message) -> str:
    """What to write in place of an option that a script does not have; empty: nothing is known."""
    if unknown in _ELSEWHERE:
        return _ELSEWHERE[unknown]
    known = [option["name"] for option in described["options"]]
    if near := difflib.get_close_matches(unknown, [*known, *RAND], n=1):
        return f"Did you mean {near[0]}?"
    return f"It has {', '.join(known)}." if known else ""


def check_value(name: str, value: OptionValue, described: Message) -> None:
    """Check the value of an option that a script has.

    Raises:
        SpecError: it cannot be that; with what can be.
    """
    kinds: Mapping[str, str] = {option["name"]: option["type"] for option in described["options"]}
    text = _text(value)
    if name in RAND:
        fits, expected = _fits_rand(name, text), _expected_rand(name, text)
    else:
        kind = kinds.get(name, "string")
        fits, expected = _fits(kind, value), f"Write {_EXPECTED.get(kind, 'a text')}."
    if not fits:
        raise SpecError(f"option {name} cannot be {text!r}.", hint=expected)


def _text(value: OptionValue) -> str:
    """As the engine writes it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _fits_rand(name: str, text: str) -> bool:
    if name == "rand_type":
        return text in RAND_TYPES
    if name == "rand_spec_iter":
        return re.fullmatch(r"\+?\d{1,20}", text, re.ASCII) is not None and 0 < int(text) < 2**32
    return NUMBER.fullmatch(text) is not None and 0 <= float(text) < math.inf


def _expected_rand(name: str, text: str) -> str:
    if name == "rand_type":
        near = difflib.get_close_matches(text.lower(), RAND_TYPES, n=1)
        return f"Did you mean {near[0]}?" if near else f"Write one of {', '.join(RAND_TYPES)}."
    return "Write a whole number above zero." if name == "rand_spec_iter" else "Write a number, not below zero."


def _fits(kind: str, value: OptionValue) -> bool:
    if kind == "bool":
        words = ("", "on", "true", "1", "yes", "off", "false", "0", "no")
        return not isinstance(value, float) and str(value).lower() in words
    if kind not in _EXPECTED:
        return True
    number = parse_scaled(value) if isinstance(value, str) else float(value)
    if number is None or not math.isfinite(number):
        return False
    return kind == "double" or (number.is_integer() and abs(number) < 9.2e18)
