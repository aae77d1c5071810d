//! Times of query logs as microseconds since 1970: `2024-11-06T09:57:35.187996Z`, `051007  9:55:24`, `0.000228`.

/// Microseconds of a second.
pub(crate) const SECOND_US: i64 = 1_000_000;

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March: the leap day is the last one. Howard Hinnant's days_from_civil.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Two digits, or a blank and one.
fn two(text: &[u8]) -> Option<i64> {
    match text {
        [b' ' | b'0'..=b'9', b'0'..=b'9'] => {
            let tens = if text[0] == b' ' { 0 } else { text[0] - b'0' };
            Some(i64::from(tens * 10 + text[1] - b'0'))
        }
        _ => None,
    }
}

/// A date and a time of day [µs]; None when one is out of range.
fn moment(date: (i64, i64, i64), clock: (i64, i64, i64)) -> Option<i64> {
    let ((year, month, day), (hour, minute, second)) = (date, clock);
    let valid = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 62;
    valid.then(|| (days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second) * SECOND_US)
}

fn clock(text: &[u8]) -> Option<(i64, i64, i64)> {
    let colons = text.len() == 8 && text[2] == b':' && text[5] == b':';
    colons.then_some((two(&text[..2])?, two(&text[3..5])?, two(&text[6..])?))
}

/// `2024-11-06T09:57:35.187996Z` or with `+02:00`; how many bytes it has.
pub(crate) fn iso(text: &[u8]) -> Option<(i64, usize)> {
    let (date, rest) = (text.get(..10)?, text.get(10..)?);
    if date[4] != b'-' || date[7] != b'-' || !matches!(rest.first()?, b'T' | b' ') {
        return None;
    }
    let year = two(&date[..2])? * 100 + two(&date[2..4])?;
    let seconds = moment((year, two(&date[5..7])?, two(&date[8..])?), clock(rest.get(1..9)?)?)?;
    let mut at = 19;
    let mut fraction = 0;
    if text.get(at) == Some(&b'.') {
        let digits: Vec<u8> = text[at + 1..].iter().copied().take_while(u8::is_ascii_digit).collect();
        fraction = (0..6).fold(0, |sum, place| sum * 10 + i64::from(digits.get(place).map_or(0, |digit| digit - b'0')));
        at += 1 + digits.len();
    }
    let zone = match text.get(at) {
        Some(b'Z') => {
            at += 1;
            0
        }
        Some(sign @ (b'+' | b'-')) => {
            let offset = two(text.get(at + 1..at + 3)?)? * 3600 + two(text.get(at + 4..at + 6)?)? * 60;
            at += 6;
            if *sign == b'+' { offset } else { -offset }
        }
        _ => 0,
    };
    Some((seconds + fraction - zone * SECOND_US, at))
}

/// `051007  9:55:24`: the form up to 5.6 and of MariaDB, in the server's own time zone, which the log does not name.
pub(crate) fn old(text: &[u8]) -> Option<i64> {
    let (date, rest) = (text.get(..6)?, text.get(6..15)?);
    if rest[0] != b' ' || !date.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let year = two(&date[..2])?;
    let year = if year >= 70 { 1900 + year } else { 2000 + year };
    moment((year, two(&date[2..4])?, two(&date[4..])?), clock(&rest[1..])?)
}

/// `0.000228` seconds in microseconds; None: no number.
pub(crate) fn seconds_us(text: &[u8]) -> Option<u64> {
    let whole = crate::event::number(text)?;
    let at = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let fraction = text.get(at + 1..).filter(|_| text.get(at) == Some(&b'.')).unwrap_or_default();
    let micros = (0..6).fold((0, true), |(sum, going), place| match fraction.get(place) {
        Some(digit @ b'0'..=b'9') if going => (sum * 10 + u64::from(digit - b'0'), true),
        _ => (sum * 10, false),
    });
    whole.checked_mul(1_000_000)?.checked_add(micros.0)
}

#[cfg(test)]
#[path = "../tests/unit/times.rs"]
mod tests;
