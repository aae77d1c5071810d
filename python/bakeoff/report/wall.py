"""Where a run's wall time went, as a table and as a sentence."""

from bakeoff.report import numbers
from bakeoff.report.context import Context
from bakeoff.report.view import Row, Table, Value
from bakeoff.results.wall import WallTime, wall_time
from bakeoff.units import format_duration

_MEANING = {
    "load": "loading the data, once a build; ANALYZE, flushing, keeping a copy",
    "restore": "copying the data for every server",
    "start": "starting the servers",
    "gates": "reading every table into memory; purge and flushing done",
    "check": "comparing rows between the arms, scripts' own checks",
    "warm": "load that is not counted",
    "pilot": "choosing the slice length, in the first epoch",
    "settle": "flushing between writing cells",
    "measure": "measuring",
    "stop": "ending the servers, removing their data",
    "other": "reading variables and counters, statistics between epochs",
}


def wall_table(context: Context) -> Table:
    """One row a phase, with its share; the note says how much of all was measuring."""
    taken = wall_time(context.run.builds(), context.outcomes)
    rows = tuple(
        Row(
            group="",
            values=(
                Value(text=phase),
                Value(text=_seconds(seconds)),
                Value(text=numbers.share(seconds / taken.total_s)),
                Value(text=_seconds(seconds / len(context.outcomes)) if phase != "load" else ""),
                Value(text=_MEANING[phase]),
            ),
        )
        for phase, seconds in taken.phases_s.items()
    )
    return Table(
        id="wall",
        group_title="",
        columns=("phase", "in all", "share", "an epoch", "what it is"),
        rows=rows,
        note=_sentence(taken),
    )


def _sentence(taken: WallTime) -> str:
    if not taken.total_s:
        return ""
    return (
        f"{numbers.share(taken.measured_share)} of {format_duration(taken.total_s)} were measuring; fetching servers "
        "and making this report are not counted."
    )


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s"
