"""Make the arms of a study from a study file: combinations of levels that `where` leaves, the baseline first.

From five factors on they are a regular fraction of two-level factors, unless the file asks for all. Levels are 0 (the
baseline's) and 1. Basic factors take all combinations of levels; each other factor takes the sum modulo 2 of several
basic ones, its generator. Every set of factors whose levels always sum to 0 is a word of the defining relation; two
effects that differ by a word cannot be distinguished.

Source: Box, Hunter & Hunter, Statistics for Experimenters (2005), ch. 6; Montgomery, Design and Analysis, ch. 8.
"""

import csv
import itertools
import math
import re
import string
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from bakeoff.errors import KeyPath, SpecError
from bakeoff.plan.workloads import kind_of, microbenchmarks, named_workloads, sized_options, workload_names
from bakeoff.spec import Arm, Study, Workload, control_of
from bakeoff.spec.dumps import default_database, read_dump
from bakeoff.spec.factors import DEFAULT, ArmParts, fields_set_by, part_of
from bakeoff.spec.fields import Conditions, Sizes
from bakeoff.spec.server_name import is_url, running_at
from bakeoff.spec.study import Data, Design, Factor, Fraction, Published, PublishedClaim, PublishedFigure
from bakeoff.spec.study_file import LoadedStudy, PublishedForm, StudyFile, WorkloadForm

ARMS_MAX = 64  # more than a report can show, or a person can read
FACTORS_MIN = 5  # varied factors from which a study is fractioned unless it asks for all combinations
COMBINATIONS_MAX = 2**16  # before `where` and a fraction leave some out
_SEARCH_MAX = 20_000  # choices of generators to try; if there are more, only those of odd length
_POOL = "buffer_pool"
_RELEASE = r"([a-z]+:\d+\.\d+)(?:\.(\d+))?[\d.]*"  # the series, and its patch release

Combination = tuple[str, ...]
_NO_ROW: tuple[float, int, dict[str, str]] = (math.inf, 0, {})


def make_study(loaded: LoadedStudy, *, seed: int | None = None) -> Study:
    """Make the study of a file, with its scale applied; `seed` is used unless the file has one."""
    form = loaded.form
    baseline = tuple(form.baseline.get(factor, next(iter(levels))) for factor, levels in loaded.levels.items())
    count = math.prod(map(len, loaded.levels.values()))
    if count > COMBINATIONS_MAX:
        raise loaded.error(
            "factors",
            reason=f"{count:,} combinations of levels are more than {COMBINATIONS_MAX:,}.",
            hint="Leave factors or levels out, or split the study.",
        )
    everything = list(itertools.product(*loaded.levels.values()))
    kept = [each for each in everything if not _excluded(loaded, each)]
    fraction, measured = _measured_combinations(loaded, baseline, kept)
    workloads = tuple(each for written in form.workloads or () for each in _workloads(written, loaded.path.parent))
    levels = dict(zip(arm_names(len(measured)), measured, strict=True))
    arms = _arms(loaded, levels, workloads)
    running = any(arm.server.is_running for arm in arms)
    for index, workload in enumerate(workloads):
        if running and workload.writes and not kind_of(workload.script).fills_tables:
            reason = "on running servers only the reads of a capture are replayed."
            raise loaded.error("workloads", index, reason=reason, hint="Leave `writes` out.")
    published = _published(loaded, levels, workloads, form.threads)
    if form.control:
        arms.append(control_of(arms[0]))
        levels[arms[-1].name] = baseline
    given = form.given()
    same = {name: given[name] for name in (*Sizes.model_fields, *Conditions.model_fields) if name in given}
    return Study(
        **same | {"database": _database(form, arms), "seed": form.seed if seed is None else given.get("seed", seed)},
        title=form.title,
        capture_database=form.database if "database" in form.model_fields_set else "",
        arms=tuple(arms),
        workloads=workloads,
        has_target="precision" in given,
        design=Design(
            question=form.question,
            about=form.about,
            scale=loaded.scale,
            factors=tuple(_factor(name, bundles) for name, bundles in loaded.levels.items()),
            levels=levels,
            excluded=len(everything) - len(kept),
            fraction=fraction,
            published=published,
        ),
    )


def arm_names(count: int) -> tuple[str, ...]:
    """Return `A` to `Z`, then `AA`, `AB` and so on."""
    letters = string.ascii_uppercase
    doubles = (a + b for a in letters for b in letters)
    return tuple(itertools.islice(itertools.chain(letters, doubles), count))


