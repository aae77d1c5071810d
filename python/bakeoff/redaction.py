"""Strike passwords out of everything that is written to a run directory.

Three searches over the same text at once, since what one finds may be part of what another finds:

1. by form: `user:PASSWORD@host`, `--password=…`, `MYSQL_PWD=…`, a field named `password` and the like;
2. known secrets of at least 8 characters, anywhere. Those that the study also contains (`sysbench` is a user, a
   password and part of scripts' names) are struck only out of free text (logs, command lines);
3. known secrets of 4 to 7 characters, as whole words in free text. `root` and `mysql` are real passwords, and striking
   them out of a study's fields would destroy the study.
"""

import ctypes
import json
import re
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel

MARK = "***"

_BY_FORM = (
    # As urlsplit reads it: the first colon begins the password, the last @ before the path ends it.
    re.compile(r"(?P<keep>\b[a-z][a-z0-9+.-]*://[^\s/?#:]*:)[^\s/?#]+(?=@)", re.IGNORECASE),
    re.compile(
        r"(?P<keep>\b(?:(?:(?:mysql|report|keyring[-_]migration)[-_])?(?:password|passwd|pwd)|wsrep[-_]sst[-_]auth)"
        r"\s*[=:]\s*)(?:'[^']*'|\"[^\"]*\"|[^\s,;&'\"]+)",
        re.IGNORECASE,
    ),
    re.compile(r"(?P<keep>\bMYSQL_PWD=)\S+"),
    re.compile(r"(?P<keep>temporary password is generated for [^:\s]+: )\S+"),
    re.compile(r"(?P<keep>IDENTIFIED\s+(?:WITH\s+\S+\s+)?(?:BY|AS)\s+(?:PASSWORD\s+)?)'[^']*'", re.IGNORECASE),
)
_SECRET_FIELDS = frozenset(
    {"password", "passwd", "pwd", "mysql_password", "mysql_pwd", "authentication_string", "report_password"}
)
_ANYWHERE_FROM, _WORD_FROM = 8, 4


def hide_in_process_list() -> None:
    """Overwrite the passwords of URLs where `ps` reads this process's arguments; Python works on copies of them."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        begin, end = int(fields[45]), int(fields[46])  # arg_start, arg_end: proc(5)
    except (OSError, ValueError, IndexError):
        return
    if not 0 < begin < end:
        return
    # In bytes, because some letters in UTF-8 have bytes that are spaces in other character sets.
    form = re.compile(_BY_FORM[0].pattern.encode(), re.IGNORECASE)
    words = ctypes.string_at(begin, end - begin).split(b"\0")
    hidden = [form.sub(lambda found: found["keep"] + b"*" * (len(found[0]) - len(found["keep"])), w) for w in words]
    ctypes.memmove(begin, b"\0".join(hidden), end - begin)


def without_url_passwords(text: str) -> str:
    """Strike out the passwords of URLs, and nothing else."""
    return _struck_out(text, _BY_FORM[:1])


class Redactor:
    """Replaces passwords in text and JSON-like values with `***`. The fields of `study` stay readable."""

    def __init__(self, secrets: Iterable[str] = (), study: BaseModel | None = None) -> None:
        known = set(secrets)
        # Passwords that are found by their form do not count as words of the study.
        whole = Redactor().json_bytes(study).decode() if study else ""
        anywhere, in_study = (
            [re.escape(secret) for secret in known if len(secret) >= _ANYWHERE_FROM and (secret in whole) is inside]
            for inside in (False, True)
        )
        words = [re.escape(secret) for secret in known if _WORD_FROM <= len(secret) < _ANYWHERE_FROM]
        self._of_fields = (*_BY_FORM, *(re.compile(f"(?P<keep>){secret}") for secret in anywhere))
        self._of_free_text = (
            *self._of_fields,
            *(re.compile(f"(?P<keep>){secret}") for secret in in_study),
            *(re.compile(rf"(?P<keep>)(?<![A-Za-z0-9_]){secret}(?![A-Za-z0-9_])") for secret in words),
        )

    def free_text(self, text: str) -> str:
        """Redact a log, a configuration file or a command line: all three searches."""
        return _struck_out(text, self._of_free_text)

    def field(self, text: str) -> str:
        """Redact one text of a structured document: the first two searches."""
        return _struck_out(text, self._of_fields)

    def tree(self, value: object) -> object:
        """Redact all texts of a JSON-like value, and fields named `password`."""
        if isinstance(value, str):
            return self.field(value)
        if isinstance(value, dict):
            return {key: self._entry(key, item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.tree(item) for item in value]
        return value

    def json_bytes(self, content: object) -> bytes:
        """Return a model or JSON-like value as redacted, indented JSON."""
        document = content.model_dump(mode="json") if isinstance(content, BaseModel) else content
        return (json.dumps(self.tree(document), indent=1, ensure_ascii=False) + "\n").encode()

    def _entry(self, key: object, item: object) -> object:
        if isinstance(key, str) and key.lower() in _SECRET_FIELDS and isinstance(item, str) and item:
            return MARK
        return self.tree(item)


def _struck_out(text: str, patterns: Iterable[re.Pattern[str]]) -> str:
    found = sorted((match.end("keep"), match.end()) for pattern in patterns for match in pattern.finditer(text))
    kept, at = [], 0
    for start, end in found:
        if start >= at:
            kept.append(text[at:start])
        at = max(at, end)
    return MARK.join([*kept, text[at:]])
