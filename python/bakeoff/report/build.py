"""From a run directory and its analysis to the view that all renderers share."""

from typing import Any

import polars as pl

from bakeoff.report import numbers, panels, setups, tables
from bakeoff.report import verdicts as answering
from bakeoff.report.context import DETAIL_CELLS, Context, latency_curves
from bakeoff.report.study_parts import (
    effects_table,
    interactions_table,
    pair_tables,
    published_table,
    scaling,
    sets_table,
    tpcc_tables,
)
from bakeoff.report.tables import (
    same_rows_status,
    same_rows_table,
    sizes_table,
    stability_table,
    wall_table,
    warm_up_panels,
)
from bakeoff.report.verdicts import lead
from bakeoff.report.view import ArmView, ReportView, Role, Status
from bakeoff.results import RunDirectory
from bakeoff.stats.model import Analysis, Stop
from bakeoff.stats.verdict import percent_text
from bakeoff.units import format_bytes, format_duration

BUSY_SHARE = 0.10
"""Share of all processors used by others from which the report says so at its head."""

METHOD = (
    "All servers run side by side. In each short slice one of them alone is loaded, in the order ABBA or BAAB by a "
    "fair coin, so that whatever else the machine does reaches all of them alike.",
    "An epoch restores the same data, starts every server anew and measures every cell once. It gives one number a "
    "cell: the log of the ratio of throughputs, total events over total time.",
    "Epochs, not seconds and not requests, are what is counted: restarting a server moves its speed by more than any "
    "measurement inside one start can show.",
    "The 95% interval is Student's over epochs, widened for stopping as soon as it is narrow enough; verdicts are "
    "corrected for the number of cells (Holm). An interval shown before the end is valid however often one looks.",
    "No epoch and no slice is dropped for being slow; epochs are discarded only for mechanical failures, for all arms at "
    "once, and are counted. A control is a second instance of the baseline: its true ratio is 1.",
)


def build_view(run: RunDirectory, analysis: Analysis | dict[str, Any]) -> ReportView:
    """Build everything that a report shows.

    Args:
        run: where the measurements are.
        analysis: of that run; also as `RunDirectory.analysis` reads it back.

    Raises:
        ResultsError: a document of the run is missing or damaged.
    """
    context = Context.read(run, Analysis.model_validate(analysis))
    notes, marks = answering.footnotes(context)
    over_time = panels.time_panels(context)
    scaling_table, scaling_panels = scaling(context)
    pilot_table, pilot_panels = tables.pilot(context)
    tpcc, tpcc_types = tpcc_tables(context)
    return ReportView(
        run=run.name,
        directory=str(run.path),
        title=context.study.title,
        question=_question(context),
        dateline=_dateline(context),
        statuses=_statuses(context),
        arms=_arms(context),
        lead=lead(context),
        answers=answering.answers(context, marks),
        summary=answering.summary_sentences(context),
        conditions=_conditions(context),
        forest=answering.forest(context, marks),
        throughput=answering.throughput_table(context, marks),
        threads_panels=panels.threads_panels(context),
        scaling=scaling_table,
        scaling_panels=scaling_panels,
        time_panels=over_time.throughput,
        stability=stability_table(context),
        jitter_panels=over_time.jitter,
        warm_up_panels=warm_up_panels(context),
        epoch_panels=panels.epoch_panels(context),
        latency_note=tables.latency_note(context),
        latency=tables.latency_table(context),
        percentile_panels=panels.percentile_panels(context, latency_curves(context)),
        costs=tables.costs_table(context),
        sizes=sizes_table(context),
        published=published_table(context),
        effects=effects_table(context),
        interactions=interactions_table(context),
        pairs=pair_tables(context),
        tpcc=tpcc,
        tpcc_types=tpcc_types,
        sets=sets_table(context),
        cpu_bars=tables.cpu_bars(context),
        arm_panels=over_time.metrics,
        host_panels=panels.host_panels(context),
        pilot=pilot_table,
        pilot_panels=pilot_panels,
        data=tables.data_table(context),
        same_rows=same_rows_table(context),
        declared=setups.declared_table(context),
        undeclared=setups.undeclared_table(context),
        other_settings=setups.other_settings_table(context),
        documents=setups.documents(context),
        environment=setups.environment_table(context),
        method=METHOD,
        wall=wall_table(context),
        command=setups.command(context),
        discarded=tables.voided_table(context),
        attempts=tables.attempts(context),
        footnotes=notes,
        detail_note=_detail_note(context),
        records=answering.records(context),
    )


def _question(context: Context) -> str:
    design = context.study.design
    if design and design.question:
        return design.question
    baseline = context.labels[context.analysis.baseline]
    contenders = [context.labels[name] for name in context.analysis.contenders]
    if len(contenders) == 1:
        return f"Is {contenders[0]} faster than {baseline}?"
    return f"Which is faster than {baseline}: {', '.join(contenders[:-1])} or {contenders[-1]}?"


