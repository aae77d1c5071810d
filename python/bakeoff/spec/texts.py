"""What texts hold (`content`), which character sets can hold it, and which a client can speak.

The characters are made by the engine (crates/script, random/content.rs), the same for every arm; here is what can be
known of them before anything is loaded.
"""

import difflib

from bakeoff.errors import SpecError
from bakeoff.spec.study import Connection, Data, OptionValue

_ASCII = ("digits", "ascii", "text", "prefix", "uuid", "hash")
_WHOLE_UNICODE = frozenset({"utf8mb4", "utf16", "utf16le", "utf32", "gb18030"})
_BASIC_PLANE = frozenset({"utf8", "utf8mb3", "ucs2"})
# Python's codecs of the same names have every letter of the engine's alphabets; a test compares the two.
_HOLD: dict[str, frozenset[str]] = {
    "latin": frozenset({"latin1", "cp850", "ujis", "eucjpms"}),
    "cyrillic": frozenset(
        {"cp1251", "cp866", "koi8r", "koi8u", "sjis", "cp932", "ujis", "eucjpms", "gb2312", "gbk", "euckr"}
    ),
    "japanese": frozenset({"sjis", "cp932", "ujis", "eucjpms", "gbk"}),
    "chinese": frozenset({"gb2312", "gbk"}),
    "emoji": frozenset(),
}
CONTENTS = (*_ASCII, *_HOLD)
"""Values of the setting `content`."""

CHARSETS = (
    "armscii8", "ascii", "big5", "binary", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866", "cp932",
    "dec8", "eucjpms", "euckr", "gb18030", "gb2312", "gbk", "geostd8", "greek", "hebrew", "hp8", "keybcs2", "koi8r",
    "koi8u", "latin1", "latin2", "latin5", "latin7", "macce", "macroman", "sjis", "swe7", "tis620", "ucs2", "ujis",
    "utf16", "utf16le", "utf32", "utf8", "utf8mb3", "utf8mb4",
)  # fmt: skip
"""Character sets of MySQL and MariaDB; not every version has all of them."""

_NOT_FOR_CLIENTS = frozenset({"ucs2", "utf16", "utf16le", "utf32"})
# Connections in which the engine can write the content; in others it knows ASCII alone.
_SPOKEN: dict[str, frozenset[str]] = {
    "utf8mb4": frozenset(CONTENTS),
    "utf8": frozenset(CONTENTS) - {"emoji"},
    "utf8mb3": frozenset(CONTENTS) - {"emoji"},
    "latin1": frozenset({*_ASCII, "latin"}),
}
_CHAR_MAX = 255
_DEFAULTS: dict[str, OptionValue] = {"text_length": 119, "column_length": 120, "column_type": "char"}


def charset_of(collation: str) -> str | None:
    """The character set that a collation's name begins with; None for MariaDB's, which name none (`uca1400_ai_ci`)."""
    charset = collation.partition("_")[0]
    return None if charset == "uca1400" else charset


def check_charset(name: str, level: str) -> None:
    """See that the value of a setting `…charset` or `…collation` is of a character set that exists, and can be spoken.

    Raises:
        SpecError: it is not; with the nearest one.
    """
    charset = charset_of(level) if name.endswith("collation") else level
    if charset is None:
        return
    if charset.lower() not in CHARSETS:
        near = difflib.get_close_matches(charset.lower(), CHARSETS, n=1)
        raise SpecError(
            f"there is no character set {charset}.", hint=f"Did you mean {near[0]}?" if near else "Write utf8mb4."
        )
    if name.startswith("connection_") and charset.lower() in _NOT_FOR_CLIENTS:
        raise SpecError(f"no client can speak {charset}.", hint="Write utf8mb4: the server converts.")


def holds(charset: str, content: str) -> bool:
    """Whether a column in this character set can hold a content."""
    if content in _ASCII or charset in _WHOLE_UNICODE:
        return True
    return charset in _HOLD[content] or (charset in _BASIC_PLANE and content != "emoji")


def client_charset(data: Data) -> str | None:
    """What a connection speaks unless it is told: the texts' own character set, or utf8mb4 where no client can."""
    charset = data.text_charset
    return "utf8mb4" if charset in _NOT_FOR_CLIENTS else charset


def check_texts(data: Data, connection: Connection) -> None:
    """See that columns and connection can carry what the texts are to hold, and that lengths fit.

    Raises:
        SpecError: they do not; with the values at fault.
    """
    options = _DEFAULTS | dict(data.options)
    length, room = int(options["text_length"]), int(options["column_length"])
    if length > room:
        raise SpecError(
            f"text_length {length} is longer than column_length {room}.", hint="Make the column as long as its texts."
        )
    if str(options["column_type"]).lower() == "char" and room > _CHAR_MAX:
        raise SpecError(
            f"column_length {room} is too long for a char: at most {_CHAR_MAX}.", hint="Write column_type: varchar."
        )
    content = str(options.get("content", "digits"))
    charset = data.text_charset
    if charset is not None and not holds(charset, content):
        collation = f" ({data.text_collation})" if data.text_collation else ""
        raise SpecError(
            f"content {content} cannot be stored in {charset}{collation}.",
            hint="Leave the combination out with where, or choose a content of ASCII.",
        )
    spoken = connection.charset or client_charset(data)
    if spoken is not None and content not in _SPOKEN.get(spoken, _ASCII):
        raise SpecError(
            f"content {content} cannot be sent over a connection in {spoken}.",
            hint="Write connection_charset: utf8mb4.",
        )
