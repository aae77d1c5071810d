//! Runs a statement COUNT times on one connection, without a script: something small for callgrind to count.
//!
//! `one_connection SOCKET point|range|begin COUNT`, as root without a password, on the tables of `bench/client-cost`.
//! The difference in instructions between two counts leaves out the start (docs/explanation/decisions/hot-path.md).

use std::error::Error;
use std::sync::Arc;

use bakeoff_load::net::{Client, Endpoint, ServerAddress};
use bakeoff_script::host::{Connection, Value};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, kind, count] = arguments.as_slice() else {
        return Err("usage: one_connection SOCKET point|range|begin COUNT".into());
    };
    let address = Arc::new(ServerAddress {
        endpoint: Endpoint::Unix(socket.into()),
        database: Some("sbtest".into()),
        ..ServerAddress::default()
    });
    // As a script holds it.
    let mut connection: Box<dyn Connection> = Box::new(Client::connect(&address)?);
    let point = connection.prepare(b"SELECT c FROM sbtest1 WHERE id=?")?;
    let range = connection.prepare(b"SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?")?;
    let count: i64 = count.parse()?;
    for id in (1..=count).map(|number| 1 + number * 7919 % 90_000) {
        match kind.as_str() {
            "point" => connection.execute(point, &[Value::Int(id)])?,
            "range" => connection.execute(range, &[Value::Int(id), Value::Int(id + 99)])?,
            "begin" => connection.query(b"BEGIN")?,
            _ => return Err(format!("unknown kind of statement '{kind}'").into()),
        };
    }
    Ok(())
}
