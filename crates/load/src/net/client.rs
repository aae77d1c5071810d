use std::rc::Rc;
use std::sync::Arc;

use bakeoff_capture::{Effect, effect};
use bakeoff_script::host::{Connection, Reply, SqlError, StatementId, Value};
use bakeoff_wire::command::{BoundTypes, Parameter};
use bakeoff_wire::dialect::{Dialect, MultiByte};
use bakeoff_wire::row::{Encoding, RowCursor, column_name};
use bakeoff_wire::template::Template;
use bakeoff_wire::{Prepared, UTF8MB4_GENERAL_CI, collation_id, command};
use serde::Serialize;

use super::connection::{self, Connected, Exchange};
use super::errors;
use super::socket::{ConnectionCanceller, ReadLimit, Traffic};
use super::{Names, PrepareMode, ServerAddress};
use crate::machine::placement::{Pair, PairedWorker};

const CANNOT_PREPARE: u16 = 1295;

pub struct Client {
    address: Arc<ServerAddress>,
    canceller: Arc<ConnectionCanceller>,
    traffic: Rc<Traffic>,
    paired: Option<PairedWorker>,
    pair: Option<Pair>,
    exchange: Exchange,
    session: SessionFacts,
    cursor: RowCursor,
    statements: Statements,
    generation: u32,
}

#[derive(Debug, Clone, Serialize)]
pub struct ServerFacts {
    pub server_version: String,
    pub charset: String,
    pub collation: String,
    pub tls_cipher: Option<String>,
}

struct SessionFacts {
    server: ServerFacts,
    multi_byte: MultiByte,
}

impl Client {
    pub fn connect(address: &Arc<ServerAddress>) -> Result<Client, SqlError> {
        Self::connect_attached(address, Arc::default(), Rc::default(), None)
    }

    pub fn connect_attached(
        address: &Arc<ServerAddress>,
        canceller: Arc<ConnectionCanceller>,
        traffic: Rc<Traffic>,
        paired: Option<PairedWorker>,
    ) -> Result<Client, SqlError> {
        let (exchange, session, pair) = open(address, &canceller, &traffic, paired.as_ref())?;
        Ok(Client {
            address: Arc::clone(address),
            canceller,
            traffic,
            paired,
            pair,
            exchange,
            session,
            cursor: RowCursor::default(),
            statements: Statements::default(),
            generation: 0,
        })
    }

    pub fn texts<const COLUMNS: usize>(&mut self, sql: &[u8]) -> Result<[String; COLUMNS], SqlError> {
        self.query(sql)?;
        let mut row = Vec::new();
        self.fetch_row(&mut row)?;
        Ok(texts(&row))
    }

    pub fn facts(&self) -> &ServerFacts {
        &self.session.server
    }

    pub fn in_transaction(&self) -> bool {
        self.exchange.in_transaction()
    }

    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }
}

fn open(
    address: &ServerAddress,
    canceller: &Arc<ConnectionCanceller>,
    traffic: &Rc<Traffic>,
    paired: Option<&PairedWorker>,
) -> Result<(Exchange, SessionFacts, Option<Pair>), SqlError> {
    let search = paired.and_then(PairedWorker::begin);
    let known = address.learned.names.get();
    let login_collation = login_collation(address, known);
    let Connected { transport, session, tls_cipher } =
        connection::connect(address, login_collation, canceller, traffic)?;
    let mut exchange = Exchange::new(transport, &session, address.kept_reply_bytes);
    let [charset, collation, ..] =
        settle_names(&mut exchange, address, known).map_err(|error| SqlError { fatal: true, ..error })?;
    let multi_byte = MultiByte::of(&charset);
    let server_version = session.greeting.version().to_owned();
    let server = ServerFacts { server_version, charset, collation, tls_cipher };
    let pair = match search {
        Some(search) => search.pair(|| ping(&mut exchange))?,
        None => None,
    };
    exchange.set_read_limit(ReadLimit::silence(address.read_timeout));
    Ok((exchange, SessionFacts { server, multi_byte }, pair))
}

/// Returns the collation that a login announces: the session's if it is known, so that the login sets it.
fn login_collation(address: &ServerAddress, known: Option<&Names>) -> u8 {
    // In another character set the server would misread names that are not ASCII.
    let is_ascii = address.user.is_ascii() && address.database.as_deref().is_none_or(str::is_ascii);
    let known = known.filter(|_| is_ascii).and_then(|[_, collation, ..]| collation_id(collation));
    known.unwrap_or(UTF8MB4_GENERAL_CI)
}

