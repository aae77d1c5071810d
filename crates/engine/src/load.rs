//! `load`: a dump into one arm's server, file by file, several files at a time.

use std::collections::{BTreeMap, VecDeque};
use std::io::BufReader;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bakeoff_capture::sql_file::read_statements;
use bakeoff_capture::{Dialect, MultiByte, input, used_schema};
use bakeoff_load::connector::Connector;
use bakeoff_load::failure::{Code, Failure};
use bakeoff_load::lock;
use bakeoff_load::net::{Client, ServerAddress, UNREAD_REPLY_BYTES};
use bakeoff_load::replay::workload::without_literals;
use bakeoff_load::worker_pool::{WorkerContext, WorkerPool};
use bakeoff_script::host::{Connection, SqlError};

use crate::answer::{Answer, Call};
use crate::arm::OpenArm;
use crate::command::{CommandProgress, pool_options, run_to_end};
use crate::dump_sql::{
    Effect, Renamed, beginning, disable_event, effect, left_out, read_rows, sets_time_zone, translate, without_definer,
};
use crate::request::{DumpFile, DumpRows, LoadDump};

const SESSION: [&str; 4] = [
    "SET SESSION sql_log_bin = 0",
    "SET SESSION foreign_key_checks = 0, unique_checks = 0",
    "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
    "SET SESSION autocommit = 1",
];
const EMPTY_QUERY: u16 = 1065;
const UNKNOWN_VARIABLE: u16 = 1193;
const UNKNOWN_DATABASE: u16 = 1049;
const DEADLOCK: u16 = 1213;
const UNKNOWN_TIME_ZONE: u16 = 1298;
/// Databases, tables, columns, keys, routines, triggers or events that exist already, or no longer.
const DONE_BEFORE: [u16; 16] =
    [1007, 1008, 1022, 1050, 1051, 1060, 1061, 1068, 1091, 1304, 1305, 1359, 1360, 1537, 1539, 1826];
const RENAMES_MAX: usize = 20;
/// Retries of one statement after deadlocks. Each pause is [`DEADLOCK_PAUSE`] longer than the last; 5 s in all.
const DEADLOCKS_MAX: u32 = 100;
const DEADLOCK_PAUSE: Duration = Duration::from_millis(1);

struct Shared {
    total: u64,
    address: Arc<ServerAddress>,
    progress: CommandProgress,
    files: Mutex<VecDeque<DumpFile>>,
    found: Mutex<Found>,
    marks: Option<String>,
    resumed: bool,
}

#[derive(Default)]
struct Found {
    names: BTreeMap<String, String>,
    left_out: BTreeMap<&'static str, u64>,
}

pub fn load(call: Call<'_>, request: &LoadDump, arm: &OpenArm) -> Result<Answer, Failure> {
    let begun = Instant::now();
    let size = |file: &DumpFile| std::fs::metadata(&file.path).map_or(0, |found| found.len());
    let shared = Arc::new(Shared {
        total: request.stages.iter().flatten().map(size).sum(),
        address: arm.command_address(UNREAD_REPLY_BYTES),
        progress: CommandProgress::new(call, arm),
        files: Mutex::default(),
        found: Mutex::default(),
        marks: request.marks.as_deref().map(quoted),
        resumed: request.resumed,
    });
    for stage in &request.stages {
        if call.is_cancelled() {
            break;
        }
        let threads = request.threads.min(stage.len());
        *lock(&shared.files) = stage.iter().cloned().collect();
        let common = Arc::clone(&shared);
        let pool = WorkerPool::start(pool_options(arm, threads), move |context| common.work(context));
        run_to_end(pool, arm, call, "threads of the load still run although their connections were cut")?;
    }
    shared.progress.finish();
    let found = std::mem::take(&mut *lock(&shared.found));
    let (id, arm) = (call.id, arm.name.clone());
    call.writer.send(&Answer::Translated { id, arm, names: found.names, left_out: found.left_out });
    Ok(call.done(begun))
}

impl Shared {
    fn work(&self, context: &WorkerContext) -> Result<(), Failure> {
        let connector = Connector::new(Arc::clone(&self.address), Arc::clone(&context.canceller));
        while context.gate.failure().is_none() {
            let Some(file) = lock(&self.files).pop_front() else { break };
            let client = connector.connect_to(&self.address).map_err(|error| Failure::connecting(&error))?;
            let mut loading = Loading {
                shared: self,
                file: &file,
                client,
                read: input::ReadProgress::default(),
                reported: 0,
                failure: None,
                statements: 0,
                line: 1,
                dialect: Dialect::default(),
                unknown_zone: None,
            };
            loading.run()?;
        }
        Ok(())
    }

