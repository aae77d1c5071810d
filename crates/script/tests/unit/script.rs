//! Tests of `src/script.rs`.

use super::*;
use crate::symbols;

#[test]
fn every_symbol_is_declared_exported_and_found_by_lua() {
    let mut script = String::from("local C = ffi.C\n");
    for (name, _) in symbols::ALL.into_iter().flatten() {
        assert!(symbols::DECLARATIONS.contains(&format!("{name}(")), "{name} is not declared");
        script += &format!("assert(C.{name} ~= nil)\n");
    }
    let source = ScriptSource::inline("symbols.lua", &script);
    let host = HostRef::without_events(Rc::new(NullHost));
    Script::load(&source, &Settings::default(), 0, host).expect("all symbols are found");
}
