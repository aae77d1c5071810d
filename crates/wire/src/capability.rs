//! Capability and status flags.
//!
//! Source: MySQL internals manual, "Capability Flags" and "Status Flags".

/// Longer password hashes; every server since 4.1 wants it set.
pub const LONG_PASSWORD: u32 = 1;
/// Longer column flags.
pub const LONG_FLAG: u32 = 1 << 2;
/// The login names a database.
pub const CONNECT_WITH_DB: u32 = 1 << 3;
/// The client would send files for LOAD DATA LOCAL.
pub const LOCAL_FILES: u32 = 1 << 7;
/// Protocol of 4.1 and later.
pub const PROTOCOL_41: u32 = 1 << 9;
/// The connection turns to TLS before the login.
pub const SSL: u32 = 1 << 11;
/// Replies carry transaction status.
pub const TRANSACTIONS: u32 = 1 << 13;
/// Authentication of 4.1 and later.
pub const SECURE_CONNECTION: u32 = 1 << 15;
/// Several statements in one COM_QUERY.
pub const MULTI_STATEMENTS: u32 = 1 << 16;
/// Several results to one COM_QUERY.
pub const MULTI_RESULTS: u32 = 1 << 17;
/// Several results to one COM_STMT_EXECUTE.
pub const PS_MULTI_RESULTS: u32 = 1 << 18;
/// Authentication by named plugins.
pub const PLUGIN_AUTH: u32 = 1 << 19;
/// The length of the authentication response is length-encoded.
pub const PLUGIN_AUTH_LENENC: u32 = 1 << 21;
/// Result sets end with an OK packet instead of EOF, and no EOF follows the columns.
pub const DEPRECATE_EOF: u32 = 1 << 24;

/// Another result follows this one.
pub const STATUS_MORE_RESULTS: u16 = 1 << 3;
/// The server treats a backslash as an ordinary character.
pub const STATUS_NO_BACKSLASH_ESCAPES: u16 = 1 << 9;
