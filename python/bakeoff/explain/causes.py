"""Parts of the section "Why": which setting carries a difference, how the plans differ, what the servers wait for."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest

from bakeoff.errors import SpecError
from bakeoff.explain.waits_and_plans import (
    PLANS,
    PLANS_DOCUMENT,
    WAITS,
    WAITS_DOCUMENT,
    CellPlans,
    CellWaits,
    StatementPlans,
    WaitDifference,
    instruments_cost,
)
from bakeoff.report import numbers
from bakeoff.report.context import Context, Pair
from bakeoff.report.studies import measured, mixed_text
from bakeoff.report.view import Fold, Prose, Row, Section, Table, Value
from bakeoff.results import RunDirectory, list_runs
from bakeoff.search.attribution import (
    DOCUMENT,
    FOLDER,
    SERVER,
    Attribution,
    Candidate,
    SettingEffect,
    differing,
    setting_effects,
    setting_interactions,
)
from bakeoff.stats.estimate import epoch_rates
from bakeoff.stats.model import Analysis, Estimate, Stop
from bakeoff.units import shortened

_WAITS_SHOWN = 8  # of a cell; the rest is folded away
_PLANS_SHOWN = 20
_SQL_MAX = 300
_VALUE_MAX = 60


# ---- settings --------------------------------------------------------------------------------------------------------


def attribution_section(context: Context) -> Section | None:
    """Which setting carries a difference, where the arms in between were measured; else the settings that differ."""
    found = _attributions(context)
    claimed = dict.fromkeys(each.contender for each in context.primary if each.verdict.claims)
    return Section.of(
        "Settings",
        *(_attribution(context, run, asked) for asked, run in found.values()),
        *_unfinished(context, found),
        *(_not_measured(context, each) for each in claimed if (context.analysis.baseline, each) not in found),
        anchor="why-settings",
        in_terminal=bool(found),
    )


def _attributions(context: Context) -> dict[tuple[str, str], tuple[Attribution, RunDirectory]]:
    """By (baseline, contender) the newest run of the arms in between; one that was ended early only without another."""
    found = []
    for path in (context.run.path / FOLDER).glob(f"*/{DOCUMENT}"):
        run = RunDirectory(path.parent)
        asked, analysis = run.read(DOCUMENT, Attribution), run.read("analysis.json", Analysis)
        if asked and analysis and {asked.baseline, asked.contender} <= context.arms.keys():
            found.append((not analysis.stopped.anytime_only, run.manifest().created_at, asked, run))
    ranked = sorted(found, key=lambda each: each[:2])
    return {(asked.baseline, asked.contender): (asked, run) for *_, asked, run in ranked}


def _unfinished(
    context: Context, finished: Mapping[tuple[str, str], tuple[Attribution, RunDirectory]]
) -> Iterator[Prose]:
    """A line for two arms of which no run of the arms in between has come to its end."""
    titles = {run.manifest().title for _, run in finished.values()}
    begun = {each.title for each in list_runs(context.run.path / FOLDER) if each.title} - titles
    for title in sorted(begun):
        yield Prose(
            text=f"{title}: the arms in between are unfinished, so that no shares are shown. "
            f"`bakeoff explain {context.run.name} --attribute` measures them anew."
        )


def _attribution(context: Context, run: RunDirectory, asked: Attribution) -> Section | None:
    analysis, design = run.read("analysis.json", Analysis), run.study().design
    if analysis is None or design is None:
        return None
    effects = setting_effects(analysis, design, asked.contender_arm)
    fraction = design.fraction.sentences() if design.fraction else ()
    factors = {each.name: each for each in asked.candidates}
    labels = context.labels[asked.baseline], context.labels[asked.contender]
    table = Table(
        id=_id("settings", asked.baseline, asked.contender),
        group_title="cell",
        columns=("setting", "from", "to", "ratio", "share of the difference", "finding"),
        rows=tuple(_effect_row(context, each, factors.get(each.factor)) for each in effects),
        all_text=True,
        note=" ".join(_attribution_notes(asked, effects, fraction, analysis.stopped)),
    )
    mixed = [
        Row.of(
            f"{each.names[0]} × {each.names[1]}",
            Value(text=numbers.estimate_short(each.estimate), sub=mixed_text(each.mixed)),
            group=context.cell_title(each.cell),
        )
        for each in setting_interactions(analysis, design)
    ]
    interactions = Table(
        id=_id("settings-together", asked.baseline, asked.contender),
        group_title="cell",
        columns=("settings", "ratio of the ratios"),
        rows=tuple(mixed),
        note="What both do together over what each does alone.",
    )
    return Section.of(f"{labels[1]} over {labels[0]}", table, interactions, _left_out(asked), in_terminal=True)


def _effect_row(context: Context, effect: SettingEffect, candidate: Candidate | None) -> Row:
    if effect.factor == SERVER:
        name, values = "the version itself", ("", "")
    elif not effect.factor:
        name, values = "three settings and more together", ("", "")
    else:
        name = candidate.name if candidate else effect.factor
        both = (candidate.baseline, candidate.contender) if candidate else ("", "")
        values = (shortened(both[0], _VALUE_MAX), shortened(both[1], _VALUE_MAX))
    share = effect.share
    shown = Value(text="cannot tell")
    if share is not None:
        low, high = share.interval.low, share.interval.high
        within = "" if low is None or high is None else f"{numbers.percent(low)} to {numbers.percent(high)}"
        shown = Value(text=numbers.percent(share.mean), sub=within)
    finding = "no effect shown" if effect.p_adjusted is not None else "cannot tell"
    if effect.carries:
        finding = "faster" if effect.effect.mean > 0 else "slower"
    return Row.of(name, *values, measured(effect.effect), shown, finding, group=context.cell_title(effect.cell))


def _attribution_notes(
    asked: Attribution, effects: Sequence[SettingEffect], fraction: Sequence[str], ended: Stop
) -> Iterator[str]:
    epochs = min((each.effect.n for each in effects), default=0)
    yield (
        f"Arms in between, {numbers.restarts(epochs)}: a setting's ratio is that of its second value over its first, "
        "averaged over the values of the others; the shares are of the log ratio. Findings are corrected for the "
        "number of settings (Holm)."
    )
    if ended.anytime_only:
        yield "The run was ended before it was done: what has an effect is unknown."
    yield from fraction[:2]  # which interactions are mixed stands beside those that are shown
    if count := sum(map(len, asked.left_out.values())):
        yield f"{count} other settings that differ are part of the version itself."


def _left_out(asked: Attribution) -> Fold:
    rows = tuple(Row.of(name, reason) for reason, names in asked.left_out.items() for name in names)
    name = _id("settings-left-out", asked.baseline, asked.contender)
    table = Table(id=name, columns=("setting", "not separated because"), rows=rows, all_text=True)
    return Fold(title=f"Settings that differ and are not separated ({len(rows)})", content=table)


def _not_measured(context: Context, contender: str) -> Prose | None:
    """The settings that differ, and the command that separates their effects where it can (`require_explainable`)."""
    baseline = context.arms[context.analysis.baseline]
    try:
        asked = differing(context.study, baseline, context.arms[contender], context.variables)
    except SpecError:
        return None
    names = [
        f"`{each.name}` ({shortened(each.baseline, 20)}, {shortened(each.contender, 20)})" for each in asked.candidates
    ]
    labels = f"{context.labels[contender]} and {context.labels[baseline.name]}"
    if len(names) + asked.server < 2:
        return Prose(text=f"{labels} differ in {names[0]} alone.") if names else None
    listed = ", ".join([*names, *(["the version itself"] if asked.server else [])])
    text = f"{labels} differ in {listed}."
    if not context.study.question.adds_arms and not any(context.host_of.values()):
        text += f" `bakeoff explain {context.run.name} --attribute` measures which carries the difference."
    return Prose(text=text)


# ---- plans -----------------------------------------------------------------------------------------------------------


def plans_section(context: Context) -> Section | None:
    """The statements of each cell whose plans differ, with both plans; how many are the same, or are not known."""
    epochs = context.explaining(PLANS, PLANS_DOCUMENT, dict[str, CellPlans])
    by_cell = [cells for by_arm in epochs.values() for cells in by_arm.values()]
    parts: list[Section | Prose | None] = [*context.explaining_notes(PLANS)]
    for cell, baseline, contender in context.explained_pairs:
        found = [cells[cell] for cells in by_cell if cell in cells]
        arms = {baseline, contender}
        known = [each for each in found if all(arms <= own.plans.keys() for own in each.statements.values())]
        if not known:
            continue
        recorded = known[-1].statements.values()
        statements = [each for each in recorded if each.plans[baseline] and each.plans[contender]]
        unexplained = _unexplained(len(recorded) - len(statements))
        other = [each for each in statements if _differ(each, baseline, contender)]
        where = _where(context, cell, baseline, contender)
        if not other:
            if said := " ".join(filter(None, [_same(len(statements)), unexplained])):
                parts.append(Prose(text=f"{where}: {said}"))
            continue
        name = _id("plan", cell, baseline, contender)
        tables = [
            _plan_parts(context, f"{name}-{at}", each, baseline, contender)
            for at, each in enumerate(other[:_PLANS_SHOWN])
        ]
        parts.append(
            Section.of(
                where,
                Prose(text=f"{len(other)} of {len(statements)} statements have another plan. {unexplained}".rstrip()),
                *chain(*tables),
                in_terminal=True,
            )
        )
    differ = any(isinstance(part, Section) for part in parts)
    return Section.of("Plans", *parts, anchor="why-plans", in_terminal=differ)


def _differ(plans: StatementPlans, baseline: str, contender: str) -> bool:
    """Whether two arms have different plans; which differ from the first arm's that has one is known."""
    others = (baseline in plans.differs, contender in plans.differs)
    return others[0] != others[1] or (all(others) and plans.plans[baseline] != plans.plans[contender])


