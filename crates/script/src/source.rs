//! Where a script's text comes from: bundled into the program, a file, standard input, or given inline.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::{ScriptError, nearest};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptSource {
    pub name: String,
    pub chunk_name: String,
    pub text: Vec<u8>,
}

macro_rules! bundled {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../python/bakeoff/workloads/", $name, ".lua")))),*]
    };
}

/// Modules and workloads that `require` finds in the program itself.
const BUNDLED: &[(&str, &str)] = bundled! {
    "oltp_common", "oltp_delete", "oltp_insert", "oltp_micro", "oltp_point_select", "oltp_read_only", "oltp_read_write",
    "oltp_update_index", "oltp_update_non_index", "oltp_write_only", "select_random_points", "select_random_ranges",
    "bulk_insert", "tpcc", "tpcc_bound_rows", "tpcc_check", "tpcc_host", "tpcc_load", "tpcc_money", "tpcc_multi",
    "tpcc_options", "tpcc_random", "tpcc_report", "tpcc_rows", "tpcc_schema", "tpcc_statements", "tpcc_terminal", "tpcc_text",
    "tpcc_transactions",
};

pub(crate) fn bundled_text(name: &str) -> Option<&'static str> {
    BUNDLED.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

pub fn bundled_names() -> Vec<&'static str> {
    BUNDLED.iter().map(|(name, _)| *name).filter(|name| *name != "oltp_common" && !name.starts_with("tpcc_")).collect()
}

impl ScriptSource {
    pub fn inline(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), chunk_name: format!("@{name}"), text: text.as_bytes().to_vec() }
    }

    fn bundled(name: &str) -> Option<Self> {
        Some(Self { chunk_name: format!("@{name}.lua"), ..Self::inline(name, bundled_text(name)?) })
    }

    fn file(path: &Path) -> Result<Self, ScriptError> {
        let name = path.display().to_string();
        let text = std::fs::read(path).map_err(|error| unreadable(&name, &error))?;
        Ok(Self { chunk_name: format!("@{name}"), name, text })
    }

    fn stdin() -> Result<Self, ScriptError> {
        let mut text = Vec::new();
        io::stdin().lock().read_to_end(&mut text).map_err(|error| unreadable("standard input", &error))?;
        Ok(Self { name: "stdin".to_owned(), chunk_name: "=stdin".to_owned(), text })
    }
}

/// Finds a bundled workload, then a file. Pipes and standard input are refused: a script is read more than once.
pub fn find(name: &str) -> Result<ScriptSource, ScriptError> {
    let path = Path::new(name);
    match ScriptSource::bundled(name) {
        Some(bundled) => Ok(bundled),
        None if path.is_file() => ScriptSource::file(path),
        None => Err(not_found(name)),
    }
}

/// Finds a script as `sysbench NAME` does: a file or pipe, then `NAME.lua` along Lua's `package.path`, then a bundled
/// workload. `-` is standard input.
pub fn find_on_path(name: &str) -> Result<ScriptSource, ScriptError> {
    if name == "-" {
        return ScriptSource::stdin();
    }
    let path = PathBuf::from(name);
    let path = (path.exists() && !path.is_dir()).then_some(path).or_else(|| search_path(name));
    match path {
        Some(path) => Ok(ScriptSource { name: name.to_owned(), ..ScriptSource::file(&path)? }),
        None => ScriptSource::bundled(name).ok_or_else(|| not_found(name)),
    }
}

fn unreadable(name: &str, error: &io::Error) -> ScriptError {
    ScriptError::Lua { message: format!("{name} cannot be read: {error}"), traceback: String::new() }
}

fn not_found(name: &str) -> ScriptError {
    let plain = name.trim_start_matches("./").trim_end_matches(".lua");
    ScriptError::NotFound { name: name.to_owned(), suggestion: nearest(plain, bundled_names()) }
}

fn search_path(name: &str) -> Option<PathBuf> {
    let file = name.replace('.', "/");
    package_path()
        .split(';')
        .filter(|template| !template.is_empty())
        .map(|template| PathBuf::from(template.replace('?', &file)))
        .find(|path| path.is_file())
}

/// sysbench's `package.path` and `package.cpath`, with `~` for the home directory.
const LUA_PATH: &str = "./?.lua;./?/init.lua;./src/lua/?.lua;\
    ~/.luarocks/share/lua/5.1/?.lua;~/.luarocks/share/lua/5.1/?/init.lua;\
    ~/.luarocks/share/lua/?.lua;~/.luarocks/share/lua/?/init.lua;\
    /usr/local/share/lua/5.1/?.lua;/usr/share/lua/5.1/?.lua";
const LUA_CPATH: &str = "./?.so;~/.luarocks/lib/lua/5.1/?.so;~/.luarocks/lib/lua/?.so;\
    /usr/local/lib/lua/5.1/?.so;/usr/lib/lua/5.1/?.so";

pub fn package_path() -> String {
    with_default(std::env::var("LUA_PATH").ok(), LUA_PATH)
}

pub fn package_cpath() -> String {
    with_default(std::env::var("LUA_CPATH").ok(), LUA_CPATH)
}

/// In a given list, `;;` stands for the default.
fn with_default(given: Option<String>, default: &str) -> String {
    let default = default.replace('~', &std::env::var("HOME").unwrap_or_default());
    match given {
        Some(path) => path.replace(";;", &format!(";{default};")).trim_matches(';').to_owned(),
        None => default,
    }
}

#[cfg(test)]
#[path = "../tests/unit/source.rs"]
mod tests;
