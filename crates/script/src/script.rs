//! A script in its own Lua state: options, life cycle, commands and report hooks.

use std::collections::BTreeMap;
use std::rc::Rc;

use mlua::{Function, IntoLuaMulti, Lua, LuaString, Table, Value};

use crate::error::{ScriptError, nearest, place_of};
use crate::host::{HostRef, NullHost};
use crate::options::{OptionDecl, OptionType, OptionValue, Settings, general_names, general_values};
use crate::random::UniquePlace;
use crate::runtime::{self, CommandDecl, DebugInfo, load_chunk};
use crate::session::ScriptSession;
use crate::source::ScriptSource;

/// A script in its own Lua state. Whatever touches the state enters the session first, because any allocation may run
/// Lua's finalisers, which call C symbols.
pub struct Script {
    name: String,
    thread: u32,
    commands: Vec<CommandDecl>,
    session: Box<ScriptSession>,
    /// Closed before the session, because closing runs finalisers, which call C symbols.
    lua: Option<Lua>,
}

impl Drop for Script {
    fn drop(&mut self) {
        let _entered = self.session.enter();
        self.lua = None;
    }
}

/// Loads a script to ask what it declares. It cannot connect to a server.
pub fn describe(source: &ScriptSource) -> Result<Script, ScriptError> {
    Script::load(source, &Settings::default(), 0, HostRef::without_events(Rc::new(NullHost)))
}

impl Script {
    /// Loads a script for a thread: 0 for the main state too, and `settings.threads` for one that only reports.
    pub fn load(source: &ScriptSource, settings: &Settings, thread: u32, host: HostRef) -> Result<Self, ScriptError> {
        std::hint::black_box(crate::symbols::ALL);
        let session = ScriptSession::new(settings, thread, host);
        let mut script = Self { name: source.name.clone(), thread, commands: Vec::new(), session, lua: None };
        let _entered = script.session.enter();
        script.lua = Some(runtime::new_state(source, settings, thread)?);
        let legacy = script.offer_legacy_globals(settings)?;
        let body = load_chunk(script.lua(), &source.chunk_name, &source.text, DebugInfo::Kept)?;
        script.call(&body, ())?;
        let declared = runtime::declared_options(&script.runtime()?)?;
        script.session.declared.get_or_init(|| declared);
        script.commands = runtime::commands(&script.runtime()?)?;
        script.resolve_options(settings, &legacy)?;
        // Loading leaves garbage of a third of the state. With thousands of idle workers it is worth the pause.
        // Twice, because the first round only finds what has finalisers.
        (0..2).try_for_each(|_| script.lua().gc_collect())?;
        Ok(script)
    }

    pub fn declared_options(&self) -> &[OptionDecl] {
        self.session.declared.get().map(Vec::as_slice).unwrap_or_default()
    }

    pub fn commands(&self) -> &[CommandDecl] {
        &self.commands
    }

    pub fn has_event(&self) -> bool {
        let _entered = self.session.enter();
        let globals = self.lua().globals();
        globals.get::<Option<Function>>("event").is_ok_and(|event| event.is_some())
            || self.runtime().and_then(|runtime| runtime::ask(&runtime, "thread_run_replaced")).unwrap_or(false)
    }

    pub fn init(&self) -> Result<(), ScriptError> {
        self.call_global("init", ())?;
        if self.has_event() {
            Ok(())
        } else {
            Err(ScriptError::NoEvent { script: self.name.rsplit('/').next().unwrap_or_default().to_owned() })
        }
    }

    pub fn thread_init(&self) -> Result<(), ScriptError> {
        self.call_global("thread_init", self.thread)
    }

    pub fn run(&self) -> Result<(), ScriptError> {
        self.call_global("thread_run", self.thread)
    }

    pub fn thread_done(&self) -> Result<(), ScriptError> {
        self.call_global("thread_done", self.thread)
    }

    pub fn done(&self) -> Result<(), ScriptError> {
        self.call_global("done", ())
    }

