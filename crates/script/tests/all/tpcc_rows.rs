//! TPC-C without a server: the rows that are loaded, and in which order.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::laws::{chi_square, chi_square_limit};
use crate::world::{World, load_bundled, settings};
use bakeoff_script::{OptionValue, Settings};

/// Settings as if no --rand-seed was given: the script's option is 0.
fn one_warehouse(seed: u64) -> Settings {
    let mut settings = Settings { seed, ..settings(&[("scale", "1")]) };
    settings.general.insert("rand_seed".to_owned(), OptionValue::Int(0));
    settings
}

/// INSERT statements, by table, of `threads` threads that load one warehouse.
fn loaded(threads: u32) -> BTreeMap<String, Vec<String>> {
    let mut by_table: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let settings = Settings { threads, ..one_warehouse(7) };
    for thread in 0..threads {
        let world = World::new(0);
        load_bundled("tpcc", &settings, thread, &world).command("prepare").unwrap();
        for statement in world.take_statements() {
            if let Some(rest) = statement.strip_prefix("INSERT INTO ") {
                by_table.entry(rest.split(' ').next().unwrap().to_owned()).or_default().push(statement);
            }
        }
        let progress = world.progress.borrow();
        assert!(progress["rows"].0 <= progress["rows"].1);
    }
    for statements in by_table.values_mut() {
        statements.sort();
    }
    by_table
}

/// The same for one thread, computed once.
fn warehouse() -> &'static BTreeMap<String, Vec<String>> {
    static ONE: OnceLock<BTreeMap<String, Vec<String>>> = OnceLock::new();
    ONE.get_or_init(|| loaded(1))
}

/// Rows of the statements of one table, each as its fields; no text of the data holds a comma or a bracket.
fn rows_of(statements: &[String]) -> Vec<Vec<String>> {
    statements
        .iter()
        .flat_map(|statement| {
            let values = statement.split_once("VALUES (").unwrap().1.strip_suffix(')').unwrap();
            values.split("),(").map(|row| row.split(',').map(str::to_owned).collect()).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn rows_depend_on_the_seed_and_not_on_the_threads() {
    let one = warehouse();
    assert!(*one == loaded(3), "three threads made other rows than one");
    let other = {
        let world = World::new(0);
        load_bundled("tpcc", &one_warehouse(8), 0, &world).command("prepare").unwrap();
        world.take_statements()
    };
    assert!(!other.contains(&one["district"][0]), "another seed made the same rows");

    let count = |table: &str| rows_of(&one[table]).len();
    assert_eq!([count("warehouse"), count("district"), count("item"), count("stock")], [1, 10, 100_000, 100_000]);
    assert_eq!(
        [count("customer"), count("history"), count("orders"), count("new_orders")],
        [30_000, 30_000, 30_000, 9_000]
    );

    let having = |table: &str, column: usize, text: &str| {
        rows_of(&one[table]).iter().filter(|row| row[column].contains(text)).count()
    };
    assert_eq!((having("item", 4, "ORIGINAL"), having("stock", 16, "ORIGINAL")), (10_000, 10_000));
    assert_eq!(having("customer", 13, "BC"), 3_000);

    let orders = rows_of(&one["orders"]);
    let lines: usize = orders.iter().map(|order| order[6].parse::<usize>().unwrap()).sum();
    assert_eq!(count("order_line"), lines);
    assert!(orders.iter().all(|order| (5..=15).contains(&order[6].parse::<u32>().unwrap())));
    assert_eq!(orders.iter().filter(|order| order[5] == "NULL").count(), 9_000);
    let mut customers: Vec<u32> =
        orders.iter().filter(|order| order[1] == "1").map(|order| order[3].parse().unwrap()).collect();
    assert!(!customers.is_sorted());
    customers.sort_unstable();
    assert_eq!(customers, (1..=3000).collect::<Vec<_>>());
}

#[test]
fn random_texts_use_all_lengths_and_letters_uniformly() {
    let rows = rows_of(&warehouse()["customer"]);
    let mut lengths = [0_u64; 201];
    let mut letters = [0_u64; 256];
    for data in rows.iter().map(|row| row[20].trim_matches('\'')) {
        lengths[data.len() - 300] += 1;
        data.bytes().for_each(|letter| letters[usize::from(letter)] += 1);
    }
    let (statistic, degrees) = chi_square(&lengths, &[1.0 / 201.0; 201]);
    assert!(statistic < chi_square_limit(degrees), "lengths: {statistic}");
    let used: Vec<u64> = letters.into_iter().filter(|count| *count > 0).collect();
    assert_eq!(used.len(), 62);
    let (statistic, degrees) = chi_square(&used, &[1.0 / 62.0; 62]);
    assert!(statistic < chi_square_limit(degrees), "letters: {statistic}");
}

#[test]
fn indexes_come_after_the_rows_or_before_them() {
    let order = |when: &str| {
        let world = World::new(0);
        load_bundled("tpcc", &settings(&[("scale", "1"), ("load_index", when)]), 0, &world).command("prepare").unwrap();
        let statements = world.take_statements();
        let first = |start: &str| statements.iter().position(|statement| statement.starts_with(start)).unwrap();
        (first("ALTER TABLE"), first("INSERT INTO"), statements.iter().filter(|s| s.starts_with("ALTER TABLE")).count())
    };
    let (alter, insert, count) = order("after");
    assert!(alter > insert);
    assert_eq!(count, 12); // five with indexes, seven with foreign keys
    let (alter, insert, _) = order("before");
    assert!(alter < insert);
}
