//! Tests of `src/random/content.rs`.

use std::collections::HashSet;
use std::io::Write;

use strum::VariantNames as _;

use super::*;

fn texts(content: Content) -> Texts {
    Texts::new(content, None, "utf8mb4").expect("utf8mb4 holds everything")
}

fn drawn(texts: &Texts, number: u64, characters: usize) -> String {
    let mut out = Vec::new();
    texts.draw(&mut Texts::stream_of(number), characters, &mut out);
    assert!(out.len() <= Texts::max_bytes(characters));
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn texts_have_the_requested_length_and_need_no_escaping() {
    for name in Content::VARIANTS {
        let content: Content = name.parse().expect("a content's name");
        assert_eq!(content.to_string(), *name);
        let texts = texts(content);
        for characters in [0, 1, 12, 59, 119, 5000] {
            for number in 0..20 {
                let text = drawn(&texts, number, characters);
                assert_eq!(text.chars().count(), characters, "{name}");
                assert!(!text.contains(['\'', '"', '\\', '%', '?']), "{name}: {text}");
                assert_eq!(text, text.trim_end(), "{name}");
            }
        }
    }
}

#[test]
fn each_number_has_its_own_reproducible_text() {
    for name in Content::VARIANTS {
        let texts = texts(name.parse().expect("a content's name"));
        let all: HashSet<String> = (0..500).map(|n| drawn(&texts, n, 40)).collect();
        assert_eq!(all.len(), 500, "{name}");
        assert_eq!(drawn(&texts, 7, 40), drawn(&texts, 7, 40));
    }
}

#[test]
fn letters_belong_to_their_script() {
    let within = |content, low: char, high: char| {
        drawn(&texts(content), 1, 300).chars().all(|each| (low..=high).contains(&each))
    };
    assert!(within(Content::Ascii, '!', '~'));
    assert!(within(Content::Latin, 'A', 'ÿ'));
    assert!(drawn(&texts(Content::Latin), 1, 300).contains(['é', 'ä', 'ø']));
    assert!(within(Content::Cyrillic, 'А', 'я'));
    assert!(within(Content::Japanese, 'あ', '龥'));
    assert!(within(Content::Chinese, '一', '龥'));
    assert!(within(Content::Emoji, '\u{1F600}', '\u{1F64F}'));
    let uuid = drawn(&texts(Content::Uuid), 3, 36);
    assert_eq!(uuid.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    assert!(drawn(&texts(Content::Hash), 3, 64).chars().all(|c| c.is_ascii_hexdigit()));
    let (one, other) = (drawn(&texts(Content::Prefix), 1, 60), drawn(&texts(Content::Prefix), 2, 60));
    assert_eq!(one[..48], other[..48]);
    assert_ne!(one, other);
}

#[test]
fn encodings_change_bytes_and_not_characters() {
    let latin = Texts::new(Content::Latin, None, "latin1").expect("latin1 holds it");
    let mut bytes = Vec::new();
    latin.draw(&mut Texts::stream_of(5), 200, &mut bytes);
    assert_eq!(bytes.len(), 200);
    let decoded: String = bytes.iter().map(|byte| char::from(*byte)).collect();
    assert_eq!(decoded, drawn(&texts(Content::Latin), 5, 200));
    for (content, encoding) in [(Content::Japanese, "latin1"), (Content::Emoji, "utf8"), (Content::Latin, "sjis")] {
        let refused = Texts::new(content, None, encoding).expect_err("not encodable");
        assert!(refused.contains(&format!("{content:?}").to_lowercase()), "{refused}");
    }
    assert!(Texts::new(Content::Hash, None, "sjis").is_ok());
    assert!(Texts::new(Content::Ascii, Some(1.5), "utf8mb4").is_err());
}

/// The share that zlib saves on a page of 120-character texts.
fn saved(compressibility: f64) -> f64 {
    let texts = Texts::new(Content::Ascii, Some(compressibility), "utf8mb4").expect("valid");
    let mut page = Vec::new();
    for number in 0..130 {
        texts.draw(&mut Texts::stream_of(number), 120, &mut page);
    }
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(6));
    encoder.write_all(&page).expect("memory takes it");
    1.0 - encoder.finish().expect("memory takes it").len() as f64 / page.len() as f64
}

#[test]
fn zlib_saves_the_share_that_is_asked_for() {
    for asked in [0.3, 0.5, 0.7, 0.9] {
        assert!((saved(asked) - asked).abs() < 0.03, "{asked}: {}", saved(asked));
    }
    // No text is more random than its alphabet.
    assert!((0.15..0.25).contains(&saved(0.0)), "{}", saved(0.0));
    assert!(saved(1.0) > 0.97);
}

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
        for digit in &out {
            digits[usize::from(digit - b'0')] += 1;
        }
        fill_template(&mut generator, &[b'@'; 44], &mut out);
        for letter in &out {
            letters[usize::from(letter - b'a')] += 1;
        }
    }
    assert!(digits.iter().all(|count| (21_000..23_000).contains(count)), "{digits:?}");
    assert!(letters.iter().all(|count| (7_900..9_000).contains(count)), "{letters:?}");
}

#[test]
fn digit_groups_have_eleven_uniform_digits() {
    let mut generator = generator();
    let mut counts = [[0_u32; 10]; 11];
    for _ in 0..3_000 {
        for characters in [119, 59] {
            let mut text = Vec::new();
            push_digit_groups(&mut generator, characters, &mut text);
            assert_eq!(text.len(), characters);
            for group in text.split(|byte| *byte == b'-') {
                assert_eq!(group.len(), 11);
                for (place, digit) in group.iter().enumerate() {
                    counts[place][usize::from(digit - b'0')] += 1;
                }
            }
        }
    }
    assert!(counts.iter().flatten().all(|count| (4_100..4_900).contains(count)), "{counts:?}");
}

#[test]
fn rows_are_written_as_sql_tuples() {
    let (mut generator, mut out) = (generator(), Vec::new());
    push_row(4_294_967_296, 1, [11, 23], &mut out, |characters, out| {
        push_digit_groups(&mut generator, characters, out);
    });
    let text = String::from_utf8(out).expect("ASCII");
    assert!(text.starts_with("(4294967296,1,'"), "{text}");
    assert!(text.ends_with("')"), "{text}");
    assert_eq!(text.len(), "(4294967296,1,'','')".len() + 11 + 23);
}

#[test]
fn varied_texts_have_every_allowed_length() {
    let mut generator = generator();
    let mut out = [0; 5];
    let lengths: std::collections::HashSet<u32> =
        (0..200).map(|_| fill_varied(&mut generator, 2, 5, &mut out)).collect();
    assert_eq!(lengths, (2..=5).collect());
    assert!(out.iter().all(|byte| (b'0'..=b'z').contains(byte)));
}