def _measured_combinations(
    loaded: LoadedStudy, baseline: Combination, kept: list[Combination]
) -> tuple[Fraction | None, list[Combination]]:
    form = loaded.form
    if baseline not in kept:
        raise loaded.error(
            "baseline" if form.baseline else "where",
            reason=f"the baseline ({_words(baseline)}) is left out by where.",
            hint="Name another one: baseline: {FACTOR: LEVEL}.",
        )
    fraction, measured = _fractioned(loaded, baseline, kept)
    if len(measured) == 1:
        place, hint = (
            ("factors", "Add a level.") if loaded.written.factors else ("servers", "Add a server, or a factor.")
        )
        raise loaded.error(place, reason="nothing is left to compare the baseline with.", hint=hint)
    if len(measured) > ARMS_MAX:
        raise loaded.error(
            "factors",
            reason=f"{len(measured)} combinations are more than {ARMS_MAX} arms.",
            hint="Leave some out with where, or split the study."
            + (" Without `design: full` a fraction is measured." if form.design == "full" else ""),
        )
    return fraction, [baseline, *(each for each in measured if each != baseline)]


def _database(form: StudyFile, arms: list[Arm]) -> str:
    if "database" in form.model_fields_set or not arms[0].data.source:
        return form.database
    return default_database(arms[0].data.source) or form.database


def _excluded(loaded: LoadedStudy, combination: Combination) -> bool:
    levels = dict(zip(loaded.levels, combination, strict=True))
    return any(
        all(levels[factor] in ([wanted] if isinstance(wanted, str) else wanted) for factor, wanted in each.items())
        for each in (exclusion.exclude for exclusion in loaded.form.where)
    )


def _fractioned(
    loaded: LoadedStudy, baseline: Combination, kept: list[Combination]
) -> tuple[Fraction | None, list[Combination]]:
    """Return the fraction of the combinations that is measured, if any.

    It is one of the two-level factors that `where` does not name. The others are crossed with them in full, so that
    every level of the fractioned ones comes equally often, whatever `where` leaves out.
    """
    form = loaded.form
    varied = [factor for factor, levels in loaded.levels.items() if len(levels) > 1]
    if form.design == "full" or (form.design == "auto" and len(varied) < FACTORS_MIN):
        return None, kept
    crossed = {factor for exclusion in form.where for factor in exclusion.exclude}
    names = [factor for factor in varied if len(loaded.levels[factor]) == 2 and factor not in crossed]
    chosen = generators(len(names)) if names else ()
    if not chosen:
        if form.design == "fraction":
            raise loaded.error(
                "design",
                reason=f"{len(names)} two-level factors have no fraction of resolution IV.",
                hint="It takes four or more that where does not name; leave design out for all combinations.",
            )
        return None, kept
    basic = len(names) - len(chosen)
    places = [list(loaded.levels).index(name) for name in names]
    wanted = set(points(chosen, basic))
    measured = [each for each in kept if tuple(int(each[at] != baseline[at]) for at in places) in wanted]
    relation = tuple(
        tuple(name for place, name in enumerate(names) if word >> place & 1) for word in words(chosen, basic)
    )
    return Fraction(factors=tuple(names), words=relation, measured=len(measured), complete=len(kept)), measured


def _arms(loaded: LoadedStudy, levels: Mapping[str, Combination], workloads: tuple[Workload, ...]) -> list[Arm]:
    arms = [_arm(loaded, name, combination, workloads) for name, combination in levels.items()]
    by_url = any(not kind_of(workload.script).fills_tables for workload in workloads)
    seen: set[object] = set()
    data: dict[object, Data] = {}
    for arm in arms:
        if not arm.server.is_running:
            continue
        place = running_at(arm.server, with_database=by_url)
        setup = (place, arm.connection.model_copy(update={"transport": "socket"}))  # its URL says how it is reached
        reason = ""
        if data.setdefault(place, arm.data) != arm.data:
            reason = f"{arm.server} has one set of tables, so it cannot be compared with itself on other data."
        elif setup in seen:
            reason = f"{arm.server} is given twice, so it would be compared with itself."
        if reason:
            where = loaded.place_of_field(("server",), dict(zip(loaded.levels, levels[arm.name], strict=True)))
            raise loaded.error(*where, reason=reason, hint="Name another server.")
        seen.add(setup)
    return arms


