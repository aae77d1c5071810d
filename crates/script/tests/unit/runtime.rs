//! Tests of `src/runtime.rs`.

use mlua::Lua;

use crate::runtime::{DebugInfo, load_chunk};

#[test]
fn cached_scripts_keep_line_numbers_in_errors() {
    let text = b"#!/usr/bin/env sysbench\nlocal answer = ...\nerror('no ' .. answer)";
    for _ in 0..3 {
        let lua = Lua::new();
        let body = load_chunk(&lua, "@shop.lua", text, DebugInfo::Kept).unwrap();
        let error = body.call::<()>(42).unwrap_err().to_string();
        assert!(error.contains("shop.lua:3: no 42"), "{error}");
    }
}

#[test]
fn files_with_equal_names_and_different_texts_are_not_confused() {
    let answer = |text: &[u8]| {
        let lua = Lua::new();
        let body = load_chunk(&lua, "@a.lua", text, DebugInfo::Stripped).unwrap();
        body.call::<i64>(()).unwrap()
    };
    assert_eq!([answer(b"return 1"), answer(b"return 2"), answer(b"return 1")], [1, 2, 1]);
}
