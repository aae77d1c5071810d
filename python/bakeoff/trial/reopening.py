"""A run whose end is no longer the one fixed beforehand: when it ends was chosen with its results in sight.

That is so when it went on after its answer had been told, and when its budget was changed. It is kept in the run
directory, because a later resume must know it too.
"""

from bakeoff.results import RunDirectory
from bakeoff.spec import Study
from bakeoff.stats.model import Stop
from bakeoff.units import format_duration

_FILE = "reopened.json"


def keep_reopening(run: RunDirectory, study: Study, *, goes_on: bool) -> None:
    """Write down why the run's end is not the one fixed beforehand; nothing of a run of which it still is.

    Call it before a further epoch is measured, while the answer that was told last is still in the directory.

    Args:
        run: what is begun or gone on with.
        study: its study, with the budget of this time.
        goes_on: further epochs will be measured. What a budget has ended stays as it was told without them.
    """
    begun_s, told = run.study().budget_s, run.analysis()
    if told is not None:
        if not goes_on and told["stopped"] == Stop.BUDGET:
            return
        because = f"it had ended ({told['stopped']}) and its answer was told"
    elif study.budget_s != begun_s:
        because = f"its budget was changed from {format_duration(begun_s)} to {format_duration(study.budget_s)}"
    else:
        return
    run.write_json(_FILE, {"because": because})


def ended_as(stop: Stop, run: RunDirectory) -> Stop:
    """How measuring ended, for the choice of the interval: BUDGET of a reopened run is REOPENED."""
    reopened = run.read_json(_FILE) is not None
    return Stop.REOPENED if stop is Stop.BUDGET and reopened else stop
