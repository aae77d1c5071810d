//! One command out, one reply in: the hot path. Allocates nothing once its buffers have grown.

use std::io;

use bakeoff_script::host::{QueryClass, Reply, SqlError};
use bakeoff_wire::{Answering, Inbox, Outcome, ReplyScanner, ResultSet, capability, command};

use super::errors;
use super::transport::Transport;

/// The largest reply that is kept for its rows to be read; of larger ones the rows are dropped as they come.
const MAX_KEPT_BYTES: usize = 64 * 1024 * 1024;

/// The conversation with the server on one transport.
pub(super) struct Exchange {
    transport: Transport,
    inbox: Inbox,
    outbox: Vec<u8>,
    scanner: ReplyScanner,
    deprecate_eof: bool,
    status: u16,
    /// Further results of the last command wait.
    more_results: bool,
    /// Why the connection is of no use any more.
    broken: Option<SqlError>,
}

/// A reply, with its result set where there is one.
pub(super) struct Answer {
    pub(super) reply: Reply,
    pub(super) result: Option<ResultSet>,
}

impl Exchange {
    pub(super) fn new(transport: Transport, deprecate_eof: bool, status: u16) -> Self {
        Self {
            transport,
            inbox: Inbox::default(),
            outbox: Vec::with_capacity(4096),
            scanner: ReplyScanner::new(Answering::Statement, deprecate_eof),
            deprecate_eof,
            status,
            more_results: false,
            broken: None,
        }
    }

    /// Commands that are not answered may be put here at any time; they go out in front of the next one.
    pub(super) fn outbox(&mut self) -> &mut Vec<u8> {
        &mut self.outbox
    }

    /// SQL mode NO_BACKSLASH_ESCAPES, as of the last reply.
    pub(super) fn no_backslash_escapes(&self) -> bool {
        self.status & capability::STATUS_NO_BACKSLASH_ESCAPES != 0
    }

    /// The bytes of the last reply, from its first packet on.
    pub(super) fn reply_bytes(&self) -> &[u8] {
        self.inbox.unread()
    }

    /// Makes ready for a command, which the caller then puts into the outbox. The rows of the last reply are lost.
    #[inline]
    pub(super) fn begin(&mut self) -> Result<&mut Vec<u8>, SqlError> {
        if let Some(error) = &self.broken {
            return Err(errors::gone(&error.message));
        }
        if self.more_results {
            return Err(errors::out_of_sync());
        }
        self.inbox.consume(self.scanner.reply_bytes());
        Ok(&mut self.outbox)
    }

    /// Sends the outbox and receives the reply to its last command. `sequence`: what the command's encoder returned.
    #[inline]
    pub(super) fn ask(&mut self, answering: Answering, sequence: u8) -> Result<Outcome, SqlError> {
        self.scanner = ReplyScanner::with_sequence(answering, self.deprecate_eof, sequence);
        let sent = self.transport.send(&self.outbox);
        self.outbox.clear();
        if let Err(error) = sent {
            return Err(self.break_off_sending(&error));
        }
        self.receive()
    }

    /// As [`Exchange::ask`], for commands answered by an OK packet or a result set.
    #[inline]
    pub(super) fn run(&mut self, sequence: u8) -> Result<Answer, SqlError> {
        let outcome = self.ask(Answering::Statement, sequence)?;
        self.answer(outcome)
    }

    /// The next result of the last command.
    pub(super) fn next_result(&mut self) -> Result<Option<Answer>, SqlError> {
        if !self.more_results {
            return Ok(None);
        }
        let follower = self.scanner.follow();
        self.inbox.consume(self.scanner.reply_bytes());
        self.scanner = follower;
        let outcome = self.receive()?;
        self.answer(outcome).map(Some)
    }

    /// Says goodbye, without waiting for anything.
    pub(super) fn quit(&mut self) {
        if self.broken.is_none() {
            self.outbox.clear();
            command::quit(&mut self.outbox);
            self.transport.farewell(&self.outbox);
        }
    }

    /// Receives one reply; a request for a file is refused and becomes an error.
    #[inline]
    fn receive(&mut self) -> Result<Outcome, SqlError> {
        match self.receive_outcome()? {
            Outcome::LocalInfile { sequence } => Err(self.refuse_local_infile(sequence)),
            outcome => Ok(outcome),
        }
    }

