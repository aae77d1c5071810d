//! `--help`, `--version`, and what the built-in tests say of themselves.

use super::command_line::help_of;
use super::cpu_test;
use super::options::{OPTIONS, Section};
use super::test::REFUSED;
use bakeoff_script::bundled_names;

/// The text of `--help`.
pub(super) fn help() -> String {
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
    text += &format!("  not to be had here: {}\n", REFUSED.join(", "));
    text += &format!("\nBundled scripts:\n  {}\n", bundled_names().join("\n  "));
    text + "\nSee 'sysbench <testname> help' for a list of options for each test."
}

/// `sysbench cpu help`.
pub(super) fn cpu_help() -> String {
    format!(
        "cpu options:\n  --cpu-max-prime=N upper limit for primes generator [{}]\n",
        cpu_test::MAX_PRIME
    )
}
