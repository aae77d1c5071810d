//! Statements as packets: encoded once, with places where a random row number is put in.

use crate::random::Random;
use crate::workload::{Parameter, Statement};

/// Where a row number goes within a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    offset: usize,
    /// None: draw; else the number before and so much more.
    plus: Option<u64>,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// Eight bytes, little-endian.
    Binary,
    /// Ten decimal digits with leading zeros.
    Decimal,
}

const DECIMAL_DIGITS: usize = 10;

/// A packet ready to be sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Packet {
    pub(crate) bytes: Vec<u8>,
    places: Vec<Place>,
}

impl Packet {
    /// COM_QUERY with the parameters as literals.
    pub(crate) fn text(statement: &Statement) -> Self {
        let mut packet = Self { bytes: vec![0, 0, 0, 0, 0x03], places: vec![] };
        let mut parameters = statement.parameters.iter();
        for part in statement.sql.split_inclusive('?') {
            packet.bytes.extend_from_slice(part.trim_end_matches('?').as_bytes());
            if part.ends_with('?') {
                match parameters.next() {
                    Some(Parameter::Text(text)) => packet.bytes.extend_from_slice(format!("'{text}'").as_bytes()),
                    Some(Parameter::Plus(more)) => packet.put_place(Some(*more), Form::Decimal),
                    Some(Parameter::RowId) => packet.put_place(None, Form::Decimal),
                    None => packet.bytes.push(b'?'),
                }
            }
        }
        packet.close()
    }

    /// COM_STMT_EXECUTE of a prepared statement; `with_types` in the first execution, which tells the parameters' types.
    pub(crate) fn execute(statement: &Statement, id: u32, with_types: bool) -> Self {
        let mut packet = Self { bytes: vec![0, 0, 0, 0, 0x17], places: vec![] };
        packet.bytes.extend_from_slice(&id.to_le_bytes());
        packet.bytes.extend_from_slice(&[0, 1, 0, 0, 0]);
        if statement.parameters.is_empty() {
            return packet.close();
        }
        packet.bytes.extend(std::iter::repeat_n(0, statement.parameters.len().div_ceil(8)));
        packet.bytes.push(u8::from(with_types));
        if with_types {
            const LONGLONG: u8 = 8;
            const VAR_STRING: u8 = 253;
            for parameter in &statement.parameters {
                let code = if matches!(parameter, Parameter::Text(_)) { VAR_STRING } else { LONGLONG };
                packet.bytes.extend_from_slice(&[code, 0]);
            }
        }
        for parameter in &statement.parameters {
            match parameter {
                Parameter::RowId => packet.put_place(None, Form::Binary),
                Parameter::Plus(more) => packet.put_place(Some(*more), Form::Binary),
                Parameter::Text(text) => {
                    // All texts here are shorter than 251 bytes: the length is one byte.
                    packet.bytes.push(text.len() as u8);
                    packet.bytes.extend_from_slice(text.as_bytes());
                }
            }
        }
        packet.close()
    }

    fn put_place(&mut self, plus: Option<u64>, form: Form) {
        self.places.push(Place { offset: self.bytes.len(), plus, form });
        let width = if form == Form::Binary { 8 } else { DECIMAL_DIGITS };
        self.bytes.extend(std::iter::repeat_n(b'0', width));
    }

    fn close(mut self) -> Self {
        let length = (self.bytes.len() - 4) as u32;
        self.bytes[..3].copy_from_slice(&length.to_le_bytes()[..3]);
        self
    }

    /// Puts row numbers in; `row_id` is the last one drawn, also by an earlier statement.
    pub(crate) fn fill(&mut self, random: &mut Random, table_size: u64, row_id: &mut u64) {
        for place in &self.places {
            let value = match place.plus {
                None => {
                    *row_id = 1 + random.below(table_size);
                    *row_id
                }
                Some(more) => *row_id + more,
            };
            match place.form {
                Form::Binary => self.bytes[place.offset..place.offset + 8].copy_from_slice(&value.to_le_bytes()),
                Form::Decimal => {
                    let mut rest = value;
                    for digit in self.bytes[place.offset..place.offset + DECIMAL_DIGITS].iter_mut().rev() {
                        *digit = b'0' + (rest % 10) as u8;
                        rest /= 10;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(sql: &str, parameters: Vec<Parameter>) -> Statement {
        Statement { sql: sql.to_owned(), parameters, always_text: false }
    }

    #[test]
    fn a_range_is_filled_in_both_forms() {
        let range = statement("SELECT c FROM t WHERE id BETWEEN ? AND ?", vec![Parameter::RowId, Parameter::Plus(99)]);
        let (mut random, mut row_id) = (Random::new(1), 0);
        let mut text = Packet::text(&range);
        text.fill(&mut random, 1, &mut row_id);
        let sql = String::from_utf8(text.bytes[5..].to_vec()).expect("text");
        assert_eq!(sql, "SELECT c FROM t WHERE id BETWEEN 0000000001 AND 0000000100");
        let mut binary = Packet::execute(&range, 7, false);
        binary.fill(&mut random, 1, &mut row_id);
        let expected: &[u8] =
            &[28, 0, 0, 0, 0x17, 7, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(binary.bytes, expected);
    }
}
