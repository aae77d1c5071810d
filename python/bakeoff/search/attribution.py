"""Which of the settings that differ between two arms carries their difference: the arms in between, and the shares.

Two arms differ in options, environment, data, connection, and perhaps in binaries. An arm in between is the baseline
with the contender's value of some of these. All combinations are measured, from five settings on a regular fraction;
with both ends, the baseline and the contender. A setting's effect is the mean difference of log throughputs over the
combinations of the others. The effects of all settings add up to the difference of the two ends, but for interactions
of three and more (those of two have the same value at both ends).

What other binaries change besides their defaults is a factor of its own, `server`: the contender against the baseline
with all of the contender's settings.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from statistics import fmean

from bakeoff.errors import SpecError
from bakeoff.plan.factorial import FACTORS_MIN, arm_names, generators, points, words
from bakeoff.plan.workloads import workload_names
from bakeoff.spec import Arm, Origin, Question, Study, Workload
from bakeoff.spec.study import Design, Factor, Fraction, Part
from bakeoff.stats import interval as iv
from bakeoff.stats.differences import DifferenceOrigin, differences, same_value, variable_of
from bakeoff.stats.effects import Steps, contrast_weights, epoch_contrasts, epoch_values
from bakeoff.stats.model import Analysis, Estimate, Frozen

DOCUMENT = "attribution.json"
"""File of the run directory of the arms in between: the `Attribution` it was measured for."""

FOLDER = "explain/attribute"
"""Below the run directory that is explained: the run directories of the arms in between."""

SERVER = "server"
"""Factor of what the binaries change besides the settings."""

SETTINGS_MAX = 16
"""Settings that are measured: 32 arms. Of those that only have another default, `DEFAULTS_MAX` at most: 16 arms."""

DEFAULTS_MAX = 8

_PRECISION_SHARE = 0.15
"""Of the difference to be explained: a half-width of the arms' ratios that is narrow enough for shares."""

# Variables whose other default can change the speed of a workload, the likeliest first. All others are left out.
_CAN_MATTER = tuple(
    re.compile(pattern)
    for pattern in (
        r"innodb_(buffer_pool_size|flush_log_at_trx_commit|flush_method|doublewrite|log_file_size|redo_log_capacity)",
        r"sync_binlog|log_bin|performance_schema|query_cache_(type|size)|innodb_adaptive_hash_index|thread_handling",
        r"optimizer_switch|(sort|join|read|read_rnd)_buffer_size|tmp_table_size|max_heap_table_size|temptable_max_ram",
        r"innodb_(change_buffering|flush_neighbors|io_capacity(_max)?|use_native_aio|checksum_algorithm|page_size)",
        r"innodb_(max_dirty_pages_pct(_lwm)?|lru_scan_depth|adaptive_flushing\w*|page_cleaners|purge_\w+)",
        r"innodb_log_(buffer_size|writer_threads|spin_\w+|wait_\w+|write_ahead_size|compressed_pages)",
        r"innodb_(thread_concurrency|concurrency_tickets|spin_wait_\w+|sync_\w+|(read|write)_io_threads|fsync_\w+)",
        r"innodb_(buffer_pool_(instances|chunk_size)|autoinc_lock_mode|deadlock_detect|stats_\w+|old_blocks_\w+)",
        r"internal_tmp_mem_storage_engine|temptable_\w+|big_tables|optimizer_(?!trace)\w+|eq_range_index_dive_limit",
        r"table_open_cache(_instances)?|table_definition_cache|innodb_open_files|thread_cache_size|thread_stack",
        r"transaction_isolation|autocommit|binlog_\w+|gtid_mode|slow_query_log|general_log|long_query_time",
        r"innodb_\w*(compression|read_ahead|undo_log_truncate|parallel_read_threads)\w*|histogram_\w+|use_stat_tables",
        r"net_buffer_length|(query|range|transaction)_(alloc|prealloc)_(block_)?size|sql_mode|back_log",
    )
)
_ROUNDING = 1e-9


