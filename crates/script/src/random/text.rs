//! Random text: sysbench's templates, and whole rows of `sbtest` tables as fast as they can be sent.

use super::{Distributions, Generator};

/// Copies `template` to `out`, `#` becoming a digit and `@` a letter a–z. Both have the same length.
///
/// # Panics
/// When `out` is shorter than `template`.
pub fn fill_template(generator: &mut Generator, template: &[u8], out: &mut [u8]) {
    // One draw serves eleven digits or letters: 26^11 is below 2^52, so the bias is below 2^-12 of a draw's share.
    let (mut left, mut stock) = (0, 0_u64);
    for (place, form) in out[..template.len()].iter_mut().zip(template) {
        let base = match form {
            b'#' => 10,
            b'@' => 26,
            other => {
                *place = *other;
                continue;
            }
        };
        if left == 0 {
            (left, stock) = (11, generator.next_u64());
        }
        left -= 1;
        let product = u128::from(stock) * base;
        stock = product as u64;
        *place = (product >> 64) as u8 + if base == 10 { b'0' } else { b'a' };
    }
}

/// Fills `out` with `minimum` to `maximum` characters '0' to 'z' and returns how many.
///
/// # Panics
/// When `out` is shorter than `maximum`.
pub fn fill_varied(generator: &mut Generator, minimum: u32, maximum: u32, out: &mut [u8]) -> u32 {
    let length = Distributions::uniform(generator, minimum, maximum);
    for place in &mut out[..length as usize] {
        *place = b'0' + generator.below(u64::from(b'z' - b'0') + 1) as u8;
    }
    length
}

/// Appends a number in decimal.
pub fn push_decimal(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Pairs of digits, so that eleven digits take six divisions by a constant.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// The random part of one row of an `sbtest` table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SbtestRow {
    /// Secondary key.
    pub k: u32,
    /// Ten groups of eleven digits, with `-` between them.
    pub c: [u8; 119],
    /// Five such groups.
    pub pad: [u8; 59],
}

impl SbtestRow {
    /// Draws a row; `k` from the default distribution over 1..=`key_range`.
    #[must_use]
    pub fn draw(generator: &mut Generator, distributions: &mut Distributions, key_range: u32) -> Self {
        let k = distributions.default(generator, 1, key_range);
        let (mut c, mut pad) = ([b'-'; 119], [b'-'; 59]);
        for group in c.chunks_mut(12).chain(pad.chunks_mut(12)) {
            fill_group(generator, &mut group[..11]);
        }
        Self { k, c, pad }
    }

    /// Appends `(id,k,'c','pad')`.
    pub fn push_tuple(&self, id: u64, out: &mut Vec<u8>) {
        out.push(b'(');
        push_decimal(out, id);
        out.push(b',');
        push_decimal(out, u64::from(self.k));
        out.extend_from_slice(b",'");
        out.extend_from_slice(&self.c);
        out.extend_from_slice(b"','");
        out.extend_from_slice(&self.pad);
        out.extend_from_slice(b"')");
    }

    /// No tuple is longer.
    pub const MAX_TUPLE_BYTES: usize = 119 + 59 + 20 + 10 + 9;
}

/// Eleven digits from one draw.
#[inline]
fn fill_group(generator: &mut Generator, group: &mut [u8]) {
    let mut rest = generator.below(100_000_000_000);
    for at in (1..11).step_by(2).rev() {
        group[at..at + 2].copy_from_slice(&PAIRS[(rest % 100) as usize]);
        rest /= 100;
    }
    group[0] = b'0' + rest as u8;
}

#[cfg(test)]
#[path = "../../tests/unit/random_text.rs"]
mod tests;
