//! Reads the command line and the files that it names: which options were given, for which test, to do what. Prints `--help`.

use std::collections::BTreeMap;
use std::path::Path;

use bakeoff_script::{OptionDecl, OptionType, OptionValue, bundled_names};

use crate::option_files::config_file;
use crate::options::{self, OPTIONS, OptionSpec, REFUSED_TESTS, Section};

/// What was typed, checked for form.
#[derive(Debug, Default)]
pub(crate) struct CommandLine {
    /// Options of the table, by name with underscores, as typed; a later one replaces an earlier one.
    given: BTreeMap<&'static str, String>,
    /// Other options: the script's own, or mistakes. By name as typed, without the dashes.
    pub(crate) others: Vec<(String, Option<String>)>,
    /// Lines of configuration files that name no option of the table: the script's own, or none of our business.
    pub(crate) others_of_files: Vec<(String, String)>,
    /// Built-in test, script or path.
    pub(crate) test: Option<String>,
    /// `run`, `prepare`, ….
    pub(crate) command: Option<String>,
}

impl CommandLine {
    /// Reads `arguments`, without the program's name.
    ///
    /// # Errors
    /// The line to be printed on standard error.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut line = Self::default();
        let mut words = Vec::new();
        let mut rest = arguments.iter().peekable();
        while let Some(argument) = rest.next() {
            let Some(option) = argument.strip_prefix("--").filter(|option| !option.is_empty()) else {
                words.push(argument.clone());
                continue;
            };
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (option, None),
            };
            let Some(spec) = options::find(name) else {
                line.others.push((name.to_owned(), value));
                continue;
            };
            let value = match value {
                Some(value) => value,
                None if may_stand_alone(spec) => String::new(),
                // sysbench knows only `--name=value`; a value that follows is unambiguous where one must come.
                None => rest
                    .next_if(|next| !next.starts_with("--"))
                    .cloned()
                    .ok_or_else(|| needs_value(name))?,
            };
            line.give(spec, value)?;
        }
        line.take_words(words)?;
        Ok(line)
    }

    /// Test and command; with `--test` the first word is the command already.
    fn take_words(&mut self, words: Vec<String>) -> Result<(), String> {
        let mut words = words.into_iter();
        let named = Some(self.text("test").to_owned()).filter(|test| !test.is_empty());
        self.test = named.or_else(|| words.next());
        self.command = words.next();
        match words.next() {
            Some(word) => Err(format!("Unrecognized command line argument: {word}")),
            None => Ok(()),
        }
    }

    /// Sets an option of the table; a configuration file is read where it is named, so that later options win over it.
    fn give(&mut self, spec: &'static OptionSpec, value: String) -> Result<(), String> {
        check(spec, &value)?;
        if spec.name == "config_file" {
            for (name, value) in config_file(Path::new(&value))? {
                match options::find(&name) {
                    Some(spec) if spec.name == "config_file" => {
                        return Err("a configuration file cannot name another one".to_owned());
                    }
                    Some(spec) => self.give(spec, value)?,
                    None => self.others_of_files.push((name, value)),
                }
            }
        }
        self.given.insert(spec.name, value);
        Ok(())
    }

    /// Was the option given, by the command line or a file?
    pub(crate) fn has(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// Its value as typed, or its default.
    pub(crate) fn text(&self, name: &str) -> &str {
        let default = || {
            let spec = OPTIONS.iter().find(|option| option.name == name);
            spec.unwrap_or_else(|| unreachable!("no option {name}")).default
        };
        self.given.get(name).map_or_else(default, String::as_str)
    }

    /// A whole number.
    pub(crate) fn int(&self, name: &str) -> i64 {
        match self.value(name) {
            OptionValue::Int(number) => number,
            other => unreachable!("--{name} is not a whole number: {other:?}"),
        }
    }

    /// A number.
    pub(crate) fn double(&self, name: &str) -> f64 {
        match self.value(name) {
            OptionValue::Double(number) => number,
            other => unreachable!("--{name} is not a number: {other:?}"),
        }
    }

    /// On or off.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.value(name) == OptionValue::Bool(true)
    }

    /// Values between commas.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        match self.value(name) {
            OptionValue::List(items) => items,
            other => unreachable!("--{name} is not a list: {other:?}"),
        }
    }

    fn value(&self, name: &str) -> OptionValue {
        let spec = options::find(name).unwrap_or_else(|| unreachable!("no option {name}"));
        fit(spec, self.text(name)).unwrap_or_else(|| decl(spec).default_value())
    }

    /// Every option that was given, in the form of its type, for `sysbench.opt`.
    pub(crate) fn values(&self) -> BTreeMap<String, OptionValue> {
        self.given
            .keys()
            .map(|name| ((*name).to_owned(), self.value(name)))
            .collect()
    }
}

