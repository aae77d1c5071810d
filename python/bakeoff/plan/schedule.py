"""Make plans (the first one, and those that measuring changes) and draft their epochs. Pure functions."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from statistics import fmean

from bakeoff.plan import timing
from bakeoff.plan.epochs import Cell, CellDraft, EpochDraft, Plan, Seeds, SliceLength, seed_for, shuffled, turns
from bakeoff.plan.workloads import kind_of, workload_names, writes
from bakeoff.spec import Placement, Study, Workload

_NO_RECONNECT = ("0", "off", "false")  # values of the script option `reconnect` that keep connections
_PAIRED_MAX = 1024  # connections: 256 are paired in half a second, and the time grows with the square of the number
_PADDING_MAX_BYTES = 4096  # one page, so that the stack can start at every aligned address in it
_STOP_S = 0.5  # time to stop the servers, until the first epoch has measured it


@dataclass(frozen=True)
class CellPilot:
    slices: SliceLength
    variance_rate_s: float | None  # variance of the log ratio within an epoch times measured seconds
    events_per_s: float  # of the slowest arm


def first_plan(study: Study, *, at_once: int, builds: int) -> Plan:
    return plan_study(study, overhead_s=0.0, load_s=0.0, turns=turns(len(study.arms), at_once=at_once), builds=builds)


def plan_after_pilot(
    first: Plan, study: Study, pilots: Mapping[str, CellPilot], *, begun_s: float, elapsed_s: float
) -> Plan:
    """Plan again with what the first epoch has found out before it measures."""
    rounds = first.turns - len(study.arms) + 1
    plan = plan_study(
        study,
        overhead_s=rounds * (begun_s + _STOP_S),
        load_s=elapsed_s - begun_s + timing.report_seconds(len(first.cells)),
        turns=first.turns,
        builds=first.builds,
        pilots=pilots,
    )
    return plan.all_free(first.unpaired) if first.unpaired else plan


def with_longer_slices(plan: Plan, cells: Collection[str]) -> Plan:
    longer = {}
    for name in cells:
        cell = plan.cell(name)
        _, longest_ns = slice_bounds(plan, cell)
        slice_ns = max(min(2 * cell.slices.slice_ns, longest_ns), cell.slices.slice_ns)
        longer[name] = timing.guarded(slice_ns, throttled=cell.throttled)
    return plan.with_slices(longer)


def plan_study(
    study: Study,
    *,
    overhead_s: float,
    load_s: float,
    seconds_per_cell: float | None = None,
    turns: int | None = None,
    builds: int | None = None,
    pilots: Mapping[str, CellPilot] | None = None,
) -> Plan:
    """Turn a study into cells, orders and seconds. The plan may not fit the budget (`fits`)."""
    turns = len(study.arms) if turns is None else turns
    count = len(study.workloads) * len(study.threads)
    least_s = timing.seconds_min(turns, timing.guarded(0, throttled=_throttled(study)))
    seconds = seconds_per_cell or timing.fit_seconds(
        _ideal_seconds(study, count, overhead_s, turns, pilots or {}),
        rest_s=study.budget_s - load_s,
        overhead_s=overhead_s,
        cells=count,
        least_s=least_s,
    )
    fitting = int((study.budget_s - load_s) / (overhead_s + count * seconds) + 1e-9)
    plan = Plan(
        seed=study.seed,
        arms=tuple(arm.name for arm in study.arms),
        builds=builds or study.builds,
        cells=_cells(study, seconds, turns),
        seconds_per_cell=seconds,
        turns=turns,
        overhead_s=overhead_s,
        load_s=load_s,
        budget_s=study.budget_s,
        epochs_min=timing.EPOCHS_MIN,
        epochs_expected=max(fitting, 0),
        fits=fitting >= timing.EPOCHS_MIN,
        budget_needed_s=timing.smallest_budget_s(load_s=load_s, overhead_s=overhead_s, cells=count, cell_s=least_s),
        unpaired="client and servers are on different hosts" if study.client else "",
    )
    if pilots is not None:
        plan = plan.with_slices({cell: pilot.slices for cell, pilot in pilots.items()})
        noise = {cell: pilot.variance_rate_s for cell, pilot in pilots.items()}
        plan = _share_seconds(plan, {cell.name: noise.get(cell.name) for cell in plan.cells})
    return plan


def _ideal_seconds(study: Study, cells: int, overhead_s: float, turns: int, pilots: Mapping[str, CellPilot]) -> float:
    if _throttled(study) or any(writes(workload) or _is_open_loop(workload) for workload in study.workloads):
        return timing.LONG_S
    least = [
        timing.least_seconds(turns=turns, slice_ns=pilot.slices.slice_ns, events_per_s=pilot.events_per_s)
        for pilot in pilots.values()
    ]
    # The pilot's seconds are those of two arms.
    rates = [pilot.variance_rate_s * turns / 2 for pilot in pilots.values() if pilot.variance_rate_s]
    return timing.ideal_seconds(
        overhead_s=overhead_s,
        cells=cells,
        bounds=(max(least, default=timing.least_seconds(turns=turns)), timing.LONG_S),
        rate_s=fmean(rates) if rates else None,
        precision=study.precision,
    )


def _share_seconds(plan: Plan, noise: Mapping[str, float | None]) -> Plan:
    """Share the measuring seconds among the cells by their noise; cut slices that no longer leave enough blocks."""
    least_s = timing.seconds_min(plan.turns, timing.guarded(0, throttled=any(cell.throttled for cell in plan.cells)))
    seconds = timing.shared_seconds(plan.seconds_per_cell, noise, least_s=least_s)
    cells = []
    for cell in plan.cells:
        cell = cell.model_copy(update={"seconds": seconds[cell.name]})
        _, longest_ns = slice_bounds(plan, cell)
        shorter = timing.guarded(longest_ns, throttled=cell.throttled)
        cells.append(cell if cell.slices.slice_ns <= longest_ns else cell.with_slices(shorter))
    return plan.with_cells(cells)


def epoch_draft(
    plan: Plan, study: Study, epoch: int, *, settled: frozenset[tuple[str, str]] = frozenset()
) -> EpochDraft:
    """Draw an epoch: start order, cells, build, padding and seeds.

    Start orders come in pairs of epochs, a random one and then its reverse, so that no arm is first more often. Cells
    that only read come before those that write; a workload's cells follow each other because they are warmed together.
    `settled` are (cell, arm) no longer measured; leaving them out changes no other choice.
    """
    seed = study.seed
    pair, second = divmod(epoch, 2)
    start = shuffled(plan.arms, seed, "start", pair)
    seeds = Seeds(
        order=seed_for(seed, "order", epoch),
        keys=seed_for(seed, "keys", epoch),
        padding=seed_for(seed, "padding", epoch),
    )
    arms = {cell.name: tuple(arm for arm in plan.arms if (cell.name, arm) not in settled) for cell in plan.cells}
    by_name = {cell.name: cell for cell in plan.cells if len(arms[cell.name]) > 1}
    workloads = shuffled({cell.workload for cell in by_name.values()}, seed, "workloads", epoch)
    order = sorted(
        shuffled(by_name, seed, "cells", epoch),
        key=lambda name: (by_name[name].writes, workloads.index(by_name[name].workload)),
    )
    return EpochDraft(
        epoch=epoch,
        build=epoch % plan.builds,
        start_order=start[::-1] if second else start,
        cells=tuple(
            CellDraft(
                cell=name, order_seed=seed_for(seeds.order, name), key_seed=seed_for(seeds.keys, name), arms=arms[name]
            )
            for name in order
        ),
        padding_bytes={arm: seed_for(seeds.padding, arm) % _PADDING_MAX_BYTES for arm in plan.arms},
        seeds=seeds,
    )


def _cells(study: Study, seconds: float, turns: int) -> tuple[Cell, ...]:
    cells, throttled = [], _throttled(study)
    for index, (workload, name) in enumerate(zip(study.workloads, workload_names(study.workloads), strict=True)):
        changes_data = writes(workload)
        open_loop = _is_open_loop(workload)
        freeze = changes_data if study.freeze is None else study.freeze
        freeze = freeze and not study.client and not study.has_running_server
        lowest, highest = timing.slice_bounds(
            writes=changes_data, frozen=freeze, open_loop=open_loop, throttled=throttled, seconds=seconds, turns=turns
        )
        slow = changes_data or open_loop or throttled
        slice_ns = lowest if slow else min(timing.READ_SLICE_NS, highest)  # before a pilot
        cells += [
            Cell(
                name=f"{name}/{threads}",
                workload=name,
                workload_index=index,
                script=workload.script,
                threads=threads,
                writes=changes_data,
                freeze=freeze,
                placement=Placement.FREE if study.client else study.placement or _placement(study, workload, threads),
                open_loop=open_loop,
                slices=timing.guarded(slice_ns, throttled=throttled),
                fixed_work=kind_of(workload.script).fixed_work,
                speed=workload.speed,
                throttled=throttled,
            )
            for threads in study.threads
        ]
    return tuple(cells)


def _placement(study: Study, workload: Workload, threads: int) -> Placement:
    """Pair connections, unless there are too many, an arm's CPUs are limited, or the script reconnects."""
    given = [*workload.options, *(option for arm in study.arms for option in arm.data.options)]
    reconnects = any(name == "reconnect" and str(value).lower() not in _NO_RECONNECT for name, value in given)
    few_cpus = any(arm.server.machine.cpus for arm in study.arms)
    return Placement.FREE if reconnects or few_cpus or threads > _PAIRED_MAX else Placement.PAIRED


def _throttled(study: Study) -> bool:
    return any(arm.server.machine.storage.limits for arm in study.arms)


def _is_open_loop(workload: Workload) -> bool:
    return workload.rate_per_s is not None or workload.speed is not None


def slice_bounds(plan: Plan, cell: Cell) -> tuple[int, int]:
    seconds = plan.seconds_per_cell if cell.seconds is None else cell.seconds
    return timing.slice_bounds(
        writes=cell.writes,
        frozen=cell.freeze,
        open_loop=cell.open_loop,
        throttled=cell.throttled,
        seconds=seconds,
        turns=plan.turns,
    )
