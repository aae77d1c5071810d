#!/usr/bin/env python3
"""What Ray's daemons cost the servers of a node: the same servers in turn with the daemons running and stopped.

    bench/cluster/daemons.py [--server mysql:8.0.15] [--pairs 60] [--seconds 2]

Starts a cluster of this machine alone, as `--ray local` does. In each pair the daemons run in
one half and are stopped by SIGSTOP in the other, in random order; a pair's log ratio is one value, the interval is t
over pairs. The last line says which share of a CPU they took while they ran. A stop of a few seconds is too short for
Ray to notice.
"""

import argparse
import contextlib
import math
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from statistics import fmean, stdev

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from bakeoff.cluster.nodes import LOCAL, connected
from bakeoff.engine import Engine
from bakeoff.plan import epoch_draft, plan_study
from bakeoff.results import RunDirectory
from bakeoff.run.arms import prepare_arms, share_memory
from bakeoff.run.epoch import Epoch
from bakeoff.run.loading import Loader
from bakeoff.run.runner import load
from bakeoff.servers import ServerPool
from bakeoff.servers.paths import work_root
from bakeoff.spec import Arm, Connection, Data, Study, Workload, parse_server
from bakeoff.stats.interval import t_interval
from bakeoff.stats.progress import Listener


class Daemons:
    """The processes that Ray has started here for this program."""

    def __init__(self):
        ours = psutil.Process().children(recursive=True)
        # Idle workers do not count as daemons: in a run they do the measuring.
        commands = {each: " ".join(each.cmdline()) for each in ours}
        self.processes = [each for each, command in commands.items() if "ray" in command and "ray::IDLE" not in command]
        self.used_s = self.ran_s = 0.0

    def send(self, number):
        for process in self.processes:
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)

    @contextlib.contextmanager
    def running(self, run):
        """Run them or stop them inside the block."""
        self.send(signal.SIGCONT if run else signal.SIGSTOP)
        begin, before = time.monotonic(), self.cpu_s()
        try:
            yield
        finally:
            if run:
                self.ran_s += time.monotonic() - begin
                self.used_s += self.cpu_s() - before
            self.send(signal.SIGCONT)

    def cpu_s(self):
        total = 0.0
        for process in self.processes:
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system
        return total


class Half:
    """Measures one half of a pair."""

    def __init__(self, daemons):
        self.daemons, self.run, self.events, self.busy_s = daemons, True, 0, 0.0

    @contextlib.contextmanager
    def watch(self, _servers, _cell):
        self.events, self.busy_s = 0, 0.0
        with self.daemons.running(self.run):
            yield self.add

    def add(self, message):
        self.events += message["events"]
        self.busy_s += message["busy_ns"] / message["connections"] / 1e9

    def rate(self, epoch, cell, seconds, *, run):
        self.run = run
        epoch.measure(cell, seconds / 2)  # of each of two equal arms
        return self.events / self.busy_s


def study_of(server):
    arms = tuple(
        Arm(name=name, label=name, server=parse_server(server), data=Data(), connection=Connection()) for name in "AB"
    )
    return Study(
        title="what Ray's daemons cost", arms=arms, workloads=(Workload(script="oltp_point_select"),), threads=(2,),
        tables=1, table_size=10_000, builds=1, budget_s=600.0, seed=1,
    )  # fmt: skip


def measure(server, pairs, seconds, folder):
    """Return log ratios of throughput with daemons over without, one per pair, and the share of a CPU they took."""
    study, view, stop = study_of(server), Listener(), threading.Event()
    share = share_memory(study)
    setups = prepare_arms(study, share.memory, passwords={}, on_progress=lambda *_: None)
    with ServerPool(work_root()) as pool, Engine() as engine:
        run = RunDirectory.create(folder, study, engine=engine.hello.facts())
        tools = load(Loader(study, pool, run, view, engine, stop), setups, share)
        plan = plan_study(study, overhead_s=10.0, load_s=0.0)
        (cell,) = plan.cells
        draft = epoch_draft(plan, study, 0)
        daemons = Daemons()
        half = Half(daemons)
        epoch = Epoch(tools, draft, run.epoch(0, 0), watch=half.watch)
        values = []
        with epoch.round(plan.arms):
            epoch.warm((cell,))
            for _ in range(pairs):
                order = random.sample([True, False], 2)
                rates = {run: half.rate(epoch, cell, seconds, run=run) for run in order}
                values.append(math.log(rates[True] / rates[False]))
        return values, daemons.used_s / daemons.ran_s, len(daemons.processes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="mysql:8.0.15")
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each half")
    parser.add_argument("--folder", type=Path, default=Path("bakeoff-runs"), help="of the run directory")
    given = parser.parse_args()
    with connected(LOCAL):
        values, share, count = measure(given.server, given.pairs, given.seconds, given.folder)
    mean = fmean(values)
    interval = t_interval(mean, stdev(values), len(values), alpha=0.05)
    low, high = math.exp(interval.low), math.exp(interval.high)
    print(f"with daemons over without: {math.exp(mean):.4f} ({low:.4f} to {high:.4f}), {len(values)} pairs")
    print(f"{count} processes took {share:.2%} of a CPU of {os.cpu_count()}")


if __name__ == "__main__":
    main()
