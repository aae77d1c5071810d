//! The C symbols that Lua reaches through `ffi.C`: sysbench's, and a few of our own (`bakeoff_…`). LuaJIT compiles
//! calls through the FFI, but not calls through Lua's C API, so the hot path goes this way. A symbol never calls
//! back into Lua and never unwinds into it: it returns a code, and Lua raises.
//! # Safety
//! Every symbol relies on the same promises of our Lua files; nothing below repeats them. Pointers come from this
//! crate and are still valid, or null where the function handles it. A string has `length` bytes or ends with a
//! zero byte, and a buffer has room for what the function writes. Nobody writes to either during the call.

mod bulk;
mod connections;
mod events;
mod random;
mod statements;

use std::ffi::c_void;

pub(crate) fn declarations() -> String {
    [events::CDEF, connections::CDEF, statements::CDEF, bulk::CDEF, random::CDEF].concat()
}

struct Anchors<const N: usize>([*const c_void; N]);

// SAFETY: addresses of functions, never read through.
unsafe impl<const N: usize> Sync for Anchors<N> {}

macro_rules! anchors {
    ($($module:ident :: { $($name:ident),* $(,)? }),* $(,)?) => {
        #[used]
        static ANCHORS: Anchors<{ [$($(stringify!($name)),*),*].len() }> =
            Anchors([$($($module::$name as *const c_void),*),*]);

        #[cfg(test)]
        pub(crate) const NAMES: &[&str] = &[$($(stringify!($name)),*),*];
    };
}

anchors! {
    events::{
        sb_more_events, sb_event_start, sb_event_stop, bakeoff_event_abandon, bakeoff_event_restart, bakeoff_operation,
        bakeoff_think, bakeoff_barrier, bakeoff_progress, bakeoff_log, sb_lua_set_test_args, sb_print_test_options,
        sb_counter_val, sb_counter_add, sb_counter_inc,
        sb_histogram_new, sb_histogram_delete, sb_histogram_update, sb_histogram_print,
    },
    connections::{
        db_create, db_destroy, db_connection_create, bakeoff_connect, db_connection_close, db_connection_reconnect, db_connection_free,
        bakeoff_connection_collect,
    },
    statements::{
        db_query, db_fetch_row, db_more_results, db_next_result, db_free_results, bakeoff_column_name,
        db_prepare, db_bind_param, db_bind_result, db_execute, db_stmt_next_result, db_close, bakeoff_statement_free,
    },
    bulk::{db_bulk_insert_init, db_bulk_insert_next, db_bulk_insert_done, bakeoff_bulk_limit, bakeoff_bulk_sbtest_rows},
    random::{
        sb_rand_default, sb_rand_uniform, sb_rand_gaussian, sb_rand_special, sb_rand_pareto, sb_rand_zipfian, sb_rand_unique,
        bakeoff_rand_unique_below,
        sb_rand_uniform_uint64, sb_rand_uniform_double, sb_rand_str, bakeoff_rand_str, sb_rand_varstr,
        bakeoff_texts_new, bakeoff_texts_free, bakeoff_texts_draw, bakeoff_texts_of, bakeoff_bulk_texts,
    },
}

pub(crate) fn keep_symbols() {
    std::hint::black_box(&ANCHORS.0);
}

unsafe fn text_of(text: *const std::ffi::c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

unsafe fn bytes_of<'a>(start: *const std::ffi::c_char, length: usize) -> &'a [u8] {
    if start.is_null() {
        return &[];
    }
    unsafe { std::slice::from_raw_parts(start.cast(), length) }
}
