"""Keeping passwords out of everything that is written to a run directory.

Three nets, from narrow to wide:

1. places where a password stands by its form, whatever it is: `user:PASSWORD@host`, `--password=…`, `MYSQL_PWD=…`,
   a server's "temporary password is generated", a field named `password`;
2. known secrets of at least 8 characters, wherever they appear;
3. known secrets of 4 to 7 characters, as a whole word, and only in free text (logs, command lines): `root` and `mysql`
   are passwords people really use, and striking them out of a study's fields would destroy the study.
"""

import re
from collections.abc import Iterable

MARK = "***"

_BY_FORM = (
    re.compile(r"(?P<keep>\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?=@)", re.IGNORECASE),
    re.compile(
        r"(?P<keep>\b(?:mysql[-_])?(?:password|passwd|pwd)\s*[=:]\s*)(?:'[^']*'|\"[^\"]*\"|[^\s,;&'\"]+)", re.IGNORECASE
    ),
    re.compile(r"(?P<keep>\bMYSQL_PWD=)\S+"),
    re.compile(r"(?P<keep>temporary password is generated for [^:\s]+: )\S+"),
    re.compile(r"(?P<keep>IDENTIFIED\s+(?:WITH\s+\S+\s+)?(?:BY|AS)\s+(?:PASSWORD\s+)?)'[^']*'", re.IGNORECASE),
)
_SECRET_FIELDS = frozenset({"password", "passwd", "pwd", "mysql_password", "mysql_pwd", "authentication_string"})
_ANYWHERE_FROM, _WORD_FROM = 8, 4


class Redactor:
    """Removes passwords from text and from JSON-like values; replaces each by `***`.

    Args:
        secrets: passwords that the run was given; empty ones are ignored.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
        self._anywhere = _alternatives(secret for secret in known if len(secret) >= _ANYWHERE_FROM)
        self._words = _alternatives(
            (secret for secret in known if _WORD_FROM <= len(secret) < _ANYWHERE_FROM), whole_words=True
        )

    def free_text(self, text: str) -> str:
        """A log, a configuration file, a command line: all three nets."""
        text = self.field(text)
        return self._words.sub(MARK, text) if self._words else text

    def field(self, text: str) -> str:
        """One text of a structured document: the first two nets."""
        for pattern in _BY_FORM:
            text = pattern.sub(rf"\g<keep>{MARK}", text)
        return self._anywhere.sub(MARK, text) if self._anywhere else text

    def tree(self, value: object) -> object:
        """A JSON-like value, copied, with every text passed through `field` and fields named `password` struck out."""
        if isinstance(value, str):
            return self.field(value)
        if isinstance(value, dict):
            return {key: self._entry(key, item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.tree(item) for item in value]
        return value

    def _entry(self, key: object, item: object) -> object:
        if isinstance(key, str) and key.lower() in _SECRET_FIELDS and isinstance(item, str) and item:
            return MARK
        return self.tree(item)


def _alternatives(secrets: Iterable[str], *, whole_words: bool = False) -> re.Pattern[str] | None:
    pattern = "|".join(re.escape(secret) for secret in secrets)
    if not pattern:
        return None
    return re.compile(rf"(?<![A-Za-z0-9_])(?:{pattern})(?![A-Za-z0-9_])" if whole_words else pattern)
