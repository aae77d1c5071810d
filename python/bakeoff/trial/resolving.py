"""A short trial of two equal servers, for what this machine can resolve (`bakeoff doctor`)."""

import tempfile
import threading
from pathlib import Path

from bakeoff.plan import Plan
from bakeoff.spec import Arm, Study, Workload, parse_server
from bakeoff.stats.estimate import epoch_estimates
from bakeoff.stats.resolution import Resolution, resolution
from bakeoff.trial.listener import Listener
from bakeoff.trial.study import run_study

TRIAL_S = 60.0
"""Wall seconds of the trial, about."""


def resolve(server: str, *, seed: int, threads: int, listener: Listener, stop: threading.Event) -> Resolution | None:
    """Run two equal servers against each other and foretell; the run is thrown away.

    Args:
        server: as on the command line.
        seed: everything random follows from it.
        threads: connections of each arm.
        listener: told what happens.
        stop: set it to end in order.

    Returns:
        What is foretold, or None when too few epochs came to an end.

    Raises:
        BakeoffError: the server could not be had, or did not run.
    """
    spec = parse_server(server)
    study = Study(
        title=f"what this machine resolves, by {spec}",
        arms=tuple(Arm(name=name, label=f"{spec} ({name})", server=spec) for name in "AB"),
        workloads=(Workload(script="oltp_point_select"),),
        threads=(threads,),
        tables=1,
        table_size=10_000,
        budget_s=TRIAL_S,
        builds=1,
        seed=seed,
    )
    with tempfile.TemporaryDirectory(prefix="bakeoff-doctor-") as folder:
        run, _ = run_study(
            study, Path(folder), listener=listener, stop=stop, passwords={}, command_line=("bakeoff", "doctor")
        )
        plan = Plan.model_validate(run.plan())
        valid = [data for data in run.load_epochs() if data.valid]
        pairs = [pair for data in valid for pair in epoch_estimates(data, baseline="A").pairs]
    return resolution(pairs, overhead_s=plan.overhead_s, load_s=plan.load_s)
