//! The state behind the C symbols of one Lua state. `ffi.C` functions get no pointer to it, so each thread remembers
//! the session whose Lua state is running. The C structures that Lua points to live here too.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::rc::Rc;

use crate::host::{Connection, Events, Host, HostRef, SqlCall, SqlError};
use crate::options::{IgnoreErrors, OptionDecl, Settings};
use crate::random::{Distributions, Generator, StreamKind, Texts, Unique, UniquePlace};

thread_local! {
    static CURRENT: Cell<*const ScriptSession> = const { Cell::new(ptr::null()) };
}

pub(crate) struct Random {
    pub(crate) generator: Generator,
    pub(crate) distributions: Distributions,
    pub(crate) unique: Unique,
}

pub(crate) struct ScriptSession {
    pub(crate) host: Rc<dyn Host>,
    pub(crate) events: Rc<dyn Events>,
    pub(crate) seed: u64,
    pub(crate) random: RefCell<Random>,
    pub(crate) ignore_errors: IgnoreErrors,
    pub(crate) driver: SqlDriver,
    pub(crate) connections: ConnectionPool,
    pub(crate) declared: OnceCell<Vec<OptionDecl>>,
    failure: RefCell<Option<(SqlCall, SqlError)>>,
    undecided: Cell<bool>,
    /// The first panic of the host under Lua. It is resumed when Lua has returned.
    pub(crate) panic: RefCell<Option<Box<dyn Any + Send>>>,
}

impl ScriptSession {
    /// Boxed, because the current session is known by its address.
    pub(crate) fn new(settings: &Settings, thread: u32, HostRef { host, events }: HostRef) -> Box<Self> {
        let unique_from = settings.unique_from.unwrap_or_else(|| UniquePlace::first(settings.seed));
        Box::new(Self {
            host,
            events,
            seed: settings.seed,
            random: RefCell::new(Random {
                generator: Generator::for_stream(settings.seed, StreamKind::Worker, u64::from(thread), 0),
                distributions: Distributions::new(&settings.rand),
                unique: Unique::new(unique_from, thread, settings.threads),
            }),
            ignore_errors: settings.ignore_errors.clone(),
            driver: SqlDriver { short_name: c"mysql".as_ptr(), long_name: c"MySQL driver".as_ptr() },
            connections: ConnectionPool::default(),
            declared: OnceCell::new(),
            failure: RefCell::default(),
            undecided: Cell::new(false),
            panic: RefCell::default(),
        })
    }

    pub(crate) fn enter(&self) -> Entered {
        Entered { previous: CURRENT.replace(self) }
    }

    pub(crate) fn has_panicked(&self) -> bool {
        self.panic.borrow().is_some()
    }

    pub(crate) fn failed(&self, error: &SqlError, call: SqlCall) {
        self.survived();
        *self.failure.borrow_mut() = Some((call, error.clone()));
        self.undecided.set(true);
    }

    #[inline]
    pub(crate) fn survived(&self) {
        if self.undecided.replace(false)
            && let Some((_, error)) = self.failure.borrow().as_ref()
        {
            self.events.count_error(error.code);
        }
    }

    pub(crate) fn take_failure(&self) -> Option<(SqlCall, SqlError)> {
        self.undecided.set(false);
        self.failure.borrow_mut().take()
    }
}

pub(crate) struct Entered {
    previous: *const ScriptSession,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.previous);
    }
}

/// Calls `body` with the current session. There is one whenever Lua runs or collects, so C symbols always have it.
#[inline]
pub(crate) fn with_current<T>(body: impl FnOnce(&ScriptSession) -> T) -> T {
    let session = CURRENT.get();
    assert!(!session.is_null(), "a script's C symbol was called outside of a script");
    // SAFETY: set by `enter` from a live session, which outlives its guard and so this call.
    body(unsafe { &*session })
}

/// Calls the host for a C symbol. A panic must not unwind into Lua's frames: it is kept, and Lua gets `default`.
#[inline]
pub(crate) fn shielded<T>(default: T, call: impl FnOnce(&ScriptSession) -> T) -> T {
    with_current(|session| {
        catch_unwind(AssertUnwindSafe(|| call(session))).unwrap_or_else(|panic| {
            session.panic.borrow_mut().get_or_insert(panic);
            default
        })
    })
}

