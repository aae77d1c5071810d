"""Finding what a server ignored or changed: every option given is compared with the variable it should have set.

`loose_` options, unknown plugins and values out of range never stop a server; they end as a line in its log at best.
Reading back is the only honest way to report a setting.
"""

from collections.abc import Mapping

from bakeoff.errors import SpecError
from bakeoff.servers.dialect import is_false, is_true, stem
from bakeoff.units import parse_bytes

_NOT_VARIABLES = frozenset(
    {
        "plugin_load_add",
        "mysqlx",
        "secure_file_priv",
        "ssl",
        "admin_tls_version",
        "default_authentication_plugin",
        "authentication_policy",
        "user",
    }
)
_OTHER_NAMES = {
    "transaction_isolation": "tx_isolation",
    "default_storage_engine": "storage_engine",
    "key_buffer_size": "key_buffer_size",
}
_MULTIPLE = 0.02  # sizes are rounded to pages, chunks or MiB by the server; within 2 % is as asked


def differences(asked: Mapping[str, str], variables: Mapping[str, str]) -> list[str]:
    """One line for each option whose variable is not what was asked for.

    Args:
        asked: options as given at start; an empty value is a bare flag.
        variables: SHOW GLOBAL VARIABLES.
    """
    found = []
    for name, value in asked.items():
        plain = stem(name)
        if plain in _NOT_VARIABLES:
            continue
        wanted = _wanted(name, plain, value)
        has = variables.get(plain, variables.get(_OTHER_NAMES.get(plain, ""), None))
        said = f"{name}={value}" if value else name
        if has is None:
            found.append(f"{said}: this server has no variable {plain}")
        elif not same(wanted, has):
            found.append(f"{said}: the server has {has or '(empty)'}")
    return found


def same(asked: str, has: str) -> bool:
    """Whether two spellings of a value mean the same: `64M` and `67108864`, `1` and `ON`, `a,b` and `B,A`."""
    left, right = asked.strip().lower(), has.strip().lower()
    if left == right or (is_true(left) and is_true(right)) or (is_false(left) and is_false(right)):
        return True
    try:
        one, other = _number(left), _number(right)
    except (SpecError, ValueError):
        if "=" in left:  # optimizer_switch: a part of the whole
            return set(left.split(",")) <= set(right.split(","))
        return sorted(left.replace("_", "-").split(",")) == sorted(right.replace("_", "-").split(","))
    return abs(one - other) <= _MULTIPLE * max(abs(one), abs(other)) if one > 65536 else one == other


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float(parse_bytes(text))


def _wanted(name: str, plain: str, value: str) -> str:
    if name.startswith("loose_"):
        return _wanted(name[6:], plain, value)
    if name != plain and name.startswith(("skip_", "disable_")):
        return "OFF"
    if plain == "log_bin":  # the value is the log's name
        return "ON"
    return value or "ON"
