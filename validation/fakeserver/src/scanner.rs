//! Finds words and marks in SQL, outside strings, quoted names and comments.

/// Number of `?` outside strings, quoted names and comments.
pub(crate) fn parameters(text: &str) -> u16 {
    let mut count = 0;
    scan(text, |_, byte| count += u16::from(byte == b'?'));
    count
}

/// Calls `visit` for each byte outside strings, quoted names and comments, with its position.
pub(crate) fn scan(text: &str, mut visit: impl FnMut(usize, u8)) {
    let bytes = text.as_bytes();
    let mut position = 0;
    while let Some(&byte) = bytes.get(position) {
        let rest = &bytes[position..];
        match byte {
            b'\'' | b'"' | b'`' => {
                position += 1;
                while bytes.get(position).is_some_and(|&inner| inner != byte) {
                    position += if bytes[position] == b'\\' && byte != b'`' { 2 } else { 1 };
                }
            }
            b'/' if rest.starts_with(b"/*") && !rest.starts_with(b"/*!") => {
                position += 2;
                while position < bytes.len() && !bytes[position..].starts_with(b"*/") {
                    position += 1;
                }
                position += 1;
            }
            _ => visit(position, byte),
        }
        position += 1;
    }
}

/// Strips leading blanks and comments, the marks of a leading `/*!40101 … */`, and a trailing `;`.
pub(crate) fn strip(text: &str) -> &str {
    let mut text = text.trim().trim_end_matches(';').trim_end();
    loop {
        text = text.trim_start();
        if let Some(inner) = text.strip_prefix("/*!") {
            let inner = inner.trim_start_matches(|c: char| c.is_ascii_digit());
            text = inner.strip_suffix("*/").unwrap_or(inner);
        } else if let Some(comment) = text.strip_prefix("/*") {
            text = comment.split_once("*/").map_or("", |(_, after)| after);
        } else {
            return text.trim_end();
        }
    }
}

/// Returns whether the text has the word, in any case.
pub(crate) fn contains(text: &str, word: &str) -> bool {
    text.as_bytes().windows(word.len()).any(|window| window.eq_ignore_ascii_case(word.as_bytes()))
}

/// Position of a word at depth 0, outside strings.
pub(crate) fn find_word(text: &str, word: &str) -> Option<usize> {
    let (mut depth, mut found) = (0i32, None);
    scan(text, |position, byte| {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        let here = text.as_bytes().get(position..position + word.len());
        let starts = position == 0 || text.as_bytes()[position - 1].is_ascii_whitespace();
        if found.is_none() && depth == 0 && starts && here.is_some_and(|w| w.eq_ignore_ascii_case(word.as_bytes())) {
            found = Some(position);
        }
    });
    found
}

pub(crate) fn list_items(list: &str) -> Vec<&str> {
    let (mut depth, mut cuts) = (0i32, Vec::new());
    scan(list, |position, byte| match byte {
        b'(' => depth += 1,
        b')' => depth -= 1,
        b',' if depth == 0 => cuts.push(position),
        _ => {}
    });
    let mut start = 0;
    let mut items = Vec::new();
    for cut in cuts.into_iter().chain([list.len()]) {
        items.push(list[start..cut].trim());
        start = cut + 1;
    }
    items
}

#[cfg(test)]
#[path = "../tests/unit/scanner.rs"]
mod tests;