/// What is said of an option that was given without the value that it takes.
pub(crate) fn needs_value(name: &str) -> String {
    format!("option --{name} needs a value: --{name}=VALUE")
}

/// `--json` and `--my-cnf` mean something without a value, too.
fn may_stand_alone(spec: &OptionSpec) -> bool {
    spec.kind == OptionType::Bool || matches!(spec.name, "json" | "my_cnf" | "mysql_ssl")
}

fn decl(spec: &OptionSpec) -> OptionDecl {
    OptionDecl {
        name: spec.name.to_owned(),
        description: spec.words.to_owned(),
        default: Some(OptionValue::Text(spec.default.to_owned())),
        kind: spec.kind,
    }
}

fn fit(spec: &OptionSpec, value: &str) -> Option<OptionValue> {
    decl(spec).fit(&OptionValue::Text(value.to_owned())).ok()
}

/// The lines of `--help` for one option: name with the form of its value, words, default.
fn help_of(spec: &OptionSpec) -> (String, String) {
    let form = match spec.kind {
        OptionType::Bool => "[=on|off]",
        OptionType::Int | OptionType::Double => "=N",
        OptionType::Size => "=SIZE",
        OptionType::List => "=[LIST,...]",
        OptionType::File if may_stand_alone(spec) => "[=FILE]",
        OptionType::File => "=FILENAME",
        OptionType::Null | OptionType::String => "=STRING",
    };
    (
        format!("--{}{form}", spec.dashed()),
        format!("{} [{}]", spec.words, spec.default),
    )
}

/// The text of `--help`.
pub(crate) fn help() -> String {
    let mut text = "Usage:\n  sysbench [options]... [testname] [command]\n\nCommands implemented by most tests: prepare run cleanup help\n".to_owned();
    for (section, heading) in Section::ALL {
        let lines: Vec<(String, String)> = OPTIONS
            .iter()
            .filter(|option| option.section == section)
            .map(help_of)
            .collect();
        let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        text += &format!("\n{heading}:\n");
        for (name, words) in lines {
            text += &format!("  {name:width$} {words}\n");
        }
    }
    text += "\nCompiled-in database drivers:\n  mysql - MySQL and MariaDB\n";
    text += "\nCompiled-in tests:\n  cpu - prime numbers, to see what a CPU does\n";
    text += &format!("  not to be had here: {}\n", REFUSED_TESTS.join(", "));
    text += &format!("\nBundled scripts:\n  {}\n", bundled_names().join("\n  "));
    text + "\nSee 'sysbench <testname> help' for a list of options for each test."
}

/// Refuses a value that is not of the option's type, in sysbench's words.
fn check(spec: &OptionSpec, value: &str) -> Result<(), String> {
    if fit(spec, value).is_some() {
        return Ok(());
    }
    Err(match spec.kind {
        OptionType::Bool => format!("invalid option: --{}={value}", spec.dashed()),
        _ => format!("Invalid value for the '{}' option: '{value}'", spec.dashed()),
    })
}

#[cfg(test)]
#[path = "../tests/unit/command_line.rs"]
mod tests;
