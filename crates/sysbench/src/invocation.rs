//! One call of the command, from its arguments to its exit code.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use bakeoff_load::machine::ending::{SignalEnd, undo_when_ended};
use bakeoff_load::worker_pool::allow_many_files;
use bakeoff_script::host::LogLevel;
use bakeoff_script::{
    OptionType, OptionValue, Script, ScriptError, ScriptSource, Settings, ThreadRole, describe, find_on_path,
};
use serde_json::{Map, Value, json};

use crate::Build;
use crate::command_line::{CommandLine, REFUSED_TESTS, bad_value, help, needs_value};
use crate::console::Console;
use crate::report::machine_readable::{Circumstances, HdrLog, JsonOutput, result};
use crate::report::{header, preamble};
use crate::run::{Ending, Outcome, Run};
use crate::run_options::{RunOptions, dialect, verbosity};
use crate::server::MySqlOptions;
use crate::session::SysbenchSession;
use crate::test::{MAX_PRIME, ScriptTest, Test, max_prime};

const DONE: u8 = 0;
const FAILED: u8 = 1;
const FORCED: u8 = 2;

const OLD_TEST_OPTION: &str = "WARNING: the --test option is deprecated. You can pass a script name or path on the command line without any options.";

pub fn sysbench(arguments: &[String], build: &Build) -> ExitCode {
    allow_many_files();
    end_with_the_reader();
    undo_when_ended(SignalEnd::Signal);
    let code = match CommandLine::parse(arguments) {
        Ok(line) => call(&line, arguments, build),
        Err(words) => {
            complain(&words);
            FAILED
        }
    };
    ExitCode::from(code)
}

/// Lets a run end when nobody reads its output any more (`sysbench … | head`). Sockets send without this signal.
fn end_with_the_reader() {
    // SAFETY: sets the signal's own default, which Rust's start-up has replaced, before any thread exists.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
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

fn call(line: &CommandLine, arguments: &[String], build: &Build) -> u8 {
    let wants_help = line.is_on("help");
    if is_for_the_original(line) && !wants_help {
        run_original(arguments);
    }
    if line.has("test") {
        complain(OLD_TEST_OPTION);
    }
    if wants_help {
        let _ = writeln!(std::io::stdout(), "{}", help());
        return DONE;
    }
    if let (true, Ok(dialect)) = (line.is_on("version"), dialect(line.text("dialect"))) {
        let _ = writeln!(std::io::stdout(), "sysbench {}", dialect.version());
        return DONE;
    }
    if let Some(words) = &line.mistake {
        complain(words);
        return FAILED;
    }
    let text_statements = ["disable", "client", "text"].contains(&line.text("db_ps_mode"));
    let aside = line.has("json") && ["", "-"].contains(&line.text("json"));
    let verbosity = verbosity(line);
    let early = Console::new(verbosity, aside, text_statements);
    let options = match RunOptions::read(line, |words| early.print(words)) {
        Ok(options) => Arc::new(options),
        Err(words) => {
            early.fatal(&words);
            return FAILED;
        }
    };
    if verbosity > LogLevel::Debug as i64 {
        early.print(&format!("Invalid value for verbosity: {verbosity}"));
        return FAILED;
    }
    let console = Arc::new(Console::new(options.verbosity, aside, text_statements));
    console.notice(&header(&options));
    let code = Invocation { line, arguments, build, options, console: Arc::clone(&console) }.run();
    console.finish();
    code
}

struct Invocation<'a> {
    line: &'a CommandLine,
    arguments: &'a [String],
    build: &'a Build,
    options: Arc<RunOptions>,
    console: Arc<Console>,
}

