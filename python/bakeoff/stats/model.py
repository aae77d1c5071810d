"""The values of an analysis, written to `analysis.json`. Effects are natural-log ratios, contender over baseline."""

from collections.abc import Iterable
from enum import StrEnum
from functools import cached_property
from typing import Literal, Self

from pydantic import ConfigDict, Field

from bakeoff import spec


class Frozen(spec.Frozen):
    """Base of the records of statistics. They may hold NaN: the mean of no epochs."""

    model_config = ConfigDict(allow_inf_nan=True)


class Stop(StrEnum):
    """Why measuring of a cell ended."""

    PRECISE = "precise"  # half-width reached the target, or a tenth of the effect
    DECISIVE = "decisive"  # the anytime-valid interval excludes the reference of a gate
    BUDGET = "budget"  # time ran out first
    ABORTED = "aborted"  # the user ended it
    EXTENDED = "extended"  # time ran out in a run that was continued with results in sight
    ANSWERED = "answered"  # the question was answered before every comparison was settled
    RUNNING = "running"

    @property
    def anytime_only(self) -> bool:
        """Whether claims rest on the anytime-valid interval."""
        return self in (Stop.ABORTED, Stop.EXTENDED, Stop.ANSWERED, Stop.RUNNING)


class Word(StrEnum):
    FASTER = "FASTER"
    SLOWER = "SLOWER"
    EQUIVALENT = "EQUIVALENT"
    INCONCLUSIVE = "INCONCLUSIVE"
    RATE_FIXED = "RATE FIXED"  # an open loop: the schedule sets the throughput; compare response times


class Interval(Frozen):
    """A two-sided interval of a log ratio; both ends are None if n is too small."""

    low: float | None
    high: float | None

    @property
    def half_width(self) -> float | None:
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    def within(self, margin: float) -> bool:
        return self.low is not None and self.high is not None and -margin < self.low and self.high < margin

    def holds(self, value: float) -> bool:
        return self.low is not None and self.high is not None and self.low <= value <= self.high


class Estimate(Frozen):
    mean: float
    interval: Interval
    n: int


class EpochPoint(Frozen):
    epoch: int
    build: int
    value: float
    host: str = Field(default="", exclude_if=lambda host: not host)


class Verdict(Frozen):
    """The answer of one comparison in one cell."""

    words: tuple[Word, ...]  # FASTER, SLOWER or INCONCLUSIVE, with EQUIVALENT beside or alone; or RATE_FIXED
    at_least: float | None  # for a claim, the end of the interval nearer to 0, as a log ratio
    sentence: str  # the answer in words, without the cell's name

    @property
    def claims(self) -> bool:
        return bool({Word.FASTER, Word.SLOWER} & set(self.words))


class CarryOver(Frozen):
    """How much faster a slice is right after one of the same arm; None below two epochs."""

    common: Estimate | None  # mean of the two arms
    bias: Estimate | None  # the part that the log ratio contains


class FlagKind(StrEnum):
    """What to distrust about a run or a comparison, the gravest first, with advice in one sentence."""

    advice: str

    UNTRUSTED = "UNTRUSTED", "Rely on nothing here, and look for what treats the arms differently."
    NO_VERDICT = "NO VERDICT", "Remove what keeps the arms from being compared."
    DIFFERENT_WORK = "DIFFERENT WORK", "Look at the rows or failures that differ: the arms did not do the same work."
    SETTINGS = "SETTINGS", "Declare the setting for the arms that should have it, or remove it."
    CLIENT_BOUND = "CLIENT BOUND", "Give the client more CPUs, a nearer host, heavier statements or a lower rate."
    UNSTABLE = "UNSTABLE", "Look at the throughput over time: the mean hides something."
    BUSY_MACHINE = "BUSY MACHINE", "Run it again alone."
    NOT_FINISHED = "NOT FINISHED", "Continue with `bakeoff run --resume`, with a larger budget if it was spent."
    INJECTED = "INJECTED", "Use this run to test the method only."

    def __new__(cls, value: str, advice: str) -> Self:
        self = str.__new__(cls, value)
        self._value_, self.advice = value, advice
        return self


