//! Random texts of a given content and compressibility, and sysbench's templates and rows. Encoding draws no random
//! numbers, so tables in different character sets get the same rows.

use std::io::Write as _;
use std::sync::LazyLock;

use strum::{Display, EnumString, VariantNames};

use super::{Distributions, Generator, StreamKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Content {
    /// Groups of eleven digits separated by dashes, as in sysbench's tables.
    Digits,
    Ascii,
    Text,
    Latin,
    Cyrillic,
    Japanese,
    Chinese,
    Emoji,
    /// All texts start alike. The last twelve characters are digits.
    Prefix,
    /// Identifiers of 36 characters (RFC 9562, version 4).
    Uuid,
    Hash,
}

impl Content {
    fn alphabet(self) -> Vec<char> {
        let line = ALPHABETS.lines().nth(self as usize).unwrap_or_default();
        line.chars().skip_while(|character| *character != ' ').skip(1).collect()
    }
}

/// A line for each content. latin is ISO 8859-1; cyrillic lacks ё, which older sets put elsewhere; japanese is in JIS X
/// 0208, chinese in GB 2312. None has a quote, a backslash or a space: a text needs no escaping in an SQL literal.
const ALPHABETS: &str = include_str!("alphabets.txt");

static WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| include_str!("words.txt").split_whitespace().collect());

#[derive(Debug, Clone)]
struct Glyphs {
    bytes: Vec<u8>,
    starts: Vec<u32>,
}

impl Glyphs {
    fn new(characters: impl Iterator<Item = char>, charset: &str) -> Self {
        let mut glyphs = Self { bytes: Vec::new(), starts: vec![0] };
        for character in characters {
            match charset {
                "latin1" => glyphs.bytes.push(u32::from(character) as u8),
                _ => glyphs.bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
            glyphs.starts.push(glyphs.bytes.len() as u32);
        }
        glyphs
    }

    fn count(&self) -> usize {
        self.starts.len() - 1
    }

    fn range(&self, from: usize, to: usize) -> &[u8] {
        &self.bytes[self.starts[from] as usize..self.starts[to] as usize]
    }
}

#[derive(Debug, Clone)]
pub struct Texts {
    content: Content,
    compressibility: Option<f64>,
    glyphs: Glyphs,
    constant: Glyphs,
}

const CONSTANT_CHARACTERS: usize = 4096;
const SUFFIX_CHARACTERS: usize = 12;
/// Bytes that zlib needs for a random character of [`Content::Ascii`]: log2 of its 80 characters, and a little.
const ASCII_DENSITY: f64 = 0.81;
const MATCH_BYTES: f64 = 3.0;

impl Texts {
    /// Creates texts for a connection with this character set. `compressibility` (0 to 1) makes the end of all texts
    /// equal, so that zlib saves about this share of ASCII text. `Content::Digits` with it becomes ASCII.
    pub fn new(content: Content, compressibility: Option<f64>, charset: &str) -> Result<Self, String> {
        let content = match (content, compressibility) {
            (Content::Digits, Some(_)) => Content::Ascii,
            (content, _) => content,
        };
        if let Some(share) = compressibility.filter(|share| !(0.0..=1.0).contains(share)) {
            return Err(format!("compressibility must be 0 to 1, not {share}"));
        }
        let last = match charset {
            "utf8mb4" => '\u{10FFFF}',
            "utf8" | "utf8mb3" => '\u{FFFF}',
            "latin1" => '\u{FF}',
            _ => '\u{7F}', // only its ASCII half is known
        };
        let alphabet = content.alphabet();
        if !alphabet.iter().all(|each| *each <= last) {
            return Err(format!("the connection's character set cannot carry content {content}: use utf8mb4 for it"));
        }
        let glyphs = Glyphs::new(alphabet.into_iter(), charset);
        Ok(Self { content, compressibility, glyphs, constant: Self::constant_part(content, charset) })
    }

    fn constant_part(content: Content, charset: &str) -> Glyphs {
        let mut generator = Generator::for_stream(0, StreamKind::Text, 0, 0);
        let alphabet: Vec<char> = match content {
            Content::Prefix => ('a'..='z').collect(),
            content => content.alphabet(),
        };
        let drawn = (0..CONSTANT_CHARACTERS).map(|_| alphabet[generator.below(alphabet.len() as u64) as usize]);
        Glyphs::new(drawn, charset)
    }

