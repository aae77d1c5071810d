//! The MySQL options as addresses: where to connect, as whom, in which character set, how secured.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bakeoff_script::IgnoreErrors;

use crate::command_line::{CommandLine, tls_mode};
use crate::option_files::my_cnf;
use bakeoff_load::connector::Rotation;
use bakeoff_load::net::{Endpoint, PrepareMode, Secret, ServerAddress, TlsMode, TlsOptions};

const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// Longest wait for a reply. sysbench has no limit, and an index over a big table takes as long as it takes.
const REPLY_LIMIT: Duration = Duration::from_secs(24 * 3600);
const USUAL_SOCKETS: [&str; 4] =
    ["/run/mysqld/mysqld.sock", "/var/run/mysqld/mysqld.sock", "/var/lib/mysql/mysql.sock", "/tmp/mysql.sock"];

pub(crate) struct MySqlOptions<'a> {
    line: &'a CommandLine,
    my_cnf: Vec<(&'static str, String)>,
}

impl<'a> MySqlOptions<'a> {
    pub(crate) fn read(line: &'a CommandLine) -> Result<Self, String> {
        let my_cnf = if line.has("my_cnf") { my_cnf(line.text("my_cnf"))? } else { Vec::new() };
        Ok(Self { line, my_cnf })
    }

