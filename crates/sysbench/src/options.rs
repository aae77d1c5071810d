//! Every option of the command, of both sysbench dialects and of our own: name, type, default, words.
//!
//! One table, from which the command line is read, `--help` is printed and `docs/sysbench.md` is checked.
//!
//! Also option files: `--my-cnf`, MySQL's own files with account, address and TLS; `--config-file`, one `name=value` a line. sysbench reads
//! `flag=off` in a configuration file as on, takes no line of 256 bytes and silently forgets an option with a space before its `=`; here all
//! three mean what they say.

use std::path::{Path, PathBuf};

use bakeoff_script::OptionType;
use bakeoff_script::OptionType::{Bool, Double, File, Int, List, Size, String as Text};

/// Names of sysbench's built-in tests that are refused here.
pub(crate) const REFUSED_TESTS: [&str; 4] = ["fileio", "memory", "mutex", "threads"];

/// Where `--help` shows an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    General,
    Random,
    Log,
    Database,
    MySql,
    /// Shown in `--help` as refused here.
    Refused,
    /// What sysbench does not have.
    Ours,
}

impl Section {
    /// In the order of `--help`, with their headings.
    pub(crate) const ALL: [(Self, &str); 7] = [
        (Self::General, "General options:"),
        (Self::Random, "Pseudo-Random Numbers Generator options:"),
        (Self::Log, "Log options:"),
        (Self::Database, "General database options:\n"),
        (Self::MySql, "mysql options:"),
        (Self::Ours, "Options that sysbench does not have:"),
        (Self::Refused, "Options that are refused here:"),
    ];
}

/// One option.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OptionSpec {
    /// With underscores; a person may write dashes.
    pub(crate) name: &'static str,
    pub(crate) kind: OptionType,
    /// As one would type it; empty: nothing.
    pub(crate) default: &'static str,
    pub(crate) section: Section,
    pub(crate) words: &'static str,
}

impl OptionSpec {
    /// As a person writes it: `report-interval`.
    pub(crate) fn dashed(&self) -> String {
        self.name.replace('_', "-")
    }
}

const fn option(
    section: Section,
    name: &'static str,
    kind: OptionType,
    default: &'static str,
    words: &'static str,
) -> OptionSpec {
    OptionSpec {
        name,
        kind,
        default,
        section,
        words,
    }
}

/// The option of this name, written with dashes or underscores.
pub(crate) fn find(name: &str) -> Option<&'static OptionSpec> {
    let name = name.replace('-', "_");
    OPTIONS.iter().find(|option| option.name == name)
}

use Section::{Database, General, Log, MySql, Ours, Random, Refused};

