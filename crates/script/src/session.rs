//! What the C symbols of one Lua state work on: its host, random streams, connections, and the last error.
//!
//! `ffi.C` functions get no pointer to their state, so each thread keeps the session whose Lua state is running.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::c_types::{ConnectionPool, SqlDriver};
use crate::error::SqlCall;
use crate::host::{HostRef, SqlError};
use crate::options::OptionDecl;
use crate::random::{Distributions, Generator, StreamKind, Unique, UniquePlace};
use crate::settings::{IgnoreErrors, Settings};

thread_local! {
    static CURRENT: Cell<*const Session> = const { Cell::new(ptr::null()) };
}

/// The random streams of one thread.
pub(crate) struct Random {
    pub(crate) generator: Generator,
    pub(crate) distributions: Distributions,
    pub(crate) unique: Unique,
}

/// A failed statement with its error, until it is known whether the script survives it.
pub(crate) struct Failure {
    pub(crate) error: SqlError,
    pub(crate) query: Vec<u8>,
    pub(crate) call: SqlCall,
}

pub(crate) struct Session {
    pub(crate) host: HostRef,
    pub(crate) seed: u64,
    pub(crate) random: RefCell<Random>,
    pub(crate) ignore_errors: IgnoreErrors,
    pub(crate) driver: SqlDriver,
    pub(crate) connections: ConnectionPool,
    pub(crate) declared: RefCell<Vec<OptionDecl>>,
    failure: RefCell<Option<Failure>>,
    undecided: Cell<bool>,
    panic: RefCell<Option<Box<dyn Any + Send>>>,
}

impl Session {
    /// Boxed: the current session is known by its address.
    pub(crate) fn new(settings: &Settings, thread: u32, host: HostRef) -> Box<Self> {
        let unique_from = settings
            .unique_from
            .unwrap_or_else(|| UniquePlace::first(settings.seed));
        Box::new(Self {
            host,
            seed: settings.seed,
            random: RefCell::new(Random {
                generator: Generator::for_stream(settings.seed, StreamKind::Worker, u64::from(thread), 0),
                distributions: Distributions::new(&settings.rand),
                unique: Unique::new(unique_from, thread, settings.threads),
            }),
            ignore_errors: settings.ignore_errors.clone(),
            driver: SqlDriver::mysql(),
            connections: ConnectionPool::default(),
            declared: RefCell::default(),
            failure: RefCell::default(),
            undecided: Cell::new(false),
            panic: RefCell::default(),
        })
    }

    /// Makes this the thread's current session until the guard is dropped.
    pub(crate) fn enter(&self) -> Entered {
        Entered {
            previous: CURRENT.replace(self),
        }
    }

    pub(crate) fn reseed(&self, key_seed: u64, block: u64, thread: u32) {
        self.random.borrow_mut().generator =
            Generator::for_stream(key_seed, StreamKind::Block, u64::from(thread), block);
    }

    /// The host panicked under Lua; the panic is resumed when Lua has returned. The first one is kept.
    pub(crate) fn panicked(&self, panic: Box<dyn Any + Send>) {
        self.panic.borrow_mut().get_or_insert(panic);
    }

    pub(crate) fn has_panicked(&self) -> bool {
        self.panic.borrow().is_some()
    }

    pub(crate) fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.panic.borrow_mut().take()
    }

    /// A statement failed. Whether the script survives that is not known yet.
    pub(crate) fn failed(&self, error: &SqlError, query: &[u8], call: SqlCall) {
        self.survived();
        let shown = &query[..query.len().min(1000)];
        *self.failure.borrow_mut() = Some(Failure {
            error: error.clone(),
            query: shown.to_vec(),
            call,
        });
        self.undecided.set(true);
    }

    /// The script went on: its last error, if any, has been survived, and counts.
    #[inline]
    pub(crate) fn survived(&self) {
        if self.undecided.replace(false)
            && let Some(failure) = self.failure.borrow().as_ref()
        {
            self.host.count_error(failure.error.code);
        }
    }

    /// The last statement's error, for a script that has ended with it.
    pub(crate) fn take_failure(&self) -> Option<Failure> {
        self.undecided.set(false);
        self.failure.borrow_mut().take()
    }
}

/// Restores the session that was current before.
pub(crate) struct Entered {
    previous: *const Session,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.previous);
    }
}

/// The current session. C symbols run only while Lua runs or collects, which it does only while its session is entered.
#[inline]
pub(crate) fn current<'a>() -> &'a Session {
    let session = CURRENT.get();
    assert!(!session.is_null(), "a script's C symbol was called outside of a script");
    // SAFETY: set by `enter` from a live session, which outlives its guard.
    unsafe { &*session }
}

/// Calls the host for a C symbol. A panic must not unwind into Lua's frames: it is kept, and Lua gets `default`.
#[inline]
pub(crate) fn shielded<T>(default: T, call: impl FnOnce(&Session) -> T) -> T {
    let session = current();
    catch_unwind(AssertUnwindSafe(|| call(session))).unwrap_or_else(|panic| {
        session.panicked(panic);
        default
    })
}

/// Restarts the random stream of the script that is running on this thread: the stream follows from the three numbers alone,
/// so arms that are reseeded alike draw alike. `sysbench.rand.unique` is left alone, for its numbers must not come twice.
///
/// To be called from a [`crate::host::Host`] method (such as `more_events`, between two slices).
///
/// # Panics
/// When no script is running on this thread.
pub fn reseed(key_seed: u64, block: u64, thread: u32) {
    current().reseed(key_seed, block, thread);
}
