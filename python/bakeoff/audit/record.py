"""Read the measured effects of settings and of restarts from this project's record, docs/record/*/analysis.json."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from bakeoff.errors import SpecError
from bakeoff.report import numbers
from bakeoff.spec import Study
from bakeoff.spec.study import Design
from bakeoff.stats.effects import main_effects
from bakeoff.stats.model import Analysis, Estimate

# In a checkout it is in the documentation, in a wheel beside this module. The first that exists is read.
FOLDERS = (Path(__file__).parents[3] / "docs" / "record", Path(__file__).with_name("record"))


@dataclass(frozen=True)
class Size:
    """The measured effect of a factor, named as in study files: the throughput of `level` over that of `over`."""

    factor: str
    level: str
    over: str
    cell: str
    estimate: Estimate
    where: str

    def __str__(self) -> str:
        ratio = f"{numbers.ratio_of(self.estimate)} ({numbers.interval(self.estimate.interval) or 'no interval'})"
        return f"{ratio} for {self.level} over {self.over} in {self.cell}, docs/record/{self.where}"


class Record(NamedTuple):
    """Sizes, the largest first, and the restart spreads of all comparisons (standard deviations of log ratios)."""

    sizes: list[Size]
    spreads: list[float]


def read_record() -> Record:
    record = Record([], [])
    folder = next(filter(Path.is_dir, FOLDERS), FOLDERS[0])
    for file in sorted(folder.glob("*/analysis.json")):
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
    design = study.design or Design()
    varied = [at for at, factor in enumerate(design.factors) if len(factor.levels) > 1]
    names = {design.factors[at].name: _setting(study, design, at) for at in varied}
    if len(varied) > 1:
        for each in main_effects(analysis, design):
            yield Size(names[each.factor], each.level, each.over, each.cell, each.estimate, where)
    elif varied:
        (factor,) = names.values()
        levels = {arm: own[varied[0]] for arm, own in design.levels.items()}
        for one in analysis.comparisons:
            if one.estimate.n and not one.is_control:
                yield Size(factor, levels[one.contender], levels[one.baseline], one.cell, one.estimate, where)


def _setting(study: Study, design: Design, at: int) -> str:
    """Return the option that a factor's levels set if there is one, else the factor's name."""
    options = {arm.name: dict(arm.server.options) for arm in study.arms}
    found = []
    for name in {name for own in options.values() for name in own}:
        values: dict[str, set[str | None]] = {}
        for arm, levels in design.levels.items():
            values.setdefault(levels[at], set()).add(options[arm].get(name))
        if sum(map(len, values.values())) == len(values) == len(set[str | None]().union(*values.values())):
            found.append(f"option.{name}")
    return found[0] if len(found) == 1 else design.factors[at].name