/// All of them, in the order of `--help`.
#[rustfmt::skip]
pub(crate) const OPTIONS: &[OptionSpec] = &[
    option(General, "threads", Int, "1", "worker threads, each with a connection"),
    option(General, "events", Int, "0", "end after this many events; 0: no limit"),
    option(General, "time", Int, "10", "end after this many seconds; 0: no limit"),
    option(General, "warmup_time", Int, "0", "run this many seconds uncounted before --time begins"),
    option(General, "forced_shutdown", Text, "off", "seconds that events may overrun --time before they are given up, or off"),
    option(General, "thread_stack_size", Size, "64K", "C stack of a worker; less than 256K is taken as 256K"),
    option(General, "thread_init_timeout", Int, "30", "seconds within which all workers must be ready"),
    option(General, "rate", Int, "0", "events a second of all workers together, at random times; 0: as fast as it goes"),
    option(General, "report_interval", Int, "0", "seconds between intermediate reports; 0: none"),
    option(General, "report_checkpoints", List, "", "seconds from the start at which to report in full and count anew"),
    option(General, "debug", Bool, "off", "print debug messages and statistics of each thread"),
    option(General, "validate", Bool, "off", "passed to the script as sysbench.opt.validate"),
    option(General, "help", Bool, "off", "print this and exit"),
    option(General, "version", Bool, "off", "print the version and exit"),
    option(General, "config_file", File, "", "file of options, one name=value a line"),
    option(General, "luajit_cmd", Text, "", "on, off or flush, for LuaJIT's compiler"),
    option(General, "tx_rate", Int, "0", "deprecated name of --rate"),
    option(General, "max_requests", Int, "0", "deprecated name of --events"),
    option(General, "max_time", Int, "0", "deprecated name of --time"),
    option(General, "num_threads", Int, "1", "deprecated name of --threads"),
    option(General, "test", Text, "", "deprecated form of the script's name"),

    option(Random, "rand_type", Text, "uniform", "distribution: uniform, gaussian, special, pareto or zipfian"),
    option(Random, "rand_seed", Int, "0", "seed of all that is random; 0: from the clock"),
    option(Random, "rand_spec_iter", Int, "12", "draws averaged into one gaussian or special number"),
    option(Random, "rand_spec_pct", Int, "1", "width of the special band, per cent of the range"),
    option(Random, "rand_spec_res", Int, "75", "numbers that fall into the special band, per cent"),
    option(Random, "rand_pareto_h", Double, "0.2", "h of the pareto distribution"),
    option(Random, "rand_zipfian_exp", Double, "0.8", "exponent of the zipfian distribution"),

    option(Log, "verbosity", Int, "3", "0 fatal, 1 alert, 2 warning, 3 notice, 4 info, 5 debug"),
    option(Log, "percentile", List, "95", "latency percentiles to report, each up to 100; 0: none"),
    option(Log, "histogram", Bool, "off", "print the latency histogram at the end"),

    option(Database, "db_driver", Text, "mysql", "mysql, for MySQL and MariaDB"),
    option(Database, "db_ps_mode", Text, "auto", "prepared statements: auto or server; disable, client or text for literals in the SQL"),
    option(Database, "db_debug", Bool, "off", "accepted; --debug prints what there is"),

    option(MySql, "mysql_host", List, "localhost", "hosts; connections are shared out over ports, then hosts"),
    option(MySql, "mysql_port", List, "3306", "ports"),
    option(MySql, "mysql_socket", List, "", "unix sockets; they go before hosts and ports"),
    option(MySql, "mysql_user", Text, "sbtest", "account"),
    option(MySql, "mysql_password", Text, "", "its password; when empty, $MYSQL_PWD"),
    option(MySql, "mysql_db", Text, "sbtest", "database"),
    option(MySql, "mysql_ssl", Text, "off", "TLS: disabled (off), preferred, required (on), verify_ca or verify_identity"),
    option(MySql, "mysql_ssl_key", Text, "", "client's private key (PEM)"),
    option(MySql, "mysql_ssl_ca", Text, "", "certificates that may sign the server's (PEM)"),
    option(MySql, "mysql_ssl_cert", Text, "", "client's certificate (PEM)"),
    option(MySql, "mysql_ignore_errors", List, "1213,1020,1205", "server errors after which an event is run again, or all"),
    option(MySql, "mysql_debug", Bool, "off", "accepted; there is no client library to trace"),
    option(MySql, "mysql_dry_run", Bool, "off", "run the script against no server: every statement succeeds at once"),

    option(Ours, "dialect", Text, "1.0", "layout of the final report: 1.0 (as sysbench 1.0.20) or 1.1 (as its master)"),
    option(Ours, "json", File, "", "write the result as JSON to this file; without a file: to standard output, and all else to standard error"),
    option(Ours, "hdr_log", File, "", "write latencies as an HdrHistogram interval log to this file"),
    option(Ours, "placement", Text, "free", "threads of a connection: free, or paired: the client's and the server's on one CPU"),
    option(Ours, "idle_connections", Int, "0", "connections held open besides the workers' own, doing nothing"),
    option(Ours, "mysql_charset", Text, "utf8mb4", "character set of the connections"),
    option(Ours, "mysql_collation", Text, "", "their collation; when empty, the server's default for the character set"),
    option(Ours, "strict", Bool, "off", "refuse what sysbench lets pass: numbers that are none, options without their value, files that are not there"),
    option(Ours, "remarks", Bool, "off", "print lines that sysbench does not: the character set, and events that were due and never begun"),
    option(Ours, "my_cnf", File, "", "read account, address and TLS from this my.cnf; without a file: the usual ones"),

    option(Refused, "mysql_ssl_cipher", Text, "", "the TLS library chooses the cipher"),
    option(Refused, "mysql_compression", Bool, "off", "the protocol's compression is not spoken"),
    option(Refused, "mysql_compression_algorithms", Text, "zlib", "taken note of only with --mysql-compression"),
    option(Refused, "pgsql_host", Text, "", "PostgreSQL"),
    option(Refused, "pgsql_port", Int, "", "PostgreSQL"),
    option(Refused, "pgsql_user", Text, "", "PostgreSQL"),
    option(Refused, "pgsql_password", Text, "", "PostgreSQL"),
    option(Refused, "pgsql_db", Text, "", "PostgreSQL"),
];

/// Files that MySQL's clients read, in their order; `~` is the home directory.
const USUAL: [&str; 3] = ["/etc/my.cnf", "/etc/mysql/my.cnf", "~/.my.cnf"];
/// Groups that are read; a later line wins over an earlier one.
const GROUPS: [&str; 4] = ["client", "client-server", "mysql", "sysbench"];
/// How deep `!include` may go.
const DEEPEST: u32 = 8;