class Candidate(Frozen):
    """A setting in which the two arms differ.

    Attributes:
        factor: `option.NAME`, `env.NAME`, `data` or `connection`.
        baseline, contender: both values as a reader sees them.
        value: what takes the place of all options of that name on an arm in between; () takes the option away.
        declared: it was typed, and is not merely another default.
    """

    factor: str
    baseline: str
    contender: str
    value: tuple[tuple[str, str], ...] = ()
    declared: bool = True

    @property
    def name(self) -> str:
        """Without the kind in front: `innodb_flush_method`, `LD_PRELOAD`, `data`."""
        return self.factor.partition(".")[2] or self.factor

    def applied(self, arm: Arm, contender: Arm) -> Arm:
        """The arm with the contender's value of this setting."""
        kind, _, name = self.factor.partition(".")
        if kind not in ("option", "env"):
            return arm.model_copy(update={kind: getattr(contender, kind)})
        field = "options" if kind == "option" else kind
        kept = [pair for pair in getattr(arm.server, field) if _setting(kind, pair[0]) != name]
        server = arm.server.model_copy(update={field: (*kept, *self.value)})
        return arm.model_copy(update={"server": server})


class Attribution(Frozen):
    """What was asked of the arms in between.

    Attributes:
        baseline, contender: names of the two arms in the run that is explained.
        candidates: settings that are measured.
        left_out: reason -> settings that differ, too, and are not measured by themselves: they are part of `server`.
        server: the binaries differ, or something else that is no single setting.
        contender_arm: the contender's name among the arms in between.
    """

    baseline: str
    contender: str
    candidates: tuple[Candidate, ...]
    left_out: dict[str, tuple[str, ...]] = {}
    server: bool = False
    contender_arm: str = ""

    def without(self, reasons: Mapping[str, str]) -> "Attribution":
        """This with some candidates left out: factor -> reason."""
        left_out = dict(self.left_out)
        for candidate in self.candidates:
            if reason := reasons.get(candidate.factor):
                left_out[reason] = (*left_out.get(reason, ()), candidate.name)
        kept = tuple(each for each in self.candidates if each.factor not in reasons)
        server = self.server or bool(reasons)
        return self.model_copy(update={"candidates": kept, "left_out": left_out, "server": server})


# ---- what differs ----------------------------------------------------------------------------------------------------


def differing(study: Study, baseline: Arm, contender: Arm, variables: Mapping[str, Mapping[str, str]]) -> Attribution:
    """Find the settings in which two arms differ.

    Args:
        study: of the run.
        baseline: the arm that the arms in between begin with.
        contender: the other one.
        variables: global variables of both, by arm name; an arm without them has only what was typed.

    Raises:
        SpecError: one of them is a running server, whose settings are not bakeoff's to change; or nothing differs.
    """
    for arm in (baseline, contender):
        if arm.server.origin is Origin.URL:
            raise SpecError(
                f"attribute: {arm.label} is a running server, whose settings bakeoff does not change.",
                hint="Compare two servers that bakeoff starts.",
            )
    mine, theirs = (variables.get(arm.name, {}) for arm in (baseline, contender))
    server = _binaries(baseline) != _binaries(contender)
    found = [
        *_typed("option", baseline.server.options, contender.server.options, mine, theirs, other_default=server),
        *_typed("env", baseline.server.env, contender.server.env, {}, {}, other_default=False),
        *(
            Candidate(
                factor=part,
                baseline=_parts(baseline, contender, part),
                contender=_parts(contender, baseline, part),
            )
            for part in ("data", "connection")
            if getattr(baseline, part) != getattr(contender, part)
        ),
    ]
    left_out: dict[str, list[str]] = {}
    if server:
        pair = study.model_copy(update={"arms": (baseline, contender)})
        found += _other_defaults(pair, mine, theirs, {each.name for each in found}, left_out)
    if not found and not server:
        raise SpecError(f"attribute: no setting differs between {baseline.label} and {contender.label}.")
    return Attribution(
        baseline=baseline.name,
        contender=contender.name,
        candidates=tuple(_most(found, left_out)),
        left_out={reason: tuple(names) for reason, names in left_out.items()},
        server=server or bool(left_out),
    )