def _same(count: int) -> str:
    if not count:
        return ""
    return "its one statement has the same plan." if count == 1 else f"its {count} statements have the same plans."


def _unexplained(count: int) -> str:
    if not count:
        return ""
    statements, are = ("1 statement", "is") if count == 1 else (f"{count} statements", "are")
    return f"{statements} that one server cannot explain {are} not compared."


def _plan_parts(
    context: Context, name: str, plans: StatementPlans, baseline: str, contender: str
) -> list[Table | Fold]:
    arms = baseline, contender
    rows = step_rows(plans.plans.get(arm, ()) for arm in arms)
    if plans.rows_read:
        rows.append(Row.of("rows read", *(numbers.count(plans.rows_read.get(arm, 0.0)) for arm in arms)))
    columns = ("step", *(context.labels[arm] for arm in arms))
    steps = step_rows(plans.analyzed.get(arm, ()) for arm in arms)
    done = Table(id=f"{name}-run", columns=columns, rows=tuple(steps), all_text=True)
    return [
        Table(id=name, columns=columns, rows=tuple(rows), all_text=True, note=shortened(plans.text, _SQL_MAX)),
        Fold(title="What the steps did (EXPLAIN ANALYZE)", content=done),
    ]


def step_rows(plans: Iterable[Sequence[str]]) -> list[Row]:
    """A row for each step, with that of every plan; a plan may have ended before."""
    return [Row.of(str(at), *step) for at, step in enumerate(zip_longest(*plans, fillvalue=""), start=1)]


