//! Tests of `src/random/text.rs`.

use super::super::{RandSettings, StreamKind};
use super::*;

fn generator() -> Generator {
    Generator::for_stream(5, StreamKind::Rows, 1, 0)
}

#[test]
fn templates_keep_their_fixed_characters() {
    let mut out = [0; 9];
    fill_template(&mut generator(), b"##-@@-x##", &mut out);
    assert!(out[..2].iter().chain(&out[7..]).all(u8::is_ascii_digit), "{out:?}");
    assert!(out[3..5].iter().all(u8::is_ascii_lowercase));
    assert_eq!([out[2], out[5], out[6]], *b"--x");
}

#[test]
fn template_digits_and_letters_are_uniform() {
    let mut generator = generator();
    let (mut digits, mut letters) = ([0_u32; 10], [0_u32; 26]);
    let mut out = [0; 44];
    for _ in 0..5_000 {
        fill_template(&mut generator, &[b'#'; 44], &mut out);
        out.iter().for_each(|digit| digits[usize::from(digit - b'0')] += 1);
        fill_template(&mut generator, &[b'@'; 44], &mut out);
        out.iter().for_each(|letter| letters[usize::from(letter - b'a')] += 1);
    }
    assert!(
        digits.iter().all(|count| (21_000..23_000).contains(count)),
        "{digits:?}"
    );
    assert!(
        letters.iter().all(|count| (7_900..9_000).contains(count)),
        "{letters:?}"
    );
}

#[test]
fn rows_have_their_groups_and_every_digit_is_uniform() {
    let mut generator = generator();
    let mut distributions = Distributions::new(&RandSettings::default());
    let mut counts = [[0_u32; 10]; 11];
    for _ in 0..3_000 {
        let row = SbtestRow::draw(&mut generator, &mut distributions, 100);
        assert!((1..=100).contains(&row.k));
        for group in row
            .c
            .split(|byte| *byte == b'-')
            .chain(row.pad.split(|byte| *byte == b'-'))
        {
            assert_eq!(group.len(), 11);
            for (place, digit) in group.iter().enumerate() {
                counts[place][usize::from(digit - b'0')] += 1;
            }
        }
    }
    assert!(
        counts.iter().flatten().all(|count| (4_100..4_900).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn tuples_are_sql() {
    let row = SbtestRow::draw(&mut generator(), &mut Distributions::new(&RandSettings::default()), 1);
    let mut out = Vec::new();
    row.push_tuple(4_294_967_296, &mut out);
    let text = String::from_utf8(out).expect("ASCII");
    assert!(text.starts_with("(4294967296,1,'"), "{text}");
    assert!(text.ends_with("')"), "{text}");
    assert!(text.len() <= SbtestRow::MAX_TUPLE_BYTES);
}

#[test]
fn varied_text_has_both_lengths_and_ends() {
    let mut generator = generator();
    let mut out = [0; 5];
    let lengths: std::collections::HashSet<u32> =
        (0..200).map(|_| fill_varied(&mut generator, 2, 5, &mut out)).collect();
    assert_eq!(lengths, (2..=5).collect());
    assert!(out.iter().all(|byte| (b'0'..=b'z').contains(byte)));
}

#[test]
fn decimals_are_decimals() {
    for number in [0, 7, 10, 12_345, u64::MAX] {
        let mut out = Vec::new();
        push_decimal(&mut out, number);
        assert_eq!(out, number.to_string().into_bytes());
    }
}
