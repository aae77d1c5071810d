//! The statements of a capture as chunks of whole transactions, dealt to sessions: the same work for every arm, in the
//! same order. A transaction belongs to the chunk in which it begins, and a connection to one session. Only a few
//! chunks are in memory.

use std::collections::{HashMap, VecDeque};
use std::io::BufRead;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bakeoff_capture::capture_file::{self, EventLine};
use bakeoff_capture::session::SessionState;
use bakeoff_capture::{Class, Error, TransactionState, read_summary};

use crate::failure::Failure;
use crate::lock;

/// Digests with their own operations: those with the longest total time.
const OPERATIONS_MAX: usize = 1_000;
const OTHER: &str = "other";
/// Chunks and statements that may wait for the end of a transaction, which then continues in the next chunk.
const CHUNKS_AHEAD: u64 = 8;
const STATEMENTS_AHEAD: u64 = 20_000;
/// Open loop: a statement later than this after the chunk's last transaction began does not wait for the clock [µs].
const TAIL_US: i64 = 5_000_000;
/// Pause between the end of a repeating capture and its next start [µs].
const REPEAT_GAP_US: i64 = 1_000;

#[derive(Debug, Clone)]
pub struct ReplayOrder {
    pub capture: PathBuf,
    pub sessions: usize,
    pub chunk_events: u64,
    pub reads_only: bool,
    pub by_clock: bool,
    /// Where reads start, modulo the number of events, so that every part of a long capture is reached.
    pub begin: u64,
}

impl ReplayOrder {
    fn copies(&self, connections: u64) -> u64 {
        let may_repeat = self.reads_only && !self.by_clock;
        if may_repeat { (self.sessions as u64).div_ceil(connections.max(1)).max(1) } else { 1 }
    }
}

#[derive(Debug, Default)]
pub struct State {
    pub schema: String,
    pub session: SessionState,
}

#[derive(Debug)]
pub struct Statement {
    pub sql: Vec<u8>,
    pub operation: usize,
    pub state: Arc<State>,
    pub reads: bool,
    /// Start of the statement [µs since the start of its chunk].
    pub offset_us: u64,
    /// Start in seconds since 1970, if the statement may depend on it. `NOW()` returns this.
    pub second: Option<u64>,
}

#[derive(Debug)]
pub struct Transaction {
    pub connection: u64,
    pub statements: Vec<Statement>,
    /// The connection left, or the capture ended, within it. Servers then roll back and unlock tables.
    pub abandoned: bool,
}

#[derive(Debug, Default)]
pub struct Chunk {
    pub sessions: Vec<Vec<Transaction>>,
    pub statements: usize,
    /// Statements with a later offset do not wait for the clock [µs].
    pub clock_us: u64,
}

#[derive(Debug, Default)]
pub struct Block(Mutex<[Arc<Chunk>; 2]>);

impl Block {
    pub fn chunk(&self, turn: u64) -> Arc<Chunk> {
        let chunks = lock(&self.0);
        Arc::clone(&chunks[usize::from(turn > 0)])
    }
}

pub struct Replay {
    reader: Reader,
    pub block: Arc<Block>,
    next: Option<[Chunk; 2]>,
    pub operations: Arc<Vec<String>>,
}

impl Replay {
    pub fn open(order: ReplayOrder) -> Result<Self, Failure> {
        let summary = read_summary(&order.capture).map_err(failure)?;
        let names = summary.digests.iter().map(|digest| digest.digest.clone());
        let mut operations: Vec<String> = names.take(OPERATIONS_MAX).collect();
        let numbers = operations.iter().cloned().zip(0..).collect();
        operations.push(OTHER.to_owned());
        let copies = order.copies(summary.overall.connections);
        let mut reader = Reader::new(order, copies, numbers)?;
        reader.skip(summary.overall.events)?;
        let next = reader.read_block()?;
        if next.is_none() {
            let what = if reader.order.reads_only { "no plain read" } else { "no statement" };
            return Err(Failure::bad_request(format!(
                "capture: {}: it has {what} to replay",
                reader.order.capture.display()
            )));
        }
        Ok(Self { reader, block: Arc::default(), next, operations: Arc::new(operations) })
    }