impl Invocation<'_> {
    fn run(&self) -> u8 {
        let name = self.line.test.as_deref().unwrap_or("-");
        let done = match name {
            "cpu" => self.run_cpu(),
            name if is_for_the_original(self.line) => {
                let what =
                    if REFUSED_TESTS.contains(&name) { format!("{name} test") } else { "pgsql driver".to_owned() };
                Err(format!(
                    "the {what} is not supported: bakeoff measures MySQL and MariaDB. Install sysbench to run it instead"
                ))
            }
            name => self.run_script(name),
        };
        done.unwrap_or_else(|words| {
            if !words.is_empty() {
                self.console.fatal(&words);
            }
            FAILED
        })
    }

    fn run_cpu(&self) -> Result<u8, String> {
        if self.line.command.is_none() {
            complain("The 'cpu' test requires a command argument. See 'sysbench cpu help'");
            return Ok(FAILED);
        }
        let is_limit = |name: &str| name.replace('_', "-") == "cpu-max-prime";
        let of_line = self.line.others.iter();
        if let Some((name, value)) = of_line.clone().find(|(name, _)| !is_limit(name)) {
            return Ok(unknown_option(name, value.as_deref()));
        }
        let of_line = of_line.map(|(_, value)| value.as_deref().unwrap_or("0"));
        // A file may also have options of scripts.
        let of_files = self.line.others_of_files.iter();
        let of_files = of_files.filter(|(name, _)| is_limit(name)).map(|(_, value)| value.as_str());
        let mut limits = of_files.chain(of_line);
        if let Some(number) = limits.clone().find(|number| number.parse::<i64>().is_err()) {
            complain(&bad_value("cpu_max_prime", number));
            return Ok(FAILED);
        }
        let max_prime = limits.try_fold(MAX_PRIME, |_, number| max_prime(number))?;
        match self.line.command.as_deref() {
            Some("run") => {}
            Some("help") => {
                self.console.print(&format!(
                    "cpu options:\n  --cpu-max-prime=N upper limit for primes generator [{MAX_PRIME}]\n"
                ));
                return Ok(DONE);
            }
            command => return Ok(no_command("cpu", command.unwrap_or_default())),
        }
        let mysql = MySqlOptions::read(self.line)?;
        let session = Arc::new(SysbenchSession::new(Arc::clone(&self.console), mysql.rotation()?, true, None));
        let limit = format!("Prime numbers limit: {max_prime}");
        self.console.notice(&preamble(&self.options, Some(&limit)));
        let run = Run { test: Arc::new(Test::Cpu { max_prime }), options: Arc::clone(&self.options), session };
        let json = self.json_output()?;
        let outcome = run.run(None, self.hdr_log()?);
        self.conclude("cpu", &run, outcome, json, &mysql)
    }

    fn run_script(&self, name: &str) -> Result<u8, String> {
        let mysql = MySqlOptions::read(self.line)?;
        mysql.check()?;
        let mut source = find_on_path(name).map_err(|error| match error {
            ScriptError::NotFound { .. } => {
                format!("Cannot find benchmark '{name}': no such built-in test, file or module")
            }
            other => other.to_string(),
        })?;
        apply_luajit_command(&mut source, self.line.text("luajit_cmd"))?;
        let session = Arc::new(SysbenchSession::new(
            Arc::clone(&self.console),
            mysql.rotation()?,
            self.line.is_on("mysql_dry_run"),
            mysql.driver_failure(),
        ));
        let test = ScriptTest { settings: self.settings(&source, &mysql)?, source };
        let main = match test.load(ThreadRole::Main, session.command_host()) {
            Ok(main) => main,
            Err(ScriptError::UnknownOption { name, .. }) => {
                let (name, value) = self.as_typed(&name).unwrap_or((&name, None));
                return Ok(unknown_option(name, value));
            }
            Err(ScriptError::BadOption { name, value, expected }) if expected == OptionType::Int.expected() => {
                complain(&bad_value(&name, &value));
                return Ok(FAILED);
            }
            Err(ScriptError::BadOption { name, value, expected }) if expected == OptionType::Bool.expected() => {
                return Ok(unknown_option(&name, Some(&value)));
            }
            Err(error) => {
                self.console.script_failed("", &error);
                return Ok(FAILED);
            }
        };
        let is_stdin = name == "-";
        if let Some((name, value)) = self.line.bad_flags.first().and_then(|name| self.as_typed(&name.replace('-', "_")))
            && !is_stdin
        {
            return Ok(unknown_option(name, value));
        }
        if let Some(name) = self.without_its_value(&main) {
            complain(&needs_value(name));
            return Ok(FAILED);
        }
        match self.line.command.as_deref() {
            // sysbench runs the body of a script from standard input, but no command.
            _ if is_stdin => Ok(DONE),
            None => Ok(DONE),
            Some("run") if !has_command(&main, "run") => self.run_events(name, main, test, &session, &mysql),
            Some("help") => self.help(&main, name),
            Some(command) if has_command(&main, command) => {
                let done = test.command(command, &main, &self.options, &session);
                Ok(if done { DONE } else { FAILED })
            }
            Some(command) => Ok(no_command(name, command)),
        }
    }

    fn without_its_value(&self, main: &Script) -> Option<&str> {
        let takes_value = |name: &str| {
            let mut declared = main.declared_options().iter();
            declared
                .find(|option| option.name == name.replace('-', "_"))
                .is_some_and(|option| !matches!(option.kind, OptionType::Bool | OptionType::Null))
        };
        let mut alone = self.line.others.iter().filter(|(_, value)| value.is_none() && self.line.strict);
        alone.find(|(name, _)| takes_value(name)).map(|(name, _)| name.as_str())
    }

    fn as_typed(&self, name: &str) -> Option<(&str, Option<&str>)> {
        let mut given = self.line.others.iter();
        let (name, value) = given.find(|(given, _)| given.replace('-', "_") == name)?;
        Some((name, value.as_deref()))
    }

    fn help(&self, main: &Script, name: &str) -> Result<u8, String> {
        if !has_command(main, "help") {
            return Ok(no_command(name, "help"));
        }
        match main.command("help") {
            Ok(()) => Ok(DONE),
            Err(error) => {
                self.console.script_failed("help", &error);
                Ok(FAILED)
            }
        }
    }

    fn run_events(
        &self,
        name: &str,
        main: Script,
        test: ScriptTest,
        session: &Arc<SysbenchSession>,
        mysql: &MySqlOptions<'_>,
    ) -> Result<u8, String> {
        if let Err(error) = main.init() {
            self.console.script_failed("init", &error);
            return Ok(FAILED);
        }
        self.console.notice(&preamble(&self.options, None));
        let run = Run {
            test: Arc::new(Test::Script(Box::new(test))),
            options: Arc::clone(&self.options),
            session: Arc::clone(session),
        };
        let json = self.json_output()?;
        let outcome = run.run(Some(&main), self.hdr_log()?);
        let ran = matches!(outcome.ending, Ending::Complete | Ending::Failed);
        let code = self.conclude(name, &run, outcome, json, mysql)?;
        if ran && let Err(error) = main.done() {
            self.console.script_failed("done", &error);
        }
        Ok(code)
    }

    fn hdr_log(&self) -> Result<Option<HdrLog>, String> {
        let path = self.options.hdr_log.as_deref();
        path.map(HdrLog::create).transpose()
    }

    fn json_output(&self) -> Result<Option<JsonOutput>, String> {
        let target = self.options.json.as_ref();
        target.map(JsonOutput::create).transpose()
    }

    fn settings(&self, source: &ScriptSource, mysql: &MySqlOptions<'_>) -> Result<Settings, String> {
        let mut options = std::collections::BTreeMap::new();
        if !self.line.others_of_files.is_empty() {
            // A file may have options of other scripts. Only this one's are passed on.
            let known = describe(source).map(|known| known.options).unwrap_or_default();
            let is_known = |name: &str| known.is_empty() || known.iter().any(|option| option.name == name);
            let exported = "will not be exported, because the type is unknown";
            for (name, value) in &self.line.others_of_files {
                if is_known(name) {
                    options.insert(name.clone(), OptionValue::Text(value.clone()));
                } else {
                    let words = format!("Global option '{name}' {exported}");
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

    fn conclude(
        &self,
        test: &str,
        run: &Run,
        outcome: Outcome,
        json: Option<JsonOutput>,
        mysql: &MySqlOptions<'_>,
    ) -> Result<u8, String> {
        let Outcome { ending, whole, intervals, dropped } = outcome;
        let given_up = match ending {
            Ending::Forced { unfinished } => Some(unfinished),
            _ => None,
        };
        if let Some(json) = json.filter(|_| ending == Ending::Complete || given_up.is_some()) {
            let circumstances = Circumstances {
                test,
                options: &self.options,
                given: self.given(&run.test),
                charset: mysql.charset(),
                server: run.session.server(),
                given_up,
                dropped,
                build: self.build,
            };
            json.write(&result(circumstances, &whole, intervals))?;
        }
        Ok(match ending {
            Ending::Complete => DONE,
            Ending::Failed => FAILED,
            Ending::NotReady | Ending::Forced { .. } => FORCED,
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
        let known = given.into_iter().filter(|(name, _)| !name.contains("password"));
        known.map(|(name, value)| (name, json!(value.to_text()))).collect()
    }
}

fn has_command(script: &Script, command: &str) -> bool {
    let mut commands = script.commands().iter();
    commands.any(|known| known.name == command)
}

fn unknown_option(name: &str, value: Option<&str>) -> u8 {
    let name = name.replace('_', "-");
    match value {
        Some(value) => complain(&format!("invalid option: --{name}={value}")),
        None => complain(&format!("invalid option: --{name}")),
    }
    FAILED
}

fn no_command(test: &str, command: &str) -> u8 {
    if ["prepare", "run", "cleanup", "help"].contains(&command) {
        let test = test.rsplit('/').next().unwrap_or(test);
        complain(&format!("'{test}' test does not implement the '{command}' command."));
    } else {
        complain(&format!("Unknown command: {command}"));
    }
    FAILED
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
        other => {
            return Err(format!("Invalid value for --luajit-cmd: '{other}'. It is on, off or flush"));
        }
    }
    Ok(())
}
