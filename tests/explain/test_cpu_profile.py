"""CPU samples per event: the cost of functions and of parts of the server, and how often claims are wrong."""

import numpy as np
import pytest
from profiled import BASE, KERNEL, LIBC, READ, SERVER, STACKS, Function, contender_stacks, profile

from bakeoff.explain.profiles import compare_profiles, group_of, shown_name, tree_of


def compared(epochs=5, seed=1, baseline=STACKS, contender=None):
    rng = np.random.default_rng(seed)
    sides = [{}, {}]
    for epoch in range(epochs):
        for side, stacks in zip(sides, (baseline, contender or contender_stacks()), strict=True):
            side[epoch] = profile(stacks, rng)
    return compare_profiles(*sides)


def test_samples_become_times_whose_parts_add_up():
    found = compare_profiles({0: profile(STACKS)}, {0: profile(contender_stacks())})
    whole = sum(STACKS.values()) * 500_000 / 10_000
    assert found.all.baseline == pytest.approx(whole)
    assert found.all.difference.mean == pytest.approx(0.3 * STACKS[READ] * 50)
    for costs in ([cost for _, cost in found.groups], [each.own for each in found.functions]):
        assert sum(cost.baseline for cost in costs) == pytest.approx(whole)
        assert sum(cost.difference.mean for cost in costs) == pytest.approx(found.all.difference.mean)
    assert found.all.difference.interval.low is None, "one epoch has no interval"


def test_the_function_that_takes_more_comes_first_and_its_callers_include_it():
    found = compared()
    first = found.functions[0]
    assert (first.name, first.group) == ("row_search_mvcc", "row access") and first.own.is_clear
    assert first.own.difference.interval.holds(0.3 * STACKS[READ] * 50)
    assert found.groups[0][0] == "row access"
    root = next(each for each in found.functions if each.name == "handle_connection")
    assert root.total.difference.mean == pytest.approx(found.all.difference.mean) and not root.own.is_clear


def test_intervals_of_equal_arms_cover_zero_as_often_as_claimed():
    misses = sum(compared(4, seed, contender=STACKS).all.is_clear for seed in range(200))
    assert misses <= 19  # 5 % are 10, with a standard deviation of 3.1


def test_a_function_that_calls_itself_is_counted_once():
    item = Function("Item_func::val_int", SERVER)
    found = compare_profiles(*[{0: profile({(*BASE, item, item, item): 100, (*BASE, item): 50})}] * 2)
    costs = {each.name: each for each in found.functions}
    assert costs["Item_func::val_int"].total.baseline == pytest.approx(150 * 50)
    assert costs["Item_func::val_int"].own.baseline == pytest.approx(150 * 50)


def test_a_sample_belongs_to_the_innermost_classified_function():
    tree = tree_of([profile(STACKS)])
    by_group = {name: float(costs[0]) / 50 for name, costs in tree.by_group().items()}
    assert by_group["row access"] == 1500 + 800, "memmove is its caller's"
    assert by_group["B-tree pages"] == 1200 and by_group["parser"] == 900
    assert by_group["kernel: network"] == 1400 and by_group["kernel: scheduler"] == 600


OF_PARTS = {
    "parser": "MYSQLparse Lex_input_stream::yyPeek",
    "preparing and optimising": "best_access_path JOIN::optimize SELECT_LEX::prepare",
    "executor and expressions": "JOIN::exec",
    "row access": "row_search_for_mysql ha_innobase::index_read rec_get_offsets_func",
    "B-tree pages": "btr_cur_search_to_nth_level page_cur_search_with_match",
    "adaptive hash index": "btr_search_guess_on_hash",
    "buffer pool": "buf_page_get_gen Buf_fetch_normal::get",
    "latches and mutexes": "rw_lock_s_lock_func pfs_rw_lock_s_lock_func ssux_lock_impl::rd_wait ut_delay",
    "transactions and row locks": "trx_commit lock_rec_lock MVCC::view_open",
    "purge": "row_purge_step",
    "redo log": "log_write_up_to mtr_t::commit mtr_t::Command::execute",
    "binary log": "MYSQL_BIN_LOG::ordered_commit",
    "temporary tables and sorts": "filesort temptable::Handler::write_row heap_write",
    "network and protocol": "net_write_packet Protocol_classic::end_row vio_read",
    "memory allocation": "malloc mem_heap_create_block_func MEM_ROOT::AllocSlow",
    "performance schema": "pfs_start_mutex_wait_v1 start_statement_v1",
    "dispatching and statement management": "pfs_spawn_thread dispatch_command log_slow_statement",
    "tables and metadata locks": "MDL_context::acquire_lock open_tables",
    "query cache": "Query_cache::send_result_to_client",
    "character sets": "my_strnncollsp_utf8mb4",
}


