//! One call of the command, from its arguments to its exit code.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use bakeoff_load::machine::ending::{SignalEnd, undo_when_ended};
use bakeoff_load::worker_pool::allow_many_files;
use bakeoff_script::host::LogLevel;
use bakeoff_script::{
    OptionType, OptionValue, Script, ScriptError, ScriptSource, Settings, describe, find_on_path, luajit_version,
};
use serde_json::{Map, Value, json};

use crate::command_line::{CommandLine, REFUSED_TESTS, bad_value, help, needs_value};
use crate::console::Console;
use crate::report::machine_readable::{OutputFile, result};
use crate::report::preamble;
use crate::run_options::{RunOptions, STANDARD_OUTPUT, dialect, verbosity};
use crate::server::MySqlOptions;
use crate::session::SysbenchSession;
use crate::test::{Ending, MAX_PRIME, Run, ScriptTest, Test};

const DONE: u8 = 0;
const FAILED: u8 = 1;
const FORCED: u8 = 2;

const OLD_TEST_OPTION: &str = "WARNING: the --test option is deprecated. You can pass a script name or path on the command line without any options.";

/// Why a call ends with exit code 1.
enum Refusal {
    /// A mistake on the command line, which goes to standard error.
    Typed(String),
    Fatal(String),
    Reported,
}

impl From<String> for Refusal {
    fn from(words: String) -> Self {
        Self::Fatal(words)
    }
}

/// Runs a command of sysbench. `engine` describes this build in `--json`.
pub fn sysbench(arguments: &[String], engine: &Value) -> ExitCode {
    allow_many_files();
    // Ends a run when nobody reads its output any more (`sysbench … | head`). Sockets send without this signal.
    // SAFETY: sets the signal's own default, which Rust's start-up has replaced, before any thread exists.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    undo_when_ended(SignalEnd::Signal);
    let code = CommandLine::parse(arguments).and_then(|line| call(&line, arguments, engine));
    ExitCode::from(code.unwrap_or_else(|words| {
        complain(&words);
        FAILED
    }))
}

fn complain(words: &str) {
    let _ = writeln!(std::io::stderr(), "{words}");
}

fn is_for_the_original(line: &CommandLine) -> bool {
    let test = line.test.as_deref().unwrap_or_default();
    REFUSED_TESTS.contains(&test) || line.text("db_driver") == "pgsql"
}

/// Replaces this process with the first other sysbench on the path. Returns if there is none.
fn run_original(arguments: &[String]) {
    /// Set for the original, so that a `sysbench` that calls bakeoff is not called again.
    const HANDED_OVER: &str = "BAKEOFF_SYSBENCH";
    if std::env::var_os(HANDED_OVER).is_some() {
        return;
    }
    let own = std::env::current_exe().and_then(std::fs::canonicalize).ok();
    let path = std::env::var_os("PATH").unwrap_or_default();
    for file in std::env::split_paths(&path).map(|folder| folder.join("sysbench")) {
        if file.is_file() && file.canonicalize().ok() != own {
            // Returns only if it cannot be executed.
            let _ = Command::new(file).args(arguments).env(HANDED_OVER, "1").exec();
        }
    }
}