/// The options of MySQL's files by their names here, in the order found; a later one wins. An empty `path` stands for the usual files.
///
/// # Errors
/// One line: the named file, or one that it includes, cannot be read.
pub(crate) fn my_cnf(path: &str) -> Result<Vec<(&'static str, String)>, String> {
    let mut found = Vec::new();
    if path.is_empty() {
        for path in USUAL.iter().map(|path| expand(path)).filter(|path| path.is_file()) {
            read_file(&path, 0, &mut found)?;
        }
    } else {
        read_file(&expand(path), 0, &mut found)?;
    }
    Ok(found)
}

fn expand(path: &str) -> PathBuf {
    match path.strip_prefix("~/") {
        Some(rest) => PathBuf::from(std::env::var("HOME").unwrap_or_default()).join(rest),
        None => PathBuf::from(path),
    }
}

fn read_file(path: &Path, depth: u32, found: &mut Vec<(&'static str, String)>) -> Result<(), String> {
    let failed = |words: String| format!("--my-cnf {}: {words}", path.display());
    if depth > DEEPEST {
        return Err(failed("too many !include within each other".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let mut wanted = false;
    for line in text.lines().map(str::trim) {
        if let Some(file) = line.strip_prefix("!include ") {
            read_file(&path.with_file_name("").join(file.trim()), depth + 1, found)?;
        } else if let Some(folder) = line.strip_prefix("!includedir") {
            for file in cnf_files(&path.with_file_name("").join(folder.trim())) {
                read_file(&file, depth + 1, found)?;
            }
        } else if let Some(group) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            wanted = GROUPS.contains(&group.trim());
        } else if wanted && !line.starts_with(['#', ';']) {
            found.extend(my_cnf_option(line));
        }
    }
    Ok(())
}

fn cnf_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "cnf"))
        .collect();
    files.sort();
    files
}

/// One line as one of our options; `None` for those that mean nothing to us.
fn my_cnf_option(line: &str) -> Option<(&'static str, String)> {
    let (name, value) = line.split_once('=').unwrap_or((line, ""));
    let name = match name.trim().replace('_', "-").as_str() {
        "host" => "mysql_host",
        "port" => "mysql_port",
        "socket" => "mysql_socket",
        "user" => "mysql_user",
        "password" => "mysql_password",
        "database" => "mysql_db",
        "default-character-set" => "mysql_charset",
        "ssl-mode" => "mysql_ssl",
        "ssl-ca" => "mysql_ssl_ca",
        "ssl-cert" => "mysql_ssl_cert",
        "ssl-key" => "mysql_ssl_key",
        _ => return None,
    };
    let value = value.trim();
    let unquoted = ['"', '\'']
        .iter()
        .find_map(|&quote| value.strip_prefix(quote)?.strip_suffix(quote));
    let value = unquoted.unwrap_or(value);
    Some((
        name,
        if name == "mysql_ssl" {
            value.to_ascii_lowercase()
        } else {
            value.to_owned()
        },
    ))
}

/// Names and values in the order of the file. Empty lines and those that begin with `#` are skipped; values may be quoted.
///
/// # Errors
/// One line: the file cannot be read, or a line has no `=`. Unless `strict`, sysbench's line for a file that is not there.
pub(crate) fn config_file(path: &Path, strict: bool) -> Result<Vec<(String, String)>, String> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !strict => {
            eprintln!("{}: No such file or directory", path.display());
            String::new()
        }
        read => read.map_err(|error| format!("--config-file {}: {error}", path.display()))?,
    };
    parse(&text, strict).map_err(|(line, words)| format!("{}:{line}: {words}", path.display()))
}

fn parse(text: &str, strict: bool) -> Result<Vec<(String, String)>, (usize, String)> {
    let mut options = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, value)) = line.split_once('=') else {
            if !strict {
                continue;
            }
            return Err((index + 1, format!("{line:?} is not name=value")));
        };
        let name = name.trim().trim_start_matches("--").replace('-', "_");
        options.push((name, value_of(value).to_owned()));
    }
    Ok(options)
}

/// The value without the quotes around it, or without the comment behind it.
fn value_of(value: &str) -> &str {
    let value = value.trim();
    for quote in ['"', '\''] {
        if let Some((quoted, _)) = value.strip_prefix(quote).and_then(|inner| inner.split_once(quote)) {
            return quoted;
        }
    }
    value.split_once(" #").map_or(value, |(before, _)| before.trim_end())
}

#[cfg(test)]
#[path = "../tests/unit/options.rs"]
mod tests;
