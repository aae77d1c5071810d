//! `sb_rand_*`: draws from the worker's own stream.

use std::ffi::c_char;

use crate::random::{Distributions, fill_template, fill_varied};
use crate::session::current;

pub(super) const CDEF: &str = r"
uint32_t sb_rand_default(uint32_t a, uint32_t b);
uint32_t sb_rand_uniform(uint32_t a, uint32_t b);
uint32_t sb_rand_gaussian(uint32_t a, uint32_t b);
uint32_t sb_rand_special(uint32_t a, uint32_t b);
uint32_t sb_rand_pareto(uint32_t a, uint32_t b);
uint32_t sb_rand_zipfian(uint32_t a, uint32_t b);
uint32_t sb_rand_unique(void);
uint64_t sb_rand_uniform_uint64(void);
double sb_rand_uniform_double(void);
void sb_rand_str(const char *format, char *buffer);
void bakeoff_rand_str(const char *format, char *buffer, size_t len);
uint32_t sb_rand_varstr(char *buffer, uint32_t min_len, uint32_t max_len);
";

macro_rules! draws {
    ($($name:ident => $method:ident),* $(,)?) => {$(
        /// A number of `low`..=`high`.
        #[unsafe(no_mangle)]
        pub(super) extern "C" fn $name(low: u32, high: u32) -> u32 {
            let random = &mut *current().random.borrow_mut();
            random.distributions.$method(&mut random.generator, low, high)
        }
    )*};
}

draws! {
    sb_rand_default => default,
    sb_rand_gaussian => gaussian,
    sb_rand_special => special,
    sb_rand_pareto => pareto,
    sb_rand_zipfian => zipfian,
}

/// A number of `low`..=`high`, all alike.
#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_rand_uniform(low: u32, high: u32) -> u32 {
    Distributions::uniform(&mut current().random.borrow_mut().generator, low, high)
}

/// A number that neither this thread nor another has drawn before.
#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_rand_unique() -> u32 {
    current().random.borrow_mut().unique.draw()
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_rand_uniform_uint64() -> u64 {
    current().random.borrow_mut().generator.next_u64()
}

/// In [0, 1).
#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_rand_uniform_double() -> f64 {
    current().random.borrow_mut().generator.next_f64()
}

/// Fills `buffer` from the template (`#` a digit, `@` a letter), without a zero byte at the end.
///
/// # Safety
/// `format` ends with a zero byte and `buffer` has room for as many bytes as stand before it.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sb_rand_str(format: *const c_char, buffer: *mut c_char) {
    // SAFETY: as the caller promises.
    let length = unsafe { std::ffi::CStr::from_ptr(format) }.count_bytes();
    // SAFETY: likewise.
    unsafe { bakeoff_rand_str(format, buffer, length) };
}

/// As `sb_rand_str`, for a template of known length.
///
/// # Safety
/// `format` and `buffer` are `length` bytes each and do not overlap.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn bakeoff_rand_str(
    format: *const c_char,
    buffer: *mut c_char,
    length: usize,
) {
    // SAFETY: as the caller promises.
    let (template, out) = unsafe {
        (
            std::slice::from_raw_parts(format.cast(), length),
            std::slice::from_raw_parts_mut(buffer.cast(), length),
        )
    };
    fill_template(&mut current().random.borrow_mut().generator, template, out);
}

/// Fills `buffer` with `minimum` to `maximum` characters and returns how many; no zero byte at the end.
///
/// # Safety
/// `buffer` has room for the larger of both.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sb_rand_varstr(
    buffer: *mut c_char,
    minimum: u32,
    maximum: u32,
) -> u32 {
    // SAFETY: as the caller promises.
    let out =
        unsafe { std::slice::from_raw_parts_mut(buffer.cast(), minimum.max(maximum) as usize) };
    fill_varied(
        &mut current().random.borrow_mut().generator,
        minimum,
        maximum,
        out,
    )
}
