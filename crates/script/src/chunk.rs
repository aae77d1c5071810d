//! Lua files as functions: parsed once in a process, loaded from bytecode by every later state.
//!
//! Thousands of workers load the same few files, each into a state of its own; parsing was a quarter of the time that a load took,
//! and what it left behind a third of the memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use mlua::chunk::ChunkMode;
use mlua::{Function, Lua};

/// What becomes of line numbers and names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum DebugInfo {
    /// For a person's script: its errors name their lines.
    Kept,
    /// For our own files, which nobody debugs by a script's traceback: a third smaller.
    Stripped,
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    chunk_name: String,
    text: Vec<u8>,
}

/// Bytecode of every file that this process has loaded.
static COMPILED: OnceLock<Mutex<HashMap<Key, Arc<[u8]>>>> = OnceLock::new();

/// The file's body as a function. A first line that starts with `#` is for the shell; `text` may be bytecode.
///
/// # Errors
/// Of syntax; bytecode of another version.
pub(crate) fn load_chunk(
    lua: &Lua,
    chunk_name: &str,
    text: &[u8],
    debug_info: DebugInfo,
) -> mlua::Result<Function> {
    let compiled = COMPILED.get_or_init(Mutex::default);
    let key = Key {
        chunk_name: chunk_name.to_owned(),
        text: text.to_vec(),
    };
    let known = compiled
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(&key)
        .cloned();
    if let Some(bytecode) = known {
        return lua
            .load(&*bytecode)
            .set_name(chunk_name)
            .set_mode(ChunkMode::Binary)
            .into_function();
    }
    let function = parse(lua, chunk_name, text)?;
    let bytecode = function.dump(debug_info == DebugInfo::Stripped);
    compiled
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(key, bytecode.into());
    Ok(function)
}

fn parse(lua: &Lua, chunk_name: &str, text: &[u8]) -> mlua::Result<Function> {
    let commented;
    let text = if text.starts_with(b"#") {
        commented = [b"--", text].concat();
        &commented
    } else {
        text
    };
    lua.load(text).set_name(chunk_name).into_function()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_gets_the_same_function_and_a_script_s_errors_keep_their_lines() {
        let text = b"#!/usr/bin/env sysbench\nlocal answer = ...\nerror('no ' .. answer)";
        for _ in 0..3 {
            let lua = Lua::new();
            let body = load_chunk(&lua, "@shop.lua", text, DebugInfo::Kept).unwrap();
            let error = body.call::<()>(42).unwrap_err().to_string();
            assert!(error.contains("shop.lua:3: no 42"), "{error}");
        }
    }

    #[test]
    fn files_of_one_name_and_other_texts_are_other_files() {
        let answer = |text: &[u8]| {
            let lua = Lua::new();
            let body = load_chunk(&lua, "@a.lua", text, DebugInfo::Stripped).unwrap();
            body.call::<i64>(()).unwrap()
        };
        assert_eq!(
            [
                answer(b"return 1"),
                answer(b"return 2"),
                answer(b"return 1")
            ],
            [1, 2, 1]
        );
    }
}
