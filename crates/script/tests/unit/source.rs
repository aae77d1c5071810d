//! Tests of `src/source.rs`.

use std::io::Write;
use std::os::fd::AsRawFd;

use super::*;

#[test]
fn bundled_names_are_workloads_that_load() {
    assert!(bundled_names().contains(&"oltp_point_select"));
    assert!(!bundled_names().contains(&"oltp_common"));
    assert!(bundled_names().contains(&"tpcc"));
    assert!(!bundled_names().contains(&"tpcc_load"));
    assert_eq!(find("oltp_read_only").map(|source| source.chunk_name), Ok("@oltp_read_only.lua".to_owned()));
}

#[test]
fn a_typo_gets_a_suggestion() {
    let error = find("oltp_readonly").expect_err("no such script");
    assert_eq!(
        error.to_string(),
        "script oltp_readonly: no bundled script and no file has this name. Did you mean oltp_read_only?"
    );
}

#[test]
fn a_script_may_be_a_pipe_and_read_errors_give_the_reason() {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(b"x = 1").expect("room in the pipe");
    drop(writer);
    let found = find_on_path(&format!("/dev/fd/{}", reader.as_raw_fd()));
    assert_eq!(found.map(|source| source.text), Ok(b"x = 1".to_vec()));

    let error = find_on_path("/proc/self/mem").expect_err("nothing at address 0");
    let words = error.to_string();
    assert!(words.starts_with("/proc/self/mem cannot be read: Input/output error"), "{words}");
}

#[test]
fn a_request_cannot_name_standard_input_as_its_script() {
    assert!(matches!(find("-"), Err(ScriptError::NotFound { .. })));
}

#[test]
fn two_semicolons_in_lua_path_insert_the_default() {
    assert_eq!(with_default(Some("/a/?.lua;;".into()), "D"), "/a/?.lua;D");
    assert_eq!(with_default(Some("/a/?.lua".into()), "D"), "/a/?.lua");
    assert_eq!(with_default(None, "D"), "D");
}
