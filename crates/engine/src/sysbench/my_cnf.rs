//! `--my-cnf`: account, address and TLS from MySQL's own option files.

use std::path::{Path, PathBuf};

/// Files that MySQL's clients read, in their order; `~` is the home directory.
const USUAL: [&str; 3] = ["/etc/my.cnf", "/etc/mysql/my.cnf", "~/.my.cnf"];
/// Groups that are read; a later line wins over an earlier one.
const GROUPS: [&str; 4] = ["client", "client-server", "mysql", "sysbench"];
/// How deep `!include` may go.
const DEEPEST: u32 = 8;

/// Options by their names here, in the order found; a later one wins.
///
/// # Errors
/// One line: the named file, or one that it includes, cannot be read.
pub(super) fn read(path: &str) -> Result<Vec<(&'static str, String)>, String> {
    let mut found = Vec::new();
    if path.is_empty() {
        for path in USUAL
            .iter()
            .map(|path| expand(path))
            .filter(|path| path.is_file())
        {
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

fn read_file(
    path: &Path,
    depth: u32,
    found: &mut Vec<(&'static str, String)>,
) -> Result<(), String> {
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
        } else if let Some(group) = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            wanted = GROUPS.contains(&group.trim());
        } else if wanted && !line.starts_with(['#', ';']) {
            found.extend(option(line));
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
fn option(line: &str) -> Option<(&'static str, String)> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_groups_are_read_and_the_servers_are_not() {
        let folder = std::env::temp_dir().join(format!("bakeoff-my-cnf-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("more.cnf"), "[client]\nuser = bench\n").expect("written");
        let main = folder.join("main.cnf");
        std::fs::write(&main, "[mysqld]\nport=1\n[client]\nport = 3307\n# no\nssl-mode=REQUIRED\npassword='a b'\nbinary-mode\n!include more.cnf\n")
            .expect("written");
        let read = read(&main.display().to_string());
        let _ = std::fs::remove_dir_all(&folder);
        let expected = [
            ("mysql_port", "3307"),
            ("mysql_ssl", "required"),
            ("mysql_password", "a b"),
            ("mysql_user", "bench"),
        ];
        assert_eq!(
            read,
            Ok(expected
                .map(|(name, value)| (name, value.to_owned()))
                .to_vec())
        );
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = read("/nowhere/my.cnf").expect_err("not there");
        assert!(error.starts_with("--my-cnf /nowhere/my.cnf: "), "{error}");
    }
}
