//! The engine exports its C symbols, so that scripts reach them through LuaJIT's `ffi.C`, as sysbench's scripts do; and it knows
//! how it was built.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg=-rdynamic");
    for (name, value) in [
        ("BAKEOFF_PROFILE", variable("PROFILE")),
        ("BAKEOFF_TARGET", variable("TARGET")),
        ("BAKEOFF_RUSTC", output(&variable("RUSTC"), &["--version"])),
        ("BAKEOFF_COMMIT", commit()),
    ] {
        println!("cargo:rustc-env={name}={value}");
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| "unknown".to_owned())
}

/// The commit that is checked out, with `+` when files of the Rust build differ from it; `unknown` outside of a git tree.
fn commit() -> String {
    let head = output("git", &["rev-parse", "--short=12", "HEAD"]);
    let log = output("git", &["rev-parse", "--git-path", "logs/HEAD"]);
    if log != "unknown" {
        println!("cargo:rerun-if-changed={log}");
    }
    let changed = output("git", &["status", "--porcelain", "--", "..", "../../Cargo.toml", "../../Cargo.lock"]);
    if head == "unknown" || changed == "unknown" { head } else { format!("{head}+") }
}

/// The first line that a program says, or `unknown` when it cannot be run, fails or says nothing.
fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success());
    let text = output.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    text.lines().next().filter(|line| !line.is_empty()).unwrap_or("unknown").to_owned()
}
