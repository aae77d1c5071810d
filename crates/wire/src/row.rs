//! Parses rows and column definitions on demand. Binary values become the text that the text protocol would show.
//! Floats are formatted like MySQL 5.7, 8.0 and MariaDB 10.11 do.

use std::borrow::Cow;
use std::io::Write as _;

use crate::bytes::{Malformed, Reader};
use crate::packet::payload_at;
use crate::reply::ResultSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Text,
    Binary,
}

#[derive(Debug, Default)]
pub struct RowCursor {
    current: Option<(ResultSet, Encoding)>,
    at: usize,
    rows_left: u64,
    formats: Vec<ColumnFormat>,
}

impl RowCursor {
    #[inline]
    pub fn restart(&mut self, result: ResultSet, encoding: Encoding) {
        self.at = result.rows_at;
        self.rows_left = result.rows;
        self.formats.clear();
        self.current = Some((result, encoding));
    }

    #[inline]
    pub fn stop(&mut self) {
        self.current = None;
        self.rows_left = 0;
    }

    pub fn result(&self) -> Option<&ResultSet> {
        self.current.as_ref().map(|(result, _)| result)
    }

    /// Parses the next row into `row`: one entry per column, None for NULL. Returns false after the last row.
    pub fn next(&mut self, reply: &[u8], row: &mut Vec<Option<Vec<u8>>>) -> Result<bool, Malformed> {
        let Some((result, encoding)) = self.current.filter(|_| self.rows_left > 0) else { return Ok(false) };
        if result.rows_dropped {
            return Err(Malformed { what: "result set", why: "it was too large, so its rows were dropped" });
        }
        if encoding == Encoding::Binary && self.formats.is_empty() {
            self.formats = formats(reply, &result)?;
        }
        let (payload, packet_bytes) = payload_at(reply.get(self.at..).unwrap_or_default())?;
        row.resize(result.columns as usize, None);
        match encoding {
            Encoding::Text => text_row(&payload, row)?,
            Encoding::Binary => binary_row(&payload, &self.formats, row)?,
        }
        self.at += packet_bytes;
        self.rows_left -= 1;
        Ok(true)
    }
}

fn text_row(payload: &[u8], row: &mut [Option<Vec<u8>>]) -> Result<(), Malformed> {
    const NULL: u8 = 0xfb;
    let mut reader = Reader::new(payload, "text row");
    for value in row {
        if reader.skip_byte(NULL) {
            *value = None;
        } else {
            let bytes = reader.lenenc_bytes()?;
            emptied(value).extend_from_slice(bytes);
        }
    }
    if reader.is_empty() { Ok(()) } else { Err(reader.malformed("it has more values than columns")) }
}

fn binary_row(payload: &[u8], formats: &[ColumnFormat], row: &mut [Option<Vec<u8>>]) -> Result<(), Malformed> {
    let mut reader = Reader::new(payload, "binary row");
    if reader.u8()? != 0 {
        return Err(reader.malformed("its first byte is not 0"));
    }
    // The first two bits are unused.
    let nulls = reader.take((formats.len() + 2).div_ceil(8))?;
    for (index, (format, value)) in formats.iter().zip(row).enumerate() {
        let bit = index + 2;
        if nulls[bit / 8] >> (bit % 8) & 1 == 1 {
            *value = None;
        } else {
            to_text(*format, &mut reader, emptied(value))?;
        }
    }
    if reader.is_empty() { Ok(()) } else { Err(reader.malformed("it has more values than columns")) }
}

fn emptied(value: &mut Option<Vec<u8>>) -> &mut Vec<u8> {
    let bytes = value.get_or_insert_default();
    bytes.clear();
    bytes
}

/// Returns the name of column `index` (0-based). None if there is no such column or its name is not UTF-8.
pub fn column_name<'a>(reply: &'a [u8], result: &ResultSet, index: u32) -> Option<&'a str> {
    if index >= result.columns {
        return None;
    }
    let mut at = result.columns_at;
    for _ in 0..index {
        at += payload_at(reply.get(at..)?).ok()?.1;
    }
    let (payload, _) = payload_at(reply.get(at..)?).ok()?;
    let Cow::Borrowed(payload) = payload else { return None };
    std::str::from_utf8(definition(payload).ok()?.0).ok()
}