/// Sets the session's character set. The first connection to an address asks what the server made of it. The second
/// asks whether its login did the same. Later ones ask nothing, and set it only if the login does not.
fn settle_names(exchange: &mut Exchange, address: &ServerAddress, known: Option<&Names>) -> Result<Names, SqlError> {
    let learned = &address.learned;
    let Some(known) = known else {
        set_names(exchange, address)?;
        let names = ask_names(exchange)?;
        return Ok(learned.names.get_or_init(|| names).clone());
    };
    let login_sets_names = match learned.login_sets_names.get() {
        Some(known) => *known,
        None => {
            let is_set = ask_names(exchange)? == *known;
            *learned.login_sets_names.get_or_init(|| is_set)
        }
    };
    if !login_sets_names {
        set_names(exchange, address)?;
    }
    Ok(known.clone())
}

fn set_names(exchange: &mut Exchange, address: &ServerAddress) -> Result<(), SqlError> {
    let mut sql = format!("SET NAMES {}", name(&address.charset, "charset")?);
    if let Some(collation) = &address.collation {
        sql.push_str(" COLLATE ");
        sql.push_str(name(collation, "collation")?);
    }
    let sequence = command::query(exchange.begin()?, sql.as_bytes());
    exchange.run(sequence, Encoding::Text, &mut RowCursor::default()).map(drop)
}

fn ping(exchange: &mut Exchange) -> Result<(), SqlError> {
    command::ping(exchange.begin()?);
    exchange.run(1, Encoding::Text, &mut RowCursor::default()).map(drop)
}

fn name<'a>(name: &'a str, what: &str) -> Result<&'a str, SqlError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !name.is_empty() && name.bytes().all(plain) {
        return Ok(name);
    }
    Err(errors::fatal(1115, format!("{what} '{name}' is not a name (letters, digits and _ only)")))
}

fn ask_names(exchange: &mut Exchange) -> Result<Names, SqlError> {
    const ASK: &str = "SELECT @@character_set_connection, @@collation_connection, @@character_set_client, \
                       @@character_set_results";
    let sequence = command::query(exchange.begin()?, ASK.as_bytes());
    let mut cursor = RowCursor::default();
    exchange.run(sequence, Encoding::Text, &mut cursor)?;
    let mut row = Vec::new();
    cursor.next(exchange.reply_bytes(), &mut row).map_err(errors::malformed)?;
    Ok(texts(&row))
}

fn texts<const COLUMNS: usize>(row: &[Option<Vec<u8>>]) -> [String; COLUMNS] {
    std::array::from_fn(|column| {
        let bytes = row.get(column).and_then(Option::as_deref);
        String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
    })
}

fn dialect(exchange: &Exchange, session: &SessionFacts) -> Dialect {
    Dialect {
        no_backslash_escapes: exchange.no_backslash_escapes(),
        multi_byte: session.multi_byte,
        ..Dialect::default()
    }
}

fn prepare_on_server(exchange: &mut Exchange, cursor: &mut RowCursor, sql: &[u8]) -> Result<Prepared, SqlError> {
    let sequence = command::prepare(exchange.begin()?, sql);
    cursor.stop();
    exchange.prepare(sequence)
}

impl Connection for Client {
    #[inline]
    fn query(&mut self, sql: &[u8]) -> Result<Reply, SqlError> {
        let sequence = command::query(self.exchange.begin()?, sql);
        self.exchange.run(sequence, Encoding::Text, &mut self.cursor)
    }

    fn prepare(&mut self, sql: &[u8]) -> Result<StatementId, SqlError> {
        // Transaction control is not prepared: some servers cannot, and the others gain nothing.
        let controls_transaction = || matches!(effect(sql), Effect::Begin | Effect::End | Effect::Chain);
        let prepared = if self.address.prepare_mode == PrepareMode::Client || controls_transaction() {
            None
        } else {
            match prepare_on_server(&mut self.exchange, &mut self.cursor, sql) {
                Err(error) if error.code == CANNOT_PREPARE => None,
                prepared => Some(prepared?),
            }
        };
        let statement = match prepared {
            Some(prepared) => Statement::Server(ServerStatement {
                sql: sql.into(),
                id: prepared.statement,
                parameters: prepared.parameters.into(),
                types: Default::default(),
                generation: self.generation,
            }),
            None => Statement::Text(Template::new(sql, dialect(&self.exchange, &self.session))),
        };
        Ok(self.statements.add(statement))
    }

