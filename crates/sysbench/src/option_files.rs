//! Option files: `--my-cnf`, MySQL's own files, and `--config-file` with one `name=value` per line. Unlike sysbench,
//! `flag=off` is off, and long lines and spaces before `=` are read.

use std::path::{Path, PathBuf};

/// Files that MySQL's clients read, in their order. `~` is the home directory.
const USUAL: [&str; 3] = ["/etc/my.cnf", "/etc/mysql/my.cnf", "~/.my.cnf"];
const GROUPS: [&str; 4] = ["client", "client-server", "mysql", "sysbench"];
const DEEPEST: u32 = 8;

/// The options of MySQL's files under the drop-in's names; a later one wins. An empty `path` is the usual files.
pub(crate) fn my_cnf(path: &str) -> Result<Vec<(&'static str, String)>, String> {
    let files: Vec<PathBuf> = match path {
        "" => USUAL.iter().map(|path| expand(path)).filter(|path| path.is_file()).collect(),
        path => vec![expand(path)],
    };
    let mut found = Vec::new();
    for file in files {
        read_file(&file, 0, &mut found)?;
    }
    // Like MySQL's and MariaDB's clients: certificates imply TLS.
    let has = |name: &str| found.iter().any(|(known, value)| *known == name && !value.is_empty());
    if !has("mysql_ssl") {
        let mode = if has("mysql_ssl_ca") { Some("verify_ca") } else { has("mysql_ssl_cert").then_some("required") };
        found.extend(mode.map(|mode| ("mysql_ssl", mode.to_owned())));
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
        return Err(failed("too deeply nested !include".to_owned()));
    }
    let text = read_text(path).map_err(|error| failed(error.to_string()))?;
    let mut wanted = false;
    for line in text.lines().map(str::trim) {
        if let Some(file) = line.strip_prefix("!include ") {
            read_file(&path.with_file_name("").join(file.trim()), depth + 1, found)?;
        } else if let Some(folder) = line.strip_prefix("!includedir") {
            for file in cnf_files(&path.with_file_name("").join(folder.trim())) {
                read_file(&file, depth + 1, found)?;
            }
        } else if let Some((group, _)) = line.strip_prefix('[').and_then(|line| line.split_once(']')) {
            wanted = GROUPS.contains(&group.trim());
        } else if wanted && !line.starts_with(['#', ';']) {
            found.extend(my_cnf_option(line));
        }
    }
    Ok(())
}

fn read_text(path: &Path) -> std::io::Result<String> {
    Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())
}

fn cnf_files(folder: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = paths.filter(|path| path.extension().is_some_and(|extension| extension == "cnf")).collect();
    files.sort();
    files
}

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
    let unquoted = ['"', '\''].iter().find_map(|&quote| value.strip_prefix(quote)?.strip_suffix(quote));
    let value = unquoted.unwrap_or_else(|| value_of(value));
    Some((name, if name == "mysql_ssl" { value.to_ascii_lowercase() } else { value.to_owned() }))
}

/// Names and values in file order. Empty lines and those that begin with `#` are skipped; values may be quoted.
pub(crate) fn config_file(path: &Path, strict: bool) -> Result<Vec<(String, String)>, String> {
    let text = match read_text(path) {
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
        match line.split_once('=') {
            Some((name, value)) => {
                let name = name.trim().trim_start_matches("--").replace('-', "_");
                options.push((name, value_of(value).to_owned()));
            }
            None if strict => return Err((index + 1, format!("{line:?} is not name=value"))),
            None => {}
        }
    }
    Ok(options)
}

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
#[path = "../tests/unit/option_files.rs"]
mod tests;
