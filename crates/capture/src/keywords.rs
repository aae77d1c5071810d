//! Numbers the server's keywords and symbols, from `information_schema.KEYWORDS` and `STATEMENT_DIGEST_TEXT()` of 8.0
//! and 9.7. Synonyms have the same number.

use std::sync::LazyLock;

pub(crate) type Id = u16;

/// The first keyword. Lower numbers are symbols and the digest's own tokens.
pub(crate) const FIRST: Id = 512;

const WORDS: &str = include_str!("keywords.txt");

const FUNCTIONS: &str = "ADDDATE BIT_AND BIT_OR BIT_XOR CAST COUNT CURDATE CURTIME DATE_ADD DATE_SUB EXTRACT GROUP_CONCAT \
    JSON_ARRAYAGG JSON_OBJECTAGG MAX MID MIN NOW POSITION SESSION_USER STD STDDEV STDDEV_POP STDDEV_SAMP ST_COLLECT \
    SUBDATE SUBSTR SUBSTRING SUM SYSDATE SYSTEM_USER TRIM VARIANCE VAR_POP VAR_SAMP";

const SAME: &str = "ANY=SOME BIGINT=INT8 CHAR=CHARACTER COLUMNS=FIELDS CURRENT_DATE=CURDATE CURRENT_TIME=CURTIME \
    CURRENT_TIMESTAMP=NOW DATABASE=SCHEMA DATABASES=SCHEMAS DAY=SQL_TSI_DAY DEC=DECIMAL DESCRIBE=EXPLAIN \
    DISTINCT=DISTINCTROW DOUBLE=FLOAT8 FLOAT=FLOAT4 GEOMCOLLECTION=GEOMETRYCOLLECTION HOUR=SQL_TSI_HOUR INT=INTEGER \
    INT1=TINYINT INT2=SMALLINT INT3=MIDDLEINT INT4=INTEGER IO_THREAD=RELAY_THREAD LOCALTIME=NOW LOCALTIMESTAMP=NOW \
    MEDIUMINT=MIDDLEINT MID=SUBSTRING MINUTE=SQL_TSI_MINUTE MONTH=SQL_TSI_MONTH NDB=NDBCLUSTER QUARTER=SQL_TSI_QUARTER \
    REGEXP=RLIKE SECOND=SQL_TSI_SECOND SESSION_USER=SYSTEM_USER SQL_TSI_WEEK=WEEK SQL_TSI_YEAR=YEAR STD=STDDEV_POP \
    STDDEV=STDDEV_POP SUBSTR=SUBSTRING USER=SYSTEM_USER VARCHAR=VARCHARACTER VARIANCE=VAR_POP";

const IN_HINTS: &str = "DUPSWEEDOUT FIRSTMATCH INTOEXISTS LOOSESCAN MATERIALIZATION";

const SLOTS: usize = 4096;

struct Word {
    text: &'static str,
    id: Id,
    function: bool,
}

struct Table {
    words: Vec<Word>,
    slots: Vec<u16>,
}

static TABLE: LazyLock<Table> = LazyLock::new(Table::new);

impl Table {
    fn new() -> Self {
        let mut table = Self { words: Vec::new(), slots: vec![0; SLOTS] };
        let plain = WORDS.split_whitespace().chain(IN_HINTS.split_whitespace());
        let named = plain.map(|word| (word, false)).chain(FUNCTIONS.split_whitespace().map(|word| (word, true)));
        for (text, function) in named {
            if table.find(text.as_bytes()).is_none() {
                let id = FIRST + u16::try_from(table.words.len()).unwrap_or(u16::MAX);
                table.words.push(Word { text, id, function });
                let mut slot = slot_of(text.as_bytes());
                while table.slots[slot] != 0 {
                    slot = (slot + 1) % SLOTS;
                }
                table.slots[slot] = u16::try_from(table.words.len()).unwrap_or(0);
            }
        }
        for (word, printed) in SAME.split_whitespace().filter_map(|pair| pair.split_once('=')) {
            if let (Some(word), Some(printed)) = (table.find(word.as_bytes()), table.find(printed.as_bytes())) {
                table.words[word].id = table.words[printed].id;
            }
        }
        table
    }

    fn find(&self, upper: &[u8]) -> Option<usize> {
        let mut slot = slot_of(upper);
        loop {
            let index = usize::from(self.slots[slot].checked_sub(1)?);
            if self.words[index].text.as_bytes() == upper {
                return Some(index);
            }
            slot = (slot + 1) % SLOTS;
        }
    }
}

fn slot_of(upper: &[u8]) -> usize {
    let mut first = [0_u8; 8];
    let len = upper.len().min(8);
    first[..len].copy_from_slice(&upper[..len]);
    let last = upper.last().copied().unwrap_or(0);
    let mixed =
        (u64::from_le_bytes(first) ^ (u64::from(last) << 33) ^ upper.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    usize::try_from(mixed >> 52).unwrap_or(0)
}

const LONGEST: usize = 40;

pub(crate) fn keyword(word: &[u8], before_parenthesis: bool) -> Option<Id> {
    if word.len() < 2 || word.len() > LONGEST {
        return None;
    }
    let mut upper = [0_u8; LONGEST];
    let upper = &mut upper[..word.len()];
    upper.copy_from_slice(word);
    upper.make_ascii_uppercase();
    let found = &TABLE.words[TABLE.find(upper)?];
    (!found.function || before_parenthesis).then_some(found.id)
}

fn id(word: &str) -> Id {
    keyword(word.as_bytes(), true).unwrap_or_else(|| panic!("{word} is not a keyword"))
}

pub(crate) fn text(id: Id) -> &'static str {
    TABLE.words.get(usize::from(id.saturating_sub(FIRST))).map_or("", |word| word.text)
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

impl Named {
    pub(crate) fn is_for_server(&self, first: Id) -> bool {
        let plain = [self.SHUTDOWN, self.RESTART, self.KILL, self.RESET, self.PURGE, self.STOP];
        plain.contains(&first) || [self.INSTALL, self.UNINSTALL, self.CLONE].contains(&first)
    }
}

pub(crate) fn is_only_in_hints(id: Id) -> bool {
    IN_HINTS.split_whitespace().any(|word| word == text(id))
}