def _dateline(context: Context) -> str:
    manifest = context.manifest
    host = manifest.host
    spent = sum(outcome.wall_s for outcome in context.outcomes)
    return " · ".join(
        (
            f"{manifest.created_at:%d %B %Y}".lstrip("0"),
            f"{host.cpus} × {host.cpu_model}, {format_bytes(host.memory_bytes)}",
            f"{context.analysis.epochs_used} epochs, {format_duration(spent)}",
        )
    )


def _others(context: Context) -> float | None:
    """Share of all processors that neither the servers nor the client used while measuring; None when unknown."""
    known = context.processors.drop_nulls("others_cpus")
    if known.is_empty():
        return None
    weighted = known.select((pl.col("others_cpus") * pl.col("seconds")).sum() / pl.col("seconds").sum()).item()
    return float(weighted) / context.manifest.host.cpus


def _conditions(context: Context) -> str:
    """How busy the machine was while measuring, and with what: a ratio found in contention is one of contention."""
    known = context.processors.drop_nulls("user")
    if known.is_empty():
        return ""
    weight = pl.col("seconds") / pl.col("seconds").sum()
    busy, steal = known.select(
        ((pl.col("user") + pl.col("system")) * weight).sum().alias("busy"),
        (pl.col("steal") * weight).sum().alias("steal"),
    ).row(0)
    others = _others(context)
    by_others = "" if others is None else f", {numbers.share(others)} with work that was not part of the measurement"
    return (
        f"While measuring the processors were {numbers.share(busy)} busy{by_others}; the hypervisor took "
        f"{numbers.share(steal)} (steal)."
    )


def _statuses(context: Context) -> tuple[Status, ...]:
    analysis = context.analysis
    found = []
    if analysis.trusted is False:
        found.append(
            Status(
                word="UNTRUSTED",
                text="The control, a second instance of the baseline, came out different from the baseline. Something "
                "other than the settings moved the numbers; no line of this report should be relied on.",
            )
        )
    if analysis.trusted is None and analysis.control is not None:
        found.append(
            Status(
                word="CONTROL TOO SHORT",
                text="The control, a second instance of the baseline, has fewer than five usable epochs: it neither "
                "supports this report nor speaks against it.",
            )
        )
    injected = [
        f"{context.labels[a.name]} ({a.slowdown_percent:g} per 100)" for a in context.study.arms if a.slowdown_percent
    ]
    if injected:
        found.append(
            Status(
                word="INJECTED",
                text=f"A slowdown was injected to prove the method: uncounted events on {', '.join(injected)}.",
            )
        )
    if analysis.stopped is Stop.ABORTED:
        found.append(
            Status(word="ENDED BY HAND", text="Only intervals that are valid at any moment of stopping are shown.")
        )
    if analysis.stopped is Stop.RUNNING:
        found.append(
            Status(word="NOT FINISHED", text="Measuring goes on or was broken off; intervals are anytime-valid ones.")
        )
    if analysis.stopped is Stop.REOPENED:
        found.append(
            Status(
                word="REOPENED",
                text="The run went on with an answer in sight, or with another budget than it began with. "
                "Only intervals that are valid at any moment of stopping are shown.",
            )
        )
    if analysis.stopped in (Stop.BUDGET, Stop.REOPENED):
        precision = percent_text(context.study.precision)
        found.append(
            Status(
                word="TIME RAN OUT",
                text=f"The budget ended before every cell reached its target precision of ±{precision}.",
            )
        )
    others = _others(context)
    if others is not None and others > BUSY_SHARE:
        found.append(
            Status(
                word="BUSY MACHINE",
                text=f"Other work took {numbers.share(others)} of the processors while measuring. The intervals allow "
                "for it, and the ratios are those of a busy machine.",
            )
        )
    if context.analysis.undeclared:
        count = len({name for differences in analysis.undeclared.values() for name in differences})
        found.append(
            Status(
                word="UNDECLARED DIFFERENCES",
                text=f"{count} {'setting differs' if count == 1 else 'settings differ'} between the arms although the "
                "study did not ask for it; the ratios include what they do. See Settings.",
            )
        )
    different = same_rows_status(context)
    return (*found, different) if different else tuple(found)


def _arms(context: Context) -> tuple[ArmView, ...]:
    views = []
    for name, arm in context.arms.items():
        variables = context.variables.get(name, {})
        version = " ".join(
            part for part in (variables.get("version", ""), variables.get("version_comment", "")) if part
        )
        role = Role.BASELINE if name == context.analysis.baseline else Role.CONTENDER
        role = Role.CONTROL if name == context.analysis.control else role
        views.append(
            ArmView(
                name=name,
                label=context.labels[name],
                role=role,
                slot=context.slots[name],
                version=version,
                setup=setups.setup_line(arm),
            )
        )
    return tuple(views)


def _detail_note(context: Context) -> str:
    if len(context.cells) <= DETAIL_CELLS:
        return ""
    return (
        f"Of {len(context.cells)} cells the {DETAIL_CELLS} with the largest differences are drawn; all are in the "
        "tables, and every slice is in the run directory."
    )
