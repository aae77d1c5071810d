"""Turn a study into a plan, and a plan into the drafts of its epochs. Pure: no clock, no file, no random state."""

from collections.abc import Collection, Mapping

from bakeoff.plan import timing
from bakeoff.plan.epochs import Cell, CellDraft, EpochDraft, Plan, Seeds, SliceLength, seed_for, shuffled
from bakeoff.plan.workloads import kind_of, workload_names, writes
from bakeoff.spec import Placement, Study, Workload

_NO_RECONNECT = ("0", "off", "false")  # values of the script option `reconnect` that keep connections
_PAIRED_MAX = 1024  # connections: 256 are paired in half a second, and the time grows with the square of the number
_DRAFTS_MAX = 200  # a budget of days has millions of epochs
_PADDING_MAX_BYTES = 4096  # one page, so that the stack can start at every aligned address in it


def plan_study(
    study: Study,
    *,
    overhead_s: float,
    load_s: float,
    seconds_per_cell: float | None = None,
    turns: int | None = None,
    builds: int | None = None,
    needs: timing.PilotNeeds = timing.UNKNOWN_NEEDS,
) -> Plan:
    """Turn a study into cells, orders and seconds. The plan may not fit the budget (`fits`), which the caller reports.

    Args:
        overhead_s: expected wall seconds of an epoch in which nothing is measured, all arms and cells together.
        load_s: expected wall seconds before the first epoch and after the last one.
        seconds_per_cell: measuring seconds of a cell in an epoch; None to follow from the budget (bakeoff.plan.timing).
        turns: arms that take turns in a cell, the baseline counted once a round (`epochs.turns`); None for every arm.
        builds: loads of the data that there are; None for the study's.
    """
    turns = len(study.arms) if turns is None else turns
    count = len(study.workloads) * len(study.threads)
    comfortable_s = timing.LONG_S
    if not any(writes(workload) or _is_open_loop(workload) for workload in study.workloads):
        comfortable_s = timing.comfortable_seconds(needs, overhead_s=overhead_s, cells=count, turns=turns)
    seconds = seconds_per_cell or timing.seconds_per_cell(
        budget_s=study.budget_s,
        load_s=load_s,
        overhead_s=overhead_s,
        cells=count,
        comfortable_s=comfortable_s,
        turns=turns,
    )
    epoch_s = overhead_s + count * seconds
    fitting = int((study.budget_s - load_s) / epoch_s + 1e-9)
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
        budget_needed_s=timing.smallest_budget_s(load_s=load_s, overhead_s=overhead_s, cells=count, turns=turns),
        unpaired="client and servers are on different hosts" if study.client else "",
        epochs=(),
    )
    drafts = tuple(
        epoch_draft(plan, study, epoch) for epoch in range(min(max(fitting, timing.EPOCHS_MIN), _DRAFTS_MAX))
    )
    return plan.model_copy(update={"epochs": drafts})


def epoch_draft(
    plan: Plan, study: Study, epoch: int, *, settled: frozenset[tuple[str, str]] = frozenset()
) -> EpochDraft:
    """Draw an epoch: start order, cells, build, padding and seeds.

    Start orders come in pairs of epochs, a random one and then its reverse, so that no arm is first more often than
    another. Builds rotate. Cells that only read come before those that write. Within each group workloads are in random
    order, and so are a workload's cells, which follow each other because they are warmed together.

    `settled` are (cell, arm) no longer measured. Leaving them out changes no other choice.
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


def share_seconds(plan: Plan, noise: Mapping[str, float | None]) -> Plan:
    """Return the plan with its measuring seconds shared among the cells by their noise (`timing.shared_seconds`).

    Slices that leave too few blocks are cut.
    """
    seconds = timing.shared_seconds(plan.seconds_per_cell, noise, turns=plan.turns)
    cells = []
    for cell in plan.cells:
        cell = cell.model_copy(update={"seconds": seconds.get(cell.name, plan.seconds_per_cell)})
        _, longest_ns = slice_bounds(plan, cell)
        if cell.slices.slice_ns > longest_ns:
            cut = SliceLength(slice_ns=longest_ns, guard_ns=timing.guard_ns(longest_ns))
            cell = cell.model_copy(update={"slices": cut})
        cells.append(cell)
    return plan.model_copy(update={"cells": tuple(cells)})


def with_longer_slices(plan: Plan, cells: Collection[str]) -> Plan:
    """Return the plan with the slices of these cells doubled, as far as enough blocks fit."""
    longer = {}
    for name in cells:
        cell = plan.cell(name)
        _, longest_ns = slice_bounds(plan, cell)
        length_ns = max(min(2 * cell.slices.slice_ns, longest_ns), cell.slices.slice_ns)
        longer[name] = SliceLength(slice_ns=length_ns, guard_ns=timing.guard_ns(length_ns))
    return plan.with_slices(longer)


def _cells(study: Study, seconds: float, turns: int) -> tuple[Cell, ...]:
    cells = []
    for index, (workload, name) in enumerate(zip(study.workloads, workload_names(study.workloads), strict=True)):
        changes_data = writes(workload)
        open_loop = _is_open_loop(workload)
        freeze = changes_data if study.freeze is None else study.freeze
        freeze = freeze and not study.client and not study.has_running_server
        slices = timing.default_slices(
            writes=changes_data, frozen=freeze, open_loop=open_loop, seconds=seconds, turns=turns
        )
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
                slices=slices,
                fixed_work=kind_of(workload.script).fixed_work,
                speed=workload.speed,
            )
            for threads in study.threads
        ]
    return tuple(cells)


def _placement(study: Study, workload: Workload, threads: int) -> Placement:
    """Pair connections, unless they are too many or the script reconnects faster than a server thread is found."""
    given = [*workload.options, *(option for arm in study.arms for option in arm.data.options)]
    reconnects = any(name == "reconnect" and str(value).lower() not in _NO_RECONNECT for name, value in given)
    return Placement.FREE if reconnects or threads > _PAIRED_MAX else Placement.PAIRED


def _is_open_loop(workload: Workload) -> bool:
    return workload.rate_per_s is not None or workload.speed is not None


def slice_bounds(plan: Plan, cell: Cell) -> tuple[int, int]:
    """Return the shortest and longest slice (ns) that the pilot may choose for a cell."""
    seconds = plan.seconds_per_cell if cell.seconds is None else cell.seconds
    return timing.slice_bounds(
        writes=cell.writes, frozen=cell.freeze, open_loop=cell.open_loop, seconds=seconds, turns=plan.turns
    )
