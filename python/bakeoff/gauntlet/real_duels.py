"""G1, G2, G3, G5, G7, G11 and G16: complete duels on real servers, whose answers are known.

The duels of one run of the gauntlet lie in one journal beside the tests' folders: what one test has measured, another
that asks the same takes from there. $BAKEOFF_GAUNTLET_DUELS names the folder of another journal, such as that of a
campaign (`python -m bakeoff.gauntlet.campaign`), whose duels count then.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median

from bakeoff.gauntlet.bounds import fewest, most
from bakeoff.gauntlet.campaign import BUDGET, Campaign, planned
from bakeoff.gauntlet.duel_summary import Judged, Tally, describe, ever_excludes, judged
from bakeoff.gauntlet.duels import LoadClass, Outcome
from bakeoff.gauntlet.model import Check, Finding, Setting, Size

MARIADB = "mariadb:10.11"

_SMALL = {Size.QUICK: 1, Size.FULL: 50}
_BESIDE_LOAD = 20
_REPEATS = 20  # G16
_SWAPS = 20
_GRIDS = 4
_CLAIMS = 10
# What the method promises for a machine whose other work leaves it most of its processors.
_CALM = (LoadClass.QUIET, LoadClass.LIGHT)


def equal_arms(setting: Setting) -> Finding:
    """G1: how often equal servers are told apart."""
    duels = _duels(setting, {"aa": _SMALL[setting.size]}, _servers(setting))
    return _false_claims(duels)


def equal_arms_under_load(setting: Setting) -> Finding:
    """G2: the same beside bursts of other work."""
    return _false_claims(_duels(setting, {"aa": _BESIDE_LOAD}, _servers(setting), background=True))


def planted(setting: Setting) -> Finding:
    """G3: whether intervals hold a truth of -2 % and -5 %."""
    kinds = {"plant5": 2} if setting.size is Size.QUICK else {"plant2": 40, "plant5": 40}
    duels = _duels(setting, kinds, (setting.server,))
    if duels.nothing:
        return duels.nothing
    told, holds, figures = [], True, {}
    for kind in kinds:
        of_kind = [each for each in duels.judged if each.outcome.duel.kind == kind]
        if not of_kind:
            continue
        tally = Tally.of(of_kind)
        holds = holds and tally.covered >= tally.fewest_covered and not tally.wrong
        told.append(
            f"-{of_kind[0].outcome.duel.plant:g} %: held by {tally.covered} of {tally.duels}, "
            f"claimed {tally.right}, wrong sign {tally.wrong}, ±{tally.half_width:.1%} in {tally.wall_s:.0f} s"
        )
        figures[kind] = _figures(of_kind)
    return duels.finding("; ".join(told), holds, figures)


def claimed_in_time(setting: Setting) -> Finding:
    """G3: whether -2 % is claimed within 10 minutes and -5 % within 5, at a target of 1 %."""
    promises = {"plant2": ("10m", 0.90), "plant5": ("5m", 0.99)}
    told, holds, figures, calm = [], True, {}, True
    for kind, (budget, share) in promises.items():
        duels = _duels(setting, {kind: _CLAIMS}, (setting.server,), precision="1%", budget=budget)
        if duels.nothing:
            return duels.nothing
        tally = Tally.of(duels.judged)
        calm = calm and sum(each.load in _CALM for each in duels.judged) > tally.duels / 2
        holds = holds and tally.right >= fewest(tally.duels, share) and not tally.wrong
        told.append(f"{kind[5:]} %: claimed by {tally.right} of {tally.duels}, in {tally.wall_s:.0f} s")
        figures[kind] = _figures(duels.judged)
    words = "; ".join(told)
    if not calm and not holds:
        return Finding(found=f"the machine was too busy with other work to tell: {words}", passed=None, figures=figures)
    return Finding(found=words, passed=holds, figures=figures)


def swapped(setting: Setting) -> Finding:
    """G5: A over B and B over A, each measured alone, must be each other's inverse."""
    duels = _duels(setting, {"swap": _SWAPS}, (setting.server,))
    by_number: dict[int, dict[str, Outcome]] = {}
    for outcome in duels.outcomes:
        by_number.setdefault(outcome.duel.number, {})[outcome.duel.kind] = outcome
    pairs = [(each["swap-ab"].only, each["swap-ba"].only) for each in by_number.values() if len(each) == 2]
    if not pairs:
        return Finding(found=duels.missing or "no pair of duels was finished", passed=None)
    within = [abs(a.mean + b.mean) <= math.hypot(a.half_width, b.half_width) for a, b in pairs]
    return duels.finding(
        f"within the combined interval in {sum(within)} of {len(pairs)} pairs",
        sum(within) >= fewest(len(pairs), 0.93),
        {"pairs": len(pairs), "within": sum(within), "sums": [a.mean + b.mean for a, b in pairs]},
    )