# ---- waits -----------------------------------------------------------------------------------------------------------


def waits_section(context: Context) -> Section | None:
    """Waits and stages that differ, in ns an event; what the instruments cost; what a server cannot tell."""
    parts = [part for pair, found in context.waits.items() for part in _waits_of(context, found, pair)]
    epochs = context.explaining(WAITS, WAITS_DOCUMENT, dict[str, CellWaits])
    missing = dict.fromkeys(
        sentence
        for by_arm in epochs.values()
        for by_cell in by_arm.values()
        for found in by_cell.values()
        for sentence in found.missing
    )
    return Section.of(
        "Waits",
        *context.explaining_notes(WAITS),
        *parts,
        _cost_table(context) if context.waits else None,
        Prose(text=" ".join(missing), small=True),
        anchor="why-waits",
        in_terminal=True,
    )


def _waits_of(context: Context, found: Sequence[WaitDifference], pair: Pair) -> list[Table | Fold | Prose | None]:
    where = _where(context, *pair)
    labels = context.labels[pair.baseline], context.labels[pair.contender]
    columns = ("wait", *labels, "difference", "ratio", "finding")
    rows = [_wait_row(each, where) for each in found]
    if not rows:
        return [Prose(text=f"{where}: nothing was waited for.")]
    note = (
        f"Per event of the workload, {numbers.restarts(found[0].difference.n)} with instruments; waits of threads that "
        "serve clients, and files of all threads. Findings are corrected for the number of waits (Holm). A wait can "
        "hold another, and waits of threads overlap: they do not add up to the time of an event."
    )
    name = _id("waits", *pair)
    shown = Table(
        id=name, group_title="cell", columns=columns, rows=tuple(rows[:_WAITS_SHOWN]), note=note, wide=("ratio",)
    )
    rest = rows[_WAITS_SHOWN:]
    folded = Table(id=f"{name}-rest", columns=columns, rows=tuple(rest), page_only=True)
    return [shown, Fold(title=f"{len(rest)} other waits of {where}", content=folded)]


