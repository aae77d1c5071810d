"""Version numbers and ranges of them: `8.0.15`, `5.6.4-`, `-8.0`, `5.5.7-9.0`, `*`."""

import re
from dataclasses import dataclass

Version = tuple[int, ...]


def parse_version(text: str) -> Version:
    """The leading numbers of a version: `10.11.19-MariaDB-0+deb12u1` is (10, 11, 19).

    Raises:
        ValueError: no number at the start.
    """
    found = re.match(r"\d+(?:\.\d+)*", text.strip())
    if not found:
        raise ValueError(f"{text!r} does not start with a version number")
    return tuple(int(part) for part in found[0].split("."))


def version_text(version: Version) -> str:
    """`(8, 0, 15)` as `8.0.15`."""
    return ".".join(str(part) for part in version)


@dataclass(frozen=True)
class VersionRange:
    """Versions from `since` on and below `until`; None is open. `never` holds nothing at all."""

    since: Version | None = None
    until: Version | None = None
    never: bool = False

    def __contains__(self, version: object) -> bool:
        """Whether a version lies inside; (8, 0) is below (8, 0, 1)."""
        if self.never or not isinstance(version, tuple):
            return False
        return (self.since is None or version >= self.since) and (self.until is None or version < self.until)

    def __str__(self) -> str:
        if self.never:
            return "never"
        if self.since is None and self.until is None:
            return "always"
        since = f"from {version_text(self.since)}" if self.since else ""
        return f"{since} {f'before {version_text(self.until)}' if self.until else ''}".strip()


def parse_range(text: str | None) -> VersionRange:
    """Read `5.6.4-`, `-8.0`, `5.5.7-9.0`, `*`; None or empty text is never.

    Raises:
        ValueError: anything else.
    """
    if not text:
        return VersionRange(never=True)
    if text == "*":
        return VersionRange()
    since, dash, until = text.partition("-")
    if not dash or not (since or until):
        raise ValueError(f"version range {text!r} is not SINCE-UNTIL")
    return VersionRange(parse_version(since) if since else None, parse_version(until) if until else None)