class Flag(Frozen):
    kind: FlagKind
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class Obstacle(StrEnum):
    NOTHING_DONE = "nothing done"  # an arm completed nothing in an epoch
    NOT_RESTARTED = "not restarted"  # a server was running already


class Comparison(Frozen):
    """Throughput of one contender over the baseline in one cell."""

    cell: str
    workload: str
    threads: int
    baseline: str
    contender: str
    is_control: bool
    points: tuple[EpochPoint, ...]  # one value D_e per epoch, in order
    estimate: Estimate  # mean ± h_n
    live: Interval  # the anytime-valid interval (alpha 5%), on which claims rest until measuring has ended
    stop: Stop
    verdict: Verdict
    trimmed: Estimate  # without rare stalls and bursts (20% trimmed means of half blocks)
    disagree: bool  # the interval of one estimate excludes the other: stalls or bursts differ between the arms
    p_value: float | None  # two-sided; None below n_min, or if `stop.anytime_only`
    p_adjusted: float | None  # after Holm over the family
    sd_restart: float | None  # part of the spread of one epoch's value that only more restarts average out
    sd_within: float | None  # the part that longer epochs average out
    carry_over: CarryOver
    flags: tuple[Flag, ...]
    obstacle: Obstacle | None = None
    more_epochs: int | None  # until the target precision; None if unknown
    more_s: float | None


class LatencyRatio(Frozen):
    """A quantile's log ratio over epochs (exploratory); no estimate if too few events lie beyond the quantile."""

    cell: str
    contender: str
    operation: str
    clock: str
    quantile: float
    estimate: Estimate | None
    error: float | None = None  # standard error of the mean; None below two epochs
    differs: bool  # at a false discovery rate of 5% over all response times of the run


class ArmSummary(Frozen):
    """One arm in one cell, over valid epochs: means of per-epoch values; costs per event are sums over sums.

    In an open loop, late starts are events for which a connection was free; dropped events were due and never begun.
    """

    cell: str
    arm: str
    epochs: int
    tps: float
    tps_low: float
    tps_high: float
    qps: float
    quantiles_ns: dict[str, float]  # "0.95" -> geometric mean over epochs
    clock: str
    server_cpu_ns_per_event: float | None
    client_cpu_ns_per_event: float
    context_switches_per_event: float
    server_read_bytes_per_event: float | None
    server_write_bytes_per_event: float | None
    received_bytes_per_event: float
    errors_per_million: float
    retries_per_million: float
    client_cpu_share: float
    steal_share: float
    late_starts_per_million: float = 0.0
    dropped_per_million: float = 0.0


class Analysis(Frozen):
    """Everything that a report says, computed from a run directory alone."""

    format: Literal[2] = 2
    baseline: str
    contenders: tuple[str, ...]
    control: str | None
    family: int  # how many primary comparisons Holm corrects over
    comparisons: tuple[Comparison, ...]
    arms: tuple[ArmSummary, ...]
    latencies: tuple[LatencyRatio, ...]
    geometric_mean: dict[str, Estimate]  # over the primary cells of each contender
    trusted: bool | None  # False if the control excludes 1 at 99%; None without a control, or before its fifth epoch
    discarded: dict[int, str]  # reasons by epoch
    undeclared: dict[str, dict[str, tuple[str, str]]]  # arm -> variable -> (baseline, contender)
    epochs_used: int
    stopped: Stop

    @cached_property
    def host_of(self) -> dict[int, str]:
        """Host by epoch; empty if there was only one."""
        found = {point.epoch: point.host for each in self.comparisons for point in each.points}
        return found if len(set(found.values())) > 1 else {}

    @property
    def control_is_idle(self) -> bool:
        controls = [each for each in self.comparisons if each.contender == self.control]
        return any(each.obstacle is Obstacle.NOTHING_DONE for each in controls)

    def hosts_of(self, epochs: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.host_of[epoch] for epoch in epochs) if self.host_of else ()

    def named_arms(self) -> dict[str, None]:
        compared = [arm for each in self.comparisons for arm in (each.baseline, each.contender)]
        summarised = [each.arm for each in self.arms] + [each.contender for each in self.latencies]
        own = [self.baseline, *self.contenders, *([self.control] if self.control else [])]
        return dict.fromkeys([*own, *compared, *summarised, *self.geometric_mean, *self.undeclared])
