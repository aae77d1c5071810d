"""Read what this project has measured of settings and of restarts from its record, docs/record/*/analysis.json."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import ValidationError

from bakeoff.errors import SpecError
from bakeoff.report import numbers
from bakeoff.spec import Arm, Study
from bakeoff.stats.differences import variable_of
from bakeoff.stats.effects import main_effects, one_factor_pairs
from bakeoff.stats.model import Analysis, Estimate

# Beside this module in a wheel, in the documentation of a checkout.
FOLDERS = (Path(__file__).with_name("record"), Path(__file__).parents[3] / "docs" / "record")
# Settings of study files that `_settings` calls otherwise.
_NAMES = {"connection_charset": "connection.charset", "tls": "connection.tls"}


@dataclass(frozen=True)
class Size:
    """The measured effect of one setting in one cell: the throughput of `level` over that of `over`."""

    setting: str
    level: str
    over: str
    cell: str
    estimate: Estimate
    where: str

    def __str__(self) -> str:
        ratio = f"{numbers.ratio_of(self.estimate)} ({numbers.interval(self.estimate.interval) or 'no interval'})"
        return f"{ratio} for {self.level} over {self.over} in {self.cell}, docs/record/{self.where}"


@dataclass(frozen=True)
class Record:
    """Sizes, the largest first, and the restart spreads of all comparisons (standard deviations of log ratios)."""

    sizes: list[Size]
    spreads: list[float]

    @property
    def spread(self) -> float | None:
        return median(self.spreads) if self.spreads else None

    def sizes_of(self, setting: str, factor: str) -> tuple[Size, ...]:
        names = {setting, _NAMES.get(factor, factor).removeprefix("option.")}
        return tuple(size for size in self.sizes if size.setting in names)


def read_record() -> Record:
    record = Record([], [])
    for file in (file for folder in FOLDERS for file in sorted(folder.glob("*/analysis.json"))):
        try:
            analysis = Analysis.model_validate_json(file.read_bytes())
            study = Study.model_validate_json(file.with_name("study.json").read_bytes())
        except (OSError, ValidationError, SpecError):
            continue  # of another version of bakeoff
        record.sizes.extend(_sizes(study, analysis, file.parent.name))
        record.spreads.extend(each.sd_restart for each in analysis.comparisons if each.sd_restart)
    record.sizes.sort(key=lambda each: -abs(each.estimate.mean))
    return record


def _sizes(study: Study, analysis: Analysis, where: str) -> Iterator[Size]:
    arms = {arm.name: arm for arm in study.arms}
    effects = main_effects(analysis, study.design) if study.design else ()
    pairs = one_factor_pairs(study.design, analysis.baseline) if study.design and effects else ()
    changed = {factor: _changed(arms[lower], arms[upper]) for factor, upper, lower in pairs}
    for effect in effects:
        if setting := changed.get(effect.factor):
            yield Size(setting[0], effect.level, effect.over, effect.cell, effect.estimate, where)
    for each in analysis.comparisons if not effects else ():
        if each.estimate.n and (setting := _changed(arms[each.baseline], arms[each.contender])):
            yield Size(setting[0], setting[2], setting[1], each.cell, each.estimate, where)


def _changed(one: Arm, other: Arm) -> tuple[str, str, str] | None:
    """Return the only setting in which two arms differ, and its values; None if they differ in several or none."""
    before, after = _settings(one), _settings(other)
    names = [name for name in before | after if before.get(name) != after.get(name)]
    if "collation" in names and "charset" in names:  # implied by it
        names.remove("charset")
    if len(names) != 1:
        return None
    old, new = (str(each.get(names[0]) or "default") for each in (before, after))
    return names[0], old, new


def _settings(arm: Arm) -> dict[str, Any]:
    options = {variable_of(name): value or name for name, value in arm.server.options}
    server = arm.server.model_dump(exclude={"options"})
    connection = {f"connection.{name}": value for name, value in arm.connection}
    return options | server | arm.data.model_dump() | connection
