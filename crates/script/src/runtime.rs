//! Lua states with sysbench's API in them: compiling files, building a state, and values between Rust and Lua.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use mlua::chunk::ChunkMode;
use mlua::{Function, IntoLua, Lua, LuaOptions, LuaString, StdLib, Table, Value};

use crate::error::ScriptError;
use crate::options::{OptionDecl, OptionType, OptionValue, Settings};
use crate::source::{ScriptSource, bundled_text, package_cpath, package_path};
use crate::symbols;

pub(crate) const REGISTRY_NAME: &str = "bakeoff.runtime";

macro_rules! embedded {
    ($($name:literal),* $(,)?) => { &[$((concat!("@", $name), include_str!(concat!("lua/", $name)))),*] };
}

const FILES: &[(&str, &str)] = embedded! {
    "sysbench.lua", "sysbench_output.lua", "sysbench_events.lua", "sysbench_rand.lua", "sysbench_histogram.lua",
    "sysbench_sql.lua", "bakeoff_text.lua", "sysbench_cmdline.lua", "sysbench_report.lua", "sysbench_legacy.lua",
};

pub(crate) fn new_state(source: &ScriptSource, settings: &Settings, thread: u32) -> Result<Lua, ScriptError> {
    // SAFETY: scripts are as trusted as the person who runs them: sysbench's scripts call C through `ffi`. With
    // `catch_rust_panics` false, mlua replaces pcall and xpcall by C functions, at which every trace ends.
    let lua = unsafe { Lua::unsafe_new_with(StdLib::ALL, LuaOptions::new().catch_rust_panics(true)) };
    let package: Table = lua.globals().get("package")?;
    package.set("path", package_path())?;
    package.set("cpath", package_cpath())?;
    let loaders: Table = package.get("loaders")?;
    loaders.push(lua.create_function(|lua, name: String| match bundled_text(&name) {
        Some(text) => {
            let chunk_name = format!("@{name}.lua");
            load_chunk(lua, &chunk_name, text.as_bytes(), DebugInfo::Kept).map(Value::Function)
        }
        None => Ok(Value::String(lua.create_string(format!("\n\tno bundled module '{name}'"))?)),
    })?)?;

    let runtime = lua.create_table()?;
    runtime.set("cdef", symbols::DECLARATIONS)?;
    runtime.set("tid", thread)?;
    runtime.set("threads", settings.threads)?;
    runtime.set("seed", settings.seed as f64)?;
    runtime.set("script_path", source.name.as_str())?;
    runtime.set("command_name", settings.command.as_deref())?;
    let argv = lua.create_table_from(settings.argv.iter().map(String::as_str).enumerate())?;
    if settings.argv.is_empty() {
        argv.raw_set(0, "sysbench")?;
    }
    runtime.set("argv", argv)?;
    lua.set_named_registry_value(REGISTRY_NAME, &runtime)?;
    for (chunk_name, text) in FILES {
        load_chunk(&lua, chunk_name, text.as_bytes(), DebugInfo::Stripped)?.call::<()>(&runtime)?;
    }
    Ok(lua)
}

pub fn luajit_version() -> String {
    let version = || Lua::new().globals().get::<Table>("jit")?.get("version");
    version().unwrap_or_else(|_: mlua::Error| "LuaJIT 2.1".to_owned())
}

pub(crate) fn ask(runtime: &Table, question: &str) -> Result<bool, ScriptError> {
    Ok(runtime.get::<Function>(question)?.call(())?)
}

/// sysbench's prefix for errors in a script's table of options.
const READING: &str = "`sysbench.cmdline.read_cmdline_options' function failed:";

pub(crate) fn declared_options(runtime: &Table) -> Result<Vec<OptionDecl>, ScriptError> {
    let (list, wrong): (Option<Vec<Table>>, Option<String>) = runtime.get::<Function>("declared_options")?.call(())?;
    let list = list.ok_or_else(|| mlua::Error::runtime(format!("{READING} {}", wrong.unwrap_or_default())))?;
    Ok(list.iter().map(option_decl).collect::<mlua::Result<_>>()?)
}