def _binaries(arm: Arm) -> object:
    """What of an arm is no single setting; files of options may hold what no variable shows."""
    plain = arm.server.model_copy(update={"options": (), "env": ()})
    return (plain, arm.slowdown_percent)


def _typed(
    kind: str,
    mine: Sequence[tuple[str, str]],
    theirs: Sequence[tuple[str, str]],
    my_variables: Mapping[str, str],
    their_variables: Mapping[str, str],
    *,
    other_default: bool,
) -> list[Candidate]:
    """Options (or variables of the environment) that were typed differently, by the variable that they set.

    Those of which both servers have made the same value (16M and 16777216, ON and 1, the default) are no difference.
    """
    found = []
    for name in dict.fromkeys(_setting(kind, each) for each, _ in (*theirs, *mine)):
        ours, value = (tuple(pair for pair in pairs if _setting(kind, pair[0]) == name) for pairs in (mine, theirs))
        if ours == value or _are_equal(name, my_variables, their_variables):
            continue
        if not value and other_default and name in their_variables:
            value = ((name, their_variables[name]),)
        shown = _shown(ours, my_variables.get(name)), _shown(value, their_variables.get(name))
        if shown[0] != shown[1]:
            found.append(Candidate(factor=f"{kind}.{name}", baseline=shown[0], contender=shown[1], value=value))
    return found


def _are_equal(name: str, mine: Mapping[str, str], theirs: Mapping[str, str]) -> bool:
    """Whether both servers have one value of the variable, and it shows the whole option; log_bin shows no file."""
    known = name in mine and name in theirs and f"{name}_basename" not in mine
    return known and same_value(mine[name], theirs[name])


def _setting(kind: str, name: str) -> str:
    """What is set by an option (its variable) or by a variable of the environment (itself)."""
    return variable_of(name) if kind == "option" else name


def _shown(typed: Sequence[tuple[str, str]], variable: str | None) -> str:
    if variable is not None and not any(value for _, value in typed):
        return variable
    return ", ".join(value or name for name, value in typed) or "(not set)"


def _parts(arm: Arm, other: Arm, part: str) -> str:
    """The fields of an arm's data or connection that the other has otherwise."""
    ours, theirs = (dict(getattr(each, part)) for each in (arm, other))
    texts = []
    for name, value in ours.items():
        if value == theirs[name]:
            continue
        if name == "options":
            texts += [f"{each}={text}" for each, text in value if (each, text) not in theirs[name]]
        else:
            texts.append(f"{name}={value}" if value else f"no {name.replace('_', ' ')}")
    return ", ".join(texts) or "(by default)"


def _other_defaults(
    pair: Study,
    mine: Mapping[str, str],
    theirs: Mapping[str, str],
    known: set[str],
    left_out: dict[str, list[str]],
) -> list[Candidate]:
    """Settings that nobody typed and that both servers know, with another value: those that can matter."""
    baseline, contender = pair.arms
    off = ("binlog_", "gtid_") if {mine.get("log_bin"), theirs.get("log_bin")} <= {"OFF", "0"} else ()
    in_files = {variable_of(name) for arm in pair.arms for name in arm.server.cnf_options}
    ranked = []
    for each in differences(mine, theirs, pair, contender):
        follows = each.origin is DifferenceOrigin.DECLARED and each.variable not in in_files
        if each.variable in known or follows:
            continue
        rank = None if each.variable.startswith(off) else _rank(each.variable)
        if each.baseline is None or each.contender is None:
            if rank is not None:
                label = (baseline if each.contender is None else contender).label
                left_out.setdefault(f"only {label} has it", []).append(each.variable)
        elif rank is None:
            left_out.setdefault("it is not known to change the speed", []).append(each.variable)
        elif (value := _settable(each.variable, each.baseline, each.contender)) is None:
            left_out.setdefault("it has values that only one of them knows", []).append(each.variable)
        else:
            candidate = Candidate(
                factor=f"option.{each.variable}",
                baseline=value[0],
                contender=value[1],
                value=((each.variable, value[1]),),
                declared=each.variable in in_files,
            )
            ranked.append((rank, candidate))
    return [candidate for _, candidate in sorted(ranked, key=lambda pair: pair[0])]


