//! Tests of `src/options.rs`.

use crate::options::{OPTIONS, OptionDecl, OptionType, OptionValue, Settings, general_option, general_values};

fn decl(kind: OptionType, default: Option<OptionValue>) -> OptionDecl {
    OptionDecl { name: "table_size".into(), written: "table-size".into(), description: "Rows".into(), default, kind }
}

fn text(text: &str) -> OptionValue {
    OptionValue::Text(text.to_owned())
}

#[test]
fn a_suffix_scales_every_kind_of_number() {
    assert_eq!(decl(OptionType::Double, None).fit(&text("1M")), Ok(OptionValue::Double(1_048_576.0)));
    assert_eq!(decl(OptionType::Int, None).fit(&text("2k")), Ok(OptionValue::Int(2048)));
    assert_eq!(decl(OptionType::Size, None).fit(&text("1G")), Ok(OptionValue::Int(1 << 30)));
    assert_eq!(decl(OptionType::Double, None).fit(&text("0.5")), Ok(OptionValue::Double(0.5)));
}

#[test]
fn off_is_off_however_it_is_written() {
    for off in ["off", "OFF", "false", "0", "no"] {
        assert_eq!(decl(OptionType::Bool, None).fit(&text(off)), Ok(OptionValue::Bool(false)), "{off}");
    }
    assert_eq!(decl(OptionType::Bool, None).fit(&text("")), Ok(OptionValue::Bool(true)), "--flag alone");
}

#[test]
fn an_invalid_value_says_what_is_accepted() {
    let error = decl(OptionType::Double, None).fit(&text("many")).expect_err("not a number");
    assert_eq!(
        error.to_string(),
        "invalid value for option --table_size: \"many\". It takes a number, with K, M, G or T if need be."
    );
    assert!(decl(OptionType::Int, None).fit(&text("1.5")).is_err());
    assert!(decl(OptionType::Bool, None).fit(&text("maybe")).is_err());
    assert!(decl(OptionType::Double, None).fit(&text("nan")).is_err());
}

#[test]
fn help_shows_form_and_default_under_the_written_name() {
    let help = |kind, default| {
        let (option, words) = decl(kind, default).help();
        format!("{option} {words}")
    };
    let ten = Some(OptionValue::Double(10000.0));
    assert_eq!(help(OptionType::Double, ten), "--table-size=N Rows [10000]");
    assert_eq!(help(OptionType::Bool, None), "--table-size[=on|off] Rows");
}

#[test]
fn sysbench_reads_a_number_as_far_as_it_goes() {
    let read = |kind, given: &str| decl(kind, None).fit_as_sysbench(&text(given));
    for (given, value) in [("abc", 0.0), ("5x", 5.0), ("", 0.0), ("1e3", 1000.0), ("2K", 2048.0)] {
        assert_eq!(read(OptionType::Double, given), Ok(OptionValue::Double(value)), "{given}");
    }
    for (given, value) in [("0x10", 16.0), ("-0X1f", -31.0), (" +0x2zz", 2.0), ("0x", 0.0)] {
        assert_eq!(read(OptionType::Double, given), Ok(OptionValue::Double(value)), "{given}");
    }
    assert_eq!(read(OptionType::Size, "abc"), Ok(OptionValue::Int(0)));
    assert_eq!(read(OptionType::Int, ""), Ok(OptionValue::Int(0)));
    assert!(read(OptionType::Int, "5x").is_err());
    assert!(read(OptionType::Bool, "yes").is_err());
    assert_eq!(
        decl(OptionType::Double, None).fit_as_sysbench(&OptionValue::Bool(true)),
        Ok(OptionValue::Double(0.0)),
        "without a value"
    );
}

#[test]
fn defaults_are_typed_and_settings_win() {
    let mut settings = Settings { threads: 8, ..Settings::default() };
    settings.general.insert("mysql-port".into(), OptionValue::Int(3307));
    let values = general_values(&settings);
    assert_eq!(values["threads"], OptionValue::Int(8));
    assert_eq!(values["time"], OptionValue::Int(10));
    assert_eq!(values["debug"], OptionValue::Bool(false));
    assert_eq!(values["mysql_port"], OptionValue::List(vec!["3307".into()]));
    assert_eq!(values["mysql_socket"], OptionValue::List(vec![]));
    assert_eq!(values["rand_pareto_h"], OptionValue::Double(0.2));
}

#[test]
fn names_are_unique_and_found_in_either_spelling() {
    for option in OPTIONS.iter() {
        assert_eq!(OPTIONS.iter().filter(|other| other.name == option.name).count(), 1, "{}", option.name);
        assert_eq!(general_option(&option.dashed()).map(|found| found.name), Some(option.name));
    }
    assert!(general_option("table-size").is_none());
}
