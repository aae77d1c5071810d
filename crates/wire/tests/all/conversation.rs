//! Holds a conversation with a server and records it. `examples/record.rs` talks to a real server and `golden.rs` to a recording.
//! Both must produce the same text.

use std::fmt::Write as _;

use bakeoff_wire::command::{self, BoundTypes, Parameter};
use bakeoff_wire::row::{Encoding, RowCursor, column_name};
use bakeoff_wire::{
    Answering, Channel, Inbox, Login, LoginOptions, LoginStep, Negotiated, Outcome, ReplyScanner, TlsWish,
    UTF8MB4_GENERAL_CI, packet,
};

/// The other end of the wire.
pub(crate) trait Peer {
    /// Takes bytes from the client.
    fn send(&mut self, bytes: &[u8]);
    /// Returns the server's next bytes, or nothing if the connection has ended.
    fn receive(&mut self) -> Vec<u8>;
}

/// The lines of a recording.
///
/// `name: value` is a login option, `> …` a step of the client, `C hex` and `S hex` are the bytes that client and server sent,
/// `C~ n` are n random bytes of the client (an encrypted password), `= …` is how the client understood the reply, `#` a comment.
pub(crate) struct Script {
    pub(crate) options: Vec<(String, String)>,
    pub(crate) steps: Vec<String>,
}

impl Script {
    /// Reads the login options and steps of a recording, or of a script to be recorded.
    pub(crate) fn parse(text: &str) -> Self {
        let steps = text.lines().filter_map(|line| line.strip_prefix("> ")).map(str::to_owned).collect();
        let options = text
            .lines()
            .take_while(|line| !line.starts_with("> "))
            .filter_map(|line| line.split_once(": "))
            .filter(|(name, _)| name.bytes().all(|byte| byte.is_ascii_lowercase()))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Self { options, steps }
    }

    fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn login(&self) -> LoginOptions {
        LoginOptions {
            user: self.option("user").unwrap_or_default().into(),
            password: self.option("password").unwrap_or_default().into(),
            database: self.option("database").map(Into::into),
            collation: UTF8MB4_GENERAL_CI,
            tls: TlsWish::Never,
            channel: if self.option("channel") == Some("tcp") { Channel::Plain } else { Channel::UnixSocket },
            fewer_capabilities: self.option("fewer").map_or(0, |value| value.parse().expect("a number")),
        }
    }
}

/// Logs in, takes every step and returns the recording.
pub(crate) fn converse(script: &Script, peer: &mut dyn Peer) -> String {
    let mut talk = Talk { peer, text: String::new(), inbox: Inbox::default(), heard: Vec::new() };
    for (name, value) in &script.options {
        talk.line(format_args!("{name}: {value}"));
    }
    if let Some(session) = talk.login(script.login()) {
        Steps {
            talk: &mut talk,
            session,
            scanner: None,
            encoding: Encoding::Text,
            statement: 0,
            types: BoundTypes::default(),
        }
        .take_all(&script.steps);
    }
    talk.flush();
    talk.text
}

struct Talk<'a> {
    peer: &'a mut dyn Peer,
    text: String,
    inbox: Inbox,
    /// Server bytes that are understood but not recorded yet, so that the recording does not depend on how they arrived.
    heard: Vec<u8>,
}

impl Talk<'_> {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        self.flush();
        writeln!(self.text, "{line}").expect("writing to a String");
    }

    fn flush(&mut self) {
        if !self.heard.is_empty() {
            let heard = std::mem::take(&mut self.heard);
            writeln!(self.text, "S {}", hex(&heard)).expect("writing to a String");
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        let encrypted = self.heard.windows(10).any(|window| window == b"PUBLIC KEY");
        if encrypted {
            self.line(format_args!("C~ {}", bytes.len()));
        } else {
            self.line(format_args!("C {}", hex(bytes)));
        }
        self.peer.send(bytes);
    }

    /// Returns false if the server has hung up.
    fn receive(&mut self) -> bool {
        let bytes = self.peer.receive();
        self.inbox.push(&bytes);
        !bytes.is_empty()
    }

    /// Consumes the first `bytes` of the inbox.
    fn understood(&mut self, bytes: usize) {
        self.heard.extend_from_slice(&self.inbox.unread()[..bytes]);
    }

    fn login(&mut self, options: LoginOptions) -> Option<Negotiated> {
        let mut login = Login::new(options);
        let mut out = Vec::new();
        loop {
            let (used, step) = match login.receive(self.inbox.unread(), &mut out) {
                Ok(progress) => progress,
                Err(error) => {
                    self.understood(self.inbox.unread().len());
                    self.line(format_args!("= no login: {error}"));
                    return None;
                }
            };
            self.understood(used);
            self.inbox.consume(used);
            match step {
                LoginStep::Receive if used == 0 && !self.receive() => {
                    self.line(format_args!("= hung up during the login"));
                    return None;
                }
                LoginStep::Receive => {}
                LoginStep::Send | LoginStep::StartTls => {
                    self.send(&out);
                    out.clear();
                }
                LoginStep::Done(session) => {
                    let version = session.greeting.version();
                    self.line(format_args!("= logged in to {version}, deprecate_eof {}", session.deprecate_eof()));
                    return Some(session);
                }
            }
        }
    }
}

