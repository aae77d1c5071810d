//! Tests of `src/option_files.rs`.

use super::*;

#[test]
fn only_client_groups_of_my_cnf_are_read() {
    let folder = std::env::temp_dir().join(format!("bakeoff-my-cnf-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("more.cnf"), "[client]\nuser = bench\n").expect("written");
    let main = folder.join("main.cnf");
    std::fs::write(&main, "[mysqld]\nport=1\n[client]\nport = 3307\n# no\nssl-mode=REQUIRED\npassword='a b'\nbinary-mode\n!include more.cnf\n")
            .expect("written");
    let read = my_cnf(&main.display().to_string());
    let _ = std::fs::remove_dir_all(&folder);
    let expected =
        [("mysql_port", "3307"), ("mysql_ssl", "required"), ("mysql_password", "a b"), ("mysql_user", "bench")];
    assert_eq!(read, Ok(expected.map(|(name, value)| (name, value.to_owned())).to_vec()));
}

#[test]
fn trailing_comments_in_my_cnf_are_ignored() {
    let option = |line| my_cnf_option(line).map(|(_, value)| value);
    assert_eq!(option("user = app # of the shop").as_deref(), Some("app"));
    assert_eq!(option("password = 'a # b' # quoted").as_deref(), Some("a # b"));
    assert_eq!(option("password = a#b").as_deref(), Some("a#b"));
    let file = std::env::temp_dir().join(format!("bakeoff-my-cnf-{}.cnf", std::process::id()));
    std::fs::write(&file, "[client] # all\nuser=app\n[mysqld] # the server\nuser=mysql\n").expect("written");
    let read = my_cnf(&file.display().to_string());
    let _ = std::fs::remove_file(&file);
    assert_eq!(read, Ok(vec![("mysql_user", "app".to_owned())]));
}

#[test]
fn certificate_options_imply_a_tls_mode() {
    let file = std::env::temp_dir().join(format!("bakeoff-my-cnf-tls-{}.cnf", std::process::id()));
    let mode = |lines: &str| {
        std::fs::write(&file, format!("[client]\n{lines}\n")).expect("written");
        let read = my_cnf(&file.display().to_string()).expect("read");
        read.into_iter().find(|(name, _)| *name == "mysql_ssl").map(|(_, value)| value)
    };
    assert_eq!(mode("ssl-ca=/ca.pem").as_deref(), Some("verify_ca"));
    assert_eq!(mode("ssl-cert=/c.pem\nssl-key=/k.pem").as_deref(), Some("required"));
    assert_eq!(mode("ssl-ca=/ca.pem\nssl-mode=DISABLED").as_deref(), Some("disabled"));
    assert_eq!(mode("user=app"), None);
    let _ = std::fs::remove_file(&file);
}

#[test]
fn a_missing_file_is_named_in_the_error() {
    let error = my_cnf("/nowhere/my.cnf").expect_err("not there");
    assert!(error.starts_with("--my-cnf /nowhere/my.cnf: "), "{error}");
}

#[test]
fn comments_quotes_lists_and_spaces_are_parsed() {
    let text =
        "# all\n\nthreads=3\nreport-interval = 1\nmysql-password=\"a # b\"\nmysql-port=1,2 # two\nhistogram=off\n";
    let expected = [
        ("threads", "3"),
        ("report_interval", "1"),
        ("mysql_password", "a # b"),
        ("mysql_port", "1,2"),
        ("histogram", "off"),
    ];
    let read = parse(text, true).expect("fine");
    let read: Vec<_> = read.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(read, expected);
}

#[test]
fn a_line_without_a_value_is_an_error_if_strict() {
    assert_eq!(parse("threads=1\nnonsense\n", true), Err((2, "\"nonsense\" is not name=value".to_owned())));
    assert_eq!(parse("threads=1\nnonsense\n", false).expect("as sysbench").len(), 1);
}
