//! Exports the engine's C symbols, which scripts reach through LuaJIT's `ffi.C` as in sysbench, and records
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

/// The last commit that changed the engine's sources, with `+` if they differ from it, or `unknown` outside of git.
/// Other commits do not rebuild the engine, nor does the one that commits what it was built from.
fn commit() -> String {
    let mut sources = vec!["../../Cargo.toml".to_owned(), "../../Cargo.lock".to_owned()];
    let crates = std::fs::read_dir("..").expect("the folder of all crates");
    sources.extend(crates.flatten().map(|each| each.path().join("src").display().to_string()));
    for path in &sources {
        println!("cargo:rerun-if-changed={path}");
    }
    let git = |asked: &[&str]| {
        output("git", &[asked, &["--"], &sources.iter().map(String::as_str).collect::<Vec<_>>()].concat())
    };
    let (last, changed) = (git(&["log", "-1", "--format=%h", "--abbrev=12"]), git(&["status", "--porcelain"]));
    if last == "unknown" || changed == "unknown" { last } else { format!("{last}+") }
}

/// Returns the first line that a program prints, or `unknown` if it cannot be run, fails or prints nothing.
fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success());
    let text = output.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    text.lines().next().filter(|line| !line.is_empty()).unwrap_or("unknown").to_owned()
}
