//! Finds out from a statement's tokens whether it has a password, takes a lock or is for the server itself.

use bakeoff_wire::dialect::Dialect;

use crate::keywords::{self, Id, NAMED, symbol};
use crate::lexer::{Kind, Token, is_one_of};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facts {
    pub(crate) dialect: Dialect,
    pub(crate) first: Id,
    pub empty: bool,
    pub parameter: bool,
    pub cut: bool,
    pub secret: bool,
    pub secret_comment: bool,
    pub(crate) account: bool,
    /// `LOAD … LOCAL`: it needs a file of the client.
    pub local_file: bool,
    /// It affects the server's logs, settings, accounts, files or other connections: `RESET`, `SET GLOBAL`, `KILL 5`.
    pub for_server: bool,
    /// It takes or releases a lock that outlives transactions: `GET_LOCK`, `FLUSH TABLES WITH READ LOCK`.
    pub locks: bool,
    pub ends_transaction: bool,
}

/// Name prefixes of procedures and functions of clouds and commercial editions that take a password.
const WITH_SECRETS: [&str; 4] =
    ["rds_set_external_", "az_replication_change_", "setupExternalSource", "audit_log_encryption_password_set"];

#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) facts: Facts,
    first: Id,
    several: bool,
    before: Id,
    earlier: Id,
    depth: i32,
}

impl Watch {
    pub(crate) fn comment(&mut self, text: &[u8]) {
        if mentions(text, b"password") || mentions(text, b"identified") {
            self.facts.secret_comment = true;
            // Code for another version or flavour, perhaps the whole statement.
            self.facts.secret |= text.starts_with(b"/*!") || text.starts_with(b"/*M!");
        }
    }

    pub(crate) fn token(&mut self, id: Id, token: Token, sql: &[u8]) {
        let text = &sql[token.start..token.end];
        let named = &*NAMED;
        let facts = &mut self.facts;
        facts.account |= names_user(sql, token);
        match token.kind {
            Kind::Word | Kind::Quoted => {
                if self.first == 0 && id >= keywords::FIRST {
                    self.first = id;
                    if facts.first == 0 {
                        facts.first = id;
                        facts.ends_transaction = id == named.COMMIT || id == named.ROLLBACK;
                    }
                    facts.for_server |= [
                        named.SHUTDOWN,
                        named.RESTART,
                        named.KILL,
                        named.RESET,
                        named.PURGE,
                        named.STOP,
                        named.INSTALL,
                        named.UNINSTALL,
                        named.CLONE,
                    ]
                    .contains(&id);
                    facts.locks |= id == named.BACKUP; // MariaDB's BACKUP STAGE and BACKUP LOCK
                } else if self.before == named.START {
                    facts.for_server |= self.first == named.START && id != named.TRANSACTION;
                }
                // KILL CONNECTION_ID() harms no other connection.
                facts.for_server &=
                    self.first != named.KILL || self.several || !text.eq_ignore_ascii_case(b"connection_id");
                facts.for_server |= drops_account(self.first, self.before, id)
                    || self.depth == 0 && sets_global(self.first, self.earlier, self.before, text);
                facts.local_file |= id == named.LOCAL && self.first == named.LOAD;
                facts.ends_transaction &= id != named.TO;
                let next = sql[token.end..].iter().find(|byte| !byte.is_ascii_whitespace()).copied().unwrap_or(0);
                facts.for_server |= token.kind == Kind::Word && takes_server_file(self.first, self.before, text, next);
                facts.secret |= is_secret(self.first, self.before, id, text, next);
                facts.locks |= is_lock(self.first, self.before, id, text, next);
            }
            Kind::Host => facts.secret |= self.first == named.SET && mentions(text, b"password"),
            Kind::Text => facts.secret |= is_secret_text(self.first, self.before, text),
            Kind::Cut => {
                facts.cut = true;
                facts.secret |= mentions(text, b"password") || mentions(text, b"identified");
            }
            Kind::Parameter => facts.parameter = true,
            Kind::Symbol if matches!(text, b"(" | b")") => self.depth += if text == b"(" { 1 } else { -1 },
            // The statements within a definition do not run with it.
            Kind::Symbol if text == b";" && !is_definition(self.first) => (self.first, self.several) = (0, true),
            Kind::Symbol if text == b"=" && self.before == named.CONNECTION => {
                facts.secret |= is_definition(self.first);
            }
            _ => {}
        }
        (self.earlier, self.before) = (self.before, id);
    }
}

fn drops_account(first: Id, before: Id, id: Id) -> bool {
    let named = &*NAMED;
    id == named.USER && before == first && (first == named.DROP || first == named.RENAME)
}

