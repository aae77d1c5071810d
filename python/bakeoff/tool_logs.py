"""Read the logs of sysbench and HammerDB: what each run measured, and how it went second by second."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

NUMBER = r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_REPORT = re.compile(r"^\[ *(\d+)(?:\.\d+)?s ?\] (?:thds|threads): \d+,? (?:tps|eps): ([\d.]+)", re.MULTILINE)
_COUNTER_S = 10  # between the lines of HammerDB's transaction counter


@dataclass(frozen=True)
class LoggedRun:
    """One run; what the log does not say is None or empty."""

    tool: str
    threads: int | None
    rate: float  # events per second; new orders per minute for HammerDB
    server: str = ""
    p95_ms: float | None = None
    seconds: int | None = None
    busy_share: float | None = None  # of its threads' time, what sysbench spent in events
    series: tuple[tuple[float, float], ...] = ()  # seconds, and the rate there
    workload: str = ""
    file: str = ""


def all_numbers(pattern: str, text: str) -> list[float]:
    return [float(found) for found in re.findall(pattern, text, re.MULTILINE)]


def sysbench_runs(text: str) -> Iterator[LoggedRun]:
    """Read logs of 0.4 to 1.1 and of bakeoff's drop-in. A file may hold several runs."""
    for run in re.split(r"^(?=sysbench \d)", text, flags=re.MULTILINE):

        def first(pattern: str, run: str = run) -> float | None:
            return next(iter(all_numbers(pattern, run)), None)

        heading = re.match(r"sysbench (\d[\w.]*)", run)
        rate = heading and first(rf"^ *transactions: +\d+ +\({NUMBER} per sec\.\)")
        rate = rate or first(rf"^ *events(?:/s \(eps\)| per second): +{NUMBER}")
        if not heading or not rate:
            continue
        threads, seconds = first(r"^Number of threads: (\d+)"), first(rf"^ *(?:total time|time elapsed): +{NUMBER}s")
        busy_ms = first(rf"^ *sum: +{NUMBER}")
        yield LoggedRun(
            f"sysbench {heading[1]}",
            int(threads) if threads else None,
            rate,
            p95_ms=first(rf"^ *(?:95th percentile:|approx\. +95 percentile:) +{NUMBER}(?:ms)? *$"),
            seconds=round(seconds) if seconds else None,
            busy_share=busy_ms / 1000 / seconds / threads if busy_ms and seconds and threads else None,
            series=tuple((float(second), float(tps)) for second, tps in _REPORT.findall(run)),
        )


def hammerdb_runs(text: str) -> Iterator[LoggedRun]:
    users, seconds, series = None, None, list[tuple[float, float]]()
    for line in text.splitlines() if "NOPM" in text else ():
        if found := re.search(r"(\d+) Active Virtual Users configured", line):
            users = int(found[1])
        elif found := re.search(r"Timing test period of (\d+) in minutes", line):
            seconds, series = 60 * int(found[1]), []  # without the ramp-up
        elif found := re.match(r"(\d+) \w+ tpm\b", line):
            series.append((_COUNTER_S * (len(series) + 1.0), float(found[1])))
        done = re.search(r"System achieved (\d+) NOPM from \d+ (.+?) TPM", line)
        other = re.search(r"System achieved \d+ (.+?) TPM at (\d+) NOPM", line)  # Oracle of older versions
        if done or other:
            nopm, server = (done[1], done[2]) if done else (other[2], other[1]) if other else ("", "")
            if int(nopm):  # else no virtual user could work
                yield LoggedRun("HammerDB", users, float(nopm), server, None, seconds, None, tuple(series), "TPROC-C")
            series = []
