//! Replies as bytes: OK, ERR, and result sets in the text and the binary form.

use crate::packet::{PacketWriter, put_lenenc, put_text};

pub(crate) const STATUS_IN_TRANSACTION: u16 = 0x0001;
pub(crate) const STATUS_AUTOCOMMIT: u16 = 0x0002;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// BIGINT; eight bytes in the binary form.
    Integer,
    /// DECIMAL; text in both forms.
    Decimal,
    Text,
}

impl Kind {
    fn type_code(self) -> u8 {
        match self {
            Self::Integer => 8,
            Self::Decimal => 246,
            Self::Text => 253,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

impl Column {
    pub(crate) fn text(name: &str) -> Self {
        Self { name: name.to_owned(), kind: Kind::Text }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Integer(i64),
    Text(Vec<u8>),
}

impl Value {
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(text.as_bytes().to_vec())
    }
}

/// A result set; all of its rows are sent `repeat` times.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Value>>,
    pub(crate) repeat: usize,
}

impl Table {
    pub(crate) fn new(columns: Vec<Column>, rows: Vec<Vec<Value>>) -> Self {
        Self { columns, rows, repeat: 1 }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SqlError {
    pub(crate) code: u16,
    pub(crate) sqlstate: String,
    pub(crate) message: String,
}

impl SqlError {
    pub(crate) fn new(code: u16, sqlstate: &str, message: impl Into<String>) -> Self {
        Self { code, sqlstate: sqlstate.to_owned(), message: message.into() }
    }

    /// Returns the error of a number; a deadlock has the servers' message.
    pub(crate) fn numbered(code: u16) -> Self {
        match code {
            1213 => Self::new(code, "40001", "Deadlock found when trying to get lock; try restarting transaction"),
            _ => Self::new(code, "HY000", format!("injected error {code}")),
        }
    }
}

/// How a session wants its result sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Binary rows, as COM_STMT_EXECUTE answers.
    pub(crate) binary: bool,
    /// No EOF after the columns, and an OK packet in place of the last EOF.
    pub(crate) deprecate_eof: bool,
    pub(crate) status: u16,
}

pub(crate) fn put_ok(writer: &mut PacketWriter<'_>, affected: u64, status: u16) {
    writer.packet(|out| {
        out.push(0x00);
        put_lenenc(out, affected);
        put_lenenc(out, 0);
        out.extend_from_slice(&status.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
    });
}

pub(crate) fn put_error(writer: &mut PacketWriter<'_>, error: &SqlError) {
    writer.packet(|out| {
        out.push(0xFF);
        out.extend_from_slice(&error.code.to_le_bytes());
        out.push(b'#');
        out.extend_from_slice(error.sqlstate.as_bytes());
        out.extend_from_slice(error.message.as_bytes());
    });
}

/// Appends an EOF packet, or with `warnings` the OK packet that stands for one.
fn put_eof(writer: &mut PacketWriter<'_>, status: u16, warnings: &[u8]) {
    writer.packet(|out| {
        out.extend_from_slice(&[0xFE, 0, 0]);
        out.extend_from_slice(&status.to_le_bytes());
        out.extend_from_slice(warnings);
    });
}

/// Appends the definitions of columns and what ends them; nothing if there are none.
pub(crate) fn put_columns(writer: &mut PacketWriter<'_>, columns: &[Column], form: Form) {
    for column in columns {
        put_column(writer, column);
    }
    if !columns.is_empty() && !form.deprecate_eof {
        put_eof(writer, form.status, &[]);
    }
}

fn put_column(writer: &mut PacketWriter<'_>, column: &Column) {
    const UTF8MB4: u16 = 45;
    const BINARY: u16 = 63;
    let (charset, length) = match column.kind {
        Kind::Text => (UTF8MB4, 480_u32),
        Kind::Integer | Kind::Decimal => (BINARY, 21),
    };
    writer.packet(|out| {
        for text in ["def", "sbtest", "fake", "fake", &column.name, &column.name] {
            put_text(out, text.as_bytes());
        }
        put_lenenc(out, 0x0C);
        out.extend_from_slice(&charset.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        out.push(column.kind.type_code());
        out.extend_from_slice(&[0; 5]);
    });
}

pub(crate) fn put_table(writer: &mut PacketWriter<'_>, table: &Table, form: Form) {
    writer.packet(|out| put_lenenc(out, table.columns.len() as u64));
    put_columns(writer, &table.columns, form);
    for row in (0..table.repeat).flat_map(|_| &table.rows) {
        writer.packet(|out| if form.binary { put_binary_row(out, row) } else { put_text_row(out, row) });
    }
    put_eof(writer, form.status, if form.deprecate_eof { &[0; 2] } else { &[] });
}

fn put_text_row(out: &mut Vec<u8>, row: &[Value]) {
    for value in row {
        match value {
            Value::Null => out.push(0xFB),
            Value::Integer(number) => put_text(out, number.to_string().as_bytes()),
            Value::Text(text) => put_text(out, text),
        }
    }
}

fn put_binary_row(out: &mut Vec<u8>, row: &[Value]) {
    // The bitmap of a row begins at bit 2.
    let mut nulls = vec![0u8; (row.len() + 9) / 8];
    for (index, value) in row.iter().enumerate() {
        if *value == Value::Null {
            nulls[(index + 2) / 8] |= 1 << ((index + 2) % 8);
        }
    }
    out.push(0x00);
    out.extend_from_slice(&nulls);
    for value in row {
        match value {
            Value::Null => {}
            Value::Integer(number) => out.extend_from_slice(&number.to_le_bytes()),
            Value::Text(text) => put_text(out, text),
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/resultset.rs"]
mod tests;
