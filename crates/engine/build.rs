//! The engine exports its C symbols, so that scripts reach them through LuaJIT's `ffi.C`, as sysbench's scripts do.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg=-rdynamic");
}