    /// Runs a command. `help` prints the script's options unless the script has its own.
    pub fn command(&self, name: &str) -> Result<(), ScriptError> {
        let _entered = self.session.enter();
        let run: Option<Function> = self.runtime()?.get::<Function>("command").and_then(|find| find.call(name))?;
        match run {
            Some(run) => self.call(&run, ()),
            None => Err(ScriptError::NoCommand {
                script: self.name.clone(),
                command: name.to_owned(),
                known: self.commands.iter().map(|command| command.name.clone()).collect(),
            }),
        }
    }

    pub fn has_hook(&self, hook: &str) -> bool {
        self.hook(hook).is_some()
    }

    /// Calls a report hook, if it is set, with a table of these numbers. If there are operations, its `operations`
    /// has the `count` and `p90` [s] of each.
    pub fn report(
        &self,
        hook: &str,
        numbers: &[(&str, f64)],
        operations: &[(&str, u64, f64)],
    ) -> Result<(), ScriptError> {
        let _entered = self.session.enter();
        let Some(hook) = self.hook(hook) else { return Ok(()) };
        let statistics = self.lua().create_table_from(numbers.iter().copied())?;
        if !operations.is_empty() {
            let by_name = self.lua().create_table()?;
            for &(name, count, p90) in operations {
                by_name.raw_set(name, self.lua().create_table_from([("count", count as f64), ("p90", p90)])?)?;
            }
            statistics.raw_set("operations", by_name)?;
        }
        self.call(&hook, statistics)
    }

    pub fn unique_place(&self) -> UniquePlace {
        self.session.random.borrow().unique.place
    }

    fn lua(&self) -> &Lua {
        // Set by `load` before the script is handed out, taken by `drop`.
        self.lua.as_ref().unwrap_or_else(|| unreachable!("a script without a state"))
    }

    fn runtime(&self) -> Result<Table, ScriptError> {
        Ok(self.lua().named_registry_value(runtime::REGISTRY_NAME)?)
    }

    fn hook(&self, name: &str) -> Option<Function> {
        let _entered = self.session.enter();
        let sysbench: Table = self.lua().globals().get("sysbench").ok()?;
        sysbench.get::<Table>("hooks").ok()?.get::<Option<Function>>(name).ok()?
    }

    fn call_global(&self, name: &str, args: impl IntoLuaMulti) -> Result<(), ScriptError> {
        let _entered = self.session.enter();
        match self.lua().globals().get::<Value>(name) {
            Ok(Value::Function(function)) => self.call(&function, args),
            _ => Ok(()),
        }
    }

    fn call(&self, function: &Function, args: impl IntoLuaMulti) -> Result<(), ScriptError> {
        let _entered = self.session.enter();
        let call: Function = self.runtime()?.get("call")?;
        let mut all = args.into_lua_multi(self.lua())?;
        all.push_front(Value::Function(function.clone()));
        let out: mlua::Result<(Option<LuaString>, Option<LuaString>, bool)> = call.call(all);
        if let Some(panic) = self.session.panic.take() {
            // The host panicked under Lua, which cannot be unwound. Lua has returned by now.
            std::panic::resume_unwind(panic);
        }
        let (message, traceback, of_statement) = out?;
        let Some(message) = message else {
            self.session.survived();
            return Ok(());
        };
        let message = message.to_string_lossy();
        // An error that the last failed statement raised is that statement's.
        Err(match self.session.take_failure().filter(|_| of_statement) {
            Some((call, error)) => ScriptError::Sql { place: place_of(&message).to_owned(), call, error },
            None => {
                let traceback = traceback.map(|text| text.to_string_lossy()).unwrap_or_default();
                ScriptError::Lua { message, traceback }
            }
        })
    }

