//! The client against servers: broken ones, which are threads of this test, and real ones.
//!
//! Those of `real_servers` are ignored unless asked for, because they need servers that run: set `BAKEOFF_TEST_MYSQL57_SOCKET`,
//! `BAKEOFF_TEST_MYSQL80_SOCKET`, `BAKEOFF_TEST_MARIADB_SOCKET` (one or more; root without a password) and, for TCP, `…_PORT` on
//! 127.0.0.1, and, for verified TLS, `…_CA`; then `cargo test -p bakeoff-load --test main -- --ignored`. With none of them set every
//! test fails: a run in which nothing was tested must not look like a success.

#![allow(clippy::unwrap_used, reason = "in helpers of tests as in tests")]

mod broken_servers;
mod real_servers {
    pub(crate) mod accounts;
    pub(crate) mod failures;
    pub(crate) mod results;
    pub(crate) mod servers;
    pub(crate) mod statements;
}
