//! The drop-in for sysbench in a build without optimisation, whose stack frames are the largest.

use std::process::Command;

#[test]
fn the_interval_log_fits_the_reporters_stack() {
    let log = concat!(env!("CARGO_TARGET_TMPDIR"), "/interval.log");
    let ran = Command::new(env!("CARGO_BIN_EXE_bakeoff-engine"))
        .args(["sysbench", "cpu", "--time=1", "--cpu-max-prime=100"])
        .arg(format!("--hdr-log={log}"))
        .arg("run")
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let lines = std::fs::read_to_string(log).unwrap();
    assert!(lines.lines().any(|line| line.contains(",HISTF")), "{lines}");
}
