//! The C symbols that Lua reaches through `ffi.C`: sysbench's, and a few of our own (`bakeoff_…`). LuaJIT compiles
//! calls through the FFI, but not calls through Lua's C API, so the hot path goes this way. A symbol never calls
//! back into Lua and never unwinds into it: it returns a code, and Lua raises.
//! # Safety
//! Every symbol relies on the same promises of our Lua files; nothing below repeats them. Pointers come from this
//! crate and are still valid, or null where the function handles it. A string has `length` bytes or ends with a
//! zero byte, and a buffer has room for what the function writes. Nobody writes to either during the call.

use std::ffi::c_void;

pub(crate) const DECLARATIONS: &str = include_str!("lua/sysbench.h");

/// Defines the C symbols of a module, and `SYMBOLS`, a list that keeps the linker from dropping them.
macro_rules! symbols {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $out:ty)? $body:block)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $kind),*) $(-> $out)? $body
        )*

        pub(super) const SYMBOLS: &[(&str, *const std::ffi::c_void)] =
            &[$((stringify!($name), $name as *const std::ffi::c_void)),*];
    };
}

mod bulk;
mod connections;
mod events;
mod random;
mod statements;

/// Names and addresses of all symbols. A program that passes this to `black_box` keeps the symbols.
pub(crate) const ALL: [&[(&str, *const c_void)]; 5] =
    [events::SYMBOLS, connections::SYMBOLS, statements::SYMBOLS, bulk::SYMBOLS, random::SYMBOLS];

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
