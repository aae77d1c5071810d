//! A Lua script as what a team runs, and a request's options as the script's settings.

use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bakeoff_script::host::SqlError;
use bakeoff_script::random::UniquePlace;
use bakeoff_script::{
    IgnoreErrors, OptionValue, RandKind, RandSettings, Script, ScriptError, ScriptSource, Settings,
    ThreadRole,
};
use serde_json::{Map, Value};

use crate::contract::{Code, Failure};
use crate::host::LoadHost;
use crate::team::Workload;

/// A script with its settings, run by every worker in a Lua state of its own.
#[derive(Debug)]
pub struct ScriptWorkload {
    /// The script.
    pub source: Arc<ScriptSource>,
    /// What it is run with.
    pub settings: Settings,
    /// Where its workers leave off.
    pub unique: Arc<UniqueReach>,
}

/// How far all cells have come in the numbers of `sysbench.rand.unique`, on tables that stay: none comes twice.
#[derive(Debug, Default)]
pub struct UniqueReach(Mutex<Option<UniquePlace>>);

impl UniqueReach {
    /// Where the next cell begins; `None` before the first.
    #[must_use]
    pub fn furthest(&self) -> Option<UniquePlace> {
        *self.lock()
    }

    fn extend(&self, place: UniquePlace) {
        let mut furthest = self.lock();
        *furthest = (*furthest).max(Some(place));
    }

    fn lock(&self) -> MutexGuard<'_, Option<UniquePlace>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Workload for ScriptWorkload {
    fn conduct(&self, host: Rc<LoadHost>, while_workers_run: &dyn Fn()) -> Result<(), Failure> {
        let script =
            Script::load(&self.source, &self.settings, ThreadRole::Main, host).map_err(failure)?;
        script.init().map_err(failure)?;
        while_workers_run();
        script.done().map_err(failure)
    }

    fn work(&self, host: Rc<LoadHost>) -> Result<(), Failure> {
        let role = ThreadRole::Worker(host.thread());
        let script = Script::load(&self.source, &self.settings, role, host).map_err(failure)?;
        script.thread_init().map_err(failure)?;
        script.run().map_err(failure)?;
        script.thread_done().map_err(failure)?;
        self.unique.extend(script.unique_place());
        Ok(())
    }
}

/// A script's error by the contract's codes.
pub fn failure(error: ScriptError) -> Failure {
    let words = error.to_string();
    match error {
        ScriptError::Sql {
            errno,
            sqlstate,
            message,
            fatal,
            ..
        } => {
            let error = SqlError {
                code: errno,
                sqlstate,
                message,
                fatal,
            };
            Failure {
                message: words,
                ..Failure::running(&error)
            }
        }
        ScriptError::NotFound { .. } => Failure::new(Code::ScriptNotFound, words),
        ScriptError::Lua { .. } | ScriptError::NoEvent { .. } => {
            Failure::new(Code::ScriptError, words)
        }
        ScriptError::UnknownOption { .. }
        | ScriptError::BadOption { .. }
        | ScriptError::NoCommand { .. } => Failure::bad_request(words),
        ScriptError::NotExported { .. } => Failure::new(Code::Internal, words),
    }
}

/// What a request's options mean for the script: those named `rand_…` shape the distributions, the rest are the script's own.
///
/// Later maps win over earlier ones.
///
/// # Errors
/// `bad_request` for a value that is no option's (null, a table), or an impossible `rand_…`.
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
                "option {name}: {value} is not a text, a number, true or false, or a list of texts"
            ))
        })?;
        if name.starts_with("rand_") {
            set_distribution(&mut settings.rand, &name, &value).ok_or_else(|| {
                Failure::bad_request(format!("option {name} cannot be {:?}", value.to_text()))
            })?;
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
            items
                .iter()
                .map(|item| option_value(item).map(|item| item.to_text()))
                .collect::<Option<_>>()?,
        ),
        Value::Null | Value::Object(_) => return None,
    })
}

fn set_distribution(rand: &mut RandSettings, name: &str, value: &OptionValue) -> Option<()> {
    let text = value.to_text();
    let share = |text: &str| {
        text.parse::<f64>()
            .ok()
            .filter(|number| number.is_finite() && *number >= 0.0)
    };
    match name {
        "rand_type" => rand.kind = RandKind::from_name(&text)?,
        "rand_spec_iter" => {
            rand.spec_iter = text.parse().ok().filter(|iterations| *iterations > 0)?
        }
        "rand_spec_pct" => rand.spec_pct = share(&text)?,
        "rand_spec_res" => rand.spec_res = share(&text)?,
        "rand_pareto_h" => rand.pareto_h = share(&text)?,
        "rand_zipfian_exp" => rand.zipfian_exp = share(&text)?,
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn an_arms_options_win_and_distributions_are_set_apart() {
        let of_cell = map(
            json!({"tables": 4, "table-size": "10k", "rand_type": "zipfian", "skip_trx": true}),
        );
        let of_arm = map(json!({"tables": 8, "rand-zipfian-exp": 0.9}));
        let settings = settings(&[&of_cell, &of_arm], 4, 7, &[1213]).unwrap();
        assert_eq!(settings.options["tables"], OptionValue::Int(8));
        assert_eq!(
            settings.options["table_size"],
            OptionValue::Text("10k".into())
        );
        assert_eq!(settings.options["skip_trx"], OptionValue::Bool(true));
        assert_eq!(settings.rand.kind, RandKind::Zipfian);
        assert!((settings.rand.zipfian_exp - 0.9).abs() < 1e-12);
        assert!(!settings.options.contains_key("rand_type"));
        assert_eq!((settings.threads, settings.seed), (4, 7));
    }

    #[test]
    fn what_is_no_value_of_an_option_is_refused() {
        for bad in [
            json!({"tables": null}),
            json!({"rand_type": "normal"}),
            json!({"rand_spec_iter": 0}),
            json!({"rand_x": 1}),
        ] {
            let failure = settings(&[&map(bad.clone())], 1, 0, &[]).expect_err(&bad.to_string());
            assert_eq!(failure.code, Code::BadRequest);
        }
    }

    #[test]
    fn a_lost_server_is_told_from_a_bad_statement() {
        let sql = |errno| ScriptError::Sql {
            place: None,
            errno,
            sqlstate: "HY000".into(),
            message: "words".into(),
            query: String::new(),
            fatal: errno >= 2000,
        };
        assert_eq!(failure(sql(2013)).code, Code::ServerLost);
        assert_eq!(
            (failure(sql(1146)).code, failure(sql(1146)).sql_errno),
            (Code::SqlError, Some(1146))
        );
        assert_eq!(failure(sql(1045)).code, Code::AccessDenied);
    }
}
