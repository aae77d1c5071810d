//! Scripts as the engine's caller sees them: what `workloads` prints, and a request's options as script settings.

use bakeoff_load::failure::Failure;
use bakeoff_load::script_workload::failure;
use bakeoff_script::{IgnoreErrors, OptionValue, RandSettings, Settings, bundled_names, describe, find};
use serde_json::{Map, Value, json};

pub fn workloads(names: &[String]) -> Result<Value, Failure> {
    let described: Result<Vec<_>, _> = if names.is_empty() {
        bundled_names().into_iter().map(workload).collect()
    } else {
        names.iter().map(|name| workload(name)).collect()
    };
    described.map(Value::Array)
}

fn workload(name: &str) -> Result<Value, Failure> {
    let description = find(name).and_then(|source| describe(&source)).map_err(failure)?;
    let options: Vec<Value> = description
        .declared_options()
        .iter()
        .map(|option| {
            json!({
                "name": option.name,
                "description": option.description,
                "type": <&str>::from(option.kind),
                "default": option.default_value(),
            })
        })
        .collect();
    let commands: Vec<Value> = description
        .commands()
        .iter()
        .map(|command| json!({"name": command.name, "parallel": command.parallel}))
        .collect();
    Ok(json!({"name": name, "options": options, "commands": commands, "runs": description.has_event()}))
}

/// Converts a request's options to a script's settings. Those named `rand_…` shape the distributions. Later maps win.
pub fn settings(
    options: &[&Map<String, Value>],
    threads: usize,
    seed: u64,
    ignore_errors: &[u16],
) -> Result<Settings, Failure> {
    let mut settings = Settings {
        threads: u32::try_from(threads).unwrap_or(u32::MAX),
        seed,
        ignore_errors: IgnoreErrors::Codes(ignore_errors.to_vec()),
        ..Settings::default()
    };
    for (name, value) in options.iter().flat_map(|options| options.iter()) {
        let name = name.replace('-', "_");
        let value = option_value(value).ok_or_else(|| {
            Failure::bad_request(format!(
                "option {name}: {value} is not a string, a number, a boolean or a list of strings"
            ))
        })?;
        if name.starts_with("rand_") {
            set_distribution(&mut settings.rand, &name, &value)
                .ok_or_else(|| Failure::bad_request(format!("option {name} cannot be {:?}", value.to_text())))?;
            settings.general.insert(name, value);
        } else {
            settings.options.insert(name, value);
        }
    }
    Ok(settings)
}

fn option_value(value: &Value) -> Option<OptionValue> {
    Some(match value {
        Value::Bool(value) => OptionValue::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(number) => OptionValue::Int(number),
            None => OptionValue::Double(number.as_f64()?),
        },
        Value::String(text) => OptionValue::Text(text.clone()),
        Value::Array(items) => OptionValue::List(
            items.iter().map(|item| option_value(item).map(|item| item.to_text())).collect::<Option<_>>()?,
        ),
        Value::Null | Value::Object(_) => return None,
    })
}

fn set_distribution(rand: &mut RandSettings, name: &str, value: &OptionValue) -> Option<()> {
    let text = value.to_text();
    let number = |least: f64, most: f64| text.parse::<f64>().ok().filter(|number| (least..=most).contains(number));
    match name {
        "rand_type" => rand.kind = text.parse().ok()?,
        "rand_spec_iter" => {
            rand.spec_iter = text.parse().ok().filter(|iterations| (1..=10_000).contains(iterations))?;
        }
        "rand_spec_pct" => rand.spec_pct = number(0.0, 100.0)?,
        "rand_spec_res" => rand.spec_res = number(0.0, 100.0)?,
        "rand_pareto_h" => rand.pareto_h = number(0.0, 1.0).filter(|h| *h > 0.0 && *h < 1.0)?,
        "rand_zipfian_exp" => rand.zipfian_exp = number(0.0, f64::MAX)?,
        _ => return None,
    }
    Some(())
}
