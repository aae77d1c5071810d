//! `sb_rand_*` and `bakeoff_texts_*`: numbers and texts from the worker's own stream.

use std::ffi::{CStr, c_char};

use strum::VariantNames;

use super::bytes_of;
use crate::error::nearest;
use crate::random::{Content, Distributions, Generator, Texts, fill_template, fill_varied};
use crate::session::{SqlConnection, with_random};

struct TextSource {
    texts: Texts,
    made: Vec<u8>,
}

impl TextSource {
    fn fill(&mut self, generator: &mut Generator, characters: u32, out: &mut [u8]) -> usize {
        self.made.clear();
        self.texts.draw(generator, characters as usize, &mut self.made);
        copy(&self.made, out)
    }
}

fn copy(bytes: &[u8], out: &mut [u8]) -> usize {
    let length = bytes.len().min(out.len());
    out[..length].copy_from_slice(&bytes[..length]);
    length
}

unsafe fn room<'a>(buffer: *mut c_char, length: usize) -> &'a mut [u8] {
    unsafe { std::slice::from_raw_parts_mut(buffer.cast(), length) }
}

fn content_named(name: &str) -> Result<Content, String> {
    name.parse().map_err(|_| {
        let names = Content::VARIANTS;
        let near =
            nearest(name, names.iter().copied()).map(|near| format!(" Did you mean {near}?")).unwrap_or_default();
        format!("unknown content '{name}', expected one of {}.{near}", names.join(", "))
    })
}

symbols! {
    fn sb_rand_default(low: u32, high: u32) -> u32 {
        with_random(|random| random.distributions.default(&mut random.generator, low, high))
    }

    fn sb_rand_uniform(low: u32, high: u32) -> u32 {
        with_random(|random| Distributions::uniform(&mut random.generator, low, high))
    }

    fn sb_rand_gaussian(low: u32, high: u32) -> u32 {
        with_random(|random| random.distributions.gaussian(&mut random.generator, low, high))
    }

    fn sb_rand_special(low: u32, high: u32) -> u32 {
        with_random(|random| random.distributions.special(&mut random.generator, low, high))
    }

    fn sb_rand_pareto(low: u32, high: u32) -> u32 {
        with_random(|random| random.distributions.pareto(&mut random.generator, low, high))
    }

    fn sb_rand_zipfian(low: u32, high: u32) -> u32 {
        with_random(|random| random.distributions.zipfian(&mut random.generator, low, high))
    }

    fn sb_rand_unique() -> u32 {
        with_random(|random| random.unique.draw())
    }

    fn bakeoff_rand_unique_below(bound: u32) -> u32 {
        with_random(|random| random.unique.draw_below(bound))
    }

    fn sb_rand_uniform_uint64() -> u64 {
        with_random(|random| random.generator.next_u64())
    }

    fn sb_rand_uniform_double() -> f64 {
        with_random(|random| random.generator.next_f64())
    }

    fn sb_rand_str(format: *const c_char, buffer: *mut c_char) {
        let length = unsafe { CStr::from_ptr(format) }.count_bytes();
        unsafe { bakeoff_rand_str(format, buffer, length) };
    }

    fn bakeoff_rand_str(format: *const c_char, buffer: *mut c_char, length: usize) {
        let (template, out) = unsafe { (bytes_of(format, length), room(buffer, length)) };
        with_random(|random| fill_template(&mut random.generator, template, out));
    }

    /// Fills `buffer` with `minimum` to `maximum` characters, without a final zero byte, and returns how many.
    fn sb_rand_varstr(buffer: *mut c_char, minimum: u32, maximum: u32) -> u32 {
        let out = unsafe { room(buffer, minimum.max(maximum) as usize) };
        with_random(|random| fill_varied(&mut random.generator, minimum, maximum, out))
    }

    /// Creates texts in the connection's character set. A compressibility below 0 is none. On error fills `why`.
    fn bakeoff_texts_new(
        connection: &SqlConnection, content: *const c_char, length: usize, compressibility: f64, why: *mut c_char,
        why_room: usize,
    ) -> Option<Box<TextSource>> {
        let name = String::from_utf8_lossy(unsafe { bytes_of(content, length) });
        let charset = connection.link.as_deref().map_or("utf8mb4", |link| link.charset().0);
        let share = (compressibility >= 0.0).then_some(compressibility);
        let texts = content_named(&name).and_then(|content| Texts::new(content, share, charset));
        match texts {
            Ok(texts) => Some(Box::new(TextSource { texts, made: Vec::new() })),
            Err(message) => {
                let out = unsafe { room(why, why_room) };
                out.fill(0);
                copy(message.as_bytes(), &mut out[..why_room - 1]);
                None
            }
        }
    }

    fn bakeoff_texts_free(texts: Option<Box<TextSource>>) {
        drop(texts);
    }

    fn bakeoff_texts_draw(texts: &mut TextSource, characters: u32, buffer: *mut c_char, length: usize) -> usize {
        let out = unsafe { room(buffer, length) };
        with_random(|random| texts.fill(&mut random.generator, characters, out))
    }

    /// Fills `buffer` with the text that belongs to `number` under any seed, and returns its size.
    fn bakeoff_texts_of(
        texts: &mut TextSource, number: f64, characters: u32, buffer: *mut c_char, length: usize,
    ) -> usize {
        texts.fill(&mut Texts::stream_of(number as u64), characters, unsafe { room(buffer, length) })
    }

    /// Puts these texts into the rows of `bakeoff_bulk_sbtest_rows`. Null restores sysbench's digits.
    fn bakeoff_bulk_texts(
        connection: &mut SqlConnection, texts: Option<&TextSource>, c_characters: u32, pad_characters: u32,
    ) {
        let lengths = [c_characters as usize, pad_characters as usize];
        connection.bulk.texts = texts.map(|source| (source.texts.clone(), lengths));
    }
}
