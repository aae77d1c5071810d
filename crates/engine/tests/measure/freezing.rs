//! Servers of resting arms are frozen, and all are thawed in the end.

use std::time::Duration;

use bakeoff_engine::arm::OpenArm;
use bakeoff_engine::request::Measure;
use bakeoff_load::failure::{Code, Failure};
use bakeoff_load::host::SliceHost;
use bakeoff_script::host::EventEnd;

use super::world::{arm, cell, events, run, sleeping};

/// A process that plays the server.
struct Sleeper(std::process::Child);

impl Sleeper {
    fn new() -> Self {
        Self(std::process::Command::new("sleep").arg("60").spawn().unwrap())
    }
    fn pid(&self) -> i32 {
        self.0.id().try_into().unwrap()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn is_stopped(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().trim_start().starts_with('T')
}

#[test]
fn only_the_server_under_load_is_awake_and_all_are_thawed_after() {
    let (first, second) = (Sleeper::new(), Sleeper::new());
    let (a, b) = (first.pid(), second.pid());
    let watching = |mine: i32, other: i32| {
        events(move |_: &SliceHost| {
            std::thread::sleep(Duration::from_millis(1));
            assert!(!is_stopped(mine) && is_stopped(other));
            Ok(EventEnd::Done)
        })
    };
    let arms = [OpenArm { server_pid: Some(a), ..arm("A") }, OpenArm { server_pid: Some(b), ..arm("B") }];
    let request = Measure { freeze: true, ..cell(&["A", "B"], 2) };
    let (outcome, said) = run(&request, &arms, &[watching(a, b), watching(b, a)]);
    outcome.unwrap();
    let slices = said.of_type("slice");
    assert_eq!(slices.len(), 8);
    assert!(slices.iter().all(|slice| slice["server_rss_bytes"].as_u64().unwrap() > 0));
    assert!(!is_stopped(a) && !is_stopped(b));

    let failing = events(|_: &SliceHost| Err(Failure::new(Code::SqlError, "no")));
    let (outcome, _) = run(&request, &arms, &[sleeping(1.0), failing]);
    assert_eq!(outcome.unwrap_err().arm.as_deref(), Some("B"));
    assert!(!is_stopped(a) && !is_stopped(b), "a failure thaws too");
}

#[test]
fn freezing_without_a_process_is_refused() {
    let request = Measure { freeze: true, ..cell(&["A"], 1) };
    let (outcome, _) = run(&request, &[arm("A")], &[sleeping(1.0)]);
    assert_eq!(outcome.unwrap_err().code, Code::BadRequest);
}
