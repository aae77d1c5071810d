//! The server as clients meet it: started as a process, spoken to over its sockets.

#![allow(clippy::unwrap_used)]

mod client;
mod faults;
mod protocol;
