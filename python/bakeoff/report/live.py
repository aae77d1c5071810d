"""Progress of a running study: a live table in a terminal, plain lines elsewhere, JSON lines for programs.

All of them go to standard error, so that standard output holds the verdict alone. Every method may be called from any
thread and returns at once. The interval shown is the anytime-valid one: it stays valid however often one looks.
"""

import json
import math
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import Segment, SegmentLines
from rich.table import Table
from rich.text import Text

from bakeoff.report import numbers
from bakeoff.spec import Arm, Study
from bakeoff.stats.model import Comparison, Interval, Stop
from bakeoff.stats.progress import Listener
from bakeoff.stats.resolution import NoiseCard
from bakeoff.units import format_bytes, format_duration, format_ns, format_rate, visible

Lines = list[list[Segment]]

_PLAIN_EVERY_S = 10.0  # a line of progress at most that often
_AXIS = 31  # characters of the live interval
_WIDE = 112  # columns from which it fits beside the numbers
_AXIS_LEAST = math.log(1.03)  # the axis shows at least a factor of 1.03 to both sides


class QuietLive(Listener):
    """Reports only what stays on running servers."""

    def left_behind(self, text: str) -> None:
        """Print a line."""
        print(f"note: {visible(text)}", file=sys.stderr)


class JsonLinesLive(Listener):
    """One JSON object per line, each with a `type`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def stage(self, text: str) -> None:
        """`{"type": "stage", "text": …}`."""
        self._say("stage", text=text)

    def progress(self, label: str, done: int, total: int | None, unit: str) -> None:
        """`{"type": "progress", "label": …, "done": …, "total": …, "unit": "rows"}`."""
        self._say("progress", label=label, done=done, total=total, unit=unit)

    def throughput(self, cell: str, arm: str, per_s: float) -> None:
        """`{"type": "throughput", "cell": …, "arm": …, "per_s": …}`."""
        self._say("throughput", cell=cell, arm=arm, per_s=per_s)

    def noise_card(self, card: NoiseCard) -> None:
        """`{"type": "noise_card", …}` with the card's fields."""
        self._say("noise_card", **card.model_dump(mode="json"))

    def epoch_finished(
        self, epoch: int, comparisons: Sequence[Comparison], elapsed_s: float, remaining_s: float | None
    ) -> None:
        """`{"type": "epoch", …}`; ratios with their anytime-valid intervals."""
        ratios = [
            {
                "cell": c.cell, "contender": c.contender, "epochs": c.estimate.n,
                "ratio": _ratio(c.estimate.mean) if c.estimate.n else None,
                "low": _ratio(c.live.low), "high": _ratio(c.live.high), "stop": c.stop.value,
            }
            for c in comparisons
        ]  # fmt: skip
        self._say("epoch", epoch=epoch, elapsed_s=elapsed_s, remaining_s=remaining_s, ratios=ratios)

    def note(self, text: str) -> None:
        """`{"type": "note", "text": …}`."""
        self._say("note", text=text)

    def _say(self, kind: str, **fields: Any) -> None:  # noqa: ANN401
        line = json.dumps({"type": kind} | fields, ensure_ascii=False)
        with self._lock:
            print(line, file=self._stream, flush=True)


