//! Tests of `src/scripts.rs`.

use bakeoff_load::failure::Code;
use bakeoff_script::{OptionValue, RandKind};
use serde_json::{Map, Value, json};

use crate::scripts::settings;

fn map(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[test]
fn arm_options_win_and_distribution_options_are_separated() {
    let of_cell = map(json!({"tables": 4, "table-size": "10k", "rand_type": "zipfian", "skip_trx": true}));
    let of_arm = map(json!({"tables": 8, "rand-zipfian-exp": 0.9}));
    let settings = settings(&[&of_cell, &of_arm], 4, 7, &[1213]).unwrap();
    assert_eq!(settings.options["tables"], OptionValue::Int(8));
    assert_eq!(settings.options["table_size"], OptionValue::Text("10k".into()));
    assert_eq!(settings.options["skip_trx"], OptionValue::Bool(true));
    assert_eq!(settings.rand.kind, RandKind::Zipfian);
    assert!((settings.rand.zipfian_exp - 0.9).abs() < 1e-12);
    assert!(!settings.options.contains_key("rand_type"));
    assert_eq!((settings.threads, settings.seed), (4, 7));
    assert_eq!(settings.command.as_deref(), Some("run"), "many scripts refuse to load without a command");
}

#[test]
fn invalid_option_values_are_refused() {
    for bad in [
        json!({"tables": null}),
        json!({"rand_type": "normal"}),
        json!({"rand_spec_iter": 0}),
        json!({"rand_spec_iter": 10_001}),
        json!({"rand_spec_pct": 101}),
        json!({"rand_pareto_h": 0}),
        json!({"rand_pareto_h": 20}),
        json!({"rand_x": 1}),
    ] {
        let failure = settings(&[&map(bad.clone())], 1, 0, &[]).expect_err(&bad.to_string());
        assert_eq!(failure.code, Code::BadRequest);
    }
}