    fn in_file(&self, name: &str) -> Option<&str> {
        let mut values = self.my_cnf.iter().rev();
        values.find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    fn text(&self, name: &str) -> &str {
        match self.in_file(name) {
            Some(value) if !self.line.has(name) => value,
            _ => self.line.text(name),
        }
    }

    fn list(&self, name: &str) -> Vec<String> {
        match self.in_file(name) {
            Some(value) if !self.line.has(name) => vec![value.to_owned()],
            _ => self.line.list(name),
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.line.is_on("mysql_compression") {
            return Err("--mysql-compression is not supported".to_owned());
        }
        if !self.text("mysql_ssl_cipher").is_empty() {
            return Err("--mysql-ssl-cipher is not supported: the TLS library chooses the cipher".to_owned());
        }
        Ok(())
    }

    pub(crate) fn charset(&self) -> (String, Option<String>) {
        let collation = Some(self.text("mysql_collation").to_owned());
        (self.text("mysql_charset").to_owned(), collation.filter(|collation| !collation.is_empty()))
    }

    pub(crate) fn driver_failure(&self) -> Option<String> {
        if self.sockets().is_empty() && self.list("mysql_host").is_empty() {
            return Some("No MySQL hosts specified, aborting".to_owned());
        }
        let mode = self.text("db_ps_mode");
        prepare_mode(mode).is_none().then(|| format!("Invalid value for db-ps-mode: {mode}"))
    }

    pub(crate) fn ignored_errors(&self) -> Result<IgnoreErrors, String> {
        let list = self.list("mysql_ignore_errors");
        if list.iter().any(|item| item == "all") {
            return Ok(IgnoreErrors::All);
        }
        let code =
            |item: &String| self.number(item).map_err(|_| format!("Invalid value for --mysql-ignore-errors: '{item}'"));
        Ok(IgnoreErrors::Codes(list.iter().map(code).collect::<Result<_, _>>()?))
    }

    pub(crate) fn rotation(&self) -> Result<Rotation, String> {
        let (charset, collation) = self.charset();
        let base = ServerAddress {
            user: self.text("mysql_user").to_owned(),
            password: self.password(),
            database: Some(self.text("mysql_db").to_owned()).filter(|name| !name.is_empty()),
            charset,
            collation,
            tls: self.tls()?,
            prepare_mode: prepare_mode(self.text("db_ps_mode")).unwrap_or(PrepareMode::Server),
            connect_timeout: CONNECT_LIMIT,
            read_timeout: REPLY_LIMIT,
            ..ServerAddress::default()
        };
        let addresses =
            self.endpoints()?.into_iter().map(|endpoint| Arc::new(ServerAddress { endpoint, ..base.clone() }));
        Ok(Rotation::new(addresses.collect()))
    }

    /// Uses the file's socket unless the command line names a host or a port, or the file a host elsewhere.
    fn sockets(&self) -> Vec<String> {
        let is_elsewhere = |host: &String| !host.is_empty() && host != "localhost";
        let is_named = self.line.has("mysql_host") || self.line.has("mysql_port");
        if is_named || self.list("mysql_host").iter().any(is_elsewhere) {
            self.line.list("mysql_socket")
        } else {
            self.list("mysql_socket")
        }
    }

    fn endpoints(&self) -> Result<Vec<Endpoint>, String> {
        let sockets = self.sockets();
        if !sockets.is_empty() {
            return Ok(sockets.iter().map(|path| Endpoint::Unix(path.into())).collect());
        }
        let mut endpoints = Vec::new();
        for host in self.list("mysql_host") {
            for port in self.list("mysql_port") {
                let number = self.number(&port).ok().filter(|number| *number > 0 || !self.line.strict);
                let port = number.ok_or_else(|| format!("Invalid value for --mysql-port: '{port}'"))?;
                endpoints.push(self.endpoint(&host, port));
            }
        }
        if endpoints.is_empty() {
            // Nobody connects, because the driver has failed.
            endpoints.push(self.endpoint("localhost", 3306));
        }
        Ok(endpoints)
    }

    /// Parses a small number of a list. As in sysbench it ends where its digits end.
    fn number(&self, text: &str) -> Result<u16, std::num::ParseIntError> {
        let digits = text.len() - text.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
        match &text[..digits] {
            _ if self.line.strict => text.parse(),
            "" => Ok(0),
            digits => digits.parse(),
        }
    }

    /// `localhost` is the usual unix socket, as in MySQL's client library, unless another port is asked for. A my.cnf's
    /// socket and port belong to one server, the command line's port may not.
    fn endpoint(&self, host: &str, port: u16) -> Endpoint {
        let of_line = self.line.has("mysql_port");
        let in_file = self.in_file("mysql_socket").filter(|_| !of_line);
        let other_port = port != 3306 && in_file.is_none();
        if host == "localhost" && !other_port {
            let named = in_file.map(str::to_owned).or_else(|| std::env::var("MYSQL_UNIX_PORT").ok()).map(PathBuf::from);
            let usual = USUAL_SOCKETS.iter().map(PathBuf::from).find(|path| path.exists());
            return Endpoint::Unix(named.or(usual).unwrap_or_else(|| PathBuf::from(USUAL_SOCKETS[0])));
        }
        Endpoint::Tcp { host: host.to_owned(), port }
    }

    fn password(&self) -> Secret {
        match self.text("mysql_password") {
            "" => Secret::from(&*std::env::var("MYSQL_PWD").unwrap_or_default()),
            given => Secret::from(given),
        }
    }

    fn tls(&self) -> Result<TlsOptions, String> {
        let file = |name: &str| Some(self.text(name)).filter(|path| !path.is_empty()).map(PathBuf::from);
        let mode = self.text("mysql_ssl");
        let mut tls = TlsOptions {
            mode: tls_mode(mode).ok_or_else(|| {
                let known = "disabled, preferred, required, verify_ca or verify_identity";
                format!("Invalid value for --mysql-ssl: '{mode}'. It is {known}")
            })?,
            ca: file("mysql_ssl_ca"),
            cert: file("mysql_ssl_cert"),
            key: file("mysql_ssl_key"),
        };
        if ["on", "true", "1"].contains(&mode) {
            let here = |name: &str| Some(PathBuf::from(name)).filter(|path| Path::exists(path));
            // sysbench 1.0 expects these files in the working directory.
            let [ca, cert, key] = ["cacert.pem", "client-cert.pem", "client-key.pem"];
            if tls.cert.is_none() && tls.key.is_none() {
                tls.cert = here(cert).filter(|_| here(key).is_some());
                tls.key = here(key).filter(|_| tls.cert.is_some());
            }
            tls.ca = tls.ca.or_else(|| here(ca));
            if tls.ca.is_some() {
                tls.mode = TlsMode::VerifyCa;
            }
        }
        if matches!(tls.mode, TlsMode::VerifyCa | TlsMode::VerifyIdentity) && tls.ca.is_none() {
            return Err(format!("--mysql-ssl={} needs --mysql-ssl-ca", self.text("mysql_ssl")));
        }
        Ok(tls)
    }
}

fn prepare_mode(name: &str) -> Option<PrepareMode> {
    match name {
        "auto" | "server" => Some(PrepareMode::Server),
        "disable" | "client" | "text" => Some(PrepareMode::Client),
        _ => None,
    }
}

#[cfg(test)]
#[path = "../tests/unit/server.rs"]
mod tests;
