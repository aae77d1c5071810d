"""G14: what the client allows. Where it decides, a run says so; where it does not, more CPUs change nothing."""

import math
import os

from bakeoff.gauntlet.estimates import rate
from bakeoff.gauntlet.fake_epochs import MS, FakeArm, FakeBench, Load, judge
from bakeoff.gauntlet.fakeserver import on_fake_server
from bakeoff.gauntlet.model import Check, Finding, Setting, Size
from bakeoff.stats.interval import standard_deviation, t_quantile

_CHANGE = 0.005
_NO_OP = FakeArm(("--latency", "constant:0us"))
_WORKING = FakeArm(("--latency", "constant:2ms"))


def flagged(setting: Setting) -> Finding:
    """A server that answers at once, which measures the client."""
    load = Load(seconds=0.5, slice_ns=50 * MS, threads=4)
    with FakeBench(setting, "no-op") as bench:
        epochs = [bench.epoch({"A": _NO_OP, "B": _NO_OP}, load) for _ in range(3)]
    analysis = judge(epochs, load)
    flags = [flag for flag in analysis.comparisons[0].flags if flag.startswith("CLIENT")]
    rate = analysis.arms[0].tps
    return Finding(
        found=f"{rate:,.0f} events/s from a server that does nothing: " + (flags[0] if flags else "NOT FLAGGED"),
        passed=bool(flags),
        figures={"events_per_s": rate, "client_cpu_ns_per_event": analysis.arms[0].client_cpu_ns_per_event},
    )


def doubled(setting: Setting) -> Finding:
    """A server that takes its time, from a client with one CPU and with two, in turn."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        return Finding(found="there is only one CPU here", passed=None)
    pairs = {Size.QUICK: 6, Size.FULL: 40}[setting.size]
    load = Load(seconds=1.0, slice_ns=250 * MS, threads=4)
    few, many = frozenset(usable[:1]), frozenset(usable[:2])
    with FakeBench(setting, "one", cpus=few) as one, FakeBench(setting, "two", cpus=many) as two:
        values = []
        for number in range(pairs):
            benches = (one, two) if number % 2 else (two, one)
            rates = {bench: rate(bench.epoch({"A": _WORKING}, load)) for bench in benches}
            values.append(math.log(rates[two] / rates[one]))
        last = one.epoch({"A": _WORKING, "B": _WORKING}, load)
    mean = math.fsum(values) / pairs
    half = t_quantile(0.975, pairs - 1) * standard_deviation(values) / math.sqrt(pairs)
    bound = any(flag.startswith("CLIENT") for flag in judge([last], load).comparisons[0].flags)
    too_noisy = half > _CHANGE and abs(mean) <= half
    return Finding(
        found=f"twice the CPUs for the client: {math.expm1(mean):+.2%} ± {half:.2%}"
        + (", client-bound" if bound else "")
        + ("; the machine is too busy to tell" if too_noisy else ""),
        passed=None if too_noisy else bound or abs(mean) - half < _CHANGE,
        figures={"log_ratio": mean, "half_width": half, "pairs": pairs, "client_bound": bound},
    )


CHECKS = (
    Check(
        test="G14",
        what="a fake server that does nothing",
        target="the run is flagged client-bound",
        sizes=frozenset(Size),
        run=on_fake_server(flagged),
    ),
    Check(
        test="G14",
        what="twice the CPUs for the client",
        target="throughput changes < 0.5 %, or client-bound",
        sizes=frozenset({Size.QUICK, Size.FULL}),
        run=on_fake_server(doubled),
    ),
)