    #[inline]
    fn execute(&mut self, statement: StatementId, values: &[Value<'_>]) -> Result<Reply, SqlError> {
        if values.iter().any(|value| matches!(value, Value::Double(float) if !float.is_finite())) {
            return Err(errors::unsupported_value());
        }
        match self.statements.get_mut(statement).ok_or_else(errors::no_such_statement)? {
            Statement::Server(statement) => {
                if values.len() != statement.parameters {
                    return Err(errors::parameters(values.len(), statement.parameters));
                }
                if statement.generation != self.generation {
                    statement.id = prepare_on_server(&mut self.exchange, &mut self.cursor, &statement.sql)?.statement;
                    statement.generation = self.generation;
                    statement.types.forget();
                }
                let sequence = command::execute(
                    self.exchange.begin()?,
                    statement.id,
                    values.iter().map(parameter),
                    &mut statement.types,
                );
                let reply = self.exchange.run(sequence, Encoding::Binary, &mut self.cursor);
                if reply.is_err() {
                    statement.types.forget();
                }
                reply
            }
            Statement::Text(template) => {
                if values.len() != template.parameters() {
                    return Err(errors::parameters(values.len(), template.parameters()));
                }
                let dialect = dialect(&self.exchange, &self.session);
                let sequence = command::query_with(self.exchange.begin()?, |out| {
                    template.render(values.iter().map(parameter), dialect, out);
                });
                self.exchange.run(sequence, Encoding::Text, &mut self.cursor)
            }
        }
    }

    fn close_statement(&mut self, statement: StatementId) {
        if let Some(Statement::Server(statement)) = self.statements.remove(statement)
            && statement.generation == self.generation
        {
            command::close_statement(self.exchange.writer(), statement.id);
        }
    }

    fn next_result(&mut self) -> Result<Option<Reply>, SqlError> {
        self.exchange.next_result(&mut self.cursor)
    }

    fn fetch_row(&mut self, row: &mut Vec<Option<Vec<u8>>>) -> Result<bool, SqlError> {
        let kept = self.cursor.result().is_none_or(|result| !result.rows_dropped);
        self.cursor.next(self.exchange.reply_bytes(), row).map_err(|error| errors::bad_row(error, kept))
    }

    fn column_name(&self, index: u32) -> Option<&str> {
        column_name(self.exchange.reply_bytes(), self.cursor.result()?, index)
    }

    fn reconnect(&mut self) -> Result<(), SqlError> {
        self.cursor.stop();
        self.pair = None;
        self.exchange.quit();
        (self.exchange, self.session, self.pair) =
            open(&self.address, &self.canceller, &self.traffic, self.paired.as_ref())?;
        self.generation += 1;
        Ok(())
    }

    fn charset(&self) -> (&str, &str) {
        (&self.session.server.charset, &self.session.server.collation)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.pair = None;
        self.exchange.quit();
    }
}

enum Statement {
    Server(ServerStatement),
    Text(Template),
}

struct ServerStatement {
    sql: Box<[u8]>,
    id: u32,
    parameters: usize,
    types: BoundTypes,
    generation: u32,
}

/// The place of a closed statement is None until it is reused.
#[derive(Default)]
struct Statements(Vec<Option<Statement>>);

impl Statements {
    fn add(&mut self, statement: Statement) -> StatementId {
        let place = self.0.iter().position(Option::is_none).unwrap_or_else(|| {
            self.0.push(None);
            self.0.len() - 1
        });
        self.0[place] = Some(statement);
        StatementId(place as u32)
    }

    #[inline]
    fn get_mut(&mut self, id: StatementId) -> Option<&mut Statement> {
        self.0.get_mut(id.0 as usize)?.as_mut()
    }

    fn remove(&mut self, id: StatementId) -> Option<Statement> {
        self.0.get_mut(id.0 as usize)?.take()
    }
}

#[inline]
fn parameter<'a>(value: &Value<'a>) -> Parameter<'a> {
    match *value {
        Value::Null => Parameter::Null,
        Value::Int(integer) => Parameter::Int(integer),
        Value::Double(float) => Parameter::Double(float),
        Value::Bytes(bytes) => Parameter::Bytes(bytes),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/net_client.rs"]
mod tests;