fn call(line: &CommandLine, arguments: &[String], engine: &Value) -> Result<u8, String> {
    let wants_help = line.is_on("help");
    if is_for_the_original(line) && !wants_help {
        run_original(arguments);
    }
    if line.has("test") {
        complain(OLD_TEST_OPTION);
    }
    if wants_help {
        let _ = writeln!(std::io::stdout(), "{}", help());
        return Ok(DONE);
    }
    if let (true, Ok(dialect)) = (line.is_on("version"), dialect(line.text("dialect"))) {
        let _ = writeln!(std::io::stdout(), "sysbench {}", dialect.version());
        return Ok(DONE);
    }
    if let Some(words) = &line.mistake {
        return Err(words.clone());
    }
    let text_statements = ["disable", "client", "text"].contains(&line.text("db_ps_mode"));
    let aside = line.has("json") && STANDARD_OUTPUT.contains(&line.text("json"));
    let verbosity = verbosity(line);
    let early = Console::new(verbosity, aside, text_statements);
    let options = match RunOptions::read(line, |words| early.print(words)) {
        Ok(options) => Arc::new(options),
        Err(words) => {
            early.fatal(&words);
            return Ok(FAILED);
        }
    };
    if verbosity > LogLevel::Debug as i64 {
        early.print(&format!("Invalid value for verbosity: {verbosity}"));
        return Ok(FAILED);
    }
    let console = Arc::new(Console::new(options.verbosity, aside, text_statements));
    console.notice(&format!("sysbench {} (using bundled {})\n", options.dialect.version(), luajit_version()));
    let invocation = Invocation { line, arguments, engine, options, console: Arc::clone(&console) };
    let done = invocation.run();
    if let Err(Refusal::Fatal(words)) = &done {
        console.fatal(words);
    }
    console.finish();
    match done {
        Ok(code) => Ok(code),
        Err(Refusal::Typed(words)) => Err(words),
        Err(Refusal::Fatal(_) | Refusal::Reported) => Ok(FAILED),
    }
}

struct Invocation<'a> {
    line: &'a CommandLine,
    arguments: &'a [String],
    engine: &'a Value,
    options: Arc<RunOptions>,
    console: Arc<Console>,
}