class PlainLive(Listener):
    """A line for every change, for logs, pipes and dumb terminals."""

    def __init__(self, study: Study, stream: TextIO) -> None:
        self._labels = _labels(study)
        self._stream = stream
        self._lock = threading.Lock()
        self._begin = time.monotonic()
        self._shown: dict[str, float] = {}
        self._speeds = _Speeds()

    def stage(self, text: str) -> None:
        """Print a line with the time since the start."""
        self._say(text)

    def progress(self, label: str, done: int, total: int | None, unit: str) -> None:
        """Print at most a line in ten seconds per label, and one at its end."""
        at = time.monotonic()
        if self._speeds.begins_anew(label, done):
            self._shown[label] = at
        text = self._speeds.text(label, done, total, unit)
        finished = total is not None and done >= total
        if not finished and at - self._shown.get(label, self._begin) < _PLAIN_EVERY_S:
            return
        if self._shown.get(label) == math.inf:
            return
        self._shown[label] = math.inf if finished else at
        self._say(f"{label}: {text}")

    def noise_card(self, card: NoiseCard) -> None:
        """Print a line per comparison."""
        for line in _noise_lines(card, self._labels):
            self._say(line)

    def epoch_finished(
        self, epoch: int, comparisons: Sequence[Comparison], elapsed_s: float, remaining_s: float | None
    ) -> None:
        """Print a line per comparison."""
        self._say(f"epoch {epoch} finished; {_left_text(remaining_s)}")
        for comparison in comparisons:
            self._say(f"  {_comparison_text(comparison, self._labels)}")

    def arm_joins(self, arm: Arm) -> None:
        """Learn its label."""
        self._labels[arm.name] = visible(arm.label)

    def note(self, text: str) -> None:
        """Print a line."""
        self._say(f"note: {text}")

    def _say(self, text: str) -> None:
        with self._lock:
            print(f"[{_clock(time.monotonic() - self._begin)}] {visible(text)}", file=self._stream, flush=True)


class _LiveView(Live):
    """Rich's live view, above which threads may print at any time."""

    def print_above(self, text: Text) -> None:
        """Print a line that stays. The lock keeps Rich from drawing in between."""
        with self._lock:
            self.console.print(text)


