//! Numbers the server's keywords and symbols, from `information_schema.KEYWORDS` and `STATEMENT_DIGEST_TEXT()` of 8.0
//! and 9.7. Synonyms have the same number.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

pub(crate) type Id = u16;

/// The first keyword. Lower numbers are symbols and the digest's own tokens.
pub(crate) const FIRST: Id = 512;

/// Keywords, then `NAME(` for functions and `NAME=SAME` for synonyms.
const WORDS: &str = include_str!("keywords.txt");

const IN_HINTS: &str = "DUPSWEEDOUT FIRSTMATCH INTOEXISTS LOOSESCAN MATERIALIZATION";

struct Table {
    texts: Vec<&'static str>,
    /// The number, and whether it is a keyword only before `(`.
    words: FxHashMap<&'static [u8], (Id, bool)>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let (mut texts, mut words) = (Vec::new(), FxHashMap::default());
    for entry in WORDS.split_whitespace().chain(IN_HINTS.split_whitespace()) {
        if let Some((word, same)) = entry.split_once('=') {
            let same: Option<(Id, bool)> = words.get(same.as_bytes()).copied();
            if let (Some((id, _)), Some((same, _))) = (words.get_mut(word.as_bytes()), same) {
                *id = same;
            }
            continue;
        }
        let text = entry.trim_end_matches('(');
        words.entry(text.as_bytes()).or_insert_with(|| {
            texts.push(text);
            (FIRST - 1 + texts.len() as Id, text != entry)
        });
    }
    Table { texts, words }
});

const LONGEST: usize = 40;

pub(crate) fn keyword(word: &[u8], before_parenthesis: bool) -> Option<Id> {
    let mut upper = [0_u8; LONGEST];
    let upper = upper.get_mut(..word.len())?;
    upper.copy_from_slice(word);
    upper.make_ascii_uppercase();
    let (id, is_function) = *TABLE.words.get(&*upper)?;
    (!is_function || before_parenthesis).then_some(id)
}

fn id(word: &str) -> Id {
    keyword(word.as_bytes(), true).unwrap_or_else(|| panic!("{word} is not a keyword"))
}

pub(crate) fn text(id: Id) -> &'static str {
    TABLE.texts.get(usize::from(id.saturating_sub(FIRST))).copied().unwrap_or_default()
}

pub(crate) const SYMBOLS_FROM: Id = 256;
pub(crate) const SYMBOLS: [&str; 12] = ["<=>", "->>", "<=", ">=", "!=", "<<", ">>", "&&", "||", ":=", "->", "@@"];

pub(crate) fn symbol(text: &[u8]) -> Id {
    let text = if text == b"<>" { b"!=" } else { text };
    if let [byte] = text {
        return Id::from(*byte);
    }
    let found = SYMBOLS.iter().position(|each| each.as_bytes() == text).unwrap_or(0);
    SYMBOLS_FROM + Id::try_from(found).unwrap_or(0)
}

macro_rules! named {
    ($($name:ident),* $(,)?) => {
        #[derive(Debug)]
        #[expect(non_snake_case, reason = "named like the keywords")]
        pub(crate) struct Named { $(pub(crate) $name: Id),* }
        pub(crate) static NAMED: LazyLock<Named> = LazyLock::new(|| Named { $($name: id(stringify!($name))),* });
    };
}

named! {
    ALL, ALTER, AND, AS, BACKUP, BETWEEN, BINARY, BY, CASE, CHANGE, CLONE, COMMIT, CONNECTION, CREATE, DEFAULT,
    DISTINCT, DIV, DROP, ELSE, EXECUTE, EXPORT, FLUSH, HAVING, IDENTIFIED, IN, INSERT, INSTALL, INSTANCE, INTERVAL,
    INTO, KILL, LIKE, LOAD, LOCAL, LOCK, MOD, NOT, NULL, ON, OR, PASSWORD, PREPARE, PURGE, READ, RENAME, REPLACE,
    REPLICATION, RESET, RESTART, RLIKE, ROLLBACK, SELECT, SERVER, SET, SHUTDOWN, START, STOP, THEN, TO, TRANSACTION,
    UNINSTALL, UPDATE, USER, WHEN, WHERE, WITH, XOR,
}

pub(crate) fn is_only_in_hints(id: Id) -> bool {
    IN_HINTS.split_whitespace().any(|word| word == text(id))
}