    /// Goes to the next block. Returns false at the end of a capture with writes, which cannot start over.
    pub fn advance(&mut self) -> Result<bool, Failure> {
        let Some(mut block) = self.next.take() else {
            return Ok(false);
        };
        self.next = match self.reader.read_block()? {
            // A single transaction is left, which is not a block.
            Some([rest, nothing]) if nothing.statements == 0 => {
                block[1].append(rest);
                None
            }
            next => next,
        };
        *lock(&self.block.0) = block.map(Arc::new);
        Ok(true)
    }
}

impl Chunk {
    fn append(&mut self, rest: Chunk) {
        let end_us = self.transactions().map(Transaction::end_us).max().unwrap_or(0);
        self.statements += rest.statements;
        self.clock_us = end_us + rest.clock_us;
        for (session, more) in self.sessions.iter_mut().zip(rest.sessions) {
            session.extend(more.into_iter().map(|mut transaction| {
                transaction.statements.iter_mut().for_each(|each| each.offset_us += end_us);
                transaction
            }));
        }
    }

    fn transactions(&self) -> impl Iterator<Item = &Transaction> {
        self.sessions.iter().flatten()
    }
}

impl Transaction {
    fn end_us(&self) -> u64 {
        self.statements.last().map_or(0, |statement| statement.offset_us)
    }
}

fn failure(error: Error) -> Failure {
    Failure::bad_request(format!("capture: {error}"))
}

#[derive(Default)]
struct Draft {
    transactions: Vec<(usize, Transaction)>,
    statements: usize,
    open: usize,
    first_us: i64,
    last_us: i64,
}

type ConnectionKey = (u64, u64);

struct Connection {
    session: usize,
    state: Arc<State>,
    session_json: String,
    transaction: TransactionState,
    place: Option<(usize, usize)>,
}

struct Reader {
    order: ReplayOrder,
    copies: u64,
    lines: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    numbers: HashMap<String, usize>,
    connections: HashMap<ConnectionKey, Connection>,
    load: Vec<(usize, u64)>,
    drafts: VecDeque<Draft>,
    waiting: usize,
    first_draft: usize,
    ended: bool,
    partial: bool,
    found: bool,
    wrote: bool,
    /// The last known start, and what a later pass adds to each [µs].
    last_us: i64,
    shift_us: i64,
}

impl Reader {
    fn new(order: ReplayOrder, copies: u64, numbers: HashMap<String, usize>) -> Result<Self, Failure> {
        let (_, lines) = capture_file::open(&order.capture).map_err(failure)?;
        Ok(Self {
            lines: Box::new(lines),
            line: Vec::new(),
            numbers,
            connections: HashMap::new(),
            load: vec![(0, 0); order.sessions.max(1)],
            drafts: VecDeque::new(),
            waiting: 0,
            first_draft: 0,
            ended: false,
            partial: false,
            found: false,
            wrote: false,
            last_us: 0,
            shift_us: 0,
            copies,
            order,
        })
    }

    fn skip(&mut self, events: u64) -> Result<(), Failure> {
        if !self.order.reads_only {
            return Ok(());
        }
        for _ in 0..self.order.begin % events.max(1) {
            if !self.next_line()? {
                break;
            }
            self.partial = true;
        }
        Ok(())
    }

    fn next_line(&mut self) -> Result<bool, Failure> {
        self.line.clear();
        let read = self.lines.read_until(b'\n', &mut self.line).map_err(|error| self.damaged(&error))?;
        Ok(read > 0)
    }

    fn damaged(&self, reason: &dyn std::fmt::Display) -> Failure {
        Failure::bad_request(format!("capture: {}: {reason}", self.order.capture.display()))
    }