def peeking(setting: Setting) -> Finding:
    """G7: somebody stops at the first moment that the live interval excludes 1."""
    duels = _duels(setting, {"aa": _SMALL[setting.size]}, _servers(setting))
    if duels.nothing:
        return duels.nothing
    fooled = [each for each in duels.judged if ever_excludes(each.judgement.points, 0.0)]
    n = len(duels.judged)
    return duels.finding(
        f"{len(fooled)} of {n} would have stopped with a false claim (at most {most(n, 0.05)})",
        len(fooled) <= most(n, 0.05),
        {"duels": n, "fooled": [describe(each) for each in fooled]},
    )


def grid(setting: Setting) -> Finding:
    """G11: equal servers in 24 cells of one duel."""
    duels = _duels(setting, {"grid": _GRIDS}, (setting.server,), precision="5%")
    if duels.nothing:
        return duels.nothing
    claims = [[each.claim for each in outcome.judgements if each.claim] for outcome in duels.outcomes]
    n, fooled = len(claims), sum(bool(each) for each in claims)
    covered = sum(each.covered for each in duels.judged)
    return duels.finding(
        f"{fooled} of {n} grids with any claim (at most {most(n, 0.05)}); "
        f"{covered} of {len(duels.judged)} single intervals hold 1",
        fooled <= most(n, 0.05),
        {"grids": n, "with_a_claim": fooled, "cells": len(duels.judged), "cells_covered": covered},
    )


def repeated(setting: Setting) -> Finding:
    """G16: the same question again and again: any two answers within their combined interval."""
    duels = _duels(setting, {"plant5": _REPEATS}, (setting.server,))
    if len(duels.outcomes) < 2:
        return Finding(found=duels.missing or "fewer than two duels", passed=None)
    told = [outcome.only for outcome in duels.outcomes]
    pairs = list(combinations(told, 2))
    within = sum(abs(a.mean - b.mean) <= math.hypot(a.half_width, b.half_width) for a, b in pairs)
    begun = sorted(outcome.started_at for outcome in duels.outcomes)
    hours = (begun[-1] - begun[0]).total_seconds() / 3600
    # Pairs of the same runs are not independent: the bound is that of as many pairs as there are runs.
    bound = fewest(len(told), 0.93) / len(told)
    return duels.finding(
        f"{within / len(pairs):.0%} of {len(pairs)} pairs within the combined interval; "
        f"{len(told)} runs in {hours:.1f} h",
        within / len(pairs) >= bound,
        {"runs": len(told), "pairs": len(pairs), "within": within, "hours": hours, "ratios": [t.mean for t in told]},
    )


class _Duels:
    """The outcomes that a test asked for, and what could not be run."""

    def __init__(self, outcomes: Sequence[Outcome], missing: str) -> None:
        self.outcomes = outcomes
        self.judged: list[Judged] = judged(outcomes)
        self.missing = missing

    @property
    def nothing(self) -> Finding | None:
        """The finding of a test none of whose duels could be run."""
        return None if self.outcomes else Finding(found=self.missing or "no duel was run", passed=None)

    def finding(self, found: str, holds: bool, figures: Mapping[str, object]) -> Finding:
        """With missing duels a target that seems to hold is not proven."""
        words = f"{found}; {self.missing}" if self.missing else found
        return Finding(found=words, passed=None if self.missing and holds else holds, figures=figures)


