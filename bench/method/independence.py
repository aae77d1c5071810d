#!/usr/bin/env python3
"""Whether the epochs of a duel are independent: what journals of duels with a known ratio say.

    bench/method/independence.py bench/results/placement/*.jsonl bench/results/validation/duels.jsonl

If epochs are independent, log ratios minus the truth have no correlation from one epoch to the next, and a duel's
t² (mean over its standard error) is (n - 1) / (n - 3) on average; it is printed over that expectation.
"""

import argparse
import json
import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import fmean, stdev
from typing import Any


def duels(journal: Path) -> Iterator[tuple[str, list[float]]]:
    """Yield each duel's kind and its epochs' log ratios minus the truth: equal servers, or an injected slowdown."""
    for line in journal.read_text(encoding="utf-8").splitlines():
        found: dict[str, Any] = json.loads(line)
        if "judgements" in found:  # of the validation suite
            if found["duel"]["kind"] == "aa" and not found.get("error"):
                yield from ((journal.stem, each["points"]) for each in found["judgements"] if "points" in each)
        elif len({server[:-4] for server in found["servers"]}) == 1:
            # Lines that levels.py wrote before it recorded a slowdown are of servers without one.
            truth = -math.log1p(found.get("slowdown_percent", 0.0) / 100)
            kind = found.get("restores") or found["called"]
            yield f"{journal.stem}, {kind}", [value - truth for value in found["points"]]


def main() -> None:
    """Print a line for each kind of duel."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("journals", nargs="+", type=Path)
    kinds: dict[str, list[list[float]]] = {}
    for journal in parser.parse_args().journals:
        for kind, values in duels(journal):
            if len(values) >= 4:
                kinds.setdefault(kind, []).append(values)
    for kind, found in kinds.items():
        pairs = sum(len(values) - 1 for values in found)
        products = sum(one * other for values in found for one, other in pairwise(values))
        correlation = products / sum(value**2 for values in found for value in values)
        squares = [len(v) * fmean(v) ** 2 / stdev(v) ** 2 / ((len(v) - 1) / (len(v) - 3)) for v in found]
        print(
            f"{kind}: {len(found)} duels, correlation {correlation:+.2f} ± {pairs**-0.5:.2f}, t² {fmean(squares):.2f}"
        )


if __name__ == "__main__":
    main()
