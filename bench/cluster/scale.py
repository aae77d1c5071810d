#!/usr/bin/env python3
"""What a cluster's driver costs: fake epochs of many hosts through the driver's own loop, as fast as it takes them.

    bench/cluster/scale.py [--hosts 1000] [--epochs 100000] [--slices 160] [--cells 1]

Epochs come back as archives, as workers send them, and go the driver's way: unpacked into a run directory, read,
reduced to estimates, counted by the stopping rule, reported to a listener. The rule is asked as usual, but its answer
is ignored, so that all epochs are taken. Making the archives is the workers' part and not counted. A line
is printed for each tenth; the last ones are the whole, and the analysis at the end, which reads every epoch again. CPU
seconds of this process; memory is its largest resident set.
"""

import argparse
import io
import json
import random
import resource
import shutil
import sys
import tarfile
import tempfile
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / part) for part in ("python", "tests/report", ".")]

from synthetic import HOST, Truth, duel_study, histograms_of, slices_of_cell

from bakeoff.cluster.worker import unpack
from bakeoff.plan import plan_study
from bakeoff.results import Outcome, RunDirectory
from bakeoff.run.epoch import EpochDone, Interrupted
from bakeoff.run.study_run import StudyRun
from bakeoff.stats.model import Stop
from bakeoff.stats.progress import Listener

KINDS = 40  # of epochs that are made; every host takes them in turn
OVERHEAD_S, MEASURED_S = 6.0, 10.0


class FakeHosts:
    """Hosts that have measured an epoch as soon as they are asked."""

    def __init__(self, run, study, plan, hosts, epochs, slices):
        self.run, self.epochs, self.names = run, epochs, [f"node-{at:04d}" for at in range(hosts)]
        self.ready, self.orders, self.taken = list(self.names), [], 0
        self.making_s = 0.0
        self.marks = []
        self.contents = [self.files(study, plan, slices, kind) for kind in range(KINDS)]

    def files(self, study, plan, slices, kind):
        """Return what a worker sends for an epoch, except its outcome."""
        rng = random.Random(kind)
        with tempfile.TemporaryDirectory() as folder:
            writer = RunDirectory(Path(folder)).epoch(0, 0)
            truth = Truth(effect={"B": -0.1 + rng.gauss(0, 0.014)}, sd_restart=0.0)
            for cell in plan.cells:
                made = slices_of_cell(
                    study, truth, cell=cell.name, cell_index=0, threads=cell.threads, epoch=kind,
                    blocks=slices // (2 * len(study.arms)), slice_ns=100_000_000,
                )  # fmt: skip
                writer.slices.extend(row | {"errors": {}, "threads": {}} for row in made.records())
                writer.histograms.extend(histograms_of(made))
            for arm in study.arms:
                writer.write_server_json(arm.name, "variables.json", {f"variable_{at}": "ON" for at in range(500)})
            writer.finish(Outcome(epoch=0, build=0, started_at=datetime.now(UTC), wall_s=16.0, measured_s=MEASURED_S))
            path = writer.path
            return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}

    def free(self):
        return 0 if self.taken + len(self.orders) >= self.epochs else len(self.ready)

    def busy(self):
        return True  # until `wait` ends it

    def begin(self, order):
        self.run.epoch(order.draft.epoch, order.draft.build)
        self.orders.append((order, self.ready.pop()))

    def leave_out(self, _host):
        return True

    def wait(self):
        if self.taken % max(1, self.epochs // 10) == 0:
            self.marks.append((self.taken, time.monotonic(), time.process_time() - self.making_s))
            show_tenth(self.marks)
        if not self.orders:
            raise Interrupted
        begin = time.process_time()
        order, host = self.orders.pop(random.randrange(len(self.orders)))
        archive = self.archive(order.draft, host)
        self.making_s += time.process_time() - begin
        unpack(archive, self.run.path)
        self.ready.insert(0, host)
        self.taken += 1
        return EpochDone(order.draft.epoch, host)

    def archive(self, draft, host):
        outcome = Outcome(
            epoch=draft.epoch, build=draft.build, started_at=datetime.now(UTC), wall_s=OVERHEAD_S + MEASURED_S,
            measured_s=MEASURED_S, host=host,
        )  # fmt: skip
        files = self.contents[(draft.epoch + hash(host)) % KINDS] | {"outcome.json": outcome.model_dump_json().encode()}
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for name, content in files.items():
                member = tarfile.TarInfo(f"epochs/{draft.epoch:03d}/{name}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        return packed.getvalue()


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=100_000)
    parser.add_argument("--slices", type=int, default=160, help="of a cell and epoch, all arms")
    parser.add_argument("--cells", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the run directory is made and removed again")
    chosen = parser.parse_args()
    random.seed(1)
    threads = tuple(range(1, chosen.cells + 1))
    study = duel_study(workloads=("oltp_point_select",), threads=threads, control=False)
    study = study.model_copy(update={"precision": 1e-9, "budget_s": 1e9})
    folder = Path(tempfile.mkdtemp(dir=chosen.folder))
    try:
        run = RunDirectory.create(folder, study)
        plan = plan_study(study.model_copy(update={"budget_s": 3600.0}), overhead_s=OVERHEAD_S, load_s=10.0)
        run.write_json("plan.json", plan)
        for at in range(chosen.hosts):
            run.write_json(f"hosts/node-{at:04d}.json", HOST)
        hosts = FakeHosts(run, study, plan, chosen.hosts, chosen.epochs, chosen.slices)
        loop = Timed(study, run, hosts, Listener(), threading.Event(), time.monotonic(), builds=1, at_once=2, plan=plan)
        loop.run()
        show(hosts.marks, loop, chosen)
    finally:
        shutil.rmtree(folder)


class Timed(StudyRun):
    """The loop, with what it had cost when the last epoch was taken."""

    def _decide(self):
        return replace(super()._decide(), stop=Stop.RUNNING, settled=frozenset())

    def _finish(self, stop):
        self.loop_peak = peak_bytes()
        begin = time.process_time()
        analysis = super()._finish(stop)
        self.end_s, self.end_peak = time.process_time() - begin, peak_bytes()
        return analysis


def show_tenth(marks):
    if len(marks) < 2:
        print(f"{'epochs':>8} {'epochs/s':>9} {'CPU ms/epoch':>13} {'peak MB':>8}", flush=True)
        return
    (before, begun_s, used_s), (taken, ended_s, spent_s) = marks[-2:]
    per_s, cpu_ms = (taken - before) / (ended_s - begun_s), 1e3 * (spent_s - used_s) / (taken - before)
    print(f"{taken:8d} {per_s:9.0f} {cpu_ms:13.2f} {peak_bytes() / 1e6:8.0f}", flush=True)


def show(marks, loop, chosen):
    (_, begun_s, used_s), (taken, ended_s, spent_s) = marks[0], marks[-1]
    print(
        json.dumps(
            {
                "hosts": chosen.hosts, "epochs": taken, "slices": chosen.slices, "cells": chosen.cells,
                "epochs_per_s": round(taken / (ended_s - begun_s), 1),
                "cpu_ms_per_epoch": round(1e3 * (spent_s - used_s) / taken, 2),
                "peak_bytes": loop.loop_peak,
                "at_the_end": {"cpu_s": round(loop.end_s, 1), "peak_bytes": loop.end_peak},
            }
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
