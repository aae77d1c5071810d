//! Tests of `src/freeze.rs`.

use super::*;
use std::process::{Child, Command};

struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        Self(Command::new("sleep").arg("60").spawn().unwrap())
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn freezes_thaws_and_thaws_again_when_dropped() {
    let sleeper = Sleeper::new();
    let mut freezer = Freezer::default();
    freezer.freeze(sleeper.pid()).unwrap();
    assert_eq!(is_stopped(sleeper.pid()), Some(true));
    freezer.thaw(sleeper.pid());
    assert_eq!(is_stopped(sleeper.pid()), Some(false));
    freezer.freeze(sleeper.pid()).unwrap();
    freezer.freeze(sleeper.pid()).unwrap();
    drop(freezer);
    assert_eq!(is_stopped(sleeper.pid()), Some(false));
    assert!(FROZEN.iter().all(|place| place.load(SeqCst) != sleeper.pid()));
}

#[test]
fn a_panic_thaws() {
    let sleeper = Sleeper::new();
    let pid = sleeper.pid();
    let result = std::thread::spawn(move || {
        let mut freezer = Freezer::default();
        freezer.freeze(pid).unwrap();
        panic!("on purpose");
    })
    .join();
    assert!(result.is_err());
    assert_eq!(is_stopped(pid), Some(false));
}

#[test]
fn freezing_a_missing_process_is_an_error() {
    let mut sleeper = Sleeper::new();
    let pid = sleeper.pid();
    sleeper.0.kill().unwrap();
    sleeper.0.wait().unwrap();
    let error = Freezer::default().freeze(pid).unwrap_err();
    assert!(error.contains("cannot be stopped"), "{error}");
}