fn option_decl(table: &Table) -> mlua::Result<OptionDecl> {
    let name = text(table, "name")?;
    let kind: Value = table.get("kind")?;
    let number = kind.as_i64().or_else(|| kind.as_f64().map(|number| number as i64));
    let number = number.and_then(|number| i32::try_from(number).ok());
    let kind = number.and_then(OptionType::from_repr).ok_or_else(|| {
        let kind = kind.to_string().unwrap_or_default();
        mlua::Error::runtime(format!("{READING} option {name}: {kind} is not a type (sysbench.cmdline.ARG_…)"))
    })?;
    let default = match table.get::<Value>("default")? {
        Value::Nil => None,
        Value::Boolean(value) => Some(OptionValue::Bool(value)),
        Value::Integer(number) => Some(OptionValue::Int(number)),
        Value::Number(number) => Some(OptionValue::Double(number)),
        Value::Table(items) => Some(OptionValue::List(
            items
                .sequence_values::<LuaString>()
                .map(|item| Ok(item?.to_string_lossy()))
                .collect::<mlua::Result<_>>()?,
        )),
        Value::String(text) => Some(OptionValue::Text(text.to_string_lossy())),
        other => Some(OptionValue::Text(other.to_string()?)),
    };
    Ok(OptionDecl { name, written: text(table, "written")?, description: text(table, "description")?, default, kind })
}

fn text(table: &Table, field: &str) -> mlua::Result<String> {
    Ok(table.get::<LuaString>(field)?.to_string_lossy())
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandDecl {
    pub name: String,
    pub parallel: bool,
}

pub(crate) fn commands(runtime: &Table) -> Result<Vec<CommandDecl>, ScriptError> {
    let list: Vec<Table> = runtime.get::<Function>("commands")?.call(())?;
    let decl = |table: &Table| Ok(CommandDecl { name: text(table, "name")?, parallel: table.get("parallel")? });
    list.iter().map(decl).collect()
}

pub(crate) fn validate(
    runtime: &Table,
    decl: &OptionDecl,
    given: &OptionValue,
    value: &OptionValue,
) -> Result<(), ScriptError> {
    let check: Function = runtime.get("validate")?;
    let accepts: bool = check.call((decl.name.as_str(), given.to_text(), value.clone()))?;
    if accepts { Ok(()) } else { Err(decl.bad(given, "a value that the script's own check accepts")) }
}

impl IntoLua for OptionValue {
    fn into_lua(self, lua: &Lua) -> mlua::Result<Value> {
        match self {
            Self::Bool(value) => Ok(Value::Boolean(value)),
            Self::Int(number) => Ok(Value::Number(number as f64)),
            Self::Double(number) => Ok(Value::Number(number)),
            Self::Text(text) => text.into_lua(lua),
            Self::List(items) => items.into_lua(lua),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DebugInfo {
    Kept,
    Stripped,
}

type Compiled = HashMap<(String, Vec<u8>), Arc<[u8]>>;

static COMPILED: LazyLock<Mutex<Compiled>> = LazyLock::new(Mutex::default);

/// Returns the file's body as a function, compiled once per process: thousands of workers load the same few files. A
/// first line that starts with `#` is for the shell. `text` may be bytecode.
pub(crate) fn load_chunk(lua: &Lua, chunk_name: &str, text: &[u8], debug_info: DebugInfo) -> mlua::Result<Function> {
    let key = (chunk_name.to_owned(), text.to_vec());
    let known = COMPILED.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
    if let Some(bytecode) = known {
        return lua.load(&*bytecode).set_name(chunk_name).set_mode(ChunkMode::Binary).into_function();
    }
    let comment: &[u8] = if text.starts_with(b"#") { b"--" } else { b"" };
    let function = lua.load([comment, text].concat()).set_name(chunk_name).into_function()?;
    let bytecode = function.dump(debug_info == DebugInfo::Stripped);
    COMPILED.lock().unwrap_or_else(PoisonError::into_inner).insert(key, bytecode.into());
    Ok(function)
}