def _wait_row(each: WaitDifference, where: str) -> Row:
    form = numbers.of_event if each.timed else numbers.count
    finding = ""
    if each.differs:
        finding = "longer" if each.grows else "shorter"
        if not each.timed:
            finding = "more often" if each.grows else "less often"
    return Row.of(
        each.name,
        form(each.baseline),
        form(each.contender),
        Value(
            text=numbers.signed(each.difference.mean, form),
            sub=numbers.signed_interval(each.difference.interval, form),
        ),
        _ratio(each.ratio),
        finding,
        group=where,
    )


def _ratio(ratio: Estimate | None) -> Value:
    if ratio is None:
        return Value(text="–")
    return Value(text=numbers.ratio_of(ratio), sub=numbers.interval(ratio.interval))


def _cost_table(context: Context) -> Table:
    """Throughput with the instruments over that of the epochs that count, by cell and arm."""
    counted, explaining = context.epoch_rates, epoch_rates(context.run.explaining(WAITS).slices())
    rows = []
    for (cell, arm), rates in explaining.items():
        cost = instruments_cost(rates, counted.get((cell, arm), {}))
        if cost:
            rows.append(
                Row.of(
                    context.labels[arm],
                    Value(
                        text=numbers.change(cost.estimate.mean, cost.estimate.interval.half_width),
                        sub=numbers.change_interval(cost.estimate.interval),
                    ),
                    group=context.cell_title(cell),
                    slot=context.slots[arm],
                )
            )
    return Table(
        id="waits-cost",
        group_title="cell",
        columns=("arm", "throughput with instruments"),
        rows=tuple(rows),
        note="Against the epochs that count: what the instruments cost. No verdict rests on epochs that have them.",
    )


# ---- common ----------------------------------------------------------------------------------------------------------


def _where(context: Context, cell: str, baseline: str, contender: str) -> str:
    labels = [] if baseline == context.analysis.baseline else [context.labels[baseline]]
    labels += [context.labels[contender]] if labels or len(context.analysis.contenders) > 1 else []
    return ", ".join([context.cell_title(cell), *reversed(labels)])


def _id(*words: str) -> str:
    return "-".join("".join(c if c.isalnum() else "-" for c in word) for word in words)
