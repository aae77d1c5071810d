"""Plans: balanced, complete, the same for the same seed, and within the budget."""

from collections import Counter
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bakeoff.plan import CellPilot, Plan, SliceLength, epoch_draft, plan_study, whole_blocks
from bakeoff.plan.schedule import first_plan, plan_after_pilot, slice_bounds, with_longer_slices
from bakeoff.spec import Arm, Placement, Study, Workload, parse_server

SERVER = parse_server("mysql:8.0")
SCRIPTS = ("oltp_point_select", "oltp_insert", "oltp_read_only", "/tmp/mine.lua")


def study(arms=2, scripts=SCRIPTS[:2], threads=(1, 4), seed=7, budget_s=600.0, builds=2, **options):
    return Study(
        title="t",
        arms=tuple(Arm(name=name, label=name, server=SERVER) for name in ["A", "B", "A'", "C", "D"][:arms]),
        workloads=tuple(Workload(script=script) for script in scripts),
        threads=threads,
        seed=seed,
        budget_s=budget_s,
        builds=builds,
        **options,
    )


studies = st.builds(
    study,
    arms=st.integers(2, 5),
    scripts=st.lists(st.sampled_from(SCRIPTS), min_size=1, max_size=4).map(tuple),
    threads=st.lists(st.integers(1, 256), min_size=1, max_size=3, unique=True).map(tuple),
    seed=st.integers(0, 2**40),
    budget_s=st.floats(30, 7200),
    builds=st.integers(1, 4),
)


@given(studies, st.floats(0, 60), st.floats(0, 100))
@settings(max_examples=60)
def test_same_study_same_plan_and_json_round_trip(asked, overhead_s, load_s):
    plan = plan_study(asked, overhead_s=overhead_s, load_s=load_s)
    assert plan == plan_study(asked, overhead_s=overhead_s, load_s=load_s)
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


@given(studies)
@settings(max_examples=60)
def test_every_epoch_measures_every_cell_once_with_reads_before_writes(asked):
    plan = plan_study(asked, overhead_s=5, load_s=0)
    names = [cell.name for cell in plan.cells]
    assert len(set(names)) == len(names) == len(asked.workloads) * len(asked.threads)
    for draft in (epoch_draft(plan, asked, epoch) for epoch in range(8)):
        assert sorted(draft.cell_order) == sorted(names)
        writing = [plan.cell(name).writes for name in draft.cell_order]
        assert writing == sorted(writing)
        workloads = [plan.cell(name).workload for name in draft.cell_order]
        assert len(list(groupby(workloads))) == len(set(workloads)), "the cells of a workload follow each other"
        assert sorted(draft.start_order) == sorted(plan.arms)
        assert set(draft.padding_bytes) == set(plan.arms)
        assert all(0 <= size < 4096 for size in draft.padding_bytes.values())


@given(studies)
@settings(max_examples=40)
def test_builds_rotate_and_start_orders_balance(asked):
    plan = plan_study(asked, overhead_s=5, load_s=0)
    drafts = [epoch_draft(plan, asked, epoch) for epoch in range(4 * asked.builds)]
    assert set(Counter(draft.build for draft in drafts).values()) == {4}
    for first, second in zip(drafts[::2], drafts[1::2], strict=True):
        assert first.start_order == second.start_order[::-1]


def test_seeds_differ_between_epochs_and_cells_and_fit_json():
    plan = plan_study(study(), overhead_s=5, load_s=0)
    seeds = [
        seed
        for epoch in range(50)
        for draft in epoch_draft(plan, study(), epoch).cells
        for seed in (draft.order_seed, draft.key_seed)
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**53 for seed in seeds)


def test_another_seed_gives_other_orders():
    studies = [study(seed=seed, threads=(1, 2, 4, 8)) for seed in range(8)]
    plan = plan_study(studies[0], overhead_s=5, load_s=0)
    orders = {tuple(epoch_draft(plan, each, epoch).cell_order for epoch in range(8)) for each in studies}
    assert len(orders) == 8


