//! The event loop, counters, histograms and messages: what a script asks of its host besides SQL.

use std::ffi::{c_char, c_int, c_void};

use super::{bytes_of, text_of};
use crate::histogram::Histogram;
use crate::host::{Counter, EventEnd, LogLevel};
use crate::options::OptionDecl;
use crate::session::shielded;

fn stop(end: EventEnd) {
    shielded((), |session| {
        session.survived();
        session.events.event_stop(end);
    });
}

symbols! {
    /// Returns this worker's counter. The thread number is ignored, because a worker sees only its own counters.
    fn sb_counter_val(_thread: c_int, kind: c_int) -> u64 {
        Counter::from_repr(kind).map_or(0, |counter| shielded(0, |session| session.events.counter(counter)))
    }

    fn sb_counter_add(_thread: c_int, kind: c_int, amount: u64) {
        if let Some(counter) = Counter::from_repr(kind) {
            shielded((), |session| session.events.count(counter, amount));
        }
    }

    fn sb_counter_inc(thread: c_int, kind: c_int) {
        unsafe { sb_counter_add(thread, kind, 1) };
    }

    fn sb_more_events(_thread: c_int) -> bool {
        shielded(false, |session| !session.has_panicked() && session.events.more_events())
    }

    fn sb_event_start(_thread: c_int) {
        shielded((), |session| session.events.event_start());
    }

    fn sb_event_stop(_thread: c_int) {
        stop(EventEnd::Done);
    }

    fn bakeoff_event_abandon(_thread: c_int) {
        stop(EventEnd::Stop);
    }

    fn bakeoff_event_restart(_thread: c_int) -> bool {
        shielded(false, |session| {
            session.survived();
            session.events.event_restart()
        })
    }

    fn bakeoff_operation(name: *const c_char, length: usize) {
        let name = unsafe { bytes_of(name, length) };
        shielded((), |session| session.events.operation(&String::from_utf8_lossy(name)));
    }

    fn bakeoff_think(seconds: f64) {
        shielded((), |session| session.events.think((seconds.max(0.0) * 1e9) as u64));
    }

    /// Waits for all threads of the command. Returns false if one of them failed.
    fn bakeoff_barrier() -> bool {
        shielded(false, |session| {
            session.host.barrier();
            !session.host.aborted()
        })
    }

    fn bakeoff_progress(label: *const c_char, done: f64, total: f64) {
        let label = unsafe { text_of(label) };
        shielded((), |session| session.host.progress(&label, done as u64, total as u64));
    }

    fn bakeoff_log(message: *const c_char, length: usize) {
        let message = unsafe { bytes_of(message, length) };
        shielded((), |session| session.host.log(LogLevel::Notice, &String::from_utf8_lossy(message)));
    }

    /// Exists because sysbench exports it. Options are read from the script itself here.
    fn sb_lua_set_test_args(_args: *mut c_void, _length: usize) {}

    fn sb_print_test_options() {
        shielded((), |session| {
            let options: Vec<_> = session.declared.get().into_iter().flatten().map(OptionDecl::help).collect();
            let width = options.iter().map(|(option, _)| option.len()).max().unwrap_or(0);
            for (option, words) in options {
                session.host.log(LogLevel::Notice, &format!("  {option:width$} {words}"));
            }
            session.host.log(LogLevel::Notice, "");
        });
    }

    fn sb_histogram_new(size: usize, minimum: f64, maximum: f64) -> Option<Box<Histogram>> {
        Histogram::new(size, minimum, maximum).map(Box::new)
    }

    fn sb_histogram_delete(histogram: Option<Box<Histogram>>) {
        drop(histogram);
    }

    fn sb_histogram_update(histogram: Option<&mut Histogram>, value: f64) {
        if let Some(histogram) = histogram {
            histogram.add(value, 1);
        }
    }

    fn sb_histogram_print(histogram: Option<&Histogram>) {
        for line in histogram.iter().flat_map(|histogram| histogram.lines()) {
            shielded((), |session| session.host.log(LogLevel::Notice, &line));
        }
    }
}