@pytest.mark.parametrize("group", OF_PARTS)
def test_server_functions_of_all_versions_are_classified(group):
    functions = OF_PARTS[group].split()
    assert [(name, group_of(Function(name, SERVER))) for name in functions] == [(name, group) for name in functions]


@pytest.mark.parametrize(
    ("function", "where", "group"),
    [
        ("tcp_sendmsg", KERNEL, "kernel: network"),
        ("finish_task_switch.isra.0", KERNEL, "kernel: scheduler"),
        ("__x64_sys_futex", KERNEL, "kernel: scheduler"),
        ("ext4_sync_file", KERNEL, "kernel: files and disk"),
        ("do_user_addr_fault", KERNEL, "kernel: memory"),
        ("asm_sysvec_apic_timer_interrupt", KERNEL, "kernel: interrupts and hypervisor"),
        ("je_malloc", "libjemalloc.so.2", "memory allocation"),
        ("anything", "libtcmalloc_minimal.so.4", "memory allocation"),
        ("burn", "libburn.so", "library libburn.so"),
        ("recv", "libburn.so", "library libburn.so"),
        ("recv", LIBC, "network and protocol"),
        ("malloc", LIBC, "memory allocation"),
        ("memcpy", LIBC, ""),
        ("foo", "libstdc++.so.6.0.30", ""),
        ("foo", "libpthread-2.31.so", ""),
        ("[unknown]", "[unknown]", ""),
        ("aes_gcm", "libcrypto.so.3", "network and protocol"),
    ],
)
def test_kernel_and_library_functions_are_classified(function, where, group):
    assert group_of(Function(function, where)) == group


def test_functions_without_a_symbol_are_separated_by_their_callers():
    nameless = Function("[unknown]", SERVER)
    tree = tree_of([profile({(*READ, nameless, nameless): 30, (*READ, nameless): 12, (nameless, *BASE): 7})])
    own = {name: float(costs[0][0]) / 50 for name, costs in tree.by_function().items()}
    assert own["(no symbol) below row_search_mvcc"] == 42 and own["dispatch_command"] == 7
    assert tree.by_group()["row access"][0] / 50 == 42


def test_a_library_without_symbols_or_callers_keeps_its_group():
    nowhere, allocator = Function("[unknown]", "[unknown]"), Function("[unknown]", "libjemalloc.so.2")
    tree = tree_of([profile({(nowhere, allocator): 40, (allocator, allocator): 30, (nowhere,): 5, READ: 9})])
    assert tree.by_group()["memory allocation"][0] / 50 == 70
    own = {name: times[0][0] / 50 for name, times in tree.by_function().items()}
    assert own["(no symbol) in libjemalloc"] == 70 and own["(no symbol)"] == 5


def test_library_functions_without_a_known_caller_have_their_own_group():
    tree = tree_of([profile({(Function("__vfprintf_internal", LIBC),): 9, (Function("odd", SERVER),): 4})])
    assert {name: costs[0] / 50 for name, costs in tree.by_group().items()} == {
        "libraries, caller unknown": 9,
        "other server code": 4,
    }


def test_a_function_has_one_name_in_all_versions():
    assert shown_name(Function("row_search_for_mysql", "mysqld")) == "row_search_mvcc"
    assert shown_name(Function("row_search_mvcc", "mariadbd")) == "row_search_mvcc"
    assert shown_name(Function("memcpy", "libc-2.36.so")) == "memcpy (libc)"
    assert shown_name(Function("schedule", KERNEL)) == "schedule (kernel)"
