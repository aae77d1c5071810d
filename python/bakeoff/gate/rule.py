"""The gate: whether a contender is slower than allowed, by the intervals and the stopping rule of a duel.

The gate passes if every comparison does, which needs no correction (an intersection-union test). It fails if one does,
which is corrected by Holm, and measuring ends there. docs/reference/gate.md has the simulated error rates.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from statistics import NormalDist
from typing import Any, ClassVar

from pydantic import Field

from bakeoff.spec import Question, Study
from bakeoff.stats import interval as iv
from bakeoff.stats.hosts import moments
from bakeoff.stats.model import Comparison, Frozen, Obstacle, Stop

PRECISION_SHARE = 0.25
DEFAULT_NAME = "gate"  # the name of a project's only gate
OFTEN = 0.9  # probability with which `reach_of` holds

_ALPHA = iv.ALPHA_PRECISE / 2  # of one side of the t interval


class OnUnclear(StrEnum):
    """What a gate that cannot tell does to the pipeline."""

    PASS = "pass"
    FAIL = "fail"


class GateQuestion(Question):
    """Whether a contender is slower than allowed; `reference` is the log ratio of the largest slowdown allowed."""

    decisive: ClassVar[bool] = True
    noun: ClassVar[str] = "gate"

    kind: str = "gate"
    reference: float = Field(lt=0)
    name: str = DEFAULT_NAME
    on_unclear: OnUnclear | None = None  # None for exit code 6
    bisect: bool = False  # use the exit codes of `git bisect run`
    junit: Path | None = None  # absolute
    history: Path | None = None  # absolute


class Answer(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    UNCLEAR = "cannot tell"


@dataclass(frozen=True)
class Sample:
    """One comparison: a log ratio and a host for each epoch."""

    values: Sequence[float]
    stop: Stop
    hosts: Sequence[str] = ()


class CellAnswer(Frozen):
    cell: str
    contender: str
    answer: Answer


class Gate(Frozen):
    answer: Answer
    max_slowdown: float  # a share (0.02)
    cells: tuple[CellAnswer, ...]
    why: str = ""  # explains a missing answer


def as_gate(study: Study, max_slowdown: float, **options: Any) -> Study:  # noqa: ANN401 — fields of GateQuestion
    """Return the study with a gate's question: is a contender slower by more than `max_slowdown` (0.02 is 2%)?"""
    size = -math.log1p(-max_slowdown)
    question = GateQuestion(reference=-size, **options)
    changes = {"question": question, "precision": PRECISION_SHARE * size, "equivalence": size, "has_target": False}
    return study.model_copy(update=changes)


def as_question(study: Study) -> GateQuestion:
    assert isinstance(study.question, GateQuestion), "only a gate asks it"
    return study.question


def limit_text(limit: float) -> str:
    return f"{-math.expm1(limit) * 100:.4g}%"


def answers(samples: Sequence[Sample], *, limit: float, family: int) -> list[Answer]:
    """Answer each comparison. Of the gate's `family` of comparisons, those without a sample count as not failed."""
    harms = [_harm(sample, limit, family) for sample in samples]
    adjusted = iv.holm([*harms, *[None] * (family - len(harms))])
    return [_answer(harm, q) for harm, q in zip(harms, adjusted, strict=False)]


def _answer(harm: float | None, adjusted: float | None) -> Answer:
    if harm is None or adjusted is None:
        return Answer.UNCLEAR
    if harm >= 1 - _ALPHA:
        return Answer.PASS
    return Answer.FAIL if adjusted <= _ALPHA else Answer.UNCLEAR


def _harm(sample: Sample, limit: float, family: int) -> float | None:
    """Return the one-sided p-value of 'not slower than allowed': near 0 beyond the limit, near 1 within it.

    An anytime-valid interval has no p-value: 0 or 1 if it excludes the limit, else None.
    """
    n = len(sample.values)
    if sample.stop is Stop.RUNNING or n < iv.N_MIN_DECISIVE or not all(map(math.isfinite, sample.values)):
        return None
    found = moments(sample.values, sample.hosts)
    beyond = found.mean - limit
    if sample.stop is Stop.DECISIVE:
        return 0.0 if beyond < 0 else 1.0
    if sample.stop.anytime_only:
        alpha = iv.ALPHA_LIVE / (family if beyond < 0 else 1)
        excluded = abs(beyond) > iv.anytime_half_width(*found[1:], alpha=alpha)
        return (0.0 if beyond < 0 else 1.0) if excluded else None
    if n < iv.N_MIN:
        return None
    half = iv.p_value(beyond, *found[1:]) / 2
    return half if beyond < 0 else 1 - half


def judge(comparisons: Sequence[Comparison], *, limit: float, family: int, trusted: bool | None = None) -> Gate:
    """Judge a gate by the comparisons of a run; `trusted` is False if the control differs from its baseline."""
    own = [each for each in comparisons if not each.is_control]
    found = answers([_sample(each) for each in own], limit=limit, family=family)
    obstacles = {each.obstacle for each in own}
    why, failed = "", Answer.FAIL in found
    if trusted is False:
        why = "the control differs from its own baseline: something other than the builds moved the numbers."
    elif not failed and Obstacle.NOTHING_DONE in obstacles:
        why = "an arm completed nothing in an epoch."
    elif not failed and len(own) < family:
        why = "not every comparison was measured."
    whole = Answer.UNCLEAR
    if not why and (failed or set(found) == {Answer.PASS}):
        whole = Answer.FAIL if failed else Answer.PASS
    cells = tuple(
        CellAnswer(cell=each.cell, contender=each.contender, answer=answer)
        for each, answer in zip(own, found, strict=True)
    )
    return Gate(answer=whole, max_slowdown=-math.expm1(limit), cells=cells, why=why)


def _sample(comparison: Comparison) -> Sample:
    points = () if comparison.obstacle else comparison.points
    return Sample([point.value for point in points], comparison.stop, [point.host for point in points])


def reach_of(samples: Iterable[tuple[float, int]], *, limit: float) -> tuple[float, float]:
    """Return the log ratio from which all of (sd, n) pass, and the one below which one fails, each 9 times in 10."""
    apart = max(iv.precision_half_width(sd, n) + NormalDist().inv_cdf(OFTEN) * sd / math.sqrt(n) for sd, n in samples)
    return limit + apart, limit - apart