fn definition(payload: &[u8]) -> Result<(&[u8], ColumnFormat), Malformed> {
    let mut reader = Reader::new(payload, "column definition");
    // Catalogue, database, table, original table.
    for _ in 0..4 {
        reader.lenenc_bytes()?;
    }
    let name = reader.lenenc_bytes()?;
    let _original_name = reader.lenenc_bytes()?;
    if reader.lenenc()? < 10 {
        return Err(reader.malformed("its fixed part is too short"));
    }
    let _charset = reader.u16()?;
    let length = reader.u32()?;
    let type_code = reader.u8()?;
    let flags = reader.u16()?;
    let decimals = reader.u8()?;
    Ok((name, ColumnFormat { type_code, flags, length, decimals }))
}

fn formats(reply: &[u8], result: &ResultSet) -> Result<Vec<ColumnFormat>, Malformed> {
    let mut at = result.columns_at;
    (0..result.columns)
        .map(|_| {
            let (payload, packet_bytes) = payload_at(reply.get(at..).unwrap_or_default())?;
            at += packet_bytes;
            Ok(definition(&payload)?.1)
        })
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ColumnFormat {
    type_code: u8,
    flags: u16,
    length: u32,
    decimals: u8,
}

const UNSIGNED: u16 = 1 << 5;
const ZEROFILL: u16 = 1 << 6;
/// `decimals` of a float declared without any.
const NOT_FIXED: u8 = 31;
/// Significant digits that the server shows for a FLOAT (C's FLT_DIG).
const FLOAT_DIGITS: usize = 6;
/// Longest display width of a zero-filled number that is accepted.
const MAX_ZEROFILL_WIDTH: u32 = 255;

fn to_text(format: ColumnFormat, reader: &mut Reader<'_>, text: &mut Vec<u8>) -> Result<(), Malformed> {
    match format.type_code {
        // TINY; SHORT and YEAR; LONG and INT24; LONGLONG.
        1 => integer(format, reader.array::<1>()?, text),
        2 | 13 => integer(format, reader.array::<2>()?, text),
        3 | 9 => integer(format, reader.array::<4>()?, text),
        8 => integer(format, reader.array::<8>()?, text),
        4 => {
            let value = f64::from(f32::from_le_bytes(reader.array()?));
            float(format, value, |value| format!("{value:.*e}", FLOAT_DIGITS - 1), text);
        }
        5 => {
            let value = f64::from_le_bytes(reader.array()?);
            // Like the server, `{:e}` prints the shortest digits that read back as the same number.
            float(format, value, |value| format!("{value:e}"), text);
        }
        6 => {}
        // TIMESTAMP, DATETIME; DATE, NEWDATE; TIME.
        7 | 12 => date_time(format, true, reader, text)?,
        10 | 14 => date_time(format, false, reader, text)?,
        11 => time(format, reader, text)?,
        // DECIMAL, VARCHAR, BIT, VECTOR, JSON, NEWDECIMAL, ENUM, SET, BLOBs, VAR_STRING, STRING, GEOMETRY.
        0 | 15 | 16 | 242 | 245..=255 => text.extend_from_slice(reader.lenenc_bytes()?),
        _ => return Err(reader.malformed("a column has an unknown type")),
    }
    Ok(())
}

fn put(text: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    // Writing to a Vec cannot fail.
    let _ = text.write_fmt(arguments);
}

fn integer<const N: usize>(format: ColumnFormat, bytes: [u8; N], text: &mut Vec<u8>) {
    let from = text.len();
    let mut all = [0; 8];
    all[8 - N..].copy_from_slice(&bytes);
    let (value, unused_bits) = (u64::from_le_bytes(all), 64 - 8 * N);
    if format.flags & UNSIGNED != 0 {
        put(text, format_args!("{}", value >> unused_bits));
    } else {
        put(text, format_args!("{}", value as i64 >> unused_bits));
    }
    zero_fill(format, from, text);
}

fn zero_fill(format: ColumnFormat, from: usize, text: &mut Vec<u8>) {
    if format.flags & ZEROFILL == 0 {
        return;
    }
    let width = format.length.min(MAX_ZEROFILL_WIDTH) as usize;
    let missing = width.saturating_sub(text.len() - from);
    text.splice(from..from, std::iter::repeat_n(b'0', missing));
}

/// `scientific` formats the value as `d.ddde±x`.
fn float(format: ColumnFormat, value: f64, scientific: impl Fn(f64) -> String, text: &mut Vec<u8>) {
    let from = text.len();
    if format.decimals < NOT_FIXED {
        put(text, format_args!("{value:.*}", usize::from(format.decimals)));
    } else if value.is_finite() {
        general(&scientific(value), text);
    } else {
        put(text, format_args!("{value}"));
    }
    zero_fill(format, from, text);
}

/// Formats like the server: no exponent if it is between -15 and 14, or if the point falls within the digits.
fn general(scientific: &str, text: &mut Vec<u8>) {
    const PLAIN: std::ops::RangeInclusive<i32> = -15..=14;
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_end_matches('0');
    if digits.is_empty() {
        put(text, format_args!("{sign}0"));
        return;
    }
    let within_digits = usize::try_from(exponent).is_ok_and(|exponent| exponent + 1 < digits.len());
    if !PLAIN.contains(&exponent) && !within_digits {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        put(text, format_args!("{sign}{first}{point}{rest}e{exponent}"));
    } else if exponent < 0 {
        let zeros = (-exponent - 1) as usize;
        put(text, format_args!("{sign}0.{:0<zeros$}{digits}", ""));
    } else {
        let whole = exponent as usize + 1;
        match digits.split_at_checked(whole) {
            Some((digits, "")) => put(text, format_args!("{sign}{digits}")),
            Some((digits, fraction)) => put(text, format_args!("{sign}{digits}.{fraction}")),
            None => put(text, format_args!("{sign}{digits:0<whole$}")),
        }
    }
}

fn fraction(format: ColumnFormat, microseconds: u32, text: &mut Vec<u8>) {
    let digits = match format.decimals {
        digits @ 0..=6 => usize::from(digits),
        _ if microseconds == 0 => 0,
        _ => 6,
    };
    if digits > 0 {
        let shown = format!("{:06}", microseconds.min(999_999));
        put(text, format_args!(".{}", &shown[..digits]));
    }
}

fn date_time(
    format: ColumnFormat,
    has_time: bool,
    reader: &mut Reader<'_>,
    text: &mut Vec<u8>,
) -> Result<(), Malformed> {
    let bytes = reader.u8()?;
    if !matches!(bytes, 0 | 4 | 7 | 11) {
        return Err(reader.malformed("a date has an invalid length"));
    }
    let (year, [month, day]) = if bytes == 0 { (0, [0; 2]) } else { (reader.u16()?, reader.array()?) };
    let [hour, minute, second] = if bytes >= 7 { reader.array()? } else { [0; 3] };
    let microseconds = if bytes == 11 { reader.u32()? } else { 0 };
    put(text, format_args!("{year:04}-{month:02}-{day:02}"));
    if has_time {
        put(text, format_args!(" {hour:02}:{minute:02}:{second:02}"));
        fraction(format, microseconds, text);
    }
    Ok(())
}

fn time(format: ColumnFormat, reader: &mut Reader<'_>, text: &mut Vec<u8>) -> Result<(), Malformed> {
    let bytes = reader.u8()?;
    if !matches!(bytes, 0 | 8 | 12) {
        return Err(reader.malformed("a time has an invalid length"));
    }
    let (negative, days, [hour, minute, second]) =
        if bytes == 0 { (0, 0, [0; 3]) } else { (reader.u8()?, reader.u32()?, reader.array()?) };
    let hours = u64::from(days) * 24 + u64::from(hour);
    let sign = if negative == 0 { "" } else { "-" };
    put(text, format_args!("{sign}{hours:02}:{minute:02}:{second:02}"));
    fraction(format, if bytes == 12 { reader.u32()? } else { 0 }, text);
    Ok(())
}

#[cfg(test)]
#[path = "../tests/unit/row.rs"]
mod tests;
