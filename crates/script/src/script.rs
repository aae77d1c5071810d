//! A script loaded into a Lua state of its own, and its life cycle.

mod settling;

use mlua::{FromLuaMulti, Function, IntoLuaMulti, Lua, LuaString, MultiValue, Table, Value};

use crate::chunk::{DebugInfo, load_chunk};
use crate::error::{Place, ScriptError};
use crate::host::{HostRef, NullHost};
use crate::options::OptionDecl;
use crate::random::UniquePlace;
use crate::runtime;
use crate::session::Session;
use crate::settings::Settings;
use crate::source::ScriptSource;
use crate::statistics::Statistics;

/// Which thread a state serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadRole {
    /// The global state: `init()`, `done()`, commands that are not parallel.
    Main,
    /// Worker with this number, from 0: `thread_init()`, `event()`, `thread_done()`, parallel commands.
    Worker(u32),
    /// Calls report hooks at intervals.
    Report,
    /// Calls report hooks at checkpoints.
    Checkpoint,
}

impl ThreadRole {
    /// `sysbench.tid`.
    #[must_use]
    pub fn thread_id(self, threads: u32) -> u32 {
        match self {
            Self::Main => 0,
            Self::Worker(number) => number,
            Self::Report | Self::Checkpoint => threads,
        }
    }
}

/// A command of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandDecl {
    /// `prepare`.
    pub name: String,
    /// To be run by every worker at once, each in a state of its own.
    pub parallel: bool,
}

/// What a script declares.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// Its own options.
    pub options: Vec<OptionDecl>,
    /// Its commands, declared ones first.
    pub commands: Vec<CommandDecl>,
    /// It can be run.
    pub has_event: bool,
}

/// A script in a Lua state of its own. It belongs to the thread that loaded it.
///
/// Whatever touches the state enters the session first: any allocation may be the one at which Lua's collector runs
/// finalisers, which call C symbols.
pub struct Script {
    name: String,
    thread: u32,
    options: Vec<OptionDecl>,
    commands: Vec<CommandDecl>,
    session: Box<Session>,
    /// Closed before the session: closing runs finalisers, which call C symbols.
    lua: Option<Lua>,
}

impl Drop for Script {
    fn drop(&mut self) {
        let _entered = self.session.enter();
        self.lua = None;
    }
}

/// What a script declares, found by loading it without a server.
///
/// # Errors
/// As [`Script::load`], options apart.
pub fn describe(source: &ScriptSource) -> Result<Description, ScriptError> {
    let script = Script::load(
        source,
        &Settings::default(),
        ThreadRole::Main,
        std::rc::Rc::new(NullHost),
    )?;
    Ok(Description {
        options: script.options.clone(),
        commands: script.commands.clone(),
        has_event: script.has_event(),
    })
}

impl Script {
    /// Executes the script's file in a new state and settles its options.
    ///
    /// # Errors
    /// [`ScriptError::Lua`] and [`ScriptError::Sql`] from the file's body, [`ScriptError::UnknownOption`],
    /// [`ScriptError::BadOption`], [`ScriptError::NotExported`].
    pub fn load(
        source: &ScriptSource,
        settings: &Settings,
        role: ThreadRole,
        host: HostRef,
    ) -> Result<Self, ScriptError> {
        crate::symbols::keep_symbols();
        let thread = role.thread_id(settings.threads);
        let session = Session::new(settings, thread, host);
        let mut script = Self {
            name: source.name.clone(),
            thread,
            options: Vec::new(),
            commands: Vec::new(),
            session,
            lua: None,
        };
        let _entered = script.session.enter();
        script.lua = Some(runtime::new_state(source, settings, thread)?);
        let legacy = script.offer_legacy_globals(settings)?;
        let body = load_chunk(
            script.lua(),
            &source.chunk_name,
            &source.text,
            DebugInfo::Kept,
        )
        .map_err(|error| lua_error(&error))?;
        script.call::<()>(&body, ())?;
        script.options = runtime::declared_options(script.runtime()?)?;
        script.commands = runtime::commands(script.runtime()?)?;
        *script.session.declared.borrow_mut() = script.options.clone();
        script.settle_options(settings, &legacy)?;
        // A third of the state is what loading left behind; with thousands of idle workers that is worth the pause.
        script
            .lua()
            .gc_collect()
            .map_err(|error| lua_error(&error))?;
        Ok(script)
    }

    /// The script's own options.
    #[must_use]
    pub fn declared_options(&self) -> &[OptionDecl] {
        &self.options
    }