impl Invocation<'_> {
    fn run(&self) -> Result<u8, Refusal> {
        let name = self.line.test.as_deref().unwrap_or("-");
        if name == "cpu" {
            return self.run_cpu();
        }
        if is_for_the_original(self.line) {
            let what = if REFUSED_TESTS.contains(&name) { format!("{name} test") } else { "pgsql driver".to_owned() };
            return Err(Refusal::Fatal(format!(
                "the {what} is not supported: bakeoff measures MySQL and MariaDB. Install sysbench to run it instead"
            )));
        }
        self.run_script(name)
    }

    fn run_cpu(&self) -> Result<u8, Refusal> {
        const NO_COMMAND: &str = "The 'cpu' test requires a command argument. See 'sysbench cpu help'";
        let command = self.line.command.as_deref().ok_or_else(|| Refusal::Typed(NO_COMMAND.to_owned()))?;
        let is_limit = |name: &str| name.replace('_', "-") == "cpu-max-prime";
        let of_line = self.line.others.iter();
        if let Some((name, value)) = of_line.clone().find(|(name, _)| !is_limit(name)) {
            return Err(unknown_option(name, value.as_deref()));
        }
        let of_line = of_line.map(|(_, value)| value.as_deref().unwrap_or("0"));
        // A file may also have options of scripts.
        let of_files = self.line.others_of_files.iter();
        let of_files = of_files.filter(|(name, _)| is_limit(name)).map(|(_, value)| value.as_str());
        let mut limits = of_files.chain(of_line);
        if let Some(number) = limits.clone().find(|number| number.parse::<i64>().is_err()) {
            return Err(Refusal::Typed(bad_value("cpu_max_prime", number)));
        }
        let max_prime = limits.try_fold(MAX_PRIME, |_, number| {
            let limit = number.parse().ok().filter(|limit| *limit > 0);
            limit.ok_or_else(|| format!("Invalid value of cpu-max-prime: {number}."))
        })?;
        match command {
            "run" => {}
            "help" => {
                let words = format!("--cpu-max-prime=N upper limit for primes generator [{MAX_PRIME}]");
                self.console.print(&format!("cpu options:\n  {words}\n"));
                return Ok(DONE);
            }
            other => return Err(no_command("cpu", other)),
        }
        let session = SysbenchSession::new(&self.console, &MySqlOptions::read(self.line)?, true)?;
        self.console.notice(&preamble(&self.options, Some(&format!("Prime numbers limit: {max_prime}"))));
        let run = Run::new(Test::Cpu { max_prime }, &self.options, &session);
        Ok(self.run_and_conclude("cpu", &run, None)?.0)
    }

    fn run_script(&self, name: &str) -> Result<u8, Refusal> {
        let mysql = MySqlOptions::read(self.line)?;
        mysql.check()?;
        let mut source = find_on_path(name).map_err(|error| match error {
            ScriptError::NotFound { .. } => {
                format!("Cannot find benchmark '{name}': no such built-in test, file or module")
            }
            other => other.to_string(),
        })?;
        apply_luajit_command(&mut source, self.line.text("luajit_cmd"))?;
        let session = SysbenchSession::new(&self.console, &mysql, self.line.is_on("mysql_dry_run"))?;
        let test = ScriptTest { settings: self.settings(&source, &mysql)?, source };
        let main = test.load(0, session.command_host()).map_err(|error| self.not_loaded(error))?;
        let is_stdin = name == "-";
        if let Some((name, value)) = self.line.bad_flag.as_ref().filter(|_| !is_stdin) {
            return Err(unknown_option(name, Some(value)));
        }
        if let Some(name) = self.without_its_value(&main) {
            return Err(Refusal::Typed(needs_value(name)));
        }
        // sysbench runs the body of a script from standard input, but no command.
        let Some(command) = self.line.command.as_deref().filter(|_| !is_stdin) else { return Ok(DONE) };
        let is_known = main.commands().iter().any(|known| known.name == command);
        match command {
            "run" if !is_known => self.run_events(name, main, test, &session),
            _ if !is_known => Err(no_command(name, command)),
            "help" => main.command("help").map(|()| DONE).map_err(|error| self.failed("help", &error)),
            _ if test.command(command, &main, &self.options, &session) => Ok(DONE),
            _ => Err(Refusal::Reported),
        }
    }

    fn failed(&self, function: &str, error: &ScriptError) -> Refusal {
        self.console.script_failed(function, error);
        Refusal::Reported
    }

    fn not_loaded(&self, error: ScriptError) -> Refusal {
        match error {
            ScriptError::UnknownOption { name, .. } => {
                let typed = self.line.others.iter().find(|(given, _)| given.replace('-', "_") == name);
                typed
                    .map_or_else(|| unknown_option(&name, None), |(name, value)| unknown_option(name, value.as_deref()))
            }
            ScriptError::BadOption { name, value, expected } if expected == OptionType::Int.expected() => {
                Refusal::Typed(bad_value(&name, &value))
            }
            ScriptError::BadOption { name, value, expected } if expected == OptionType::Bool.expected() => {
                unknown_option(&name, Some(&value))
            }
            error => self.failed("", &error),
        }
    }

    fn without_its_value(&self, main: &Script) -> Option<&str> {
        let takes_value = |name: &str| {
            main.declared_options().iter().any(|option| {
                option.name == name.replace('-', "_") && !matches!(option.kind, OptionType::Bool | OptionType::Null)
            })
        };
        let mut alone = self.line.others.iter().filter(|(_, value)| value.is_none() && self.line.strict);
        alone.find(|(name, _)| takes_value(name)).map(|(name, _)| name.as_str())
    }

    fn run_events(
        &self,
        name: &str,
        main: Script,
        test: ScriptTest,
        session: &Arc<SysbenchSession>,
    ) -> Result<u8, Refusal> {
        main.init().map_err(|error| self.failed("init", &error))?;
        self.console.notice(&preamble(&self.options, None));
        let run = Run::new(Test::Script(Box::new(test)), &self.options, session);
        let (code, ran) = self.run_and_conclude(name, &run, Some(&main))?;
        if ran && let Err(error) = main.done() {
            self.console.script_failed("done", &error);
        }
        Ok(code)
    }

    fn settings(&self, source: &ScriptSource, mysql: &MySqlOptions<'_>) -> Result<Settings, String> {
        let mut options = BTreeMap::new();
        if !self.line.others_of_files.is_empty() {
            // A file may have options of other scripts. Only this one's are passed on.
            let known = describe(source).map(|known| known.declared_options().to_vec()).unwrap_or_default();
            for (name, value) in &self.line.others_of_files {
                if known.is_empty() || known.iter().any(|option| option.name == *name) {
                    options.insert(name.clone(), OptionValue::Text(value.clone()));
                } else {
                    let words = format!("Global option '{name}' will not be exported, because the type is unknown");
                    self.console.log(LogLevel::Warning, &words);
                }
            }
        }
        for (name, value) in &self.line.others {
            let value = value.clone().map_or(OptionValue::Bool(true), OptionValue::Text);
            options.insert(name.replace('-', "_"), value);
        }
        let mut general = self.line.values();
        let percentile = self.options.percentiles.first();
        general.insert("percentile".to_owned(), OptionValue::Double(percentile.map_or(0.0, |first| first.per_cent)));
        // As in sysbench, not the clock's if none was given.
        general.entry("rand_seed".to_owned()).or_insert(OptionValue::Int(0));
        let argv = std::iter::once("sysbench".to_owned());
        Ok(Settings {
            options,
            general,
            threads: self.options.threads,
            seed: self.options.seed,
            unique_from: None,
            rand: self.options.rand,
            ignore_errors: mysql.ignored_errors()?,
            strict: self.line.strict,
            argv: argv.chain(self.arguments.iter().cloned()).collect(),
            command: self.line.command.clone(),
        })
    }

    /// Runs a test and writes its result for programs. Returns the exit code, and whether the run ended by itself.
    fn run_and_conclude(&self, test: &str, run: &Run, main: Option<&Script>) -> Result<(u8, bool), Refusal> {
        let json = self.options.json.as_deref();
        let json_file = json.filter(|file| !STANDARD_OUTPUT.contains(file));
        let json_file = json_file.map(|path| OutputFile::create("--json", path)).transpose()?;
        let hdr_log = self.options.hdr_log.as_deref().map(OutputFile::hdr_log).transpose()?;
        let outcome = run.run(main, hdr_log);
        let ending = outcome.ending;
        if json.is_some() && matches!(ending, Ending::Complete | Ending::Forced { .. }) {
            let result = result(test, &self.options, self.given(&run.test), &run.session, self.engine, outcome);
            match json_file {
                Some(mut file) => file.write(&format!("{result:#}\n"))?,
                // A closed pipe is not an error.
                None => drop(writeln!(std::io::stdout(), "{result:#}")),
            }
        }
        Ok(match ending {
            Ending::Complete => (DONE, true),
            Ending::Failed => (FAILED, true),
            Ending::NotReady | Ending::Forced { .. } => (FORCED, false),
        })
    }

    fn given(&self, test: &Test) -> Map<String, Value> {
        let mut given = self.line.values();
        match test {
            Test::Script(test) => given.extend(test.settings.options.clone()),
            Test::Cpu { max_prime } => {
                given.insert("cpu_max_prime".to_owned(), OptionValue::Text(max_prime.to_string()));
            }
        }
        given.retain(|name, _| !name.contains("password"));
        given.into_iter().map(|(name, value)| (name, json!(value.to_text()))).collect()
    }
}

fn unknown_option(name: &str, value: Option<&str>) -> Refusal {
    let value = value.map(|value| format!("={value}")).unwrap_or_default();
    Refusal::Typed(format!("invalid option: --{}{value}", name.replace('_', "-")))
}

fn no_command(test: &str, command: &str) -> Refusal {
    Refusal::Typed(if ["prepare", "run", "cleanup", "help"].contains(&command) {
        let test = test.rsplit('/').next().unwrap_or(test);
        format!("'{test}' test does not implement the '{command}' command.")
    } else {
        format!("Unknown command: {command}")
    })
}

fn apply_luajit_command(source: &mut ScriptSource, command: &str) -> Result<(), String> {
    match command {
        "" | "on" => {}
        // On the script's own first line, so that line numbers do not change.
        "off" | "flush" => {
            let comment = if source.text.starts_with(b"#") { "--" } else { "" };
            let prefix = format!("jit.{command}() {comment}");
            source.text = [prefix.as_bytes(), &source.text].concat();
        }
        other => return Err(format!("Invalid value for --luajit-cmd: '{other}'. It is on, off or flush")),
    }
    Ok(())
}
