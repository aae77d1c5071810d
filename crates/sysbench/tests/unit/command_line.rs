//! Tests of `src/command_line.rs`.

use super::*;

fn parse(words: &str) -> Result<CommandLine, String> {
    let arguments: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    CommandLine::parse(&arguments).and_then(|mut line| line.mistake.take().map_or(Ok(line), Err))
}

#[test]
fn options_may_appear_anywhere_in_either_spelling() {
    let line = parse("--threads=4 oltp_read_only --report_interval=2 --tables=3 run --mysql-port=1,2").expect("fine");
    assert_eq!((line.int("threads"), line.int("report_interval")), (4, 2));
    assert_eq!(line.list("mysql_port"), ["1", "2"]);
    assert_eq!((line.test.as_deref(), line.command.as_deref()), (Some("oltp_read_only"), Some("run")));
    assert_eq!(line.others, [("tables".to_owned(), Some("3".to_owned()))]);
}

#[test]
fn an_option_never_consumes_the_next_word() {
    let line = parse("--events --mysql-password cpu run --debug").expect("fine");
    assert_eq!((line.int("events"), line.text("mysql_password")), (0, ""));
    assert_eq!((line.test.as_deref(), line.command.as_deref()), (Some("cpu"), Some("run")));
    assert!(line.is_on("debug"));
    for strict in ["--strict", "--strict=on", "--strict=off --strict=true", "--strict=1 --strict-word=a"] {
        assert!(parse(&format!("{strict} --events cpu run")).is_err(), "{strict}");
    }
    assert!(parse("--strict --strict=0 --events cpu run").is_ok());
}

#[test]
fn the_old_test_option_names_the_test() {
    let line = parse("--test=old.lua --num-threads=2 prepare").expect("fine");
    assert_eq!((line.test.as_deref(), line.command.as_deref()), (Some("old.lua"), Some("prepare")));
}

#[test]
fn size_suffixes_scale_and_invalid_values_are_refused() {
    assert_eq!(parse("--thread-stack-size=1m").expect("fine").int("thread_stack_size"), 1 << 20);
    assert_eq!(parse("--time=1.5").expect_err("no"), "Invalid value for the 'time' option: '1.5'");
    for flag in ["--debug=maybe", "--debug=", "--mysql-ssl=maybe"] {
        assert!(parse(flag).expect("reported later").bad_flag.is_some(), "{flag}");
    }
    assert_eq!(parse("a run x").expect_err("no"), "Unrecognized command line argument: x");
}