def _arm(loaded: LoadedStudy, name: str, combination: Combination, workloads: tuple[Workload, ...]) -> Arm:
    settings, chosen = dict(loaded.form.settings), dict(zip(loaded.levels, combination, strict=True))
    for factor, level in chosen.items():
        for setting, value in loaded.levels[factor][level].items():
            if setting in settings and setting not in loaded.form.settings:
                raise loaded.error(
                    *loaded.place_of(factor, level),
                    reason=f"{setting} is varied by another factor too.",
                    hint="Let one factor vary a setting.",
                )
            settings[setting] = value
    _refuse_set_twice(loaded, settings, chosen)
    source = settings.get("data", DEFAULT)
    if source != DEFAULT and not is_url(source):
        settings["data"] = str((loaded.path.parent / source).resolve())
    try:
        if "server" not in settings:
            raise SpecError("no server is named for it.", hint="Add server to settings, or to every level.")
        parts = ArmParts(folder=loaded.cnf_folder)
        parts.apply({name: value for name, value in settings.items() if name != _POOL})
        parts.data_bytes = _expected_bytes(loaded.form, workloads, parts.data)
        if _POOL in settings:  # it may be a ratio of the data, which the other settings determine
            parts.apply({_POOL: settings[_POOL]})
    except SpecError as error:
        place = loaded.place_of_field(error.field, chosen)
        raise loaded.error(*place, reason=f"{_words(combination)}: {error.message}", hint=error.hint) from None
    assert parts.server
    label = _words(tuple(level for factor, level in chosen.items() if len(loaded.levels[factor]) > 1))
    return Arm(name=name, label=label, server=parts.server, data=parts.data, connection=parts.connection)


def _refuse_set_twice(loaded: LoadedStudy, settings: Mapping[str, str], levels: Mapping[str, str]) -> None:
    """Refuse two settings of an arm that set the same thing, such as page_size and option.innodb_page_size."""
    set_by: dict[KeyPath, str] = {}
    for setting, value in settings.items():
        for field in fields_set_by(setting, value):
            first = set_by.setdefault(field, setting)
            if first != setting:
                raise loaded.error(
                    *loaded.place_of_setting((setting,), levels),
                    reason=f"{first} and {setting} both set {field[-1]}.",
                    hint="Keep one of the two.",
                )


def _words(combination: Combination) -> str:
    return " · ".join(combination)


def _workloads(written: str | WorkloadForm, folder: Path) -> tuple[Workload, ...]:
    if isinstance(written, str) and (written == "micro" or written in microbenchmarks()):
        return named_workloads(written)
    form = WorkloadForm(script=written) if isinstance(written, str) else written
    beside = folder / form.script
    is_file = form.script.endswith(".lua") or not kind_of(str(beside)).fills_tables
    script = str(beside.resolve()) if is_file and beside.is_file() else form.script
    options = tuple((name.replace("-", "_"), value) for name, value in form.options.items())
    return (Workload(script=script, options=options, **form.model_dump(exclude={"script", "options"})),)


def _expected_bytes(form: StudyFile, workloads: tuple[Workload, ...], data: Data) -> int | None:
    if data.source:
        return None if is_url(data.source) else read_dump(data.source).server_bytes
    sizes = {"tables": form.tables, "table_size": form.table_size}
    return max(
        (kind_of(each.script).loaded_bytes(each.script, sized_options(each, data, **sizes)) for each in workloads),
        default=0,
    )


def _factor(name: str, bundles: Mapping[str, Mapping[str, str]]) -> Factor:
    parts = dict.fromkeys(part_of(setting) for settings in bundles.values() for setting in settings)
    return Factor(name=name, parts=tuple(parts), levels=tuple(bundles))


def generators(count: int) -> tuple[int, ...]:
    """Return the generators of the smallest fraction of resolution IV or better, else ().

    Each is a bit mask over the basic factors, for one factor after them. It has the longest shortest word of all
    choices, then the fewest words of that length.
    """
    basic = next(number for number in range(1, count + 1) if 2 ** (number - 1) >= count)
    extra = count - basic
    if extra <= 0:
        return ()
    masks = [mask for mask in range(1, 2**basic) if mask.bit_count() >= 2]
    if math.comb(len(masks), extra) > _SEARCH_MAX:
        masks = [mask for mask in masks if mask.bit_count() % 2 == 1]  # odd sums alone: no word is shorter than 4
    # Longer sums first, so that of equally good choices the usual one is found.
    masks.sort(key=lambda mask: (-mask.bit_count(), mask))
    choices = itertools.islice(itertools.combinations(masks, extra), _SEARCH_MAX)
    return min(choices, key=lambda chosen: _lengths(words(chosen, basic)))


def words(chosen: Sequence[int], basic: int) -> tuple[int, ...]:
    """Return all words of the defining relation as bit masks over the factors, the basic ones in the lowest bits."""
    relation = {0}
    for place, mask in enumerate(chosen):
        word = mask | 1 << (basic + place)
        relation |= {word ^ other for other in relation}
    return tuple(sorted(relation - {0}, key=lambda word: (word.bit_count(), word)))