    fn read_block(&mut self) -> Result<Option<[Chunk; 2]>, Failure> {
        let Some(first) = self.read_draft()? else {
            return Ok(None);
        };
        let (first, second) = match self.read_draft()? {
            Some(second) => (first, second),
            None => halves(first),
        };
        Ok(Some([self.chunk(first), self.chunk(second)]))
    }

    fn chunk(&self, draft: Draft) -> Chunk {
        let mut sessions: Vec<Vec<Transaction>> = self.load.iter().map(|_| Vec::new()).collect();
        for (session, mut transaction) in draft.transactions {
            for statement in &mut transaction.statements {
                statement.offset_us = statement.offset_us.saturating_sub(draft.first_us.unsigned_abs());
            }
            sessions[session].push(transaction);
        }
        Chunk {
            sessions,
            statements: draft.statements,
            clock_us: (draft.last_us - draft.first_us).saturating_add(TAIL_US).unsigned_abs(),
        }
    }

    /// Returns the next chunk whose transactions have all ended, or that has been waited for too long.
    fn read_draft(&mut self) -> Result<Option<Draft>, Failure> {
        let waiting_max = self.order.chunk_events.saturating_mul(CHUNKS_AHEAD).max(STATEMENTS_AHEAD);
        loop {
            let complete = self.drafts.len() > 1 && self.drafts[0].open == 0;
            if complete || self.ended || self.waiting as u64 > waiting_max {
                for connection in self.connections.values_mut() {
                    connection.place = connection.place.filter(|(draft, _)| *draft != self.first_draft);
                }
                self.first_draft += 1;
                let draft = self.drafts.pop_front();
                self.waiting -= draft.as_ref().map_or(0, |draft| draft.statements);
                return Ok(draft);
            }
            self.read_event()?;
        }
    }

    fn read_event(&mut self) -> Result<(), Failure> {
        if !self.next_line()? {
            return self.end_pass();
        }
        let line = std::mem::take(&mut self.line);
        let event: EventLine = serde_json::from_slice(&line).map_err(|error| self.damaged(&error))?;
        let ends_session = event.ends_session();
        let is_replayed = event.digest.is_some() && event.not_replayable.is_none();
        let sql = if is_replayed { event.statement() } else { Vec::new() };
        let classified = bakeoff_capture::Statement::classify(&sql);
        for copy in 0..self.copies {
            let key = (event.connection.unwrap_or(0), copy);
            if is_replayed {
                self.statement(key, &event, &sql, classified);
            } else if ends_session {
                self.forget(key);
            }
        }
        self.line = line;
        Ok(())
    }

    fn end_pass(&mut self) -> Result<(), Failure> {
        for number in self.connections.keys().copied().collect::<Vec<_>>() {
            self.forget(number);
        }
        self.ended = self.wrote || !self.found && !self.partial;
        self.partial = false;
        if !self.ended {
            let (_, lines) = capture_file::open(&self.order.capture).map_err(failure)?;
            self.lines = Box::new(lines);
            self.found = false;
            self.shift_us = self.last_us.saturating_add(REPEAT_GAP_US);
        }
        Ok(())
    }

    fn forget(&mut self, key: ConnectionKey) {
        if let Some(connection) = self.connections.get(&key) {
            if let Some((draft, place)) = connection.place {
                self.drafts[draft - self.first_draft].transactions[place].1.abandoned = true;
            } else if connection.transaction.is_open() {
                if self.drafts.is_empty() {
                    self.drafts.push_back(Draft::default());
                }
                if let Some(draft) = self.drafts.back_mut() {
                    let rest = Transaction { connection: key.0, statements: Vec::new(), abandoned: true };
                    draft.transactions.push((connection.session, rest));
                }
            }
        }
        self.close(key);
        if let Some(connection) = self.connections.remove(&key) {
            self.load[connection.session].0 -= 1;
        }
    }

    fn close(&mut self, key: ConnectionKey) {
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        if let Some((draft, _)) = connection.place.take() {
            self.drafts[draft - self.first_draft].open -= 1;
        }
    }

