//! The event loops are compiled: LuaJIT spends its time in traces, not in its interpreter.
//!
//! `cargo test --release -p bakeoff-script --test jit` prints, for each workload, nanoseconds an event with an
//! instant server, traces made, aborted recordings with LuaJIT's reason (a number of `lj_traceerr.h`; 8 to 10 are retried and
//! normal around inner loops), and where the time went (N traces, I interpreter, C calls from the interpreter, G collector, J compiler).

#[path = "all/world.rs"]
mod world;

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bakeoff_script::host::{
    ConnectTarget, Connection, Counter, EventEnd, Events, Host, HostRef, LogLevel, QueryClass, Reply, SqlError,
    StatementId, Value, known_driver,
};
use bakeoff_script::{Script, ScriptSource, SqlCall};
use world::{OLTP, settings};

const EVENTS: u64 = if cfg!(debug_assertions) { 40_000 } else { 400_000 };

/// A host whose server answers at once, so that only the script's own time is seen.
#[derive(Default)]
struct Instantly {
    left: Cell<u64>,
    statements: Cell<u64>,
    lines: std::cell::RefCell<Vec<String>>,
}

struct Line(Rc<Cell<u64>>);

const ROWS: Reply =
    Reply { class: QueryClass::Read, columns: 1, rows: 1, affected_rows: 0, last_insert_id: 0, more_results: false };

impl Connection for Line {
    fn query(&mut self, _sql: &[u8]) -> Result<Reply, SqlError> {
        self.0.set(self.0.get() + 1);
        Ok(ROWS)
    }

    fn prepare(&mut self, _sql: &[u8]) -> Result<StatementId, SqlError> {
        Ok(StatementId(0))
    }

    fn execute(&mut self, _statement: StatementId, _values: &[Value<'_>]) -> Result<Reply, SqlError> {
        self.0.set(self.0.get() + 1);
        Ok(ROWS)
    }

    fn close_statement(&mut self, _statement: StatementId) {}

    fn next_result(&mut self) -> Result<Option<Reply>, SqlError> {
        Ok(None)
    }

    fn fetch_row(&mut self, _row: &mut Vec<Option<Vec<u8>>>) -> Result<bool, SqlError> {
        Ok(false)
    }

    fn column_name(&self, _index: u32) -> Option<&str> {
        None
    }

    fn reconnect(&mut self) -> Result<(), SqlError> {
        Ok(())
    }

    fn charset(&self) -> (&str, &str) {
        ("", "")
    }
}

impl Host for Instantly {
    fn connect(&self, _target: &ConnectTarget) -> Result<Box<dyn Connection>, SqlError> {
        Ok(Box::new(Line(Rc::new(Cell::new(0)))))
    }

    fn driver(&self, name: &str) -> Result<(), String> {
        known_driver(name)
    }

    fn reconnect_for(&self) -> Duration {
        Duration::ZERO
    }

    fn statement_failed(&self, _call: SqlCall, _error: &SqlError, _query: &[u8]) {}

    fn barrier(&self) {}

    fn aborted(&self) -> bool {
        false
    }

    fn progress(&self, _label: &str, _done: u64, _total: u64) {}

    fn log(&self, _level: LogLevel, message: &str) {
        self.lines.borrow_mut().push(message.to_owned());
    }
}

impl Events for Instantly {
    fn more_events(&self) -> bool {
        self.left.set(self.left.get() - 1);
        self.left.get() > 0
    }

    fn event_start(&self) {}

    fn event_stop(&self, _end: EventEnd) {}

    fn count_reply(&self, _reply: &Reply) {
        self.statements.set(self.statements.get() + 1);
    }

    fn count_error(&self, _code: u16) {}

    fn count(&self, _counter: Counter, _amount: u64) {}

    fn counter(&self, _counter: Counter) -> u64 {
        0
    }

    fn event_restart(&self) -> bool {
        true
    }

    fn operation(&self, _name: &str) {}

    fn think(&self, _duration_ns: u64) {}
}

/// Prints `traces aborts flushes`, the aborts, and `state samples` of LuaJIT's own profiler.
const WATCH: &str = r#"
local traces, aborts, flushes, states = 0, {}, 0, {}
local ffi, util, profile = require("ffi"), require("jit.util"), require("jit.profile")
ffi.cdef("int setitimer(int which, const long *new_value, long *old_value);")
local function on_trace(what, _, func, pc, reason)
  if what == "stop" then
    traces = traces + 1
  elseif what == "flush" then
    flushes = flushes + 1
  elseif what == "abort" then
    local info = util.funcinfo(func, pc)
    aborts[#aborts + 1] = (info.loc or tostring(func)) .. " reason " .. tostring(reason)
  end
end
function watch_start()
  profile.start("i1", function(_, samples, state) states[state] = (states[state] or 0) + samples end)
  -- After the profiler, which flushes all traces when it starts and when it stops.
  jit.attach(on_trace, "trace")
end
function watch_stop()
  jit.attach(on_trace)
  -- profile.stop() clears the profiler's state before it stops the timer: a signal in between would crash LuaJIT.
  ffi.C.setitimer(2, ffi.new("long[4]"), nil)  -- 2 is ITIMER_PROF
  profile.stop()
  print(string.format("traces %d aborts %d flushes %d", traces, #aborts, flushes))
  for state, samples in pairs(states) do print("state " .. state .. " " .. samples) end
  for _, abort in ipairs(aborts) do print(abort) end
end
local init, done = thread_init, thread_done
function thread_init() init() watch_start() end
function thread_done() watch_stop() done() end
"#;

fn samples(lines: &[String], state: &str) -> u64 {
    let start = format!("state {state} ");
    lines.iter().find_map(|line| line.strip_prefix(&start)?.parse().ok()).unwrap_or(0)
}

/// A program of one thread, without the test harness: LuaJIT's profiler must get its signals in the thread that runs Lua, and the kernel
/// sends them to any thread of the process.
fn main() {
    for name in OLTP {
        let host = Rc::new(Instantly::default());
        host.left.set(EVENTS + 1);
        let source = ScriptSource::inline("watched.lua", &format!("require('{name}')\n{WATCH}"));
        let script = Script::load(&source, &settings(&[]), 0, HostRef::new(host.clone(), host.clone()))
            .expect("the script loads");
        script.thread_init().expect("thread_init");
        let start = Instant::now();
        script.run().expect("run");
        let elapsed = start.elapsed();
        script.thread_done().expect("thread_done");

        let lines = host.lines.borrow();
        println!("{name}: {} ns an event", elapsed.as_nanos() / u128::from(EVENTS));
        lines.iter().for_each(|line| println!("  {line}"));
        let interpreted = samples(&lines, "I") + samples(&lines, "C");
        let compiled = samples(&lines, "N") + samples(&lines, "G");
        assert!(interpreted <= 10 + compiled, "{name} is interpreted: {lines:#?}");
        assert!(lines[0].contains("flushes 0"), "{name}: {lines:#?}");
        assert!(lines[0] != "traces 0 aborts 0 flushes 0", "{name} was never compiled");
    }
}