    pub fn max_bytes(characters: usize) -> usize {
        characters * 4
    }

    pub fn draw(&self, generator: &mut Generator, characters: usize, out: &mut Vec<u8>) {
        let random = self.random_characters(characters);
        match self.content {
            Content::Digits => push_digit_groups(generator, random, out),
            Content::Text => Self::words(generator, random, out),
            Content::Uuid => self.uuids(generator, random, out),
            Content::Prefix => {
                let same = random.saturating_sub(SUFFIX_CHARACTERS);
                self.repeat(same, out);
                self.letters(generator, random - same, out);
            }
            _ => self.letters(generator, random, out),
        }
        self.repeat(characters - random, out);
    }

    pub fn stream_of(number: u64) -> Generator {
        Generator::for_stream(0, StreamKind::Text, 1, number)
    }

    fn random_characters(&self, characters: usize) -> usize {
        match self.compressibility {
            None => characters,
            Some(share) => {
                let left = (1.0 - share) * characters as f64 - MATCH_BYTES;
                ((left / ASCII_DENSITY).max(0.0).round() as usize).min(characters)
            }
        }
    }

    fn letters(&self, generator: &mut Generator, characters: usize, out: &mut Vec<u8>) {
        let count = self.glyphs.count() as u64;
        for _ in 0..characters {
            let at = generator.below(count) as usize;
            out.extend_from_slice(self.glyphs.range(at, at + 1));
        }
    }

    fn words(generator: &mut Generator, characters: usize, out: &mut Vec<u8>) {
        let end = out.len() + characters;
        while out.len() < end {
            // Squared, so that common words are more frequent, as in a language.
            let drawn = generator.next_f64();
            out.extend_from_slice(WORDS[(drawn * drawn * WORDS.len() as f64) as usize].as_bytes());
            out.push(b' ');
        }
        out.truncate(end);
        // A server may trim a space at the end.
        if characters > 0 && out.last() == Some(&b' ') {
            out.pop();
            out.push(b'.');
        }
    }

    fn uuids(&self, generator: &mut Generator, characters: usize, out: &mut Vec<u8>) {
        for place in 0..characters {
            match place % 37 {
                8 | 13 | 18 | 23 => out.push(b'-'),
                14 => out.push(b'4'),
                19 => out.push(b"89ab"[generator.below(4) as usize]),
                36 => out.push(b','),
                _ => self.letters(generator, 1, out),
            }
        }
    }

    fn repeat(&self, characters: usize, out: &mut Vec<u8>) {
        let mut left = characters;
        while left > 0 {
            let now = left.min(self.constant.count());
            out.extend_from_slice(self.constant.range(0, now));
            left -= now;
        }
    }
}

/// Copies `template` to `out`, replacing `#` by a digit and `@` by a letter a–z.
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
pub fn fill_varied(generator: &mut Generator, minimum: u32, maximum: u32, out: &mut [u8]) -> u32 {
    let length = Distributions::uniform(generator, minimum, maximum);
    for place in &mut out[..length as usize] {
        *place = b'0' + generator.below(u64::from(b'z' - b'0') + 1) as u8;
    }
    length
}

/// Appends a row of `id`, `k` and two texts. `write` appends a text of so many characters.
pub fn push_row(id: u64, k: u32, texts: [usize; 2], out: &mut Vec<u8>, mut write: impl FnMut(usize, &mut Vec<u8>)) {
    // Writing into a Vec cannot fail.
    let _ = write!(out, "({id},{k}");
    for characters in texts {
        out.extend_from_slice(b",'");
        write(characters, out);
        out.push(b'\'');
    }
    out.push(b')');
}

/// Appends groups of eleven digits with dashes between them. Each takes one draw.
pub fn push_digit_groups(generator: &mut Generator, characters: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + characters, b'-');
    for group in out[start..].chunks_mut(12) {
        let mut rest = generator.below(100_000_000_000);
        let digits = group.len().min(11);
        for digit in group[..digits].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/random_content.rs"]
mod tests;
