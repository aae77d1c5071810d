"""Every random choice of a run, from one number.

The scheme (version 1): a choice has a path, such as `("start", 3, "A")`. Its number is the first 53 bits of
SHA-256 of the text `bakeoff/1/SEED/start/3/A`; 53 bits are exact in every JSON reader. A random order sorts items by
their numbers. So a choice depends on the study's seed and on its own path alone: adding a cell or an epoch changes no
other choice, and any language can recompute it.
"""

import hashlib
from collections.abc import Iterable


def seed_for(seed: int, *path: int | str) -> int:
    """The number of one choice, uniform in [0, 2**53)."""
    text = "/".join(["bakeoff", "1", str(seed), *map(str, path)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 11


def shuffled(items: Iterable[str], seed: int, *path: int | str) -> tuple[str, ...]:
    """The items in the random order that belongs to `path`; the order in which they come in does not matter."""
    return tuple(sorted(items, key=lambda item: (seed_for(seed, *path, item), item)))