#[inline]
pub(crate) fn with_random<T>(body: impl FnOnce(&mut Random) -> T) -> T {
    with_current(|session| body(&mut session.random.borrow_mut()))
}

/// Restarts the random stream of the script running on this thread, so that arms with the same seed draw the same.
/// `sysbench.rand.unique` continues. Call it from a method of [`crate::host::Events`].
pub fn reseed(key_seed: u64, block: u64, thread: u32) {
    with_random(|random| {
        random.generator = Generator::for_stream(key_seed, StreamKind::Block, u64::from(thread), block);
    });
}

/// Values of `sql_error_t`: no error, ignorable, ends the script.
pub(crate) const NONE: c_int = 0;
pub(crate) const IGNORABLE: c_int = 1;
pub(crate) const FATAL: c_int = 2;

#[repr(C)]
pub(crate) struct SqlDriver {
    short_name: *const c_char,
    long_name: *const c_char,
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct SqlConnection {
    pub(crate) error: c_int,
    pub(crate) code: c_int,
    pub(crate) state: *const c_char,
    pub(crate) message: *const c_char,
    pub(crate) driver: *const SqlDriver,
    pub(crate) texts: [CString; 2],
    pub(crate) link: Option<Box<dyn Connection>>,
    pub(crate) more_results: bool,
    pub(crate) result: SqlResult,
    pub(crate) row: RowBuffer,
    pub(crate) bulk: Bulk,
    pub(crate) generation: u64,
}

pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct SqlResult {
    pub(crate) counter: c_int,
    pub(crate) rows: u32,
    pub(crate) columns: u32,
    pub(crate) statement: *mut c_void,
    pub(crate) row: *mut SqlRow,
    pub(crate) connection: *mut SqlConnection,
}

#[repr(C)]
pub(crate) struct SqlValue {
    pub(crate) length: u32,
    pub(crate) start: *const u8,
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct SqlRow {
    pub(crate) unused: *const c_void,
    pub(crate) values: *const SqlValue,
}

#[derive(Default)]
pub(crate) struct RowBuffer {
    pub(crate) fields: Vec<Option<Vec<u8>>>,
    pub(crate) values: Vec<SqlValue>,
    pub(crate) row: SqlRow,
    pub(crate) name: CString,
}

const DEFAULT_LIMIT_BYTES: usize = 512 * 1024;

pub(crate) struct Bulk {
    pub(crate) statement: Vec<u8>,
    pub(crate) head_length: usize,
    pub(crate) limit: usize,
    /// Texts for `sbtest` rows instead of digits, and the characters of `c` and `pad`.
    pub(crate) texts: Option<(Texts, [usize; 2])>,
}

impl Default for Bulk {
    fn default() -> Self {
        Self { statement: Vec::new(), head_length: 0, limit: DEFAULT_LIMIT_BYTES, texts: None }
    }
}

#[derive(Default)]
pub(crate) struct ConnectionPool {
    all: RefCell<Vec<*mut SqlConnection>>,
    pub(crate) free: RefCell<Vec<*mut SqlConnection>>,
}

impl ConnectionPool {
    pub(crate) fn take(&self) -> *mut SqlConnection {
        if let Some(connection) = self.free.borrow_mut().pop() {
            return connection;
        }
        // Lua may read both texts before there is an error.
        let (state, message) = (c"".as_ptr(), c"".as_ptr());
        let connection = Box::into_raw(Box::new(SqlConnection { state, message, ..SqlConnection::default() }));
        self.all.borrow_mut().push(connection);
        connection
    }
}

impl Drop for ConnectionPool {
    fn drop(&mut self) {
        for connection in self.all.get_mut().drain(..) {
            // SAFETY: boxed in `take`, listed once; the Lua state that held pointers to it is closed by now.
            drop(unsafe { Box::from_raw(connection) });
        }
    }
}