    fn statement(&mut self, key: ConnectionKey, event: &EventLine, sql: &[u8], classified: bakeoff_capture::Statement) {
        let bakeoff_capture::Statement { class, uses_clock, .. } = classified;
        let writes = matches!(class, Class::Write(_));
        if writes && self.order.reads_only {
            return;
        }
        self.wrote |= writes;
        let start_us = event.start_us.map_or(self.last_us, |start_us| {
            if !self.found && self.shift_us > 0 {
                self.shift_us = self.shift_us.saturating_sub(start_us); // of the first statement of a further pass
            }
            start_us.saturating_add(self.shift_us).max(0)
        });
        self.found = true;
        self.last_us = self.last_us.max(start_us);
        let state = self.meet(key, event);
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        let step = connection.transaction.step(classified, state.session.autocommit());
        if step.ends_before {
            self.close(key);
        }
        let operation = event.digest.as_deref().and_then(|digest| self.numbers.get(digest));
        let statement = Statement {
            operation: operation.copied().unwrap_or(self.numbers.len()),
            state,
            reads: class == Class::Read,
            offset_us: start_us.unsigned_abs(),
            second: event.start_us.filter(|_| writes || uses_clock).map(|us| us.unsigned_abs() / 1_000_000),
            sql: sql.to_vec(),
        };
        self.add(key, statement);
        if !step.stays {
            self.close(key);
        }
    }

    fn meet(&mut self, key: ConnectionKey, event: &EventLine) -> Arc<State> {
        let json = event.session.map_or("", serde_json::value::RawValue::get);
        let load = &mut self.load;
        let connection = self.connections.entry(key).or_insert_with(|| {
            let lightest = load.iter().enumerate().min_by_key(|(_, load)| **load);
            let session = lightest.map_or(0, |(index, _)| index);
            load[session].0 += 1;
            Connection {
                session,
                state: Arc::default(),
                session_json: String::new(),
                transaction: TransactionState::default(),
                place: None,
            }
        });
        if connection.state.schema != event.schema || connection.session_json != json {
            json.clone_into(&mut connection.session_json);
            connection.state = Arc::new(State {
                schema: event.schema.clone().into_owned(),
                session: SessionState::from_json(event.session),
            });
        }
        Arc::clone(&connection.state)
    }

    fn add(&mut self, key: ConnectionKey, statement: Statement) {
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        self.load[connection.session].1 += 1;
        self.waiting += 1;
        if let Some((draft, place)) = connection.place {
            let draft = &mut self.drafts[draft - self.first_draft];
            draft.statements += 1;
            draft.transactions[place].1.statements.push(statement);
            return;
        }
        let full = |draft: &Draft| draft.statements as u64 >= self.order.chunk_events;
        if self.drafts.back().is_none_or(full) {
            self.drafts.push_back(Draft::default());
        }
        let number_of_draft = self.first_draft + self.drafts.len() - 1;
        if let Some(draft) = self.drafts.back_mut() {
            connection.place = Some((number_of_draft, draft.transactions.len()));
            if draft.statements == 0 {
                draft.first_us = self.last_us;
            }
            draft.statements += 1;
            draft.open += 1;
            draft.last_us = self.last_us;
            draft.transactions.push((
                connection.session,
                Transaction { connection: key.0, statements: vec![statement], abandoned: false },
            ));
        }
    }
}

fn halves(draft: Draft) -> (Draft, Draft) {
    let mut parts = (Draft::default(), Draft::default());
    let half = draft.statements / 2;
    for (session, transaction) in draft.transactions {
        let part = if parts.0.statements < half.max(1) { &mut parts.0 } else { &mut parts.1 };
        let start_us = transaction.statements.first().map_or(0, |first| first.offset_us.cast_signed());
        if part.statements == 0 {
            part.first_us = start_us.max(draft.first_us);
        }
        part.last_us = part.last_us.max(start_us).max(part.first_us);
        part.statements += transaction.statements.len();
        part.transactions.push((session, transaction));
    }
    parts
}

#[cfg(test)]
#[path = "../../tests/unit/replay_stream.rs"]
mod tests;