def _duels(
    setting: Setting,
    kinds: dict[str, int],
    servers: Sequence[str],
    *,
    background: bool = False,
    precision: str = "2%",
    budget: str = BUDGET,
) -> _Duels:
    named = os.environ.get("BAKEOFF_GAUNTLET_DUELS")
    folder = Path(named) if named else setting.folder.parent / "duels"
    # A duel keeps four workers and four connections busy: two of them on four CPUs would be each other's load.
    lanes = min(2, max(1, (os.cpu_count() or 1) // 8))
    asked = planned(kinds, servers, seed=setting.seed, precision=precision, budget=budget, background=background)
    campaign = Campaign(folder, lanes=lanes, background=background, seed=setting.seed)
    outcomes = list(campaign.run(asked, tell=setting.tell).values())
    lost = len(asked) - len(outcomes)
    if not lost:
        return _Duels(outcomes, "")
    wanted = {duel.key for duel in asked}
    errors = [o.error for o in campaign.journal.outcomes if o.error and o.duel.key in wanted]
    return _Duels(outcomes, f"{lost} of {len(asked)} duels failed, the last with {errors[-1] if errors else 'no word'}")


def _servers(setting: Setting) -> tuple[str, ...]:
    return tuple(dict.fromkeys((setting.server, MARIADB)))


def _false_claims(duels: _Duels) -> Finding:
    if duels.nothing:
        return duels.nothing
    tally = Tally.of(duels.judged)
    loads = [each.outcome.machine.other for each in duels.judged if each.outcome.machine]
    beside = f"; other work took {min(loads):.0%} to {max(loads):.0%} of the processors" if loads else ""
    biased = ", beyond chance" if tally.biased else ""
    return duels.finding(
        f"{tally.wrong} false claims in {tally.able} duels (at most {tally.most_wrong}), "
        f"±{tally.half_width:.1%} in {tally.wall_s:.0f} s; "
        f"bias {tally.bias:+.2%} ± {2 * tally.bias_se:.2%}{biased}{beside}",
        tally.wrong <= tally.most_wrong and not tally.biased,
        _figures(duels.judged),
    )


def _figures(found: Sequence[Judged]) -> dict[str, object]:
    tally = Tally.of(found)
    return {
        "duels": tally.duels,
        "able_to_claim": tally.able,
        "false_or_wrong_claims": tally.wrong,
        "right_claims": tally.right,
        "held": tally.covered,
        "half_width_median": tally.half_width if math.isfinite(tally.half_width) else None,
        "epochs_median": tally.epochs,
        "bias": tally.bias,
        "bias_se": tally.bias_se,
        "wall_s_median": tally.wall_s,
        "measured_share_median": tally.measured_share,
        "other_share_median": median([e.outcome.machine.other for e in found if e.outcome.machine] or [0.0]),
        "misses": [describe(each) for each in found if each.wrong or not each.covered],
    }


def _check(test: str, what: str, target: str, run: Callable[[Setting], Finding], *, quick: bool = False) -> Check:
    sizes = frozenset({Size.QUICK, Size.FULL} if quick else {Size.FULL})
    return Check(test=test, what=what, target=target, sizes=sizes, run=run)


CHECKS = (
    _check("G1", "equal servers, complete duels", "false claims ≤ 5 %, no bias", equal_arms, quick=True),
    _check("G2", "equal servers beside bursts of load", "false claims ≤ 5 %, no bias", equal_arms_under_load),
    _check(
        "G3", "planted slowdowns, complete duels", "interval holds the truth ≥ 93 %; no wrong sign", planted, quick=True
    ),
    _check("G3", "planted slowdowns claimed in time", "-2 % in 10 min ≥ 90 %, -5 % in 5 min ≥ 99 %", claimed_in_time),
    _check("G5", "A against B and B against A", "inverse within the combined interval ≥ 93 %", swapped),
    _check("G7", "stopping when the live interval excludes 1", "false claims ≤ 5 %", peeking, quick=True),
    _check("G11", "24 equal cells in one duel", "any claim ≤ 5 %", grid),
    _check("G16", "the same duel again", "differences within the combined interval ≥ 93 %", repeated),
)
"""Tests of this page, for the registry."""
