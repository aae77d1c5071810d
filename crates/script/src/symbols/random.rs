//! `sb_rand_*` and `bakeoff_texts_*`: numbers and texts from the worker's own stream.

use std::ffi::c_char;
use std::ptr;

use super::bytes_of;
use crate::error::nearest;
use crate::random::{Content, Distributions, Encoding, Generator, Texts, fill_template, fill_varied};
use crate::session::{SqlConnection, with_random};

pub(super) const CDEF: &str = r"
uint32_t sb_rand_default(uint32_t a, uint32_t b);
uint32_t sb_rand_uniform(uint32_t a, uint32_t b);
uint32_t sb_rand_gaussian(uint32_t a, uint32_t b);
uint32_t sb_rand_special(uint32_t a, uint32_t b);
uint32_t sb_rand_pareto(uint32_t a, uint32_t b);
uint32_t sb_rand_zipfian(uint32_t a, uint32_t b);
uint32_t sb_rand_unique(void);
uint32_t bakeoff_rand_unique_below(uint32_t bound);
uint64_t sb_rand_uniform_uint64(void);
double sb_rand_uniform_double(void);
void sb_rand_str(const char *format, char *buffer);
void bakeoff_rand_str(const char *format, char *buffer, size_t len);
uint32_t sb_rand_varstr(char *buffer, uint32_t min_len, uint32_t max_len);
typedef struct bakeoff_texts bakeoff_texts;
bakeoff_texts *bakeoff_texts_new(sql_connection *con, const char *content, size_t len, double compressibility, char *why, size_t room);
void bakeoff_texts_free(bakeoff_texts *texts);
size_t bakeoff_texts_draw(bakeoff_texts *texts, uint32_t characters, char *buffer, size_t room);
size_t bakeoff_texts_of(bakeoff_texts *texts, double number, uint32_t characters, char *buffer, size_t room);
void bakeoff_bulk_texts(sql_connection *con, const bakeoff_texts *texts, uint32_t c_characters, uint32_t pad_characters);
";

macro_rules! draws {
    ($($name:ident => $method:ident),* $(,)?) => {$(
        #[unsafe(no_mangle)]
        pub(super) extern "C" fn $name(low: u32, high: u32) -> u32 {
            with_random(|random| random.distributions.$method(&mut random.generator, low, high))
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

#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_rand_uniform(low: u32, high: u32) -> u32 {
    with_random(|random| Distributions::uniform(&mut random.generator, low, high))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_rand_unique() -> u32 {
    with_random(|random| random.unique.draw())
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn bakeoff_rand_unique_below(bound: u32) -> u32 {
    with_random(|random| random.unique.draw_below(bound))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_rand_uniform_uint64() -> u64 {
    with_random(|random| random.generator.next_u64())
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_rand_uniform_double() -> f64 {
    with_random(|random| random.generator.next_f64())
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sb_rand_str(format: *const c_char, buffer: *mut c_char) {
    let length = unsafe { std::ffi::CStr::from_ptr(format) }.count_bytes();
    unsafe { bakeoff_rand_str(format, buffer, length) };
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn bakeoff_rand_str(format: *const c_char, buffer: *mut c_char, length: usize) {
    let (template, out) = unsafe {
        (std::slice::from_raw_parts(format.cast(), length), std::slice::from_raw_parts_mut(buffer.cast(), length))
    };
    with_random(|random| fill_template(&mut random.generator, template, out));
}

/// Fills `buffer` with `minimum` to `maximum` characters, without a final zero byte, and returns how many.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sb_rand_varstr(buffer: *mut c_char, minimum: u32, maximum: u32) -> u32 {
    let out = unsafe { std::slice::from_raw_parts_mut(buffer.cast(), minimum.max(maximum) as usize) };
    with_random(|random| fill_varied(&mut random.generator, minimum, maximum, out))
}

pub(super) struct TextSource {
    texts: Texts,
    made: Vec<u8>,
}

/// Creates texts of a content in the connection's character set. A negative compressibility is none. If null, `why` has the reason.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn bakeoff_texts_new(
    connection: *mut SqlConnection,
    content: *const c_char,
    length: usize,
    compressibility: f64,
    why: *mut c_char,
    room: usize,
) -> *mut TextSource {
    let (connection, name) = unsafe { (&*connection, bytes_of(content, length)) };
    let name = String::from_utf8_lossy(name);
    let charset = connection.link.as_deref().map_or("utf8mb4", |link| link.charset().0);
    let share = (compressibility >= 0.0).then_some(compressibility);
    let made = match Content::named(&name) {
        Some(content) => Texts::new(content, share, Encoding::of_charset(charset)),
        None => Err(unknown(&name)),
    };
    match made {
        Ok(texts) => Box::into_raw(Box::new(TextSource { texts, made: Vec::new() })),
        Err(message) => {
            if room > 0 {
                let shown = message.len().min(room - 1);
                unsafe {
                    ptr::copy_nonoverlapping(message.as_ptr(), why.cast(), shown);
                    *why.add(shown) = 0;
                }
            }
            ptr::null_mut()
        }
    }
}

fn unknown(name: &str) -> String {
    let names = Content::ALL.map(|(name, _)| name);
    let near = nearest(name, names).map(|near| format!(" Did you mean {near}?")).unwrap_or_default();
    format!("unknown content '{name}', expected one of {}.{near}", names.join(", "))
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn bakeoff_texts_free(texts: *mut TextSource) {
    if !texts.is_null() {
        drop(unsafe { Box::from_raw(texts) });
    }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn bakeoff_texts_draw(
    texts: *mut TextSource,
    characters: u32,
    buffer: *mut c_char,
    room: usize,
) -> usize {
    with_random(|random| unsafe { fill(texts, &mut random.generator, characters, buffer, room) })
}

/// Fills `buffer` with the text that belongs to `number` under any seed, and returns its size.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn bakeoff_texts_of(
    texts: *mut TextSource,
    number: f64,
    characters: u32,
    buffer: *mut c_char,
    room: usize,
) -> usize {
    unsafe { fill(texts, &mut Texts::stream_of(number as u64), characters, buffer, room) }
}

unsafe fn fill(
    texts: *mut TextSource,
    generator: &mut Generator,
    characters: u32,
    buffer: *mut c_char,
    room: usize,
) -> usize {
    let source = unsafe { &mut *texts };
    source.made.clear();
    source.texts.draw(generator, characters as usize, &mut source.made);
    let length = source.made.len().min(room);
    unsafe { ptr::copy_nonoverlapping(source.made.as_ptr(), buffer.cast(), length) };
    length
}

/// Puts these texts into the rows of `bakeoff_bulk_sbtest_rows`. Null restores sysbench's digits.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn bakeoff_bulk_texts(
    connection: *mut SqlConnection,
    texts: *const TextSource,
    c_characters: u32,
    pad_characters: u32,
) {
    let (connection, source) = unsafe { (&mut *connection, texts.as_ref()) };
    let lengths = [c_characters as usize, pad_characters as usize];
    connection.bulk.texts = source.map(|source| (source.texts.clone(), lengths));
}
