#![no_main]

use bakeoff_capture::{Dialect, ReadProgress};
use bakeoff_capture::event::{Event, Sink};
use bakeoff_capture::logs::Format;
use bakeoff_capture::sql_file::read_statements;
use bakeoff_engine::dump_sql::{
    beginning, disable_event, left_out, read_rows, sets_time_zone, translate, without_definer,
};
use bakeoff_engine::request::DumpRows;
use bakeoff_load::replay::workload::without_literals;
use bakeoff_script::host::SqlError;
use libfuzzer_sys::fuzz_target;

/// What servers of other versions say to statements of a dump.
const REFUSALS: [(u16, &str); 3] = [
    (1273, "Unknown collation: 'utf8mb4_0900_ai_ci'"),
    (1115, "Unknown character set: 'utf8mb3'"),
    (1231, "Variable 'sql_mode' can't be set to the value of 'NO_AUTO_CREATE_USER'"),
];

/// What the engine does to a statement before it sends it, and when a server refuses it.
fn change(sql: &mut Vec<u8>, schema: &[u8], dialect: Dialect) {
    left_out(sql, schema);
    without_definer(sql, dialect);
    for (code, message) in REFUSALS {
        translate(sql, dialect, &SqlError::client(code, message));
    }
    without_literals(&beginning(sql, dialect));
    sets_time_zone(sql);
    disable_event(sql, dialect);
}

struct Nothing;

impl Sink for Nothing {
    fn event(&mut self, _: &mut Event) {}

    fn skipped(&mut self, _: u64) {}
}

// The first two bytes: where the file is cut into two pieces, the delimiter, and how many values a row has.
fuzz_target!(|input: &[u8]| {
    let [place, choice, dump @ ..] = input else { return };
    let path = std::env::temp_dir().join(format!("bakeoff-fuzz-{}.sql", std::process::id()));
    std::fs::write(&path, dump).expect("a temporary file");
    let delimiter = [";", ";\n", "//", "$$"][usize::from(choice & 3)];
    let mut bytes = 0;
    let read = read_statements(&path, delimiter, &ReadProgress::default(), &mut |statement| {
        bytes += statement.sql.len();
        change(&mut statement.sql, &statement.schema, statement.dialect);
        bytes < 1 << 20 // a few bytes of a compressed file may stand for gigabytes
    });
    // A file that looks compressed may be damaged.
    assert!(read.is_err() || bytes <= dump.len() || dump.first().is_some_and(|byte| !byte.is_ascii()));

    let (first, second) = dump.split_at(usize::from(*place).min(dump.len()));
    let mut reader = Format::Sql.reader();
    reader.piece(first, true, &mut Nothing);
    reader.piece(second, first.ends_with(b"\n"), &mut Nothing);
    reader.finish(&mut Nothing);

    let functions = vec![["", "FROM_BASE64"][usize::from(choice >> 7)].to_owned(); usize::from(choice >> 2 & 7)];
    let form = DumpRows { insert: "INSERT INTO t VALUES ".into(), functions };
    let _ = read_rows(&mut &dump[..], &form, &mut |_, _| true);
});
