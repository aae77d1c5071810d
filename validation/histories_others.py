"""Change points of Otava and ruptures, for `validation.histories`: histories on standard input, places on the output.

Runs in the environment that `validation.histories` makes, which has no bakeoff.
"""

import itertools
import json
import math
import statistics
import sys
from collections.abc import Callable

Places = Callable[[list[float]], list[int]]


def otava(values: list[float]) -> list[int]:
    """Otava with the defaults of `otava analyze`."""
    from otava.series import AnalysisOptions, Metric, Series

    series = Series(
        "history", branch=None, time=list(range(len(values))), metrics={"m": Metric(1, 1.0)}, data={"m": values},
        attributes={},
    )  # fmt: skip
    return [int(change.index) for change in series.analyze(AnalysisOptions()).change_points["m"]]


def pelt(values: list[float]) -> list[int]:
    """PELT of ruptures on the mean (l2), with the penalty 2 s^2 ln n of BIC, s by the median of steps."""
    import numpy
    import ruptures

    steps = [abs(after - before) for before, after in itertools.pairwise(values)]
    s = statistics.median(steps) / 0.6745 / math.sqrt(2)
    signal = numpy.array(values) / s
    found = ruptures.Pelt(model="l2", min_size=3, jump=1).fit(signal).predict(pen=2 * math.log(len(values)))
    return [int(at) for at in found[:-1]]


PROGRAMS: dict[str, Places] = {"Otava 0.8.0": otava, "PELT (ruptures 1.1.10)": pelt}


def main() -> None:
    """Answer for every program and either figure."""
    histories = json.load(sys.stdin)
    found = {
        f"{name}, {figure}": [[program(series[figure]) for series in history] for history in histories]
        for name, program in PROGRAMS.items()
        for figure in ("ratio", "absolute")
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