/// Whether a word makes the statement read or write a file on the server's host, unlike `LOAD … LOCAL`.
fn takes_server_file(first: Id, before: Id, text: &[u8], next: u8) -> bool {
    match text.len() {
        6 => first == NAMED.LOAD && text.eq_ignore_ascii_case(b"infile"),
        7 | 8 => before == NAMED.INTO && is_one_of(text, &["outfile", "dumpfile"]),
        9 => next == b'(' && text.eq_ignore_ascii_case(b"load_file"),
        _ => false,
    }
}

fn sets_global(first: Id, earlier: Id, before: Id, text: &[u8]) -> bool {
    let target = if before == symbol(b"@@") { earlier } else { before };
    first == NAMED.SET
        && (target == NAMED.SET || target == Id::from(b','))
        && is_one_of(text, &["global", "persist", "persist_only"])
}

pub(crate) fn is_definition(first: Id) -> bool {
    first == NAMED.CREATE || first == NAMED.ALTER
}

fn is_secret(first: Id, before: Id, id: Id, text: &[u8], next: u8) -> bool {
    let named = &*NAMED;
    let changes_account =
        before == named.CREATE || before == named.ALTER || (before == named.REPLACE && first == named.CREATE);
    let changes_rows = [named.UPDATE, named.INSERT, named.REPLACE, named.WITH].contains(&first);
    if before == named.IDENTIFIED {
        [named.BY, named.WITH, named.AS].contains(&id) || text.eq_ignore_ascii_case(b"via")
    } else if id == named.USER || id == named.SERVER {
        changes_account
    } else if id == named.REPLICATION || text.eq_ignore_ascii_case(b"master") {
        before == named.CHANGE
    } else if text.len() < 8 {
        false
    } else if id == named.PASSWORD
        && (before == named.SET && !changes_rows || next == b'(' && !is_definition(first) && before != named.INTO)
    {
        true
    } else if first == named.SET || first == named.START || first == named.CHANGE {
        mentions(text, b"password") || text.eq_ignore_ascii_case(b"wsrep_sst_auth")
    } else if next == b'(' && text.eq_ignore_ascii_case(b"old_password") {
        true
    } else {
        let name = text.strip_prefix(b"`").unwrap_or(text);
        let name = name.strip_suffix(b"`").unwrap_or(name);
        name.eq_ignore_ascii_case(b"authentication_string")
            || name.eq_ignore_ascii_case(b"global_priv")
            || WITH_SECRETS
                .iter()
                .any(|begin| name.get(..begin.len()).is_some_and(|head| head.eq_ignore_ascii_case(begin.as_bytes())))
    }
}

/// Whether a word takes a lock that others would wait for, in a replay perhaps forever.
fn is_lock(first: Id, before: Id, id: Id, text: &[u8], next: u8) -> bool {
    let named = &*NAMED;
    if first == named.FLUSH {
        before == named.WITH && id == named.READ || id == named.EXPORT
    } else if first == named.LOCK {
        before == named.LOCK && id == named.INSTANCE
    } else {
        next == b'(' && is_one_of(text, &["get_lock", "release_lock", "release_all_locks"])
    }
}

fn is_secret_text(first: Id, before: Id, text: &[u8]) -> bool {
    let named = &*NAMED;
    if [named.PREPARE, named.EXECUTE, named.SET].contains(&first) {
        return mentions(text, b"password") || mentions(text, b"identified");
    }
    is_definition(first) && (before == named.CONNECTION || mentions(text, b"identified") || gives_password(text))
}

fn gives_password(text: &[u8]) -> bool {
    const WORD: &[u8] = b"password";
    let inner = &text[..text.len().saturating_sub(1)]; // a comment may end with the word, before the last quote
    inner.windows(WORD.len()).enumerate().filter(|(_, each)| each.eq_ignore_ascii_case(WORD)).any(|(at, _)| {
        let next = inner[at + WORD.len()..].iter().find(|byte| !byte.is_ascii_whitespace());
        next.is_some_and(|byte| b"=\"'\\".contains(byte))
    })
}

pub(crate) fn mentions(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|each| each.eq_ignore_ascii_case(word))
}

/// Whether a token is the user of an account (`bob@db1`) and not a reserved word before a variable (`SELECT@x`).
pub(crate) fn names_user(sql: &[u8], token: Token) -> bool {
    #[rustfmt::skip]
    const BEFORE_VARIABLES: [&str; 27] = [
        "all", "and", "between", "by", "case", "distinct", "div", "else", "having", "in", "into", "like", "limit",
        "mod", "not", "on", "or", "regexp", "return", "rlike", "select", "set", "then", "using", "when", "where", "xor",
    ];
    let is_name = matches!(token.kind, Kind::Word | Kind::Quoted | Kind::Text);
    is_name
        && sql.get(token.end) == Some(&b'@')
        && sql.get(token.end + 1) != Some(&b'@')
        && !is_one_of(&sql[token.start..token.end], &BEFORE_VARIABLES)
}
