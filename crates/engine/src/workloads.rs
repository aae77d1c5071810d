//! `workloads`: scripts and their options, as JSON.

use bakeoff_script::{OptionType, OptionValue, bundled_names, describe, find};
use serde_json::{Value, json};

use crate::contract::Failure;
use crate::scripting::failure;

/// The named scripts, or every bundled one, with their options and commands.
///
/// # Errors
/// A name that is no script, a script that does not load.
pub fn workloads(names: &[String]) -> Result<Value, Failure> {
    let described: Result<Vec<_>, _> = if names.is_empty() {
        bundled_names().into_iter().map(workload).collect()
    } else {
        names.iter().map(|name| workload(name)).collect()
    };
    described.map(Value::Array)
}

fn workload(name: &str) -> Result<Value, Failure> {
    let description = find(name)
        .and_then(|source| describe(&source))
        .map_err(failure)?;
    let options: Vec<Value> = description
        .options
        .iter()
        .map(|option| {
            json!({
                "name": option.name,
                "description": option.description,
                "type": type_name(option.kind),
                "default": value(&option.default_value()),
            })
        })
        .collect();
    let commands: Vec<Value> = description
        .commands
        .iter()
        .map(|command| json!({"name": command.name, "parallel": command.parallel}))
        .collect();
    Ok(
        json!({"name": name, "options": options, "commands": commands, "runs": description.has_event}),
    )
}

fn type_name(kind: OptionType) -> &'static str {
    match kind {
        OptionType::Null => "none",
        OptionType::Bool => "bool",
        OptionType::Int => "int",
        OptionType::Size => "size",
        OptionType::Double => "double",
        OptionType::String => "string",
        OptionType::List => "list",
        OptionType::File => "file",
    }
}

fn value(value: &OptionValue) -> Value {
    match value {
        OptionValue::Bool(value) => json!(value),
        OptionValue::Int(value) => json!(value),
        OptionValue::Double(value) => json!(value),
        OptionValue::Text(value) => json!(value),
        OptionValue::List(value) => json!(value),
    }
}
