//! Tests of `src/settings.rs`.

use super::*;

#[test]
fn defaults_are_typed_and_settings_win() {
    let mut settings = Settings {
        threads: 8,
        ..Settings::default()
    };
    settings.general.insert("mysql-port".into(), OptionValue::Int(3307));
    let values = values(&settings);
    assert_eq!(values["threads"], OptionValue::Int(8));
    assert_eq!(values["time"], OptionValue::Int(10));
    assert_eq!(values["debug"], OptionValue::Bool(false));
    assert_eq!(values["mysql_port"], OptionValue::List(vec!["3307".into()]));
    assert_eq!(values["mysql_socket"], OptionValue::List(vec![]));
    assert_eq!(values["rand_pareto_h"], OptionValue::Double(0.2));
}