def test_leaving_out_a_finished_cell_changes_no_other_choice():
    plan = plan_study(study(threads=(1, 2, 4, 8)), overhead_s=5, load_s=0)
    whole = epoch_draft(plan, study(), 9)
    gone = whole.cells[1].cell
    rest = epoch_draft(plan, study(), 9, settled=frozenset((gone, arm) for arm in plan.arms[1:]))
    assert rest.cells == tuple(draft for draft in whole.cells if draft.cell != gone)
    assert rest.start_order == whole.start_order and rest.seeds == whole.seeds


def test_custom_scripts_count_as_writing_even_with_a_bundled_name():
    plan = plan_study(study(scripts=("oltp_read_only", "/tmp/oltp_read_only.lua")), overhead_s=5, load_s=0)
    assert {cell.name: cell.writes for cell in plan.cells} == {
        "oltp_read_only/1": False,
        "oltp_read_only/4": False,
        "oltp_read_only#2/1": True,
        "oltp_read_only#2/4": True,
    }


@pytest.mark.parametrize(("asked", "expected"), [(None, {False, True}), (True, {True}), (False, {False})])
def test_freeze_is_for_writes_unless_asked(asked, expected):
    plan = plan_study(study(freeze=asked), overhead_s=5, load_s=0)
    assert {cell.freeze for cell in plan.cells} == expected


def test_a_budget_too_small_reports_how_much_is_needed():
    plan = plan_study(study(budget_s=60), overhead_s=20, load_s=10)
    assert not plan.fits
    enough = plan_study(study(budget_s=plan.budget_needed_s), overhead_s=20, load_s=10)
    assert enough.fits and enough.epochs_expected == 6


@given(studies, st.floats(0, 30), st.floats(0, 60))
@settings(max_examples=60)
def test_what_the_plan_says_it_takes_fits_the_budget(asked, overhead_s, load_s):
    plan = plan_study(asked, overhead_s=overhead_s, load_s=load_s)
    assert 2.0 <= plan.seconds_per_cell <= 120.0
    if plan.fits:
        assert plan.load_s + plan.epochs_expected * plan.epoch_s <= plan.budget_s * (1 + 1e-9)
        assert plan.epochs_expected >= 6
    else:
        assert plan.seconds_per_cell == 2.0
        assert plan.budget_needed_s > plan.budget_s * (1 - 1e-9)


@given(studies)
@settings(max_examples=60)
def test_default_slices_allow_two_blocks_and_a_guard_of_at_most_a_tenth(asked):
    plan = plan_study(asked, overhead_s=5, load_s=0)
    for cell in plan.cells:
        lowest, highest = slice_bounds(plan, cell)
        assert 5_000_000 <= lowest <= cell.slices.slice_ns <= highest
        assert cell.slices.guard_ns <= cell.slices.slice_ns / 10
        assert 500_000 <= cell.slices.guard_ns <= 10_000_000
        if cell.slices.slice_ns > 50_000_000:
            assert 2 * 2 * len(plan.arms) * cell.slices.slice_ns <= plan.seconds_per_cell * 1e9


def test_with_slices_changes_only_the_named_cell():
    plan = plan_study(study(), overhead_s=5, load_s=0)
    chosen = SliceLength(slice_ns=200_000_000, guard_ns=10_000_000)
    frozen = plan.with_slices({"oltp_point_select/4": chosen})
    assert frozen.cell("oltp_point_select/4").slices == chosen
    assert frozen.cell("oltp_point_select/1") == plan.cell("oltp_point_select/1")


@pytest.mark.parametrize(("seconds", "blocks"), [(17.45, 2), (24.2, 3), (8.1, 1), (5.0, 1)])
def test_blocks_of_long_slices_fill_the_measuring_time_exactly(seconds, blocks):
    slices, counted = whole_blocks(SliceLength(slice_ns=2_000_000_000, guard_ns=10_000_000), seconds=seconds, turns=2)
    assert counted == blocks
    assert slices.slice_ns >= 2_000_000_000
    measured = blocks * 4 * (slices.slice_ns + slices.guard_ns) / 1e9
    assert measured == pytest.approx(max(seconds, 8.04))


def test_many_short_slices_stay_as_the_pilot_chose_them():
    chosen = SliceLength(slice_ns=100_000_000, guard_ns=5_000_000)
    assert whole_blocks(chosen, seconds=20.0, turns=2) == (chosen, None)