    /// Offers options as globals to scripts of sysbench 1.0's style. Returns their names and values.
    fn offer_legacy_globals(&self, settings: &Settings) -> Result<Vec<(String, String)>, ScriptError> {
        const OPTIONS_OF_1_0: [&str; 3] = ["db_driver", "mysql_table_engine", "myisam_max_rows"];
        let globals = self.lua().globals();
        let mut offered = Vec::new();
        for (name, value) in &settings.options {
            let name = name.replace('-', "_");
            let free = matches!(globals.raw_get::<Value>(name.as_str()), Ok(Value::Nil));
            if free || OPTIONS_OF_1_0.contains(&name.as_str()) {
                // As in sysbench, an option without a value is an empty string.
                let is_alone = *value == OptionValue::Bool(true) && !settings.strict;
                let text = if is_alone { String::new() } else { value.to_text() };
                globals.raw_set(name.as_str(), text.as_str())?;
                offered.push((name, text));
            }
        }
        Ok(offered)
    }

    fn resolve_options(&self, settings: &Settings, legacy: &[(String, String)]) -> Result<(), ScriptError> {
        let runtime = self.runtime()?;
        let declares: bool = runtime::ask(&runtime, "declares_options")?;
        if declares {
            self.withdraw_legacy_globals(legacy)?;
        }
        let mut values = general_values(settings);
        // Only a file may have no value at all.
        let has_value = |decl: &&OptionDecl| decl.default.is_some() || decl.kind != OptionType::File;
        for decl in self.declared_options().iter().filter(has_value) {
            values.insert(decl.name.clone(), decl.default_value());
        }
        let mut given: Vec<_> = settings.options.iter().collect();
        // Report the first mistake on the command line.
        given.sort_by_key(|(name, _)| settings.argv.iter().position(|word| is_option(word, name)));
        for (name, given) in given {
            let name = name.replace('-', "_");
            match self.declared_options().iter().find(|decl| decl.name == name) {
                Some(decl) => {
                    let fit = if settings.strict { OptionDecl::fit } else { OptionDecl::fit_as_sysbench };
                    let value = fit(decl, given)?;
                    runtime::validate(&runtime, decl, given, &value)?;
                    values.insert(name, value);
                }
                None if declares => return Err(self.unknown_option(&name)),
                None => {
                    values.insert(name, OptionValue::Text(given.to_text()));
                }
            }
        }
        if !declares {
            self.offer_general_globals(&values)?;
        }
        runtime.set("option_values", values)?;
        Ok(runtime.get::<Function>("set_options")?.call(())?)
    }

    /// Offers the engine's own options as globals to scripts of sysbench 0.5. Keeps what the script itself defined.
    fn offer_general_globals(&self, values: &BTreeMap<String, OptionValue>) -> Result<(), ScriptError> {
        let globals = self.lua().globals();
        for name in general_names() {
            if let (Some(value), Ok(Value::Nil)) = (values.get(name), globals.raw_get::<Value>(name)) {
                globals.raw_set(name, value.clone())?;
            }
        }
        Ok(())
    }

    /// Takes back the globals that the script has not changed.
    fn withdraw_legacy_globals(&self, offered: &[(String, String)]) -> Result<(), ScriptError> {
        let globals = self.lua().globals();
        for (name, text) in offered {
            if globals.raw_get::<Option<String>>(name.as_str()).is_ok_and(|now| now.as_ref() == Some(text)) {
                globals.raw_set(name.as_str(), Value::Nil)?;
            }
        }
        Ok(())
    }

    fn unknown_option(&self, name: &str) -> ScriptError {
        let mut known: Vec<&str> = general_names().collect();
        known.extend(self.declared_options().iter().map(|decl| decl.name.as_str()));
        ScriptError::UnknownOption { name: name.to_owned(), suggestion: nearest(name, known) }
    }
}

fn is_option(word: &str, name: &str) -> bool {
    let option = word.strip_prefix("--").and_then(|option| option.split('=').next());
    option.is_some_and(|option| option.replace('-', "_") == name.replace('-', "_"))
}

#[cfg(test)]
#[path = "../tests/unit/script.rs"]
mod tests;