def points(chosen: Sequence[int], basic: int) -> tuple[tuple[int, ...], ...]:
    found = []
    for number in range(2**basic):
        levels = [number >> place & 1 for place in range(basic)]
        found.append((*levels, *((number & mask).bit_count() % 2 for mask in chosen)))
    return tuple(found)


def _lengths(relation: Sequence[int]) -> tuple[int, ...]:
    """Count the words of length 1, 2, 3 …: the smaller the tuple, the better the fraction."""
    counts = Counter(word.bit_count() for word in relation)
    return tuple(counts[length] for length in range(32))


def _published(
    loaded: LoadedStudy, arms: Mapping[str, Combination], workloads: tuple[Workload, ...], threads: tuple[int, ...]
) -> Published | None:
    form = loaded.form.published
    if form is None:
        return None
    claims = _claims(loaded, form, arms, [f"{name}/{count}" for name in workload_names(workloads) for count in threads])
    rows = _rows(loaded, form) if form.file else []
    figures = []
    for arm, combination in arms.items():
        levels = loaded.form.settings | dict(zip(loaded.levels, combination, strict=True))
        for name, count in itertools.product(workload_names(workloads), threads):
            wanted = levels | {"workload": name, "threads": str(count)}
            apart, number, row = min(
                ((_apart(form, wanted, row), number, row) for number, row in rows), default=_NO_ROW
            )
            if apart < math.inf:
                value = _value(loaded, form, number, row)
                figures.append(PublishedFigure(cell=f"{name}/{count}", arm=arm, value=value))
    return Published(source=form.source, unit=form.value, figures=tuple(figures), claims=tuple(claims))


def _claims(
    loaded: LoadedStudy, form: PublishedForm, arms: Mapping[str, Combination], cells: Sequence[str]
) -> Iterator[PublishedClaim]:
    """Yield each claim for all pairs of arms and cells it is about; a scale may have none of them."""
    by_levels = {combination: arm for arm, combination in arms.items()}
    for claim in form.claims:
        low, high = claim.bounds
        for combination, numerator in by_levels.items():
            levels = dict(zip(loaded.levels, combination, strict=True))
            if not claim.of.items() <= levels.items():
                continue
            denominator = by_levels.get(tuple((levels | claim.over).values()))
            for cell in cells:
                workload, _, count = cell.rpartition("/")
                meant = claim.workload in ("", workload) and claim.threads in (None, int(count))
                if denominator and meant:
                    yield PublishedClaim(
                        says=claim.says, cell=cell, numerator=numerator, denominator=denominator, low=low, high=high
                    )


def _rows(loaded: LoadedStudy, form: PublishedForm) -> list[tuple[int, dict[str, str]]]:
    path = loaded.path.parent / form.file
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, restval="")
            rows = [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not CSV in UTF-8"
        raise loaded.error(
            "published", "file", reason=f"{path} cannot be read: {reason}.", hint="It must be beside the study file."
        ) from None
    have = list(reader.fieldnames or ()) if rows else []
    for key, column in (("value", form.value), *form.columns.items()):
        if column not in have:
            place = ("published", "value") if key == "value" else ("published", "columns", key)
            raise loaded.error(
                *place, reason=f"{form.file} has no column {column}.", hint=f"It has {', '.join(have) or 'no rows'}."
            )
    return rows


def _value(loaded: LoadedStudy, form: PublishedForm, number: int, row: dict[str, str]) -> float:
    with suppress(ValueError):
        value = float(row[form.value])
        if 0 < value < math.inf:
            return value
    raise SpecError(
        f"{form.file}:{number}: {form.value} is {row[form.value]!r}, not a number above zero.",
        hint=f"{loaded.path.name} names it as published figures.",
    )


def _apart(form: PublishedForm, wanted: Mapping[str, str], row: Mapping[str, str]) -> float:
    """Return how far a published row is from what is wanted: 0 for the same levels, infinite for others.

    Servers match by release series: mysql:5.7.25 is 3 from mysql:5.7.22. An equal name is nearest.
    """
    apart = 0.0
    for factor, column in form.columns.items():
        both = [each.lower() for each in (wanted[factor], row[column])]
        if both[0] == both[1]:
            continue
        ours, theirs = (re.fullmatch(_RELEASE, each.partition(",")[0]) for each in both)
        if factor != "server" or not ours or not theirs or ours[1] != theirs[1]:
            return math.inf
        apart += abs(int(ours[2]) - int(theirs[2])) + 1 if ours[2] and theirs[2] else 1
    return apart
