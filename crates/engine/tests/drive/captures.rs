//! What `capture` and `head` print of files, and how they end.

use std::path::PathBuf;
use std::process::{Command, Stdio};

fn engine(mode: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff-engine"));
    command.arg(mode);
    command
}

fn file(name: &str) -> PathBuf {
    [env!("CARGO_TARGET_TMPDIR"), name].iter().collect()
}

#[test]
fn the_events_of_a_damaged_capture_end_in_an_error() {
    let (log, whole, cut) = (file("damaged.sql"), file("whole.capture"), file("cut.capture"));
    let random =
        |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let text: String = (1..20_000).map(|number| format!("SELECT '{:x}';\n", random(number))).collect();
    std::fs::write(&log, text).unwrap();
    let job = bakeoff_capture::CaptureJob { logs: vec![log], output: whole.clone(), ..Default::default() };
    bakeoff_capture::capture(&job, &bakeoff_capture::ReadProgress::default()).unwrap();
    let bytes = std::fs::read(&whole).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let events = |path: &PathBuf| engine("capture").arg("--events").arg(path).output().unwrap();
    assert!(events(&whole).status.success());
    let found = events(&cut);
    assert!(!found.stdout.is_empty());
    assert_eq!(found.status.code(), Some(2), "{}", String::from_utf8_lossy(&found.stderr));
}

#[test]
fn a_closed_pipe_is_not_an_unreadable_file() {
    let path = file("long.txt");
    std::fs::write(&path, vec![b'x'; 1 << 20]).unwrap();
    let mut head = engine("head").arg(&path).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(head.stdout.take());
    let ended = head.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}