    /// The script's commands.
    #[must_use]
    pub fn commands(&self) -> &[CommandDecl] {
        &self.commands
    }

    /// Does it define `event()` (or a `thread_run()` of its own)?
    #[must_use]
    pub fn has_event(&self) -> bool {
        let _entered = self.session.enter();
        let globals = self.lua().globals();
        globals
            .get::<Option<Function>>("event")
            .is_ok_and(|event| event.is_some())
            || self
                .runtime()
                .and_then(|runtime| runtime::ask(&runtime, "thread_run_replaced"))
                .unwrap_or(false)
    }

    /// Calls `init()`, if there is one, and checks that there is something to run.
    ///
    /// # Errors
    /// What the function raised; [`ScriptError::NoEvent`].
    pub fn init(&self) -> Result<(), ScriptError> {
        self.call_global("init", ())?;
        if self.has_event() {
            Ok(())
        } else {
            Err(ScriptError::NoEvent {
                script: self.name.clone(),
            })
        }
    }

    /// Calls `thread_init(tid)`, if there is one.
    ///
    /// # Errors
    /// What the function raised.
    pub fn thread_init(&self) -> Result<(), ScriptError> {
        self.call_global("thread_init", self.thread)
    }

    /// Runs events until the host has no more or an event asks to stop.
    ///
    /// # Errors
    /// What an event raised, unless it asked to be run again.
    pub fn run(&self) -> Result<(), ScriptError> {
        self.call_global("thread_run", self.thread)
    }

    /// Calls `thread_done(tid)`, if there is one.
    ///
    /// # Errors
    /// What the function raised.
    pub fn thread_done(&self) -> Result<(), ScriptError> {
        self.call_global("thread_done", self.thread)
    }

    /// Calls `done()`, if there is one.
    ///
    /// # Errors
    /// What the function raised.
    pub fn done(&self) -> Result<(), ScriptError> {
        self.call_global("done", ())
    }

    /// Runs a command; `help` prints the script's options unless the script has a help of its own.
    ///
    /// # Errors
    /// [`ScriptError::NoCommand`]; what the command raised.
    pub fn command(&self, name: &str) -> Result<(), ScriptError> {
        let _entered = self.session.enter();
        let run: Option<Function> = self
            .runtime()?
            .get::<Function>("command")
            .and_then(|find| find.call(name))
            .map_err(|e| lua_error(&e))?;
        match run {
            Some(run) => self.call(&run, ()),
            None => Err(ScriptError::NoCommand {
                script: self.name.clone(),
                command: name.to_owned(),
                known: self
                    .commands
                    .iter()
                    .map(|command| command.name.clone())
                    .collect(),
            }),
        }
    }

    /// Has the script set `sysbench.hooks.report_intermediate`?
    #[must_use]
    pub fn has_report_intermediate(&self) -> bool {
        self.hook("report_intermediate").is_some()
    }

    /// Has the script set `sysbench.hooks.report_cumulative`?
    #[must_use]
    pub fn has_report_cumulative(&self) -> bool {
        self.hook("report_cumulative").is_some()
    }

    /// Calls the hook, if it is set.
    ///
    /// # Errors
    /// What the hook raised.
    pub fn report_intermediate(&self, statistics: &Statistics) -> Result<(), ScriptError> {
        self.report("report_intermediate", statistics)
    }

    /// Calls the hook, if it is set.
    ///
    /// # Errors
    /// What the hook raised.
    pub fn report_cumulative(&self, statistics: &Statistics) -> Result<(), ScriptError> {
        self.report("report_cumulative", statistics)
    }

    /// As [`crate::reseed`], from outside of the script's calls.
    pub fn reseed(&self, key_seed: u64, block: u64, thread: u32) {
        self.session.reseed(key_seed, block, thread);
    }

    /// How far this thread has come in the numbers of `sysbench.rand.unique`.
    #[must_use]
    pub fn unique_place(&self) -> UniquePlace {
        self.session.random.borrow().unique.place()
    }

    /// Frees what loading and setting up have left: a third of a state's memory, which thousands of idle workers need not keep.
    ///
    /// # Errors
    /// What a finaliser of the script raised.
    pub fn collect_garbage(&self) -> Result<(), ScriptError> {
        let _entered = self.session.enter();
        // Twice: the first round only finds what has finalisers.
        (0..2).try_for_each(|_| self.lua().gc_collect().map_err(|error| lua_error(&error)))
    }

    fn lua(&self) -> &Lua {
        // Set by `load` before the script is handed out, taken by `drop`.
        self.lua
            .as_ref()
            .unwrap_or_else(|| unreachable!("a script without a state"))
    }

