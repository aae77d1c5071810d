//! Tests of `src/server.rs`.

use super::*;

fn line(words: &str) -> CommandLine {
    let arguments: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    CommandLine::parse(&arguments).expect("well formed")
}

fn endpoints(words: &str) -> Vec<String> {
    endpoints_with_file(words, &[])
}

fn endpoints_with_file(words: &str, my_cnf: &[(&'static str, &str)]) -> Vec<String> {
    let options = MySqlOptions {
        line: &line(words),
        my_cnf: my_cnf.iter().map(|&(name, value)| (name, value.to_owned())).collect(),
    };
    let endpoints = options.endpoints().expect("fine");
    endpoints.iter().map(ToString::to_string).collect()
}

#[test]
fn ports_vary_fastest_and_sockets_override_hosts() {
    assert_eq!(endpoints("--mysql-host=a,b --mysql-port=1,2"), ["a:1", "a:2", "b:1", "b:2"]);
    assert_eq!(endpoints("--mysql-host=a --mysql-socket=/x,/y"), ["socket /x", "socket /y"]);
}

#[test]
fn localhost_is_a_socket_unless_another_port_is_asked_for() {
    assert!(endpoints("run")[0].starts_with("socket /"));
    assert_eq!(endpoints("--mysql-port=3307"), ["localhost:3307"]);
}

#[test]
fn a_host_or_port_option_overrides_the_config_files_socket() {
    let file = [("mysql_socket", "/file.sock"), ("mysql_host", "db1")];
    let endpoints = |words| endpoints_with_file(words, &file);
    assert_eq!(endpoints("run"), ["db1:3306"], "as MySQL's clients do");
    assert_eq!(endpoints_with_file("run", &file[..1]), ["socket /file.sock"]);
    assert_eq!(endpoints("--mysql-host=db2"), ["db2:3306"]);
    assert_eq!(endpoints("--mysql-port=3307"), ["db1:3307"]);
    assert_eq!(
        endpoints("--mysql-host=localhost"),
        ["socket /file.sock"],
        "where the file says that this server's socket is"
    );
    let with_port = [("mysql_socket", "/file.sock"), ("mysql_port", "3307")];
    let endpoints_of_both = |words| endpoints_with_file(words, &with_port);
    assert_eq!(endpoints_of_both("--mysql-host=localhost"), ["socket /file.sock"]);
    assert_eq!(endpoints_of_both("--mysql-host=localhost --mysql-port=3308"), ["localhost:3308"]);
    assert_ne!(
        endpoints_of_both("--mysql-host=localhost --mysql-port=3306"),
        ["socket /file.sock"],
        "the file's server listens on another port"
    );
    assert_eq!(endpoints("--mysql-host=db2 --mysql-socket=/line.sock"), ["socket /line.sock"]);
}

#[test]
fn tls_options_of_both_dialects_are_understood() {
    let mode = |words: &str| MySqlOptions::read(&line(words)).and_then(|options| options.tls()).map(|tls| tls.mode);
    assert_eq!(mode("run"), Ok(TlsMode::Disabled));
    assert_eq!(mode("--mysql-ssl=on"), Ok(TlsMode::Required));
    assert_eq!(mode("--mysql-ssl=on --mysql-ssl-ca=/ca.pem"), Ok(TlsMode::VerifyCa));
    assert_eq!(mode("--mysql-ssl=preferred"), Ok(TlsMode::Preferred));
    assert!(mode("--mysql-ssl=verify_ca").is_err());
}

#[test]
fn unsupported_options_are_refused() {
    for words in ["--mysql-compression=on", "--mysql-ssl-cipher=x"] {
        let line = line(words);
        let refused = MySqlOptions::read(&line).and_then(|options| options.check());
        assert!(refused.is_err(), "{words}");
    }
    let line = line("--mysql-compression=off --pgsql-host=x");
    assert_eq!(MySqlOptions::read(&line).and_then(|options| options.check()), Ok(()));
}

#[test]
fn an_empty_host_or_unknown_ps_mode_fails_the_driver() {
    let failure = |words: &str| MySqlOptions::read(&line(words)).expect("fine").driver_failure();
    assert_eq!(failure("run"), None);
    assert!(failure("--mysql-host=").is_some());
    assert_eq!(failure("--mysql-host= --mysql-socket=/x"), None);
    assert!(failure("--db-ps-mode=maybe").is_some());
}

#[test]
fn numbers_are_parsed_up_to_the_first_non_digit() {
    assert_eq!(endpoints("--mysql-host=a --mysql-port=1x,x"), ["a:1", "a:0"]);
    let ignored = |words: &str| MySqlOptions::read(&line(words)).and_then(|options| options.ignored_errors());
    assert_eq!(ignored("--mysql-ignore-errors=x,1062y"), Ok(IgnoreErrors::Codes(vec![0, 1062])));
    assert!(ignored("--strict --mysql-ignore-errors=x").is_err());
}
