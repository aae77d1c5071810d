//! One client's session: payloads in, replies out; no sockets and no clocks here.

use std::rc::Rc;
use std::sync::Arc;

use rand::rngs::StdRng;

use crate::fault::FaultKind;
use crate::handshake::{ClientHello, NATIVE_PASSWORD, Scramble, capability, put_auth_switch, put_greeting};
use crate::law::random_stream;
use crate::packet::{PacketWriter, PayloadReader};
use crate::prepared::{Catalogue, Prepared};
use crate::resultset::{
    Column, Form, STATUS_AUTOCOMMIT, STATUS_IN_TRANSACTION, SqlError, put_columns, put_error, put_ok, put_table,
};
use crate::server::{Injection, Server};
use crate::settings::{self, SessionFacts};
use crate::sql::{self, Action, Statement};

const DEFAULT_COLLATION_ID: u8 = 45;

mod command {
    pub(super) const QUIT: u8 = 0x01;
    pub(super) const INIT_DB: u8 = 0x02;
    pub(super) const QUERY: u8 = 0x03;
    pub(super) const PING: u8 = 0x0E;
    pub(super) const CHANGE_USER: u8 = 0x11;
    pub(super) const PREPARE: u8 = 0x16;
    pub(super) const EXECUTE: u8 = 0x17;
    pub(super) const LONG_DATA: u8 = 0x18;
    pub(super) const CLOSE: u8 = 0x19;
    pub(super) const RESET: u8 = 0x1A;
    pub(super) const RESET_CONNECTION: u8 = 0x1F;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Whole,
    WholeThenClose,
    ExitNow,
}

/// How to send a reply, which is already encoded.
#[derive(Debug, PartialEq)]
pub(crate) struct Reply {
    /// Whether the statement has a latency.
    pub(crate) timed: bool,
    pub(crate) delivery: Delivery,
}

impl Reply {
    const AT_ONCE: Self = Self { timed: false, delivery: Delivery::Whole };
    const LAST: Self = Self { timed: false, delivery: Delivery::WholeThenClose };

    fn with(fault: Option<FaultKind>, timed: bool, out: &mut Vec<u8>) -> Self {
        let delivery = match fault {
            None => Delivery::Whole,
            Some(FaultKind::Close) => {
                out.clear();
                Delivery::WholeThenClose
            }
            Some(FaultKind::Exit) => Delivery::ExitNow,
        };
        Self { timed, delivery }
    }
}

#[derive(Debug, PartialEq)]
enum Phase {
    Greeted,
    Switched,
    Ready,
}

/// State of one connection.
#[derive(Debug)]
pub(crate) struct Session {
    phase: Phase,
    scramble: Scramble,
    capabilities: u32,
    in_transaction: bool,
    facts: SessionFacts,
    /// The index is the statement's id minus one.
    statements: Vec<Option<Rc<Prepared>>>,
    /// Draws the latencies of this connection.
    pub(crate) random: StdRng,
}

impl Session {
    pub(crate) fn new(server: &Arc<Server>, connection_id: u32) -> Self {
        let mut random = random_stream(server.config.seed, u64::from(connection_id));
        Self {
            phase: Phase::Greeted,
            scramble: Scramble::draw(&mut random),
            capabilities: 0,
            in_transaction: false,
            facts: SessionFacts {
                server: Arc::clone(server),
                connection_id,
                user: String::new(),
                database: None,
                charset: String::new(),
                collation: String::new(),
                autocommit: true,
            },
            statements: Vec::new(),
            random,
        }
    }

    pub(crate) fn greet(&self, out: &mut Vec<u8>) {
        let SessionFacts { server, connection_id, .. } = &self.facts;
        put_greeting(out, &server.config.version, *connection_id, DEFAULT_COLLATION_ID, &self.scramble);
    }

