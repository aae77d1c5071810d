//! What can go wrong with a request, by the contract's codes.

use bakeoff_script::host::SqlError;
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    BadRequest,
    ConnectFailed,
    AccessDenied,
    TlsFailed,
    ServerLost,
    ScriptNotFound,
    ScriptError,
    SqlError,
    ThreadInitTimeout,
    NotPaired,
    Internal,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{}{message}", arm.as_ref().map(|arm| format!("arm {arm}: ")).unwrap_or_default())]
pub struct Failure {
    pub code: Code,
    pub arm: Option<String>,
    pub sql_errno: Option<u16>,
    pub sqlstate: Option<String>,
    #[serde(skip)]
    pub message: String,
    pub fatal: bool,
}

impl Failure {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, arm: None, sql_errno: None, sqlstate: None, message: message.into(), fatal: false }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Code::BadRequest, message)
    }

    pub fn connecting(error: &SqlError) -> Self {
        Self::from_sql(connect_code(error), error)
    }

    pub fn running(error: &SqlError) -> Self {
        Self::from_sql(statement_code(error), error)
    }

    fn from_sql(code: Code, error: &SqlError) -> Self {
        Self {
            sql_errno: Some(error.code),
            sqlstate: Some(error.sqlstate.clone()),
            ..Self::new(code, error.to_string())
        }
    }

    #[must_use]
    pub fn on_arm(mut self, name: &str) -> Self {
        self.arm.get_or_insert_with(|| name.to_owned());
        self
    }

    #[must_use]
    pub fn fatal(self) -> Self {
        Self { fatal: true, ..self }
    }
}

fn connect_code(error: &SqlError) -> Code {
    match error.code {
        // 1044 no right to the database, 1045 and 1698 wrong user or password, 1130 host not allowed, 1251, 2059 and
        // 2061 no common way to log in, 1820 and 1862 password expired, 3118 and 4151 (MariaDB) account locked.
        1044 | 1045 | 1130 | 1251 | 1698 | 1820 | 1862 | 2059 | 2061 | 3118 | 4151 => Code::AccessDenied,
        // 2026 TLS handshake or certificate, 3159 the server insists on a secure transport.
        2026 | 3159 => Code::TlsFailed,
        _ => Code::ConnectFailed,
    }
}

/// Returns the code of a failed statement, or of a failed connection attempt during a measurement. The attempt's error
/// is always fatal; a statement can fail with the same number and not be fatal.
fn statement_code(error: &SqlError) -> Code {
    match error.code {
        // 2002, 2003 and 2005 cannot connect, 1040 and 1203 too many connections, 1049 unknown database.
        // 1226 the account's limit of connections or statements.
        2002 | 2003 | 2005 | 1040 | 1049 | 1203 | 1226 if error.fatal => Code::ConnectFailed,
        // 1053 shutting down, 1927 connection killed, 2006 gone, 2013 lost, 2055 lost in the middle.
        1053 | 1927 | 2006 | 2013 | 2055 => Code::ServerLost,
        // 2000: the script's runtime caught a panic of the client.
        2000 => Code::Internal,
        _ if !error.fatal => Code::SqlError,
        _ => match connect_code(error) {
            Code::ConnectFailed => Code::ServerLost,
            refused => refused,
        },
    }
}
