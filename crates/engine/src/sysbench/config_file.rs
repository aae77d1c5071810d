//! `--config-file`: options in a file, one `name=value` a line.
//!
//! sysbench reads `flag=off` as on, takes no line of 256 bytes and silently forgets an option with a space before its `=`; here
//! all three mean what they say.

use std::path::Path;

/// Names and values in the order of the file. Empty lines and those that begin with `#` are skipped; values may be quoted.
///
/// # Errors
/// One line: the file cannot be read, or a line has no `=`.
pub(super) fn read(path: &Path) -> Result<Vec<(String, String)>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("--config-file {}: {error}", path.display()))?;
    parse(&text).map_err(|(line, words)| format!("{}:{line}: {words}", path.display()))
}

fn parse(text: &str) -> Result<Vec<(String, String)>, (usize, String)> {
    let mut options = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, value)) = line.split_once('=') else {
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
        if let Some((quoted, _)) = value
            .strip_prefix(quote)
            .and_then(|inner| inner.split_once(quote))
        {
            return quoted;
        }
    }
    value
        .split_once(" #")
        .map_or(value, |(before, _)| before.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_quotes_lists_and_spaces() {
        let text = "# all\n\nthreads=3\nreport-interval = 1\nmysql-password=\"a # b\"\nmysql-port=1,2 # two\nhistogram=off\n";
        let expected = [
            ("threads", "3"),
            ("report_interval", "1"),
            ("mysql_password", "a # b"),
            ("mysql_port", "1,2"),
            ("histogram", "off"),
        ];
        let read = parse(text).expect("fine");
        let read: Vec<_> = read
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(read, expected);
    }

    #[test]
    fn a_line_without_a_value_is_named() {
        assert_eq!(
            parse("threads=1\nnonsense\n"),
            Err((2, "\"nonsense\" is not name=value".to_owned()))
        );
    }
}