def _rank(variable: str) -> int | None:
    """Place among those that can matter, the likeliest first; None: it is not known to."""
    return next((at for at, known in enumerate(_CAN_MATTER) if known.fullmatch(variable)), None)


def _settable(name: str, mine: str, theirs: str) -> tuple[str, str] | None:
    """Both values as an option takes them; of lists only what both servers know; None: nothing is left."""
    if name == "optimizer_switch":
        ours, others = (dict(flag.partition("=")[::2] for flag in text.split(",")) for text in (mine, theirs))
        changed = [flag for flag in ours if flag in others and ours[flag] != others[flag]]
        texts = (",".join(f"{flag}={side[flag]}" for flag in changed) for side in (ours, others))
    elif name == "sql_mode":  # a mode that only one version has would keep the other from starting
        return None
    else:
        return mine, theirs
    first, second = texts
    return (first, second) if first else None


def _most(found: Sequence[Candidate], left_out: dict[str, list[str]]) -> list[Candidate]:
    declared = [each for each in found if each.declared]
    room = max(0, DEFAULTS_MAX - len(declared))
    others = [each for each in found if not each.declared]
    kept = [*declared[:SETTINGS_MAX], *others[:room]]
    if beyond := [each.name for each in found if each not in kept]:
        left_out["more than one run can separate"] = beyond
    return kept


# ---- the arms in between ---------------------------------------------------------------------------------------------


def study_in_between(study: Study, analysis: Analysis, asked: Attribution, *, budget_s: float) -> tuple[Study, str]:
    """The study of the arms in between, and the contender's name in it.

    It has the workloads and concurrencies in which the two arms differ by their verdicts; without such a verdict, all.

    Raises:
        SpecError: fewer than two settings differ.
    """
    arms = {arm.name: arm for arm in study.arms}
    baseline, contender = arms[asked.baseline], arms[asked.contender]
    if len(asked.candidates) + asked.server < 2:
        raise SpecError(
            f"attribute: {baseline.label} and {contender.label} differ in "
            f"{asked.candidates[0].name if asked.candidates else 'their binaries'} alone: it carries the difference.",
            hint="Nothing needs to be measured.",
        )
    chosen, fraction = _points(asked.candidates)
    values = [(each.baseline, each.contender) for each in asked.candidates]
    binaries = ("the baseline's", "the contender's")
    levels, made = {}, []
    names = arm_names(len(chosen) + asked.server)
    for name, point in zip(names, [*chosen, *([()] if asked.server else [])], strict=True):
        is_contender = not point or (all(point) and not asked.server)
        at = point or (1,) * len(values)
        own = tuple(pair[level] for pair, level in zip(values, at, strict=True))
        levels[name] = (*own, *([binaries[not point]] if asked.server else []))
        made.append(_arm_at(name, at, asked.candidates, baseline, contender, is_contender=is_contender))
    factors = [
        Factor(name=each.name, parts=(_part(each),), levels=pair)
        for each, pair in zip(asked.candidates, values, strict=True)
    ]
    factors += [Factor(name=SERVER, parts=(Part.SERVER,), levels=binaries)] if asked.server else []
    claimed = claimed_cells(analysis, asked)
    design = Design(
        question=f"Which setting carries the difference between {baseline.label} and {contender.label}?",
        factors=tuple(factors),
        levels=levels,
        fraction=fraction,
        together=True,
    )
    in_between = study.model_copy(
        update={
            "title": f"{baseline.label} to {contender.label}",
            "arms": tuple(made),
            "workloads": _claimed_workloads(study, claimed) or study.workloads,
            "threads": tuple(each for each in study.threads if each in {threads for _, threads in claimed.values()})
            or study.threads,
            "precision": max([study.precision, *_wanted_precision(analysis, asked, claimed)]),
            "has_target": False,
            "question": Question(),
            "budget_s": budget_s,
            "design": design,
        }
    )
    last = names[-1] if asked.server else names[[tuple(each) for each in chosen].index((1,) * len(values))]
    return in_between, last


