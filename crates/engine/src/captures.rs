//! `bakeoff-engine capture`: makes a capture of query logs and prints the totals of one, as JSON for the front end.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use bakeoff_capture::{
    CaptureJob, Class, Error, EventLine, Format, ReadProgress, Statement, Summary, TransactionState, capture,
    capture_file, read_summary, session::SessionState,
};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;
use strum::VariantNames;

const PROGRESS_EVERY: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// Query logs or SQL files in order; `-` is standard input. Without --output: one capture, to print its totals.
    #[arg(required = true)]
    logs: Vec<PathBuf>,
    /// The capture to write.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Replace literals by others of the same type and length.
    #[arg(long)]
    redact: bool,
    /// Print a capture's event lines instead of its totals.
    #[arg(long, conflicts_with = "output")]
    events: bool,
    /// Format of the logs; default: detected.
    #[arg(long, value_parser = PossibleValuesParser::new(Format::VARIANTS).try_map(|name| name.parse::<Format>()))]
    format: Option<Format>,
}

/// Exits with 0 when done, 2 for an unusable input, 3 for a file that cannot be read or written, 4 for one of an
/// unknown format.
pub fn run(args: CaptureArgs) -> ExitCode {
    if args.output.is_none() && args.logs.len() > 1 {
        let _ = writeln!(io::stderr(), "bakeoff-engine: without --output, give one capture and no logs");
        return ExitCode::from(2);
    }
    if args.events {
        return ended(print_events(&args.logs[0]));
    }
    let made = match args.output {
        Some(output) => make(&CaptureJob { logs: args.logs, output, redact: args.redact, format: args.format }),
        None => read_summary(&args.logs[0]),
    };
    ended(made.map(|summary| print(&summary)))
}

fn ended(result: Result<(), Error>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "bakeoff-engine: {error}");
            ExitCode::from(match error {
                Error::Empty | Error::Capture { .. } => 2,
                Error::Unknown { .. } | Error::NotACapture { .. } => 4,
                Error::Io { .. } => 3,
            })
        }
    }
}

fn print(summary: &Summary) {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let _ = serde_json::to_writer(&mut out, summary);
    let _ = writeln!(out);
    let _ = out.flush();
}

/// Prints the lines of the events with `writes` on statements that are not plain reads, `transaction` and
/// `ends_session`.
fn print_events(path: &Path) -> Result<(), Error> {
    let (_, mut lines) = capture_file::open(path)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut line = Vec::new();
    let mut transactions = Transactions::default();
    let damaged = |reason: io::Error| Error::Capture { path: path.to_owned(), reason: reason.to_string() };
    while lines.read_until(b'\n', &mut line).map_err(damaged)? > 0 {
        let event: EventLine = serde_json::from_slice(&line).map_err(|error| damaged(error.into()))?;
        let added = more_fields(&event, &mut transactions);
        if !added.is_empty() {
            line.truncate(line.iter().rposition(|byte| *byte == b'}').unwrap_or(line.len()));
            line.extend_from_slice(format!("{added}}}\n").as_bytes());
        }
        if out.write_all(&line).is_err() {
            return Ok(()); // nobody reads the output any more
        }
        line.clear();
    }
    let _ = out.flush();
    Ok(())
}

fn more_fields(event: &EventLine, transactions: &mut Transactions) -> String {
    let connection = event.connection.unwrap_or(0);
    if event.digest.is_none() {
        if !event.ends_session() {
            return String::new();
        }
        transactions.open.remove(&connection);
        return ",\"ends_session\":true".to_owned();
    }
    let statement = Statement::classify(&event.statement());
    let mut fields = String::new();
    if let Class::Write(why) = statement.class {
        fields = format!(",\"writes\":\"{why}\"");
    }
    if event.not_replayable.is_none()
        && let Some(number) =
            transactions.take(connection, statement, SessionState::from_json(event.session).autocommit())
    {
        let _ = write!(fields, ",\"transaction\":{number}");
    }
    fields
}

#[derive(Default)]
struct Transactions {
    open: HashMap<u64, (TransactionState, Option<u64>)>,
    begun: u64,
}

impl Transactions {
    fn take(&mut self, connection: u64, statement: Statement, autocommit: bool) -> Option<u64> {
        let (state, number) = self.open.entry(connection).or_default();
        let step = state.step(statement, autocommit);
        if step.ends_before {
            *number = None;
        }
        if step.stays && number.is_none() {
            self.begun += 1;
            *number = Some(self.begun);
        }
        if step.stays { *number } else { number.take() }
    }
}

fn make(job: &CaptureJob) -> Result<Summary, Error> {
    let progress = ReadProgress::default();
    let total = job.logs.iter().map(|path| size_of(path)).sum::<Option<u64>>();
    let (done, waiting) = channel::<()>();
    let said = progress.clone();
    let reporter = std::thread::spawn(move || {
        while waiting.recv_timeout(PROGRESS_EVERY) == Err(RecvTimeoutError::Timeout) {
            let line = json!({"type": "progress", "done": said.load(Ordering::Relaxed), "total": total});
            let _ = writeln!(io::stderr(), "{line}");
        }
    });
    let made = capture(job, &progress);
    drop(done);
    let _ = reporter.join();
    made
}

fn size_of(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|file| file.len())
}