class RichLive(Listener):
    """A table in place: narrowing ratios, throughput, the current stage, time elapsed and left."""

    def __init__(self, study: Study, console: Console) -> None:
        self._study = study
        self._labels = _labels(study)
        self._console = console
        self._lock = threading.Lock()
        self._begin = time.monotonic()
        self._stage = "starting"
        self._progress: dict[str, tuple[int, int | None, str]] = {}
        self._speeds = _Speeds()
        self._rates: dict[tuple[str, str], float] = {}
        self._comparisons: Sequence[Comparison] = ()
        self._due: float | None = None
        self._live = _LiveView(console=console, get_renderable=self._render, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def stage(self, text: str) -> None:
        """Show a stage until the next one, and drop finished progress bars."""
        with self._lock:
            self._stage = visible(text)
            self._progress = {k: (d, t, u) for k, (d, t, u) in self._progress.items() if t is not None and d < t}

    def progress(self, label: str, done: int, total: int | None, unit: str) -> None:
        """Show a bar for each label."""
        with self._lock:
            self._progress[visible(label)] = (done, total, unit)

    def throughput(self, cell: str, arm: str, per_s: float) -> None:
        """Show the rate beside its cell."""
        with self._lock:
            self._rates[cell, arm] = per_s

    def noise_card(self, card: NoiseCard) -> None:
        """Print the card above the table."""
        for line in _noise_lines(card, self._labels):
            self._live.print_above(Text(line, style="dim"))

    def epoch_finished(
        self, epoch: int, comparisons: Sequence[Comparison], elapsed_s: float, remaining_s: float | None
    ) -> None:
        """Update the table."""
        with self._lock:
            self._comparisons = tuple(comparisons)
            self._due = None if remaining_s is None else time.monotonic() + remaining_s

    def arm_joins(self, arm: Arm) -> None:
        """Learn its label."""
        self._labels[arm.name] = visible(arm.label)

    def note(self, text: str) -> None:
        """Print a line above the table."""
        self._live.print_above(Text.assemble(("note: ", "yellow"), visible(text)))

    def close(self) -> None:
        """Remove the table; what was printed above it stays."""
        self._live.stop()

    def _render(self) -> RenderableType:
        with self._lock:
            above = self._lines(Text(visible(self._study.title), style="bold"))
            parts: list[RenderableType] = []
            for label, (done, total, unit) in list(self._progress.items())[-4:]:
                text = self._speeds.text(label, done, total, unit)
                parts.append(_bar(label, done, total, text, columns=self._console.width))
            at = time.monotonic()
            left = None if self._due is None else max(0.0, self._due - at)
            foot = f"{_clock(at - self._begin)}  {_left_text(left)}"
            parts.append(Text.assemble(("● ", "cyan"), self._stage, ("   " + foot, "dim")))
            below = self._lines(*parts)
            table = self._fitting_table(self._console.height - 1 - len(above) - len(below))
            return SegmentLines([*above, *table, *below], new_lines=True)

    def _lines(self, *parts: RenderableType) -> Lines:
        return self._console.render_lines(Group(*parts), pad=False)

    def _fitting_table(self, room: int) -> Lines:
        """The table with as many comparisons as fit into that many lines; empty if its heading does not fit."""
        count = len(self._comparisons)
        shown = count if count < room else room - 2
        while count and shown >= 0:
            lines = self._lines(self._table(shown))
            excess = len(lines) - room
            if excess <= 0:
                return lines
            shown -= max(1, excess // 2)  # a comparison that needs more than a line needs two as a rule
        return []

    def _table(self, shown: int) -> Table:
        """The first comparisons, and how many more there are."""
        table = Table(box=None, pad_edge=False)
        wide = self._console.width >= _WIDE
        for heading in ("cell", "contender", "ratio", "live interval", *([""] if wide else []), "events/s"):
            fixed = heading in ("ratio", "live interval", "")
            table.add_column(heading, header_style="dim", overflow="fold", no_wrap=fixed)
        reach = axis_reach(self._comparisons)
        for comparison in self._comparisons[:shown]:
            rates = [self._rates.get((comparison.cell, arm)) for arm in (comparison.baseline, comparison.contender)]
            strip = interval_strip(comparison.estimate.mean, comparison.live, reach)
            table.add_row(
                Text(comparison.cell),
                Text(self._labels[comparison.contender]),
                Text(_live_ratio(comparison), style="bold"),
                Text(numbers.interval(comparison.live) or "not yet", style="" if wide else _style(comparison)),
                *([Text(strip, style=_style(comparison))] if wide else []),
                Text(" / ".join(format_rate(rate) for rate in rates if rate is not None)),
            )
        if more := len(self._comparisons) - shown:
            table.add_row(Text(f"… and {more} more", style="dim"))
        return table


def live_for(study: Study, *, quiet: bool = False, json: bool = False, stream: TextIO | None = None) -> Listener:
    """The view that suits standard error."""
    stream = stream or sys.stderr
    if quiet:
        return QuietLive()
    if json:
        return JsonLinesLive(stream)
    console = Console(file=stream)
    return (
        RichLive(study, console) if console.is_terminal and not console.is_dumb_terminal else PlainLive(study, stream)
    )


def axis_reach(comparisons: Sequence[Comparison]) -> float:
    """Half-length of the axis as a log ratio. It holds every mean, and intervals up to three times as far."""
    means = [abs(c.estimate.mean) for c in comparisons if math.isfinite(c.estimate.mean)]
    reach = max([_AXIS_LEAST, *(1.2 * mean for mean in means)])
    ends = [
        abs(end) for c in comparisons for end in (c.live.low, c.live.high) if end is not None and math.isfinite(end)
    ]
    return min(max([reach, *ends]), 3 * reach)


def interval_strip(mean: float, interval: Interval, reach: float) -> str:
    """An interval on an axis from -reach to +reach (log ratios), 1 in the middle."""

    def column(value: float | None) -> int | None:
        if value is None or math.isnan(value):
            return None
        share = (min(max(value, -reach), reach) + reach) / (2 * reach)
        return round(share * (_AXIS - 1))

    low, high = interval.low, interval.high
    cut = (low is not None and low < -reach, high is not None and high > reach)
    point = column(mean) if math.isfinite(mean) else None
    return numbers.strip(_AXIS, _AXIS // 2, column(low), point, column(high), cut=cut)


def _style(comparison: Comparison) -> str:
    low, high = comparison.live.low, comparison.live.high
    if comparison.is_control:
        return "dim"
    if low is None or high is None:
        return "yellow"
    return "green" if low > 0 else "red" if high < 0 else "yellow"


class _Speeds:
    """Speed of each labelled job since its first report."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[float, int]] = {}
        self._last: dict[str, int] = {}

    def text(self, label: str, done: int, total: int | None, unit: str) -> str:
        """`51 MB of 554 MB, 12.5 MB/s, 42 s left`."""
        amount, rate = (format_bytes, format_bytes) if unit == "bytes" else ("{:,}".format, format_rate)
        text = amount(done) if total is None else f"{amount(done)} of {amount(total)}"
        at = time.monotonic()
        if self.begins_anew(label, done):
            del self._first[label]
        self._last[label] = done
        begin, first = self._first.setdefault(label, (at, done))
        if at - begin < 1 or done <= first:
            return text
        per_s = (done - first) / (at - begin)
        left = f", {format_duration((total - done) / per_s)} left" if total is not None and done < total else ""
        return f"{text}, {rate(per_s)}/s{left}"

    def begins_anew(self, label: str, done: int) -> bool:
        """True if less is done than before, as when the next load of the same server begins."""
        return done < self._last.get(label, 0)


def _bar(label: str, done: int, total: int | None, text: str, *, columns: int) -> Table:
    row = Table.grid(padding=(0, 1, 0, 0))
    row.add_column(no_wrap=True)
    row.add_column(no_wrap=True)
    row.add_column(no_wrap=True)
    room = columns - len(label) - len(text) - 3
    row.add_row(
        Text(label),
        ProgressBar(total=total, completed=done, width=min(max(room, 5), 30), pulse=total is None),
        text,
    )
    return row


def _live_ratio(comparison: Comparison) -> str:
    estimate = comparison.estimate
    return numbers.ratio(estimate.mean, comparison.live.half_width) if estimate.n else "n/a"


def _comparison_text(comparison: Comparison, labels: dict[str, str]) -> str:
    interval = numbers.interval(comparison.live)
    text = f"{comparison.cell}: {labels[comparison.contender]} {_live_ratio(comparison)}"
    text += f", live interval {interval}" if interval else ", no interval yet"
    return text if comparison.stop is Stop.RUNNING else f"{text} ({comparison.stop.value})"


def _noise_lines(card: NoiseCard, labels: dict[str, str]) -> list[str]:
    steal = "" if card.steal_share is None else f", steal {numbers.share(card.steal_share)}"
    lines = [f"noise, from {card.epochs} epochs{steal}:"]
    for line in card.lines:
        expected = ", ".join(
            f"±{math.expm1(half) * 100:.2g}% at {minutes} min"
            for minutes, half in line.expected.items()
            if half is not None
        )
        split = [
            f"{name} {math.expm1(sd) * 100:.2g}%"
            for name, sd in (("restart to restart", line.sd_restart), ("within a run", line.sd_within))
            if sd is not None
        ]
        between_epochs = f"between epochs {math.expm1(line.sd_epoch) * 100:.2g}%"
        lines.append(
            f"  {line.cell}, {labels.get(line.contender, line.contender)}: {', '.join(split) or between_epochs}; "
            f"expect {expected or 'too few epochs'}; {line.placement} connections, slices of {format_ns(line.slice_ns)}"
        )
    return lines


def _labels(study: Study) -> dict[str, str]:
    return {arm.name: visible(arm.label) for arm in study.arms}


def _left_text(remaining_s: float | None) -> str:
    return "time left unknown" if remaining_s is None else f"about {format_duration(remaining_s)} left"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes:02d}:{rest:02d}"


def _ratio(log_ratio: float | None) -> float | None:
    return None if log_ratio is None or not math.isfinite(log_ratio) else math.exp(log_ratio)
