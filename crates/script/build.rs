//! Test programs of this crate export their C symbols, so that `ffi.C` finds them; a library cannot ask that for its user.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg=-rdynamic");
}
