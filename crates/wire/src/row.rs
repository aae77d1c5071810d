//! Rows and column definitions, parsed on demand out of the reply that still lies in the receive buffer.
//!
//! Source: MySQL internals manual, "ProtocolText::ResultsetRow", "Binary Protocol Resultset Row", "Protocol::ColumnDefinition41".

use crate::binary_value::{self, ColumnFormat};
use crate::bytes::Reader;
use crate::packet::{join, payload_at};
use crate::{Malformed, ResultSet};

/// How the values of a row are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Answers to COM_QUERY.
    Text,
    /// Answers to COM_STMT_EXECUTE.
    Binary,
}

/// Reads the rows of one result set in order.
#[derive(Debug, Default)]
pub struct RowCursor {
    current: Option<(ResultSet, Encoding)>,
    at: usize,
    rows_left: u64,
    /// Filled when the first binary row is read.
    formats: Vec<ColumnFormat>,
    /// A row longer than one packet is joined here.
    joined: Vec<u8>,
}

impl RowCursor {
    /// Stands before the first row of `result`. Does not allocate.
    #[inline]
    pub fn restart(&mut self, result: ResultSet, encoding: Encoding) {
        self.at = result.rows_at;
        self.rows_left = result.rows;
        self.formats.clear();
        self.current = Some((result, encoding));
    }

    /// There is no result set any more.
    #[inline]
    pub fn stop(&mut self) {
        self.current = None;
        self.rows_left = 0;
    }

    /// The result set it stands in.
    pub fn result(&self) -> Option<&ResultSet> {
        self.current.as_ref().map(|(result, _)| result)
    }

    /// How the rows of that result set are written; text when there is none.
    pub fn encoding(&self) -> Encoding {
        self.current
            .map_or(Encoding::Text, |(_, encoding)| encoding)
    }

    /// Parses the next row into `row`, one entry a column, `None` for NULL. `reply` is what the scanner was given. Returns false after
    /// the last row.
    ///
    /// The memory of `row` is used again; binary values become the text that the text protocol would show.
    ///
    /// # Errors
    /// The row breaks the protocol, or the rows were not kept.
    pub fn next(
        &mut self,
        reply: &[u8],
        row: &mut Vec<Option<Vec<u8>>>,
    ) -> Result<bool, Malformed> {
        let Some((result, encoding)) = self.current.filter(|_| self.rows_left > 0) else {
            return Ok(false);
        };
        if !result.rows_kept {
            return Err(Malformed {
                what: "result set",
                why: "it was too large to keep, and its rows were dropped",
            });
        }
        if encoding == Encoding::Binary && self.formats.is_empty() {
            self.formats = formats(reply, &result)?;
        }
        let packets = reply.get(self.at..).unwrap_or_default();
        let payload = payload_at(packets)?;
        let bytes = if payload.continued {
            join(&packets[..payload.total_bytes], &mut self.joined);
            self.joined.as_slice()
        } else {
            payload.first
        };
        row.resize(result.columns as usize, None);
        match encoding {
            Encoding::Text => text_row(bytes, row)?,
            Encoding::Binary => binary_row(bytes, &self.formats, row)?,
        }
        self.at += payload.total_bytes;
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
    if reader.is_empty() {
        Ok(())
    } else {
        Err(reader.malformed("it has more values than columns"))
    }
}

fn binary_row(
    payload: &[u8],
    formats: &[ColumnFormat],
    row: &mut [Option<Vec<u8>>],
) -> Result<(), Malformed> {
    let mut reader = Reader::new(payload, "binary row");
    if reader.u8()? != 0 {
        return Err(reader.malformed("it does not begin with 0"));
    }
    // The first two bits are not used.
    let nulls = reader.take((formats.len() + 2).div_ceil(8))?;
    for (index, (format, value)) in formats.iter().zip(row).enumerate() {
        let bit = index + 2;
        if nulls[bit / 8] >> (bit % 8) & 1 == 1 {
            *value = None;
        } else {
            binary_value::to_text(format, &mut reader, emptied(value))?;
        }
    }
    if reader.is_empty() {
        Ok(())
    } else {
        Err(reader.malformed("it has more values than columns"))
    }
}

fn emptied(value: &mut Option<Vec<u8>>) -> &mut Vec<u8> {
    let bytes = value.get_or_insert_default();
    bytes.clear();
    bytes
}

/// Name of column `index` (0-based) of a result set in `reply`; `None` when there is no such column or its name is not UTF-8.
pub fn column_name<'a>(reply: &'a [u8], result: &ResultSet, index: u32) -> Option<&'a str> {
    if index >= result.columns {
        return None;
    }
    let mut at = result.columns_at;
    for _ in 0..index {
        at += payload_at(reply.get(at..)?).ok()?.total_bytes;
    }
    let payload = payload_at(reply.get(at..)?).ok()?;
    std::str::from_utf8(definition(payload.first).ok()?.name).ok()
}

struct Definition<'a> {
    name: &'a [u8],
    format: ColumnFormat,
}

fn definition(payload: &[u8]) -> Result<Definition<'_>, Malformed> {
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
    Ok(Definition {
        name,
        format: ColumnFormat {
            type_code,
            flags,
            length,
            decimals,
        },
    })
}

fn formats(reply: &[u8], result: &ResultSet) -> Result<Vec<ColumnFormat>, Malformed> {
    let mut at = result.columns_at;
    (0..result.columns)
        .map(|_| {
            let payload = payload_at(reply.get(at..).unwrap_or_default())?;
            at += payload.total_bytes;
            Ok(definition(payload.first)?.format)
        })
        .collect()
}
