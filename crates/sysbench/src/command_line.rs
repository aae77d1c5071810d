//! Reads the command line and the files that it names: which options, for which test, to do what. Prints `--help`.

use std::collections::BTreeMap;
use std::path::Path;

use bakeoff_load::net::TlsMode;
use bakeoff_script::options::{OPTIONS, OptionSpec, Section, general_option};
use bakeoff_script::{OptionType, OptionValue, bundled_names, describe, find_on_path};

use crate::option_files::config_file;

pub(crate) const REFUSED_TESTS: [&str; 4] = ["fileio", "memory", "mutex", "threads"];

#[derive(Debug, Default)]
pub(crate) struct CommandLine {
    /// Known options as typed, by name with underscores. Later ones replace earlier ones.
    given: BTreeMap<&'static str, String>,
    /// Other options: the script's own, or mistakes. As typed, without the dashes.
    pub(crate) others: Vec<(String, Option<String>)>,
    pub(crate) others_of_files: Vec<(String, String)>,
    /// The first known flag with an invalid value. It is among `others` too and reported after the first line.
    pub(crate) bad_flag: Option<(String, String)>,
    pub(crate) mistake: Option<String>,
    pub(crate) strict: bool,
    pub(crate) test: Option<String>,
    pub(crate) command: Option<String>,
}

#[rustfmt::skip]
const NOT_OF_1_0: [&str; 8] = [
    "warmup_time", "thread_init_timeout", "rand_zipfian_exp", "luajit_cmd", "mysql_ssl_ca", "mysql_ssl_cert",
    "mysql_ssl_key", "mysql_compression_algorithms",
];

