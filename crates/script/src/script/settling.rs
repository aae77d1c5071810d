//! Settling a script's options: what was given against what it declares.

use mlua::Value;

use super::{Script, lua_error};
use crate::error::{ScriptError, nearest};
use crate::options::OptionValue;
use crate::runtime;
use crate::settings::Settings;

impl Script {
    /// Options as globals, for scripts of sysbench 1.0's style; taken back from a script that declares options.
    pub(super) fn offer_legacy_globals(
        &self,
        settings: &Settings,
    ) -> Result<Vec<String>, ScriptError> {
        /// Globals that sysbench 1.0 made of options of its own.
        const OPTIONS: [&str; 3] = ["db_driver", "mysql_table_engine", "myisam_max_rows"];
        let globals = self.lua().globals();
        let mut offered = Vec::new();
        for (name, value) in &settings.options {
            let name = name.replace('-', "_");
            let free = matches!(globals.raw_get::<Value>(name.as_str()), Ok(Value::Nil));
            if free || OPTIONS.contains(&name.as_str()) {
                globals
                    .raw_set(name.as_str(), value.to_text())
                    .map_err(|error| lua_error(&error))?;
                offered.push(name);
            }
        }
        Ok(offered)
    }

    pub(super) fn settle_options(
        &self,
        settings: &Settings,
        legacy: &[String],
    ) -> Result<(), ScriptError> {
        let runtime = self.runtime()?;
        let declares: bool = runtime::ask(&runtime, "declares_options")?;
        if declares {
            self.withdraw_legacy_globals(settings, legacy)?;
        }
        let mut values = crate::general::values(settings);
        for decl in &self.options {
            values.insert(decl.name.clone(), decl.default_value());
        }
        for (name, given) in &settings.options {
            let name = name.replace('-', "_");
            match self.options.iter().find(|decl| decl.name == name) {
                Some(decl) => {
                    let value = decl.fit(given)?;
                    runtime::validate(&runtime, self.lua(), decl, given, &value)?;
                    values.insert(name, value);
                }
                None if declares => return Err(self.unknown_option(&name)),
                None => {
                    values.insert(name, OptionValue::Text(given.to_text()));
                }
            }
        }
        runtime::set_options(&runtime, self.lua(), &values)
    }

    fn withdraw_legacy_globals(
        &self,
        settings: &Settings,
        legacy: &[String],
    ) -> Result<(), ScriptError> {
        let globals = self.lua().globals();
        for (name, value) in &settings.options {
            let name = name.replace('-', "_");
            let untouched = globals
                .raw_get::<Option<String>>(name.as_str())
                .is_ok_and(|now| now == Some(value.to_text()));
            if legacy.contains(&name) && untouched {
                globals
                    .raw_set(name.as_str(), Value::Nil)
                    .map_err(|error| lua_error(&error))?;
            }
        }
        Ok(())
    }

    fn unknown_option(&self, name: &str) -> ScriptError {
        let mut known: Vec<&str> = crate::general::names().collect();
        known.extend(self.options.iter().map(|decl| decl.name.as_str()));
        ScriptError::UnknownOption {
            name: name.to_owned(),
            suggestion: nearest(name, known),
        }
    }
}