@given(studies, st.integers(1, 8))
@settings(max_examples=60)
def test_slices_are_doubled_while_enough_blocks_fit(asked, times):
    plan = plan_study(asked, overhead_s=5, load_s=0)
    name = plan.cells[0].name
    _, longest_ns = slice_bounds(plan, plan.cells[0])
    longer = plan
    for _ in range(times):
        longer = with_longer_slices(longer, [name])
    before_ns, after_ns = plan.cell(name).slices.slice_ns, longer.cell(name).slices.slice_ns
    assert after_ns == max(before_ns, min(before_ns * 2**times, longest_ns))
    assert longer.cell(name).slices.guard_ns <= after_ns / 10
    assert longer.cells[1:] == plan.cells[1:]


@pytest.mark.parametrize(
    ("scripts", "events_per_s", "expected"),
    [
        (("oltp_point_select",), 1e6, 8.0),  # as long as the rest of the epoch
        (("oltp_point_select",), 10_000 / 13, 13.0),  # slow events
        (("oltp_point_select", "oltp_read_write"), 1e6, 20.0),  # writes need long slices
    ],
)
def test_reads_are_measured_as_long_as_a_restart_costs(scripts, events_per_s, expected):
    pilots = {"oltp_point_select/4": CellPilot(SliceLength(slice_ns=10**8, guard_ns=5 * 10**6), None, events_per_s)}
    plan = plan_study(study(scripts=scripts, threads=(4,)), overhead_s=8, load_s=0, pilots=pilots)
    # A few per cent more: what whole epochs leave of the budget.
    assert expected <= plan.seconds_per_cell < 1.1 * expected


def test_connections_are_paired_unless_too_many_or_reconnecting():
    many = plan_study(study(scripts=("oltp_read_only",), threads=(4, 1024, 1025)), overhead_s=5, load_s=0)
    assert [cell.placement for cell in many.cells] == ["paired", "paired", "free"]
    for value, expected in (("100", "free"), ("0", "paired"), (False, "paired")):
        again = study().model_copy(
            update={"workloads": (Workload(script="oltp_read_only", options=(("reconnect", value),)),)}
        )
        assert {cell.placement for cell in plan_study(again, overhead_s=5, load_s=0).cells} == {expected}
        asked = again.model_copy(update={"placement": Placement.PAIRED})
        assert {cell.placement for cell in plan_study(asked, overhead_s=5, load_s=0).cells} == {"paired"}
    free = many.all_free("the server has a thread pool")
    assert {cell.placement for cell in free.cells} == {"free"}
    assert free.unpaired == "the server has a thread pool"


def test_the_pilot_sets_slices_and_gives_noisy_cells_more_time():
    asked = study(scripts=("oltp_point_select",), threads=(1, 4), budget_s=36_000.0)
    first = first_plan(asked, at_once=2, builds=2)
    slices = SliceLength(slice_ns=10**8, guard_ns=5 * 10**6)
    pilots = {f"oltp_point_select/{threads}": CellPilot(slices, threads * 1e-4, 1e6) for threads in (1, 4)}
    plan = plan_after_pilot(first.all_free("no thread"), asked, pilots, begun_s=4.0, elapsed_s=30.0)
    assert (plan.overhead_s, plan.load_s, plan.unpaired) == (4.5, 30.0, "no thread")
    assert {cell.slices.slice_ns for cell in plan.cells} == {10**8}
    assert plan.seconds_of("oltp_point_select/4") > plan.seconds_of("oltp_point_select/1")


def test_seconds_needed_for_noise_grow_with_the_number_of_arms():
    slices = SliceLength(slice_ns=5 * 10**6, guard_ns=5 * 10**5)
    pilots = {"oltp_point_select/4": CellPilot(slices, 6e-4, 1e9)}
    of_two, of_five = (
        plan_study(
            study(arms=arms, scripts=("oltp_point_select",), threads=(4,), budget_s=360_000.0, precision=0.01),
            overhead_s=1, load_s=0, pilots=pilots,
        ).seconds_per_cell
        for arms in (2, 5)
    )  # fmt: skip
    assert of_two == pytest.approx(6e-4 / 0.0075**2, rel=1e-3)
    assert of_five == pytest.approx(20.0, rel=1e-3)  # the most; 2.5 times as long would be 26.7 s
