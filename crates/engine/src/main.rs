//! The command line of `bakeoff-engine`.

use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use bakeoff_capture::{ReadProgress, input};
use bakeoff_engine::answer::{BUILD, Build, MessageWriter};
use bakeoff_engine::captures::{self, CaptureArgs};
use bakeoff_engine::drive;
use bakeoff_engine::scripts::workloads;
use bakeoff_load::failure::Failure;
use bakeoff_load::machine::ending::{SignalEnd, undo_when_ended};
use clap::{Parser, Subcommand};
use serde_json::json;

const HEAD_BYTES: u64 = 1 << 20;

/// Generates load on MySQL servers and measures it.
#[derive(Parser)]
#[command(name = "bakeoff-engine", version, long_version = long_version(), about)]
struct Cli {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Subcommand)]
enum Mode {
    /// Read requests on standard input, answer on standard output, one JSON object per line (docs/reference/engine.md).
    Drive {
        /// Exit if no line, not even an empty one, arrives for this many seconds.
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
        silence_limit: Option<u64>,
    },
    /// Drop-in for sysbench on MySQL and MariaDB (docs/reference/sysbench.md); `sysbench --help` lists its options.
    // For `--help` only: `arguments_as_sysbench` takes it before clap reads the command line.
    #[command(disable_help_flag = true)]
    Sysbench {
        /// Options, script and command, as sysbench takes them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Make a capture of query logs (docs/reference/capture.md), or print the totals of one.
    Capture(CaptureArgs),
    /// Print the start of a file, decompressed.
    Head {
        /// Plain or compressed (gzip, zstd, xz).
        file: PathBuf,
    },
    /// Describe scripts with their options and commands as JSON; without names all bundled ones.
    Workloads {
        /// Bundled names or paths of Lua files.
        scripts: Vec<String>,
    },
}

fn long_version() -> &'static str {
    let Build { profile, commit, rustc, target } = BUILD;
    // Leaked once. clap needs it for 'static.
    format!("{} ({profile}, commit {commit}, {rustc}, {target})", env!("CARGO_PKG_VERSION")).leak()
}

fn main() -> ExitCode {
    if let Some(arguments) = arguments_as_sysbench() {
        return sysbench(&arguments);
    }
    match Cli::parse().mode {
        Mode::Drive { silence_limit } => {
            // Before any thread exists, so that no signal arrives without the handlers.
            undo_when_ended(SignalEnd::Status);
            let writer = MessageWriter::new(io::stdout());
            drive::drive(BufReader::new(io::stdin()), &writer, silence_limit.map(Duration::from_secs))
        }
        Mode::Sysbench { arguments } => sysbench(&arguments),
        Mode::Capture(arguments) => captures::run(arguments),
        Mode::Head { file } => ended(head(&file)),
        Mode::Workloads { scripts } => ended(list_workloads(&scripts)),
    }
}

fn sysbench(arguments: &[String]) -> ExitCode {
    let Build { profile, commit, .. } = BUILD;
    let engine = json!({"version": env!("CARGO_PKG_VERSION"), "commit": commit, "profile": profile});
    bakeoff_sysbench::sysbench(arguments, &engine)
}

/// Returns the arguments untouched if this program was called as `sysbench` or for that mode.
fn arguments_as_sysbench() -> Option<Vec<String>> {
    let mut arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let program = arguments.next()?;
    let is_named_so = Path::new(&program).file_name().is_some_and(|name| name == "sysbench");
    (is_named_so || arguments.next().is_some_and(|mode| mode == "sysbench")).then(|| arguments.collect())
}

fn head(file: &Path) -> Result<(), String> {
    let mut start = Vec::new();
    input::open(file, &ReadProgress::default())
        .and_then(|input| input.take(HEAD_BYTES).read_to_end(&mut start))
        .map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    // A closed pipe is not an error.
    let _ = io::stdout().lock().write_all(&start);
    Ok(())
}

fn list_workloads(scripts: &[String]) -> Result<(), Failure> {
    let list = workloads(scripts)?;
    // A closed pipe is not an error.
    let _ = writeln!(io::stdout(), "{list:#}");
    Ok(())
}

fn ended(result: Result<(), impl std::fmt::Display>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "bakeoff-engine: {error}");
            ExitCode::FAILURE
        }
    }
}