struct Steps<'a, 'b> {
    talk: &'a mut Talk<'b>,
    session: Negotiated,
    scanner: Option<ReplyScanner>,
    encoding: Encoding,
    statement: u32,
    types: BoundTypes,
}

/// Commands that only these conversations use.
const COM_INIT_DB: u8 = 0x02;
const COM_STMT_RESET: u8 = 0x1a;

fn bare_command(out: &mut Vec<u8>, code: u8, argument: &[u8]) -> u8 {
    packet::encode(out, &[&[code], argument].concat(), 0)
}

impl Steps<'_, '_> {
    fn take_all(&mut self, steps: &[String]) {
        for step in steps {
            self.talk.line(format_args!("> {step}"));
            let (name, argument) = step.split_once(' ').unwrap_or((step, ""));
            let mut out = Vec::new();
            let mut answering = Answering::Statement;
            let encoding = std::mem::replace(&mut self.encoding, Encoding::Text);
            let sequence = match name {
                "query" => command::query(&mut out, argument.as_bytes()),
                "use" => bare_command(&mut out, COM_INIT_DB, argument.as_bytes()),
                "prepare" => {
                    answering = Answering::Prepare;
                    command::prepare(&mut out, argument.as_bytes())
                }
                "execute" => {
                    self.encoding = Encoding::Binary;
                    let values: Vec<Parameter<'_>> = argument.split_ascii_whitespace().map(parameter).collect();
                    command::execute(&mut out, self.statement, values.into_iter(), &mut self.types)
                }
                "reset" => bare_command(&mut out, COM_STMT_RESET, &self.statement.to_le_bytes()),
                "ping" => {
                    command::ping(&mut out);
                    1
                }
                "close" => {
                    command::close_statement(&mut out, self.statement);
                    self.talk.send(&out);
                    continue;
                }
                "next" => {
                    self.encoding = encoding;
                    let scanner = self.scanner.take().expect("a result before").follow();
                    self.receive(scanner);
                    continue;
                }
                "quit" => {
                    command::quit(&mut out);
                    self.talk.send(&out);
                    continue;
                }
                other => panic!("unknown step '{other}'"),
            };
            self.talk.send(&out);
            self.receive(ReplyScanner::with_sequence(answering, self.session.deprecate_eof(), sequence));
        }
    }

    fn receive(&mut self, mut scanner: ReplyScanner) {
        let scanned = loop {
            match scanner.scan(self.talk.inbox.unread()) {
                Ok(None) if self.talk.receive() => {}
                scanned => break scanned,
            }
        };
        self.talk.understood(scanner.reply_bytes().min(self.talk.inbox.unread().len()));
        match scanned {
            Ok(Some(outcome)) => {
                self.write_outcome(&outcome);
                self.talk.inbox.consume(scanner.reply_bytes());
                self.scanner = Some(scanner);
            }
            Ok(None) => self.talk.line(format_args!("= hung up")),
            Err(error) => self.talk.line(format_args!("= {error}")),
        }
    }

    fn write_outcome(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Done(done) => self.talk.line(format_args!("= {done:?}")),
            Outcome::Failed(error) => self.talk.line(format_args!("= error {error}")),
            Outcome::Prepared(prepared) => {
                self.statement = prepared.statement;
                self.types = BoundTypes::default();
                self.talk.line(format_args!("= {prepared:?}"));
            }
            Outcome::ResultSet(result) => {
                self.talk.line(format_args!(
                    "= rows {}, status {:#x}, warnings {}",
                    result.rows, result.status, result.warnings
                ));
                let names = (0..result.columns).map(|index| column_name(self.talk.inbox.unread(), result, index));
                let names: Vec<_> = names.map(Option::unwrap_or_default).collect();
                let names = names.join(" | ");
                self.talk.line(format_args!("=   {names}"));
                let mut cursor = RowCursor::default();
                cursor.restart(*result, self.encoding);
                let mut row = Vec::new();
                while cursor.next(self.talk.inbox.unread(), &mut row).expect("a row") {
                    let values: Vec<String> = row
                        .iter()
                        .map(|value| match value {
                            Some(bytes) => String::from_utf8_lossy(bytes).escape_debug().to_string(),
                            None => "NULL".to_owned(),
                        })
                        .collect();
                    let values = values.join(" | ");
                    self.talk.line(format_args!("=   {values}"));
                }
            }
        }
    }
}

/// Parses `null`, `i:5`, `d:1.5` or `s:text`.
fn parameter(text: &str) -> Parameter<'_> {
    match text.split_once(':') {
        Some(("i", value)) => Parameter::Int(value.parse().expect("an integer")),
        Some(("d", value)) => Parameter::Double(value.parse().expect("a number")),
        Some(("s", value)) => Parameter::Bytes(value.as_bytes()),
        _ => Parameter::Null,
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