    /// Receives until the scanner has an outcome; a failed statement is an error.
    #[inline]
    fn receive_outcome(&mut self) -> Result<Outcome, SqlError> {
        loop {
            match self.scanner.scan(self.inbox.unread()) {
                Ok(Some(Outcome::Failed(error))) => return Err(self.failed(errors::server(error))),
                Ok(Some(outcome)) => return Ok(outcome),
                Ok(None) => {}
                Err(error) => return Err(self.break_off(errors::malformed(error))),
            }
            if self.inbox.unread().len() > MAX_KEPT_BYTES {
                let (at, bytes) = self.scanner.forget_rows(self.inbox.unread().len());
                self.inbox.remove(at, bytes);
            }
            match self.transport.receive(self.inbox.spare()) {
                Ok(0) => return Err(self.break_off(errors::lost("the server closed it"))),
                Ok(received) => self.inbox.received(received),
                Err(error) => return Err(self.break_off(errors::lost(silence(&error)))),
            }
        }
    }

    #[inline]
    fn answer(&mut self, outcome: Outcome) -> Result<Answer, SqlError> {
        let (reply, status, result) = match outcome {
            Outcome::Done(done) => {
                let class = if done.affected_rows > 0 {
                    QueryClass::Write
                } else {
                    QueryClass::Other
                };
                let reply = Reply {
                    class,
                    columns: 0,
                    rows: 0,
                    affected_rows: done.affected_rows,
                    last_insert_id: done.last_insert_id,
                    more_results: false,
                };
                (reply, done.status, None)
            }
            Outcome::ResultSet(result) => {
                let reply = Reply {
                    class: QueryClass::Read,
                    columns: result.columns,
                    rows: result.rows,
                    affected_rows: 0,
                    last_insert_id: 0,
                    more_results: false,
                };
                (reply, result.status, Some(result))
            }
            _ => return Err(self.break_off(errors::lost("a reply of another kind was due"))),
        };
        self.status = status;
        self.more_results = status & capability::STATUS_MORE_RESULTS != 0;
        Ok(Answer {
            reply: Reply {
                more_results: self.more_results,
                ..reply
            },
            result,
        })
    }

    #[cold]
    fn failed(&mut self, error: SqlError) -> SqlError {
        self.more_results = false;
        if error.fatal {
            self.break_off(error)
        } else {
            error
        }
    }

    #[cold]
    fn break_off(&mut self, error: SqlError) -> SqlError {
        self.more_results = false;
        self.broken.get_or_insert_with(|| error.clone());
        error
    }

    /// A server that gave up reading (packet too large, shutdown) may have said why before it closed the connection.
    #[cold]
    fn break_off_sending(&mut self, error: &io::Error) -> SqlError {
        let told = match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => self.receive().err(),
            _ => None,
        };
        let error = match told {
            Some(told) if told.code < 2000 || told.code >= 3000 => SqlError {
                fatal: true,
                ..told
            },
            _ => errors::gone(silence(error)),
        };
        self.broken = None;
        self.break_off(error)
    }

    #[cold]
    fn refuse_local_infile(&mut self, sequence: u8) -> SqlError {
        self.outbox.clear();
        command::refuse_local_infile(&mut self.outbox, sequence);
        let sent = self.transport.send(&self.outbox);
        self.outbox.clear();
        if let Err(error) = sent {
            return self.break_off(errors::gone(silence(&error)));
        }
        match self.receive_outcome() {
            Ok(Outcome::Done(done)) => {
                self.status = done.status;
                self.more_results = done.status & capability::STATUS_MORE_RESULTS != 0;
                errors::local_infile_refused()
            }
            // A second request, above all: a server that never stops asking ends here.
            Ok(_) => self.break_off(errors::lost(
                "the server does not take no for an answer to LOCAL INFILE",
            )),
            Err(error) if error.fatal => error,
            Err(_) => errors::local_infile_refused(),
        }
    }
}

fn silence(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            "no answer within the read timeout".to_owned()
        }
        _ => error.to_string(),
    }
}
