//! Tests of the session state.

use bakeoff_wire::dialect::{Dialect, MultiByte};

use crate::session::SessionState;

fn after(statements: &[&str]) -> String {
    let mut session = SessionState::default();
    for sql in statements {
        session.set(sql.as_bytes());
    }
    session.json().map_or(String::new(), |json| json.get().to_owned())
}

#[test]
fn the_variables_that_matter_are_kept() {
    assert_eq!(after(&["SET NAMES utf8mb4 COLLATE utf8mb4_bin"]), r#"{"names":"utf8mb4 COLLATE utf8mb4_bin"}"#);
    assert_eq!(after(&["SET CHARACTER SET 'latin1'"]), r#"{"character_set":"latin1"}"#);
    assert_eq!(
        after(&["set @@session.sql_mode='ANSI', autocommit = 0, SESSION time_zone = \"+00:00\""]),
        r#"{"autocommit":"0","sql_mode":"ANSI","time_zone":"+00:00"}"#
    );
    assert_eq!(after(&["SET autocommit=0", "SET autocommit := 1"]), r#"{"autocommit":"1"}"#);
    assert_eq!(
        after(&["SET @OLD_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0", "SET unique_checks = 0"]),
        r#"{"foreign_key_checks":"0","unique_checks":"0"}"#
    );
    assert_eq!(
        after(&["SET sql_safe_updates = ON, sql_select_limit = 100, SESSION group_concat_max_len = 4096"]),
        r#"{"group_concat_max_len":"4096","sql_safe_updates":"ON","sql_select_limit":"100"}"#
    );
}

#[test]
fn names_and_character_set_override_earlier_character_sets() {
    assert_eq!(after(&["SET CHARACTER SET latin1", "SET NAMES utf8mb4"]), r#"{"names":"utf8mb4"}"#);
    assert_eq!(after(&["SET NAMES utf8mb4", "SET CHARSET latin1"]), r#"{"character_set":"latin1"}"#);
    assert_eq!(
        after(&[
            "SET autocommit = 0, character_set_client = 'greek', character_set_connection = 'greek'",
            "SET collation_connection = 'greek_bin', character_set_results = NULL",
            "SET NAMES utf8mb4",
        ]),
        r#"{"autocommit":"0","names":"utf8mb4"}"#
    );
    assert_eq!(
        after(&["SET NAMES utf8mb4", "SET collation_connection = 'utf8mb4_bin'"]),
        r#"{"collation_connection":"utf8mb4_bin","names":"utf8mb4"}"#,
        "what is set after it stays beside it"
    );
}

#[test]
fn other_variables_are_ignored_and_expressions_are_unknown() {
    assert_eq!(
        after(&["SET GLOBAL sql_mode = ''", "SET @sql_mode = 'x'", "SET @@global.autocommit=0", "SELECT 1"]),
        ""
    );
    assert_eq!(after(&["SET sql_mode = 'ANSI'", "SET sql_mode = CONCAT(@@sql_mode, ',x')"]), "");
    assert_eq!(after(&["SET GLOBAL max_connections = 9, autocommit = 0, @@global.sql_mode = ''"]), "");
    assert_eq!(
        after(&["SET GLOBAL autocommit = 0, @@sql_mode = 'ANSI', SESSION autocommit = 1, time_zone = 'SYSTEM'"]),
        r#"{"autocommit":"1","sql_mode":"ANSI","time_zone":"SYSTEM"}"#
    );
    assert_eq!(after(&["SET PERSIST time_zone = 'x', wait_timeout = 5"]), "");
    assert_eq!(after(&["SET STATEMENT autocommit = 0, sql_mode = 'ANSI' FOR SELECT 1"]), "");
}

fn dialect(statements: &[&str]) -> Dialect {
    let mut session = SessionState::default();
    for sql in statements {
        session.set(sql.as_bytes());
    }
    session.dialect()
}

#[test]
fn every_way_to_set_the_character_set_of_statements_is_known() {
    for (statements, expected) in [
        (&["SET NAMES sjis"][..], MultiByte::Sjis),
        (&["/*!40101 SET NAMES sjis */"], MultiByte::Sjis),
        (&["/*M!100616 SET NAMES 'CP932' COLLATE cp932_bin */"], MultiByte::Sjis),
        (&["set names gbk, autocommit = 0"], MultiByte::Gbk),
        (&["SET CHARACTER SET big5"], MultiByte::Big5),
        (&["SET CHAR SET 'gb18030'"], MultiByte::Gb18030),
        (&["SET CHARSET gbk"], MultiByte::Gbk),
        (&["SET @@session.character_set_client = 'sjis'"], MultiByte::Sjis),
        (&["SET @@session.character_set_client=13,@@session.collation_connection=13"], MultiByte::Sjis),
        (&["SET SESSION character_set_client := gbk"], MultiByte::Gbk),
        (&["SET NAMES sjis", "SET NAMES utf8mb4"], MultiByte::Safe),
        (&["SET NAMES sjis", "SET character_set_client = utf8"], MultiByte::Safe),
        (&["SET NAMES utf8", "SET character_set_results = sjis, collation_connection = sjis_bin"], MultiByte::Safe),
        (&["SET @x = 'sjis'", "SET GLOBAL character_set_client = sjis"], MultiByte::Unknown),
        (&[], MultiByte::Unknown),
    ] {
        assert_eq!(dialect(statements).multi_byte, expected, "{statements:?}");
    }
}

#[test]
fn a_dump_returns_to_its_character_set_after_each_table() {
    let table = [
        "/*!40101 SET NAMES sjis */",
        "/*!40101 SET @saved_cs_client     = @@character_set_client */",
        "/*!40101 SET character_set_client = utf8 */",
        "/*!40101 SET character_set_client = @saved_cs_client */",
    ];
    assert_eq!(dialect(&table[..3]).multi_byte, MultiByte::Safe);
    assert_eq!(dialect(&table).multi_byte, MultiByte::Sjis);
}

#[test]
fn sql_modes_decide_whether_backslashes_escape() {
    let modes = |statements: &[&str]| {
        let found = dialect(statements);
        (found.no_backslash_escapes, found.ansi_quotes)
    };
    assert_eq!(modes(&["SET sql_mode = 'NO_BACKSLASH_ESCAPES,ansi_quotes'"]), (true, true));
    assert_eq!(modes(&["SET SESSION sql_mode = 'ANSI'"]), (false, true));
    assert_eq!(modes(&["SET @@session.sql_mode=1048580/*!*/"]), (true, true));
    assert_eq!(modes(&["SET sql_mode = 'STRICT_TRANS_TABLES'"]), (false, false));
    assert_eq!(modes(&["SET sql_mode = 'ANSI'", "SET sql_mode = @saved_sql_mode"]), (false, false));
}