    fn runtime(&self) -> Result<Table, ScriptError> {
        self.lua()
            .named_registry_value(runtime::REGISTRY_NAME)
            .map_err(|error| lua_error(&error))
    }

    fn hook(&self, name: &str) -> Option<Function> {
        let _entered = self.session.enter();
        let sysbench: Table = self.lua().globals().get("sysbench").ok()?;
        sysbench
            .get::<Table>("hooks")
            .ok()?
            .get::<Option<Function>>(name)
            .ok()?
    }

    fn report(&self, hook: &str, statistics: &Statistics) -> Result<(), ScriptError> {
        let _entered = self.session.enter();
        match self.hook(hook) {
            Some(hook) => {
                let table = statistics
                    .to_table(self.lua())
                    .map_err(|error| lua_error(&error))?;
                self.call(&hook, table)
            }
            None => Ok(()),
        }
    }

    fn call_global(&self, name: &str, args: impl IntoLuaMulti) -> Result<(), ScriptError> {
        let _entered = self.session.enter();
        match self.lua().globals().get::<Value>(name) {
            Ok(Value::Function(function)) => self.call(&function, args),
            _ => Ok(()),
        }
    }

    /// Calls a function of the script with our error handler around it.
    fn call<R: FromLuaMulti>(
        &self,
        function: &Function,
        args: impl IntoLuaMulti,
    ) -> Result<R, ScriptError> {
        let _entered = self.session.enter();
        let convert = |error: mlua::Error| lua_error(&error);
        let call: Function = self.runtime()?.get("call").map_err(convert)?;
        let mut all = args.into_lua_multi(self.lua()).map_err(convert)?;
        all.push_front(Value::Function(function.clone()));
        let out: Result<MultiValue, mlua::Error> = call.call(all);
        if let Some(panic) = self.session.take_panic() {
            // The host panicked under Lua, which cannot be unwound; Lua has returned now.
            std::panic::resume_unwind(panic);
        }
        let mut out = out.map_err(convert)?;
        if matches!(out.pop_front(), Some(Value::Boolean(true))) {
            self.session.survived();
            return R::from_lua_multi(out, self.lua()).map_err(convert);
        }
        let (message, traceback) =
            <(LuaString, LuaString)>::from_lua_multi(out, self.lua()).map_err(convert)?;
        Err(self.raised(&message.to_string_lossy(), traceback.to_string_lossy()))
    }

    /// An error that left the script: a statement's, if it is the last one that failed and its words are those.
    fn raised(&self, message: &str, traceback: String) -> ScriptError {
        let (place, message) = split_place(message);
        let failure = self.session.take_failure();
        match failure.filter(|failure| {
            message.starts_with(&format!("SQL error, errno = {},", failure.error.code))
        }) {
            Some(failure) => ScriptError::Sql {
                place,
                errno: failure.error.code,
                sqlstate: failure.error.sqlstate,
                message: failure.error.message,
                query: String::from_utf8_lossy(&failure.query).into_owned(),
                fatal: failure.error.fatal,
            },
            None => ScriptError::Lua {
                place,
                message,
                traceback,
            },
        }
    }
}

/// An error of Lua's that did not pass our handler: syntax, memory, a conversion.
pub(crate) fn lua_error(error: &mlua::Error) -> ScriptError {
    let text = match error {
        mlua::Error::SyntaxError { message, .. } | mlua::Error::RuntimeError(message) => {
            message.clone()
        }
        other => other.to_string(),
    };
    let (place, message) = split_place(&text);
    ScriptError::Lua {
        place,
        message,
        traceback: String::new(),
    }
}

/// `FILE:LINE: words` in its parts.
fn split_place(message: &str) -> (Option<Place>, String) {
    let mut from = 0;
    while let Some(colon) = message[from..].find(':').map(|at| from + at) {
        let rest = &message[colon + 1..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0
            && colon > 0
            && let Some(words) = rest[digits..].strip_prefix(": ")
            && let Ok(line) = rest[..digits].parse()
        {
            return (
                Some(Place {
                    file: message[..colon].to_owned(),
                    line,
                }),
                words.to_owned(),
            );
        }
        from = colon + 1;
    }
    (None, message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_split_off() {
        assert_eq!(
            split_place("./dir:1/a.lua:12: no: 3: such"),
            (
                Some(Place {
                    file: "./dir:1/a.lua".into(),
                    line: 12
                }),
                "no: 3: such".into()
            )
        );
        assert_eq!(split_place("no place: 3"), (None, "no place: 3".into()));
    }
}
