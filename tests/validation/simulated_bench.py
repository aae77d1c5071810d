"""A bench whose epochs are simulated by the arms' laws: checks on fake servers can be tested without a server."""

import math
from dataclasses import replace

import numpy as np

from validation.simulation import Conditions, Noise, Stall, simulate_epoch

STILL = Noise(restart_sd=0.0, wander_sd=0.0, slice_sd=0.01)


def option(law, name, default):
    """Value of an option of the fake server's command line."""
    return law[law.index(name) + 1] if name in law else default


def drift_of(law):
    """Log level of a server at a second of the epoch, by `--drift`."""
    kind, _, values = option(law, "--drift", "none:0/1s").partition(":")
    share, _, time = values.replace("@", "/").partition("/")
    share, time_s = float(share), float(time[:-2]) / 1e3 if time.endswith("ms") else float(time[:-1])
    factors = {
        "none": np.zeros_like,
        "linear": lambda t: share * t / time_s,
        "sin": lambda t: share * np.sin(2 * np.pi * t / time_s),
        "step": lambda t: share * (t >= time_s),
    }
    return lambda t: -np.log1p(factors[kind](t))


def simulated_bench(noise=STILL, *, restarts=True, attenuate=None, bias=0.0):
    """Return a class that replaces `FakeBench`.

    Args:
        noise: of the machine.
        restarts: if False, a server keeps its level across epochs, as if it were never restarted.
        attenuate: slice_ns -> share of an effect that such slices lose.
        bias: added to the log level of every arm except the first.
    """

    class SimulatedBench:
        def __init__(self, setting, name, *, cpus=None, together=False):
            self.rng = np.random.default_rng(setting.seed)
            self.levels = {}
            self.epochs = 0

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def _level(self, name, sd):
            if restarts or (name, sd) not in self.levels:
                self.levels[name, sd] = self.rng.normal(0, sd)
            return self.levels[name, sd]

        def epoch(self, arms, load):
            effects, stalls = {}, {}
            for name, arm in arms.items():
                injected = math.log1p(arm.slowdown_percent / 100) + math.log(
                    float(option(arm.law, "--slow-factor", "1"))
                )
                injected *= 1 - (attenuate(load.slice_ns) if attenuate else 0)
                effects[name] = (
                    bool(effects) * bias - injected + self._level(name, float(option(arm.law, "--instance-sd", "0")))
                )
                if "--stall" in arm.law:
                    stalls[name] = Stall(period_s=load.slice_ns / 1e9 * 20, length_s=load.slice_ns / 1e9 * 0.4)
            self.epochs += 1
            conditions = Conditions(
                replace(noise, drift=drift_of(next(iter(arms.values())).law)),
                seconds=max(load.seconds, 4 * len(arms) * 2 * load.slice_ns / 1e9),
                slice_ns=load.slice_ns,
                guard_ns=0,
                rate_per_s=200_000,
                connections=load.threads,
                stalls=stalls,
            )
            return simulate_epoch(self.rng, effects, conditions, epoch=self.epochs - 1, cells=(load.cell,))

    return SimulatedBench