    /// Answers one payload by appending to `out`, possibly nothing.
    pub(crate) fn handle(
        &mut self,
        catalogue: &mut Catalogue,
        sequence: u8,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Reply {
        let next = sequence.wrapping_add(1);
        match self.phase {
            Phase::Greeted => self.log_in(next, payload, out),
            Phase::Switched => self.finish_login(next, payload, out),
            Phase::Ready => self.command(catalogue, payload, out),
        }
    }

    fn log_in(&mut self, next: u8, payload: &[u8], out: &mut Vec<u8>) -> Reply {
        let Some(hello) = ClientHello::read(payload) else {
            return refuse(out, next, &SqlError::new(1043, "08S01", "Bad handshake"));
        };
        self.capabilities = hello.capabilities;
        let (charset, collation) = settings::collation_by_id(hello.charset);
        (self.facts.charset, self.facts.collation) = (charset.to_owned(), collation.to_owned());
        self.facts.user = hello.user;
        self.facts.database = hello.database.filter(|name| !name.is_empty());
        let password = &self.facts.server.config.password;
        if password.is_some() && hello.plugin.is_some_and(|plugin| plugin != NATIVE_PASSWORD) {
            self.phase = Phase::Switched;
            put_auth_switch(out, next, &self.scramble);
            return Reply::AT_ONCE;
        }
        self.finish_login(next, &hello.auth_answer, out)
    }

    fn finish_login(&mut self, next: u8, answer: &[u8], out: &mut Vec<u8>) -> Reply {
        let password = self.facts.server.config.password.as_deref();
        if password.is_some_and(|password| !self.scramble.proves(answer, password)) {
            let using = if answer.is_empty() { "NO" } else { "YES" };
            let message = format!("Access denied for user '{}'@'localhost' (using password: {using})", self.facts.user);
            return refuse(out, next, &SqlError::new(1045, "28000", message));
        }
        self.phase = Phase::Ready;
        self.ok(out, next)
    }

    fn ok(&self, out: &mut Vec<u8>, sequence: u8) -> Reply {
        put_ok(&mut PacketWriter::new(out, sequence), 0, self.status());
        Reply::AT_ONCE
    }

    fn status(&self) -> u16 {
        let flag = |on: bool, flag: u16| if on { flag } else { 0 };
        flag(self.facts.autocommit, STATUS_AUTOCOMMIT) | flag(self.in_transaction, STATUS_IN_TRANSACTION)
    }

    fn form(&self, binary: bool) -> Form {
        let deprecate_eof = self.capabilities & capability::DEPRECATE_EOF != 0;
        Form { binary, deprecate_eof, status: self.status() }
    }

    fn command(&mut self, catalogue: &mut Catalogue, payload: &[u8], out: &mut Vec<u8>) -> Reply {
        let mut reader = PayloadReader::new(payload);
        let code = reader.u8();
        let body = &payload[payload.len().min(1)..];
        match code {
            Some(command::QUERY) => return self.query(&String::from_utf8_lossy(body), out),
            Some(command::EXECUTE) => return self.execute(reader.u32(), out),
            Some(command::PREPARE) => self.prepare(catalogue, &String::from_utf8_lossy(body), out),
            Some(command::QUIT) => return Reply::LAST,
            Some(command::CLOSE) => {
                if let Some(slot) = self.slot(reader.u32()) {
                    *slot = None;
                }
            }
            Some(command::LONG_DATA) => {}
            Some(command::RESET) => {
                let id = reader.u32();
                if self.slot(id).is_some_and(|slot| slot.is_some()) {
                    return self.ok(out, 1);
                }
                put_error(&mut PacketWriter::new(out, 1), &unknown_statement(id));
            }
            Some(command::INIT_DB) => {
                self.facts.database = Some(String::from_utf8_lossy(body).into_owned());
                return self.ok(out, 1);
            }
            Some(command::RESET_CONNECTION | command::CHANGE_USER) => {
                self.statements.clear();
                (self.in_transaction, self.facts.autocommit) = (false, true);
                return self.ok(out, 1);
            }
            Some(command::PING) => return self.ok(out, 1),
            _ => put_error(&mut PacketWriter::new(out, 1), &SqlError::new(1047, "08S01", "Unknown command")),
        }
        Reply::AT_ONCE
    }

    fn slot(&mut self, id: Option<u32>) -> Option<&mut Option<Rc<Prepared>>> {
        self.statements.get_mut((id? as usize).checked_sub(1)?)
    }

    fn query(&mut self, text: &str, out: &mut Vec<u8>) -> Reply {
        let Statement { action, timed } = sql::read(text, &self.facts);
        let Injection { error, fault } = self.injection(timed);
        self.perform(&error.map_or(action, Action::Fail), false, out);
        Reply::with(fault, timed, out)
    }

    fn execute(&mut self, id: Option<u32>, out: &mut Vec<u8>) -> Reply {
        let Some(prepared) = self.slot(id).and_then(|slot| slot.clone()) else {
            put_error(&mut PacketWriter::new(out, 1), &unknown_statement(id));
            return Reply::AT_ONCE;
        };
        let Statement { action, timed } = &prepared.statement;
        let Injection { error, fault } = self.injection(*timed);
        if let Some(error) = error {
            put_error(&mut PacketWriter::new(out, 1), &error);
        } else if !prepared.put_rows(self.form(true), out) {
            self.perform(action, true, out);
        }
        Reply::with(fault, *timed, out)
    }

    fn injection(&mut self, timed: bool) -> Injection {
        if !timed {
            return Injection::default();
        }
        let injection = self.facts.server.count_statement();
        if injection.error.as_ref().is_some_and(|error| error.code == 1213) {
            // A deadlock rolls the transaction back.
            self.in_transaction = false;
        }
        injection
    }

    fn prepare(&mut self, catalogue: &mut Catalogue, text: &str, out: &mut Vec<u8>) {
        let mut writer = PacketWriter::new(out, 1);
        let prepared = catalogue.prepare(text, &self.facts);
        match &prepared.statement.action {
            Action::Fail(error) => return put_error(&mut writer, error),
            Action::Begin => {
                // As MySQL has it: clients fall back to the text protocol.
                let message = "This command is not supported in the prepared statement protocol yet";
                return put_error(&mut writer, &SqlError::new(1295, "HY000", message));
            }
            _ => {}
        }
        let columns = prepared.columns();
        let id = self.statements.len() as u32 + 1;
        writer.packet(|out| {
            out.push(0x00);
            out.extend_from_slice(&id.to_le_bytes());
            out.extend_from_slice(&(columns.len() as u16).to_le_bytes());
            out.extend_from_slice(&prepared.parameters.to_le_bytes());
            out.extend_from_slice(&[0; 3]);
        });
        let form = self.form(true);
        put_columns(&mut writer, &vec![Column::text("?"); prepared.parameters.into()], form);
        put_columns(&mut writer, columns, form);
        self.statements.push(Some(prepared));
    }

    fn perform(&mut self, action: &Action, binary: bool, out: &mut Vec<u8>) {
        let (mut writer, mut affected) = (PacketWriter::new(out, 1), 0);
        match action {
            Action::Rows(table) => return put_table(&mut writer, table, self.form(binary)),
            Action::Fail(error) => return put_error(&mut writer, error),
            Action::Done { affected: count } => affected = *count,
            Action::Begin => self.in_transaction = true,
            Action::End => self.in_transaction = false,
            Action::Autocommit(on) => self.facts.autocommit = *on,
            Action::Names { charset, collation } => {
                (self.facts.charset, self.facts.collation) = (charset.clone(), collation.clone());
            }
            Action::Use(database) => self.facts.database = Some(database.clone()),
        }
        put_ok(&mut writer, affected, self.status());
    }
}

fn refuse(out: &mut Vec<u8>, sequence: u8, error: &SqlError) -> Reply {
    put_error(&mut PacketWriter::new(out, sequence), error);
    Reply::LAST
}

fn unknown_statement(id: Option<u32>) -> SqlError {
    let id = id.unwrap_or(0);
    SqlError::new(1243, "HY000", format!("Unknown prepared statement handler ({id}) given to mysqld_stmt_execute"))
}