    fn leave_out(&self, reason: &'static str) {
        *lock(&self.found).left_out.entry(reason).or_default() += 1;
    }

    fn renamed(&self, renamed: Renamed) -> Option<[String; 2]> {
        let is_alias = |name: &str| name.replacen("utf8mb3", "utf8", 1);
        let Renamed { from, to } = renamed;
        let names = &mut lock(&self.found).names;
        let first = names.iter().find(|(_, taken)| **taken == from).map(|(name, _)| name.clone());
        let first = first.unwrap_or(from);
        // From 8.0 on GRANT never creates accounts, whatever the mode.
        if is_alias(&first) == is_alias(&to) || first == "NO_AUTO_CREATE_USER" {
            return None;
        }
        names.insert(first.clone(), to.clone());
        Some([first, to])
    }
}

struct Loading<'a> {
    shared: &'a Shared,
    file: &'a DumpFile,
    client: Client,
    read: input::ReadProgress,
    reported: u64,
    failure: Option<Failure>,
    statements: u64,
    line: u64,
    dialect: Dialect,
    /// Why the session's time zone could not be set. Until it is set, events are loaded disabled and all else fails.
    unknown_zone: Option<Failure>,
}

impl Loading<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        for statement in SESSION {
            self.run_named(statement.as_bytes())?;
        }
        if !self.file.database.is_empty() {
            let mut statement = format!("USE {}", quoted(&self.file.database)).into_bytes();
            self.send(&mut statement, None)?;
        }
        let (file, progress) = (self.file, self.read.clone());
        let outcome = match &file.rows {
            None => read_statements(&file.path, &file.delimiter, &progress, &mut |statement| {
                let whole = !statement.cut;
                (self.line, self.dialect) = (statement.line.unwrap_or(1), statement.dialect);
                let reason = left_out(&statement.sql, &statement.schema);
                let wanted = match reason {
                    Some(reason) => {
                        self.shared.leave_out(reason);
                        Ok(())
                    }
                    None if whole => self.step(&mut statement.sql),
                    None => Err(self.at("the file ends within the statement", &statement.sql)),
                };
                self.keep(wanted)
            })
            .map_err(|error| Failure::new(Code::ScriptError, error.to_string())),
            Some(rows) => self.load_rows(rows, &progress),
        };
        self.report();
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        outcome?;
        match self.mark(true) {
            Some(mark) => self.run_together(&[&mark[..]]).map_err(|error| self.refused(&mark, &error)),
            None => Ok(()),
        }
    }

    fn run_named(&mut self, sql: &[u8]) -> Result<(), Failure> {
        self.run_one(sql).map_err(|error| self.refused(sql, &error))
    }

    fn load_rows(&mut self, rows: &DumpRows, progress: &input::ReadProgress) -> Result<(), Failure> {
        let path = &self.file.path;
        let failed = |error: std::io::Error| Failure::new(Code::ScriptError, format!("{}: {error}", path.display()));
        for statement in ["SET NAMES utf8mb4", "SET SESSION time_zone = '+00:00'"] {
            self.run_named(statement.as_bytes())?;
        }
        let mut input = BufReader::new(input::open(path, progress).map_err(failed)?);
        self.dialect.multi_byte = MultiByte::Safe;
        read_rows(&mut input, rows, &mut |sql, line| {
            self.line = line;
            let sent = self.step(sql);
            self.keep(sent)
        })
        .map_err(failed)
    }

    /// Runs a statement, unless it only changes data and the resumed load has run it.
    fn step(&mut self, sql: &mut Vec<u8>) -> Result<(), Failure> {
        self.statements += 1;
        let effect = effect(sql);
        if effect == Effect::Session && sets_time_zone(sql) {
            self.unknown_zone = None;
        }
        if let Some(failure) = self.unknown_zone.as_ref().filter(|_| effect == Effect::Data) {
            if !disable_event(sql, self.dialect) {
                return Err(failure.clone());
            }
            self.shared.leave_out("unknown time zones of events");
        }
        let Some(mark) = self.mark(false) else { return self.send(sql, None) };
        let was_done = self.statements <= self.file.done;
        match effect {
            Effect::Session => self.send(sql, None),
            // The marks' table would not be among the locked ones.
            Effect::Lock => Ok(()),
            Effect::Transaction | Effect::Data if was_done => Ok(()),
            Effect::Transaction => self.send(sql, None),
            Effect::Data => self.send(sql, Some(&mark)),
        }
    }

    fn mark(&self, ended: bool) -> Option<Vec<u8>> {
        let (file, statements, ended) = (self.file.number, self.statements, u8::from(ended));
        self.shared.marks.as_ref().map(|marks| {
            format!(
                "INSERT INTO {marks}.files (file, statements, ended) VALUES ({file}, {statements}, {ended}) \
                 ON DUPLICATE KEY UPDATE statements = {statements}, ended = {ended}"
            )
            .into_bytes()
        })
    }

    fn keep(&mut self, outcome: Result<(), Failure>) -> bool {
        self.report();
        self.failure = outcome.err();
        self.failure.is_none()
    }

    fn report(&mut self) {
        let read = self.read.load(Ordering::Relaxed);
        self.shared.progress.add("bytes", read - self.reported, self.shared.total);
        self.reported = read;
    }

    /// Runs a statement and its mark, changing it where this server needs it.
    fn send(&mut self, sql: &mut Vec<u8>, mark: Option<&[u8]>) -> Result<(), Failure> {
        without_definer(sql, self.dialect);
        let (mut renames, mut deadlocks) = (0, 0);
        loop {
            let ran = match mark {
                Some(mark) => self.run_together(&[&sql[..], mark]),
                None => self.run_one(sql),
            };
            let error = match ran {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let is_set = sql.len() < 1000 && beginning(sql, self.dialect).starts_with("SET");
            if error.code == EMPTY_QUERY || (error.code == UNKNOWN_VARIABLE && is_set) {
                return Ok(());
            }
            if error.code == UNKNOWN_TIME_ZONE && sets_time_zone(sql) {
                self.unknown_zone = Some(self.refused(sql, &error));
                return Ok(());
            }
            // MariaDB locks the whole table to fill it, and several files of a table are loaded at once.
            if error.code == DEADLOCK && !self.client.in_transaction() && deadlocks < DEADLOCKS_MAX {
                deadlocks += 1;
                std::thread::sleep(DEADLOCK_PAUSE * deadlocks);
                continue;
            }
            // Definitions outlive marks: each commits before its mark, and routines of 5.7 have no transaction.
            if let Some(mark) = mark.filter(|_| self.shared.resumed && DONE_BEFORE.contains(&error.code)) {
                return self.run_together(&[mark]).map_err(|error| self.refused(sql, &error));
            }
            renames += 1;
            // Not every dump creates the database it uses.
            if error.code == UNKNOWN_DATABASE
                && renames == 1
                && let Some(schema) = used_schema(sql, self.dialect)
            {
                let create = format!("CREATE DATABASE IF NOT EXISTS {}", quoted(&String::from_utf8_lossy(&schema)));
                if self.run_one(create.as_bytes()).is_ok() {
                    continue;
                }
            }
            match translate(sql, self.dialect, &error) {
                Some(renamed) if renames <= RENAMES_MAX => self.renamed(renamed)?,
                _ => return Err(self.refused(sql, &error)),
            }
        }
    }

    fn renamed(&mut self, renamed: Renamed) -> Result<(), Failure> {
        let (Some([name, other]), Some(marks)) = (self.shared.renamed(renamed), &self.shared.marks) else {
            return Ok(());
        };
        // These are the server's own names, which have no quotes.
        let sql = format!("REPLACE INTO {marks}.names VALUES ('{name}', '{other}')");
        self.run_together(&[sql.as_bytes()]).map_err(|error| self.refused(sql.as_bytes(), &error))
    }

    fn run_together(&mut self, statements: &[&[u8]]) -> Result<(), SqlError> {
        if self.client.in_transaction() {
            return statements.iter().try_for_each(|sql| self.run_one(sql));
        }
        self.run_one(b"BEGIN")?;
        let done = statements.iter().try_for_each(|sql| self.run_one(sql)).and_then(|()| self.run_one(b"COMMIT"));
        if done.is_err() {
            let _ = self.run_one(b"ROLLBACK");
        }
        done
    }

    fn run_one(&mut self, sql: &[u8]) -> Result<(), SqlError> {
        let mut reply = Some(self.client.query(sql)?);
        while reply.is_some_and(|reply| reply.more_results) {
            reply = self.client.next_result()?;
        }
        Ok(())
    }

    fn refused(&self, sql: &[u8], error: &SqlError) -> Failure {
        let text = beginning(sql, self.dialect);
        // Quoted parts are data in rows, and names in definitions.
        let is_data = ["INSERT", "REPLACE", "UPDATE"].iter().any(|word| text.starts_with(word));
        let message = if is_data { without_literals(&error.message) } else { error.message.clone() };
        Failure {
            sql_errno: Some(error.code),
            sqlstate: Some(error.sqlstate.clone()),
            ..self.at(&format!("{message} (error {})", error.code), sql)
        }
    }

    fn at(&self, what: &str, sql: &[u8]) -> Failure {
        let path = &self.file.path;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let what = what.trim_end_matches('.');
        Failure::new(Code::SqlError, format!("{name}:{}: {what}: {}", self.line, beginning(sql, self.dialect)))
    }
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}
