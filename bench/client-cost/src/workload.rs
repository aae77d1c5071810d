//! The workloads: sysbench's statements in meaning and order, so that the server has the same work to do.

use crate::random::Random;

/// A statement's parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Parameter {
    /// A random row number, drawn anew for each execution.
    RowId,
    /// The row number before it and so much more: the end of a range.
    Plus(u64),
    /// Always the same text: what it says costs the client nothing.
    Text(String),
}

/// A statement on one table, `?` for each parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Statement {
    pub(crate) sql: String,
    pub(crate) parameters: Vec<Parameter>,
    /// Sent as text whatever the mode, where sysbench does so too.
    pub(crate) always_text: bool,
}

impl Statement {
    fn new(sql: &str, parameters: &[Parameter]) -> Self {
        Self { sql: sql.to_owned(), parameters: parameters.to_vec(), always_text: false }
    }

    /// A statement that is never prepared.
    pub(crate) fn text(sql: &str, parameters: &[Parameter]) -> Self {
        Self { always_text: true, ..Self::new(sql, parameters) }
    }

    fn on_table(&self, table: u32) -> Self {
        Self { sql: self.sql.replace("{t}", &format!("sbtest{table}")), ..self.clone() }
    }
}

/// A step of an event: on a table drawn at random, some statements one after another, so many times.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step<S = Statement> {
    /// For each table its statements.
    pub(crate) by_table: Vec<Vec<S>>,
    pub(crate) repeat: u32,
}

const RANGE_ROWS: u64 = 100;

/// The steps of an event, or `None` for an unknown workload.
pub(crate) fn steps(workload: &str, tables: u32, random: &mut Random) -> Option<Vec<Step>> {
    use Parameter::{Plus, RowId};
    let mut groups = |count| Parameter::Text((0..count).map(|_| random.digits(11)).collect::<Vec<_>>().join("-"));
    let (c, pad) = (groups(10), groups(5));

    let step = |repeat: u32, statements: &[Statement]| Step {
        by_table: (1..=tables).map(|table| statements.iter().map(|s| s.on_table(table)).collect()).collect(),
        repeat,
    };
    let point = Statement::new("SELECT c FROM {t} WHERE id=?", &[RowId]);
    let range = |sql| step(1, &[Statement::new(sql, &[RowId, Plus(RANGE_ROWS - 1)])]);
    let reads = vec![
        step(10, std::slice::from_ref(&point)),
        range("SELECT c FROM {t} WHERE id BETWEEN ? AND ?"),
        range("SELECT SUM(k) FROM {t} WHERE id BETWEEN ? AND ?"),
        range("SELECT c FROM {t} WHERE id BETWEEN ? AND ? ORDER BY c"),
        range("SELECT DISTINCT c FROM {t} WHERE id BETWEEN ? AND ? ORDER BY c"),
    ];
    let update_index = step(1, &[Statement::new("UPDATE {t} SET k=k+1 WHERE id=?", &[RowId])]);
    let update_non_index = step(1, &[Statement::new("UPDATE {t} SET c=? WHERE id=?", &[c.clone(), RowId])]);
    let replace = step(
        1,
        &[
            Statement::new("DELETE FROM {t} WHERE id=?", &[RowId]),
            // The row that was deleted comes back.
            Statement::new(
                "INSERT INTO {t} (id, k, c, pad) VALUES (?, ?, ?, ?)",
                &[Plus(0), Plus(0), c.clone(), pad.clone()],
            ),
        ],
    );
    let writes = vec![update_index.clone(), update_non_index.clone(), replace];
    let append = Statement::text("INSERT INTO {t} (k, c, pad) VALUES (?, ?, ?)", &[RowId, c, pad]);

    let alone = |sql| Step { by_table: vec![vec![Statement::text(sql, &[])]], repeat: 1 };
    let transaction = |inner: Vec<Step>| [vec![alone("BEGIN")], inner, vec![alone("COMMIT")]].concat();
    Some(match workload {
        "oltp_point_select" => vec![step(1, &[point])],
        "oltp_read_only" => transaction(reads),
        "oltp_read_write" => transaction([reads, writes].concat()),
        "oltp_write_only" => transaction(writes),
        "oltp_update_index" => vec![update_index],
        "oltp_update_non_index" => vec![update_non_index],
        "oltp_insert" => vec![step(1, &[append])],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_sysbench_s_number_of_statements() {
        let count = |workload| -> usize {
            let steps = steps(workload, 4, &mut Random::new(1)).expect("known");
            steps.iter().map(|step| step.repeat as usize * step.by_table[0].len()).sum()
        };
        let counts =
            ["oltp_point_select", "oltp_read_only", "oltp_read_write", "oltp_write_only", "oltp_insert"].map(count);
        assert_eq!(counts, [1, 16, 20, 6, 1]);
        assert_eq!(steps("nonsense", 1, &mut Random::new(1)), None);
    }

    #[test]
    fn every_table_has_its_statements() {
        let steps = steps("oltp_write_only", 3, &mut Random::new(1)).expect("known");
        assert_eq!(steps[0].by_table.len(), 1, "BEGIN has no table");
        let names: Vec<_> = steps[1].by_table.iter().map(|group| group[0].sql.as_str()).collect();
        assert_eq!(names[2], "UPDATE sbtest3 SET k=k+1 WHERE id=?");
    }
}