def _points(candidates: Sequence[Candidate]) -> tuple[list[tuple[int, ...]], Fraction | None]:
    """The combinations that are measured, the baseline first and all of the contender's values among them."""
    count = len(candidates)
    if count < FACTORS_MIN:
        return sorted(product((0, 1), repeat=count), key=sum), None
    chosen = generators(count, even=True)
    basic = count - len(chosen)
    names = [each.name for each in candidates]
    measured = points(chosen, basic)
    relation = tuple(
        tuple(name for place, name in enumerate(names) if word >> place & 1) for word in words(chosen, basic)
    )
    return list(measured), Fraction(factors=tuple(names), words=relation, measured=len(measured), complete=2**count)


def _arm_at(
    name: str,
    point: Sequence[int],
    candidates: Sequence[Candidate],
    baseline: Arm,
    contender: Arm,
    *,
    is_contender: bool,
) -> Arm:
    if is_contender:
        return contender.model_copy(update={"name": name})
    arm, changed = baseline, []
    for candidate, level in zip(candidates, point, strict=True):
        if level:
            arm = candidate.applied(arm, contender)
            changed.append(candidate.name)
    label = f"{baseline.label.partition(',')[0]} with {', '.join(changed)}" if changed else baseline.label
    return arm.model_copy(update={"name": name, "label": label})


def _part(candidate: Candidate) -> Part:
    return {"data": Part.DATA, "connection": Part.CLIENT}.get(candidate.factor, Part.SERVER)


def claimed_cells(analysis: Analysis, asked: Attribution) -> dict[str, tuple[str, int]]:
    """Cells in which the contender is claimed to be faster or slower than the baseline: (workload, threads)."""
    if analysis.baseline != asked.baseline:
        return {}
    return {
        each.cell: (each.workload, each.threads)
        for each in analysis.comparisons
        if each.contender == asked.contender and each.verdict.claims
    }


def _claimed_workloads(study: Study, claimed: Mapping[str, tuple[str, int]]) -> tuple[Workload, ...]:
    wanted = {workload for workload, _ in claimed.values()}
    names = workload_names(study.workloads)
    # With the names that their cells have: alone, the second of a script would be called as the first.
    return tuple(
        workload if workload_names((workload,)) == (name,) else workload.model_copy(update={"name": name})
        for workload, name in zip(study.workloads, names, strict=True)
        if name in wanted
    )


def _wanted_precision(analysis: Analysis, asked: Attribution, claimed: Mapping[str, object]) -> list[float]:
    found = [
        abs(each.estimate.mean) * _PRECISION_SHARE
        for each in analysis.comparisons
        if each.contender == asked.contender and each.cell in claimed and each.estimate.n
    ]
    return [min(found)] if found else []


# ---- the shares ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SettingEffect:
    """What one setting does in one cell.

    Attributes:
        factor: the setting's name, or `server`, or "" for interactions of three and more settings.
        effect: log ratio of throughputs, its second value over its first, the others averaged.
        share: of the log ratio of the two arms, with a 95 % interval; None while that ratio may be 1.
        p_adjusted: of no effect, after Holm over the settings of the cell; None while there are too few epochs.
    """

    cell: str
    factor: str
    effect: Estimate
    share: Estimate | None
    p_adjusted: float | None

    @property
    def carries(self) -> bool:
        """Whether it has an effect of its own."""
        return self.p_adjusted is not None and self.p_adjusted < iv.ALPHA_PRECISE


@dataclass(frozen=True)
class SettingInteraction:
    """Two settings whose effects do not multiply: the log ratio of what they do together over what each does alone.

    Attributes:
        mixed: pairs that a fraction cannot separate from this one.
    """

    cell: str
    names: tuple[str, str]
    estimate: Estimate
    mixed: tuple[tuple[str, str], ...]


