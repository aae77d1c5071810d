"""Progress of a running study on standard error: a live table, plain lines, or JSON lines.

Every method may be called from any thread and returns at once. Colours follow claims, which are anytime-valid.
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
from rich.table import Column, Table
from rich.text import Text

from bakeoff.report import numbers
from bakeoff.spec import Arm, Study
from bakeoff.stats.model import Comparison, Stop, Word
from bakeoff.stats.progress import Listener
from bakeoff.stats.resolution import NoiseCard
from bakeoff.units import format_bytes, format_duration, format_ns, format_rate, visible

_PLAIN_EVERY_S = 10.0  # between lines of progress


class QuietLive(Listener):
    """Reports only what is left behind on running servers."""

    def left_behind(self, text: str) -> None:
        print(f"note: {visible(text)}", file=sys.stderr)


class JsonLinesLive(Listener):
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def stage(self, text: str) -> None:
        self._say("stage", text=text)

    def progress(self, label: str, done: int, total: int | None, unit: str) -> None:
        self._say("progress", label=label, done=done, total=total, unit=unit)

    def throughput(self, cell: str, arm: str, per_s: float) -> None:
        self._say("throughput", cell=cell, arm=arm, per_s=per_s)

    def noise_card(self, card: NoiseCard) -> None:
        self._say("noise_card", **card.model_dump(mode="json"))

    def epoch_finished(
        self, epoch: int, comparisons: Sequence[Comparison], elapsed_s: float, remaining_s: float | None
    ) -> None:
        ratios = [
            {
                "cell": each.cell,
                "contender": each.contender,
                "epochs": each.estimate.n,
                "ratio": _ratio(each.estimate.mean) if each.estimate.n else None,
                "low": _ratio(each.estimate.interval.low),
                "high": _ratio(each.estimate.interval.high),
                "stop": each.stop.value,
            }
            for each in comparisons
        ]
        self._say("epoch", epoch=epoch, elapsed_s=elapsed_s, remaining_s=remaining_s, ratios=ratios)

    def note(self, text: str) -> None:
        self._say("note", text=text)

    def _say(self, kind: str, **fields: Any) -> None:  # noqa: ANN401
        line = json.dumps({"type": kind} | fields, ensure_ascii=False)
        with self._lock:
            print(line, file=self._stream, flush=True)


class _Labelled(Listener):
    def __init__(self, study: Study) -> None:
        self._labels = {arm.name: visible(arm.label) for arm in study.arms}
        self._lock = threading.Lock()
        self._begin = time.monotonic()
        self._speeds = _Speeds()

    def arm_joins(self, arm: Arm) -> None:
        self._labels[arm.name] = visible(arm.label)


class PlainLive(_Labelled):
    """A line for every change, for logs, pipes and dumb terminals."""

    def __init__(self, study: Study, stream: TextIO) -> None:
        super().__init__(study)
        self._stream = stream
        self._shown: dict[str, float] = {}

    def stage(self, text: str) -> None:
        self._say(text)

    def progress(self, label: str, done: int, total: int | None, unit: str) -> None:
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
        for line in _noise_lines(card, self._labels):
            self._say(line)

    def epoch_finished(
        self, epoch: int, comparisons: Sequence[Comparison], elapsed_s: float, remaining_s: float | None
    ) -> None:
        self._say(f"epoch {epoch} finished; {_left_text(remaining_s)}")
        for each in comparisons:
            interval = numbers.interval(each.estimate.interval)
            text = f", interval {interval}" if interval else ", no interval yet"
            stop = "" if each.stop is Stop.RUNNING else f" ({each.stop.value})"
            self._say(f"  {each.cell}: {self._labels[each.contender]} {_live_ratio(each)}{text}{stop}")

    def note(self, text: str) -> None:
        self._say(f"note: {text}")

    def _say(self, text: str) -> None:
        with self._lock:
            print(f"[{_clock(time.monotonic() - self._begin)}] {visible(text)}", file=self._stream, flush=True)


class _LiveView(Live):
    def print_above(self, text: Text) -> None:
        """Print a line that stays. The lock keeps Rich from drawing in between."""
        with self._lock:
            self.console.print(text)


class RichLive(_Labelled):
    """A table in place: narrowing ratios, throughput, the current stage, time elapsed and left."""

    def __init__(self, study: Study, console: Console) -> None:
        super().__init__(study)
        self._title = visible(study.title)
        self._console = console
        self._stage = "starting"
        self._progress: dict[str, tuple[int, int | None, str]] = {}
        self._rates: dict[tuple[str, str], float] = {}
        self._comparisons: Sequence[Comparison] = ()
        self._due: float | None = None
        self._live = _LiveView(console=console, get_renderable=self._render, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def stage(self, text: str) -> None:
        with self._lock:
            self._stage = visible(text)
            self._progress = {k: (d, t, u) for k, (d, t, u) in self._progress.items() if t is not None and d < t}

    def progress(self, label: str, done: int, total: int | None, unit: str) -> None:
        with self._lock:
            self._progress[visible(label)] = (done, total, unit)

    def throughput(self, cell: str, arm: str, per_s: float) -> None:
        with self._lock:
            self._rates[cell, arm] = per_s

    def noise_card(self, card: NoiseCard) -> None:
        for line in _noise_lines(card, self._labels):
            self._live.print_above(Text(line, style="dim"))

    def epoch_finished(
        self, epoch: int, comparisons: Sequence[Comparison], elapsed_s: float, remaining_s: float | None
    ) -> None:
        with self._lock:
            self._comparisons = tuple(comparisons)
            self._due = None if remaining_s is None else time.monotonic() + remaining_s

    def note(self, text: str) -> None:
        self._live.print_above(Text.assemble(("note: ", "yellow"), visible(text)))

    def close(self) -> None:
        self._live.stop()

    def _render(self) -> RenderableType:
        """The table comes last, because a short terminal cuts off the end."""
        with self._lock:
            parts: list[RenderableType] = [Text(self._title, style="bold")]
            for label, (done, total, unit) in list(self._progress.items())[-4:]:
                text = self._speeds.text(label, done, total, unit)
                parts.append(_bar(label, done, total, text, columns=self._console.width))
            at = time.monotonic()
            left = None if self._due is None else max(0.0, self._due - at)
            foot = f"{_clock(at - self._begin)}  {_left_text(left)}"
            parts.append(Text.assemble(("● ", "cyan"), self._stage, ("   " + foot, "dim")))
            return Group(*parts, self._table()) if self._comparisons else Group(*parts)

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        for heading in ("cell", "contender", "ratio", "interval", "events/s"):
            fixed = heading in ("ratio", "interval")
            table.add_column(heading, header_style="dim", overflow="fold", no_wrap=fixed)
        for comparison in self._comparisons:
            rates = [self._rates.get((comparison.cell, arm)) for arm in (comparison.baseline, comparison.contender)]
            table.add_row(
                Text(comparison.cell),
                Text(self._labels[comparison.contender]),
                Text(_live_ratio(comparison), style="bold"),
                Text(numbers.interval(comparison.estimate.interval) or "not yet", style=_style(comparison)),
                Text(" / ".join(format_rate(rate) for rate in rates if rate is not None)),
            )
        return table


def live_for(study: Study, *, quiet: bool = False, json: bool = False, stream: TextIO | None = None) -> Listener:
    stream = stream or sys.stderr
    if quiet:
        return QuietLive()
    if json:
        return JsonLinesLive(stream)
    console = Console(file=stream)
    can_draw = console.is_terminal and not console.is_dumb_terminal
    return RichLive(study, console) if can_draw else PlainLive(study, stream)


def _style(comparison: Comparison) -> str:
    if comparison.is_control:
        return "dim"
    words = comparison.verdict.words
    return "green" if Word.FASTER in words else "red" if Word.SLOWER in words else "yellow"


class _Speeds:
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
    row = Table.grid(*(Column(no_wrap=True) for _ in range(3)), padding=(0, 1, 0, 0))
    width = min(max(columns - len(label) - len(text) - 3, 5), 30)
    row.add_row(Text(label), ProgressBar(total=total, completed=done, width=width, pulse=total is None), text)
    return row


def _live_ratio(comparison: Comparison) -> str:
    estimate = comparison.estimate
    return numbers.ratio(estimate.mean, estimate.interval.half_width) if estimate.n else "n/a"


def _noise_lines(card: NoiseCard, labels: dict[str, str]) -> list[str]:
    steal = "" if card.steal_share is None else f", steal {numbers.share(card.steal_share)}"

    def percent(log_ratio: float) -> str:
        return f"{math.expm1(log_ratio) * 100:.2g}%"

    lines = [f"noise, from {card.epochs} epochs{steal}:"]
    for line in card.lines:
        known = [(minutes, half) for minutes, half in line.expected.items() if half is not None]
        expected = ", ".join(f"±{percent(half)} at {minutes} min" for minutes, half in known)
        sources = (("restart to restart", line.sd_restart), ("within a run", line.sd_within))
        split = ", ".join(f"{name} {percent(sd)}" for name, sd in sources if sd is not None)
        lines.append(
            f"  {line.cell}, {labels.get(line.contender, line.contender)}: "
            f"{split or f'between epochs {percent(line.sd_epoch)}'}; expect {expected or 'too few epochs'}; "
            f"{line.placement} connections, slices of {format_ns(line.slice_ns)}"
        )
    return lines


def _left_text(remaining_s: float | None) -> str:
    return "time left unknown" if remaining_s is None else f"about {format_duration(remaining_s)} left"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes:02d}:{rest:02d}"


def _ratio(log_ratio: float | None) -> float | None:
    return None if log_ratio is None or not math.isfinite(log_ratio) else math.exp(log_ratio)
