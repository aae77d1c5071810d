//! Tests the client's side of the protocol against recordings of real servers and generated replies.

#![allow(clippy::unwrap_used, reason = "in helpers of tests as in tests")]

mod conversation;
mod golden;
mod replies;
mod server;