def setting_effects(analysis: Analysis, design: Design, contender: str) -> tuple[SettingEffect, ...]:
    """The effect of every setting in every cell, the largest first, and what is left over last.

    Args:
        analysis: of the run of the arms in between.
        design: of its study.
        contender: name of the contender's arm in it.
    """
    values = epoch_values(analysis)
    found: list[SettingEffect] = []
    for cell in dict.fromkeys(each.cell for each in analysis.comparisons):
        by_factor = {
            factor.name: epoch_contrasts(
                values, cell, contrast_weights(design, _step(design, at, analysis.baseline))[0]
            )
            for at, factor in enumerate(design.factors)
        }
        whole = values.get((cell, contender), {})
        epochs = sorted(set(whole).intersection(*by_factor.values()))
        if not epochs:
            continue
        total = [whole[epoch] for epoch in epochs]
        columns = {name: [column[epoch] for epoch in epochs] for name, column in by_factor.items()}
        ordered = sorted(columns, key=lambda name: (name == SERVER, -abs(fmean(columns[name]))))
        alone = [math.fsum(each) for each in zip(*columns.values(), strict=True)]
        rest = [both - own for both, own in zip(total, alone, strict=True)]
        if max(map(abs, rest)) > _ROUNDING:  # else the design has no room for it: the effects hold all of it
            columns[""] = rest
            ordered.append("")
        adjusted = _adjusted([columns[name] for name in ordered], analysis)
        found += [
            SettingEffect(cell, name, _estimate(columns[name], analysis), _share(columns[name], total, analysis), p)
            for name, p in zip(ordered, adjusted, strict=True)
        ]
    return tuple(found)


def setting_interactions(analysis: Analysis, design: Design) -> tuple[SettingInteraction, ...]:
    """The pairs of settings whose interaction differs from none, after Holm over the pairs of a cell."""
    values = epoch_values(analysis)
    settings = [at for at, factor in enumerate(design.factors) if factor.name != SERVER]
    found = []
    for cell in dict.fromkeys(each.cell for each in analysis.comparisons):
        tried: list[tuple[SettingInteraction, list[float]]] = []
        for one, other in combinations(settings, 2):
            names = design.factors[one].name, design.factors[other].name
            mixed = design.fraction.mixed_with(*names) if design.fraction else ()
            if any(set(each.names) == set(pair) for each, _ in tried for pair in mixed):
                continue
            steps = _step(design, one, analysis.baseline) | _step(design, other, analysis.baseline)
            column = list(epoch_contrasts(values, cell, contrast_weights(design, steps)[0]).values())
            if column:
                tried.append((SettingInteraction(cell, names, _estimate(column, analysis), mixed), column))
        adjusted = _adjusted([column for _, column in tried], analysis)
        found += [each for (each, _), p in zip(tried, adjusted, strict=True) if p is not None and p < iv.ALPHA_PRECISE]
    return tuple(found)


def _step(design: Design, at: int, baseline: str) -> Steps:
    base = design.levels[baseline][at]
    other = next(level for level in design.factors[at].levels if level != base)
    return {at: (base, other)}


def _adjusted(columns: Sequence[Sequence[float]], analysis: Analysis) -> list[float | None]:
    """Two-sided p-values of no effect after Holm; None below `N_MIN` epochs, and of a run not ended by its rule."""
    if analysis.stopped.anytime_only:
        return [None] * len(columns)
    return iv.holm([iv.p_value(*iv.moments(column)) if len(column) >= iv.N_MIN else None for column in columns])


def _estimate(values: Sequence[float], analysis: Analysis) -> Estimate:
    return iv.estimate_of(values, partial(iv.shown, anytime=analysis.stopped.anytime_only))


def _share(part: Sequence[float], whole: Sequence[float], analysis: Analysis) -> Estimate | None:
    """The ratio of two means over the same epochs, with the interval of its linearisation (delta method).

    It is the t interval, or the anytime-valid one of a run that did not end by its rule.
    """
    if not iv.excludes_zero(_estimate(whole, analysis).interval):
        return None
    mean = fmean(whole)
    share = fmean(part) / mean
    linear = [share + (own - share * all_) / mean for own, all_ in zip(part, whole, strict=True)]
    return iv.estimate_of(linear, iv.live_interval) if analysis.stopped.anytime_only else iv.t_estimate(linear)