impl CommandLine {
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let strict = arguments.iter().rev().find_map(|word| match word.strip_prefix("--strict")? {
            "" | "=on" | "=true" | "=1" => Some(true),
            "=off" | "=false" | "=0" => Some(false),
            _ => None,
        });
        let mut line = Self { strict: strict.unwrap_or(false), ..Self::default() };
        let mut words = Vec::new();
        for argument in arguments {
            let Some(option) = argument.strip_prefix("--") else {
                words.push(argument.clone());
                continue;
            };
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (option, None),
            };
            let Some(spec) = general_option(name) else {
                line.others.push((name.to_owned(), value));
                continue;
            };
            let alone = if spec.kind == OptionType::Bool || spec.name == "mysql_ssl" { "on" } else { "" };
            let may_stand_alone = spec.kind == OptionType::Bool || matches!(spec.name, "json" | "my_cnf" | "mysql_ssl");
            let given = if value.is_none() && line.strict && !may_stand_alone {
                Err(needs_value(name))
            } else {
                line.give(spec, value.unwrap_or_else(|| alone.to_owned()))
            };
            line.mistake = line.mistake.take().or(given.err());
        }
        let mut words = words.into_iter();
        let named = Some(line.text("test").to_owned()).filter(|test| !test.is_empty());
        line.test = named.or_else(|| words.next());
        line.command = words.next();
        if let Some(word) = words.next() {
            return Err(format!("Unrecognized command line argument: {word}"));
        }
        line.yield_to_script();
        Ok(line)
    }

    /// Sets a known option. A configuration file is read where it is named, so that later options win.
    fn give(&mut self, spec: &'static OptionSpec, value: String) -> Result<(), String> {
        let is_no_flag = spec.kind == OptionType::Bool && fit(spec, &value).is_none();
        if is_no_flag || spec.name == "mysql_ssl" && tls_mode(&value).is_none() {
            self.others.push((spec.dashed(), Some(value.clone())));
            self.bad_flag.get_or_insert((spec.dashed(), value));
            return Ok(());
        }
        self.check(spec, &value)?;
        if spec.name == "config_file" && !value.is_empty() {
            for (name, value) in config_file(Path::new(&value), self.strict)? {
                match general_option(&name) {
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

    fn check(&self, spec: &OptionSpec, value: &str) -> Result<(), String> {
        // Unlike sysbench we accept several percentiles, and fractions.
        let is_number = |label: &str| label.is_empty() || label.parse::<f64>().is_ok();
        let is_percentile = spec.name != "percentile" || value.split(',').map(str::trim).all(is_number);
        let given = OptionValue::Text(value.to_owned());
        let fits = fit(spec, value).is_some() && (!self.strict || spec.decl().fit(&given).is_ok());
        let underscored = spec.section == Section::Random || spec.name == "report_interval";
        let name = if underscored { spec.name.to_owned() } else { spec.dashed() };
        if is_percentile && fits {
            return Ok(());
        }
        Err(bad_value(&name, value))
    }

    /// Yields options that sysbench 1.0 does not have to a script that declares them itself.
    fn yield_to_script(&mut self) {
        let is_ours = |name: &&str| {
            general_option(name).is_some_and(|spec| spec.section == Section::Ours || NOT_OF_1_0.contains(&spec.name))
        };
        let ours: Vec<&str> = self.given.keys().copied().filter(is_ours).collect();
        let name = self.test.as_deref().unwrap_or("-");
        // Only a file can be read twice.
        let readable = Path::new(name).metadata().map_or(name != "-", |facts| facts.is_file());
        if ours.is_empty() || !readable {
            return;
        }
        let Ok(script) = find_on_path(name).and_then(|source| describe(&source)) else { return };
        let is_declared = |name: &&str| script.declared_options().iter().any(|option| option.name == *name);
        for name in ours.into_iter().filter(is_declared) {
            self.strict &= name != "strict";
            let value = self.given.remove(name);
            self.others.push((name.to_owned(), value));
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        let default = || general_option(name).unwrap_or_else(|| unreachable!("no option {name}")).default;
        self.given.get(name).map_or_else(default, String::as_str)
    }

    pub(crate) fn int(&self, name: &str) -> i64 {
        let OptionValue::Int(value) = self.value(name) else { unreachable!("the type of --{name}") };
        value
    }

    pub(crate) fn double(&self, name: &str) -> f64 {
        let OptionValue::Double(value) = self.value(name) else { unreachable!("the type of --{name}") };
        value
    }

    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.value(name) == OptionValue::Bool(true)
    }

    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let OptionValue::List(value) = self.value(name) else { unreachable!("the type of --{name}") };
        value
    }

    fn value(&self, name: &str) -> OptionValue {
        let spec = general_option(name).unwrap_or_else(|| unreachable!("no option {name}"));
        fit(spec, self.text(name)).unwrap_or_else(|| spec.decl().default_value())
    }

    pub(crate) fn values(&self) -> BTreeMap<String, OptionValue> {
        self.given.keys().map(|name| ((*name).to_owned(), self.value(name))).collect()
    }
}

pub(crate) fn tls_mode(name: &str) -> Option<TlsMode> {
    Some(match name {
        "off" | "disabled" | "false" | "0" => TlsMode::Disabled,
        "preferred" => TlsMode::Preferred,
        "required" | "on" | "true" | "1" => TlsMode::Required,
        "verify_ca" => TlsMode::VerifyCa,
        "verify_identity" => TlsMode::VerifyIdentity,
        _ => return None,
    })
}

pub(crate) fn needs_value(name: &str) -> String {
    format!("option --{name} needs a value: --{name}=VALUE")
}

fn fit(spec: &OptionSpec, value: &str) -> Option<OptionValue> {
    spec.decl().fit_as_sysbench(&OptionValue::Text(value.to_owned())).ok()
}

pub(crate) fn help() -> String {
    let mut text = "Usage:\n  sysbench [options]... [testname] [command]\n\nCommands implemented by most tests: prepare run cleanup help\n\n".to_owned();
    for (section, heading) in Section::ALL {
        let of_section = OPTIONS.iter().filter(|option| option.section == section);
        let lines: Vec<(String, String)> = of_section.map(|option| option.decl().help()).collect();
        let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        text += &format!("{heading}\n");
        for (name, words) in lines {
            text += &format!("  {name:width$} {words}\n");
        }
        text.push('\n');
        if section == Section::Database {
            text += "\nCompiled-in database drivers:\n  mysql - MySQL and MariaDB\n\n";
        }
    }
    text += "Compiled-in tests:\n  cpu - prime numbers, to see what a CPU does\n";
    text += &format!("  not supported here: {}\n", REFUSED_TESTS.join(", "));
    text += &format!("\nBundled scripts:\n  {}\n", bundled_names().join("\n  "));
    text + "\nSee 'sysbench <testname> help' for a list of options for each test.\n"
}

pub(crate) fn bad_value(name: &str, value: &str) -> String {
    format!("Invalid value for the '{name}' option: '{value}'")
}

#[cfg(test)]
#[path = "../tests/unit/command_line.rs"]
mod tests;
