"""Published figures, found for the arms and cells of a study; read from the CSV that a study file names."""

import csv
import math
import re

from bakeoff.errors import SpecError
from bakeoff.plan.workloads import workload_names
from bakeoff.spec import Study
from bakeoff.spec.design import Published, PublishedFigure
from bakeoff.spec.study_file import LoadedStudy, PublishedForm


def read_published(loaded: LoadedStudy, study: Study) -> Published | None:
    """Figures for those arms and cells of the study that were published; None when the file names none.

    Raises:
        SpecError: the CSV cannot be read, lacks a column or a value, or holds no number where one is wanted.
    """
    form = loaded.form.published
    if form is None or study.design is None:
        return None
    rows = _rows(loaded, form)
    figures = []
    fixed = loaded.form.settings
    names = [factor.name for factor in study.design.factors]
    workloads = list(zip(study.workloads, workload_names(study.workloads), strict=True))
    for arm in study.arms:
        if arm.name.endswith("'"):
            continue
        levels = fixed | dict(zip(names, study.design.levels[arm.name], strict=True))
        for workload, name in workloads:
            for threads in study.threads:
                wanted = levels | {"workload": workload.name or workload.script, "threads": str(threads)}
                for number, row in rows:
                    if all(_same(factor, wanted[factor], row[column]) for factor, column in form.columns.items()):
                        value = _value(loaded, form, number, row)
                        figures.append(PublishedFigure(cell=f"{name}/{threads}", arm=arm.name, value=value))
                        break
    return Published(source=form.source, unit=form.value, figures=tuple(figures))


def _rows(loaded: LoadedStudy, form: PublishedForm) -> list[tuple[int, dict[str, str]]]:
    path = loaded.path.parent / form.file
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            rows = [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no CSV in UTF-8"
        raise loaded.error(
            "published", "file", reason=f"{path} cannot be read: {reason}.", hint="It lies beside the study."
        ) from None
    have = list(reader.fieldnames or ()) if rows else []
    for key, column in (("value", form.value), *form.columns.items()):
        if column not in have:
            place = ("published", "value") if key == "value" else ("published", "columns", key)
            raise loaded.error(
                *place, reason=f"{form.file} has no column {column}.", hint=f"It has {', '.join(have) or 'no rows'}."
            )
    for line, row in rows:
        if None in row.values():
            raise SpecError(
                f"{form.file}:{line}: the row has fewer values than there are columns.",
                hint=f"{loaded.path.name} names it as published figures.",
            )
    return rows


def _value(loaded: LoadedStudy, form: PublishedForm, number: int, row: dict[str, str]) -> float:
    try:
        value = float(row[form.value])
        if 0 < value < math.inf:
            return value
    except ValueError:
        pass
    raise SpecError(
        f"{form.file}:{number}: {form.value} is {row[form.value]!r}, not a number above zero.",
        hint=f"{loaded.path.name} names it as published figures.",
    )


def _same(factor: str, level: str, written: str) -> bool:
    """Whether a published level is the study's; servers are the same from one release series on (5.7.25 is 5.7)."""
    if level.lower() == written.lower():
        return True
    return factor == "server" and _series(level) is not None and _series(level) == _series(written)


def _series(server: str) -> tuple[str, str] | None:
    found = re.fullmatch(r"([a-z]+):(\d+\.\d+)[\d.]*", server.partition(",")[0].lower())
    return (found[1], found[2]) if found else None
