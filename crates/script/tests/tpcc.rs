//! TPC-C without a server: its random inputs against the standard's laws, its rows, its statements, its retries.

mod world;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::OnceLock;

use bakeoff_script::{Settings, ThreadRole};
use world::{Answer, Rows, World, load, load_bundled, settings};

/// Runs `body` in a Lua state that has the workload's random module; what it prints, as numbers.
fn sample(body: &str) -> Vec<f64> {
    let world = World::new(0);
    let text = format!(
        "local random = require('tpcc_random')\nlocal uniform = sysbench.rand.uniform\n\
         sysbench.cmdline.commands = {{sample = {{function() {body} end}}}}"
    );
    let script = load(&text, &settings(&[]), &world).expect("the text loads");
    script
        .command("sample")
        .unwrap_or_else(|error| panic!("{error}"));
    world
        .lines()
        .iter()
        .flat_map(|line| {
            line.split_whitespace()
                .map(|n| n.parse().expect("a number"))
                .collect::<Vec<f64>>()
        })
        .collect()
}

/// Pearson's statistic of observed counts against probabilities, and its degrees of freedom.
fn chi_square(observed: &[u64], expected: &[f64]) -> (f64, f64) {
    let total = observed.iter().sum::<u64>() as f64;
    let statistic = observed
        .iter()
        .zip(expected)
        .map(|(&n, p)| (n as f64 - total * p).powi(2) / (total * p))
        .sum();
    (statistic, observed.len() as f64 - 1.0)
}

/// The value that chi-square with `degrees` of freedom exceeds about once in a million (Wilson and Hilferty's approximation).
fn chi_square_limit(degrees: f64) -> f64 {
    let a = 2.0 / (9.0 * degrees);
    degrees * (1.0 - a + 4.75 * a.sqrt()).powi(3)
}

/// Exact probabilities of NURand(a, x, y) with constant c, in `groups` equal ranges of values.
fn nurand_law(a: u64, x: u64, y: u64, c: u64, groups: usize) -> Vec<f64> {
    let (values, width) = (y - x + 1, (y - x + 1) as usize / groups);
    let mut law = vec![0.0; groups];
    for low in 0..=a {
        for high in x..=y {
            let value = ((low | high) + c) % values;
            law[(value as usize / width).min(groups - 1)] += 1.0 / ((a + 1) * values) as f64;
        }
    }
    law
}

fn in_groups(values: &[f64], x: u64, y: u64, groups: usize) -> Vec<u64> {
    let width = (y - x + 1) as usize / groups;
    let mut counts = vec![0; groups];
    for value in values {
        assert!((x as f64..=y as f64).contains(value), "{value}");
        counts[((*value as u64 - x) as usize / width).min(groups - 1)] += 1;
    }
    counts
}

/// Does a share of `count` in `of` fit `share`, within five standard deviations?
fn assert_share(count: f64, of: f64, share: f64) {
    let deviation = (share * (1.0 - share) / of).sqrt();
    assert!(
        (count / of - share).abs() < 5.0 * deviation,
        "{count} of {of} is not {share}"
    );
}

#[test]
fn nurand_has_the_skew_of_the_standard() {
    for (a, x, y, c, groups) in [
        (255, 0, 999, 77, 50),
        (1023, 1, 3000, 259, 100),
        (8191, 1, 10_000, 7911, 100),
    ] {
        let drawn = sample(&format!(
            "for _ = 1, 100000 do print(random.nurand(uniform, {a}, {c}, {x}, {y})) end"
        ));
        let law = nurand_law(a, x, y, c, groups);
        let (statistic, degrees) = chi_square(&in_groups(&drawn, x, y, groups), &law);
        assert!(
            statistic < chi_square_limit(degrees),
            "NURand({a}): {statistic}"
        );
        // The test would see a plain uniform draw, which is what constants drawn anew each time amount to.
        let plain = sample(&format!(
            "for _ = 1, 100000 do print(uniform({x}, {y})) end"
        ));
        let (statistic, degrees) = chi_square(&in_groups(&plain, x, y, groups), &law);
        assert!(
            statistic > 10.0 * chi_square_limit(degrees),
            "uniform against NURand({a}): {statistic}"
        );
    }
}

#[test]
fn constants_of_a_run_are_kept_and_valid() {
    let constants =
        "local c = random.run_constants(SEED, LOAD) print(c.last_name, c.customer, c.item)";
    let of =
        |seed: &str, load: &str| sample(&constants.replace("SEED", seed).replace("LOAD", load));
    assert_eq!(of("7", "157"), of("7", "157"));
    assert_ne!(of("7", "157"), of("8", "157"));
    for load in 0..=255_u32 {
        let run = of("3", &load.to_string())[0];
        let delta = (run - f64::from(load)).abs();
        assert!(
            (65.0..=119.0).contains(&delta) && delta != 96.0 && delta != 112.0,
            "C-Load {load}, C-Run {run}"
        );
        assert!((0.0..=255.0).contains(&run));
    }
}

#[test]
fn last_names_are_made_of_syllables() {
    let world = World::new(0);
    let text = "sysbench.cmdline.commands = {names = {function()
        for _, n in ipairs({0, 371, 999}) do print(require('tpcc_random').last_name(n)) end end}}";
    load(text, &settings(&[]), &world)
        .unwrap()
        .command("names")
        .unwrap();
    assert_eq!(
        world.lines(),
        ["BARBARBAR", "PRICALLYOUGHT", "EINGEINGEING"]
    );
}

#[test]
fn a_deck_is_dealt_whole_and_shuffled() {
    let deal = "local numbers = {a = 1, b = 2, c = 3, d = 4, e = 5}
        local deal = random.KIND(uniform, {{'a', 10}, {'b', 10}, {'c', 1}, {'d', 1}, {'e', 1}})
        for _ = 1, 23000 do print(numbers[deal()]) end";
    let dealt = sample(&deal.replace("KIND", "deck"));
    let mut orders = Vec::new();
    for deck in dealt.chunks(23) {
        let mut sorted = deck.to_vec();
        sorted.sort_by(f64::total_cmp);
        assert_eq!(
            sorted,
            [vec![1.0; 10], vec![2.0; 10], vec![3.0, 4.0, 5.0]].concat()
        );
        orders.push(deck.to_vec());
    }
    // Every place of the deck is as likely to hold the one Order-Status.
    let mut places = vec![0; 23];
    for deck in &orders {
        places[deck.iter().position(|card| *card == 3.0).unwrap()] += 1;
    }
    let (statistic, degrees) = chi_square(&places, &[1.0 / 23.0; 23]);
    assert!(statistic < chi_square_limit(degrees), "{places:?}");

    let drawn = sample(&deal.replace("KIND", "weighted"));
    let uneven = drawn
        .chunks(23)
        .filter(|deck| deck.iter().filter(|card| **card == 1.0).count() != 10)
        .count();
    assert!(
        uneven > 500,
        "independent draws rarely make whole decks, and {uneven} of 1000 did not"
    );
    assert_share(
        drawn.iter().filter(|card| **card == 1.0).count() as f64,
        23_000.0,
        10.0 / 23.0,
    );
}

#[test]
fn inputs_have_the_shares_of_the_standard() {
    let counts = sample(
        "local types = require('tpcc_transactions').types
         local constants = random.run_constants(1, 100)
         local home = {warehouse = 3, warehouses = 10, district = 4, set = 1}
         local lines, remote, rollbacks, not_local, wrong = 0, 0, 0, 0, 0
         local suppliers = {}
         for _ = 1, 40000 do
            local input = types.new_order.input(uniform, constants, home)
            local any_remote = false
            for _, line in ipairs(input.lines) do
               lines = lines + 1
               if line.supply ~= 3 then
                  remote, any_remote = remote + 1, true
                  suppliers[line.supply] = (suppliers[line.supply] or 0) + 1
               end
               if line.item == 100001 then rollbacks = rollbacks + 1 end
            end
            if any_remote ~= (input.all_local == 0) then wrong = wrong + 1 end
            if any_remote then not_local = not_local + 1 end
         end
         local others = 0
         for _ in pairs(suppliers) do others = others + 1 end
         print(lines, remote, rollbacks, wrong, others, not_local)
         local far, by_name = 0, 0
         for _ = 1, 40000 do
            local input = types.payment.input(uniform, constants, home)
            if input.c_w_id ~= 3 then far = far + 1 end
            if input.c_last then by_name = by_name + 1 end
         end
         local status_by_name = 0
         for _ = 1, 40000 do
            if types.order_status.input(uniform, constants, home).c_last then status_by_name = status_by_name + 1 end
         end
         print(far, by_name, status_by_name)",
    );
    let [
        lines,
        remote,
        rollbacks,
        wrong,
        others,
        not_local,
        far,
        by_name,
        status_by_name,
    ] = counts[..]
    else {
        panic!("{counts:?}")
    };
    assert!((lines / 40_000.0 - 10.0).abs() < 0.1, "{lines} lines");
    assert_share(remote, lines, 0.01);
    assert_share(rollbacks, 40_000.0, 0.01);
    assert!(not_local > 0.07 * 40_000.0 && not_local <= remote);
    assert_eq!((wrong, others), (0.0, 9.0));
    assert_share(far, 40_000.0, 0.15);
    assert_share(by_name, 40_000.0, 0.60);
    assert_share(status_by_name, 40_000.0, 0.60);
}

#[test]
fn one_warehouse_has_no_remote_one() {
    let counts = sample(
        "local types = require('tpcc_transactions').types
         local constants, home = random.run_constants(1, 100), {warehouse = 1, warehouses = 1, district = 1}
         local remote = 0
         for _ = 1, 5000 do
            if types.new_order.input(uniform, constants, home).all_local == 0 then remote = remote + 1 end
            if types.payment.input(uniform, constants, home).c_w_id ~= 1 then remote = remote + 1 end
         end
         print(remote)",
    );
    assert_eq!(counts, [0.0]);
}

#[test]
fn stock_is_refilled_below_ten() {
    assert_eq!(
        sample(
            "local after = require('tpcc_money').stock_after print(after(20, 10), after(19, 10), after(10, 1), after(11, 1))"
        ),
        [10.0, 100.0, 100.0, 10.0]
    );
}

/// INSERT statements of the load of one warehouse by `threads` threads, by table.
fn loaded(threads: u32) -> BTreeMap<String, Vec<String>> {
    let mut by_table: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let settings = Settings {
        threads,
        ..settings(&[("scale", "1")])
    };
    for thread in 0..threads {
        let world = World::new(0);
        load_bundled("tpcc", &settings, ThreadRole::Worker(thread), &world)
            .command("prepare")
            .unwrap();
        for statement in world.take_statements() {
            if let Some(rest) = statement.strip_prefix("INSERT INTO ") {
                by_table
                    .entry(rest.split(' ').next().unwrap().to_owned())
                    .or_default()
                    .push(statement);
            }
        }
        let progress = world.progress.borrow();
        assert!(progress["rows"].0 <= progress["rows"].1);
    }
    by_table
        .values_mut()
        .for_each(|statements| statements.sort());
    by_table
}

/// The same by one thread, made once.
fn warehouse() -> &'static BTreeMap<String, Vec<String>> {
    static ONE: OnceLock<BTreeMap<String, Vec<String>>> = OnceLock::new();
    ONE.get_or_init(|| loaded(1))
}

/// Rows of the statements of one table, each as its fields; no text of the data holds a comma or a bracket.
fn rows_of(statements: &[String]) -> Vec<Vec<String>> {
    statements
        .iter()
        .flat_map(|statement| {
            let values = statement
                .split_once("VALUES (")
                .unwrap()
                .1
                .strip_suffix(')')
                .unwrap();
            values
                .split("),(")
                .map(|row| row.split(',').map(str::to_owned).collect())
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn rows_depend_on_the_seed_and_not_on_the_threads() {
    let one = warehouse();
    assert!(*one == loaded(3), "three threads made other rows than one");
    let other = {
        let settings = Settings {
            seed: 8,
            ..settings(&[("scale", "1")])
        };
        let world = World::new(0);
        load_bundled("tpcc", &settings, ThreadRole::Worker(0), &world)
            .command("prepare")
            .unwrap();
        world.take_statements()
    };
    assert!(
        !other.contains(&one["district"][0]),
        "another seed made the same rows"
    );

    let count = |table: &str| rows_of(&one[table]).len();
    assert_eq!(
        [
            count("warehouse"),
            count("district"),
            count("item"),
            count("stock")
        ],
        [1, 10, 100_000, 100_000]
    );
    assert_eq!(
        [
            count("customer"),
            count("history"),
            count("orders"),
            count("new_orders")
        ],
        [30_000, 30_000, 30_000, 9_000]
    );

    let having = |table: &str, column: usize, text: &str| {
        rows_of(&one[table])
            .iter()
            .filter(|row| row[column].contains(text))
            .count()
    };
    assert_eq!(
        (
            having("item", 4, "ORIGINAL"),
            having("stock", 16, "ORIGINAL")
        ),
        (10_000, 10_000)
    );
    assert_eq!(having("customer", 13, "BC"), 3_000);

    let orders = rows_of(&one["orders"]);
    let lines: usize = orders
        .iter()
        .map(|order| order[6].parse::<usize>().unwrap())
        .sum();
    assert_eq!(count("order_line"), lines);
    assert!(
        orders
            .iter()
            .all(|order| (5..=15).contains(&order[6].parse::<u32>().unwrap()))
    );
    assert_eq!(
        orders.iter().filter(|order| order[5] == "NULL").count(),
        9_000
    );
    let mut customers: Vec<u32> = orders
        .iter()
        .filter(|order| order[1] == "1")
        .map(|order| order[3].parse().unwrap())
        .collect();
    assert!(!customers.is_sorted());
    customers.sort_unstable();
    assert_eq!(customers, (1..=3000).collect::<Vec<_>>());
}

#[test]
fn random_texts_are_of_all_lengths_and_letters() {
    let rows = rows_of(&warehouse()["customer"]);
    let mut lengths = [0_u64; 201];
    let mut letters = [0_u64; 256];
    for data in rows.iter().map(|row| row[20].trim_matches('\'')) {
        lengths[data.len() - 300] += 1;
        data.bytes()
            .for_each(|letter| letters[usize::from(letter)] += 1);
    }
    let (statistic, degrees) = chi_square(&lengths, &[1.0 / 201.0; 201]);
    assert!(
        statistic < chi_square_limit(degrees),
        "lengths: {statistic}"
    );
    let used: Vec<u64> = letters.into_iter().filter(|count| *count > 0).collect();
    assert_eq!(used.len(), 62);
    let (statistic, degrees) = chi_square(&used, &[1.0 / 62.0; 62]);
    assert!(
        statistic < chi_square_limit(degrees),
        "letters: {statistic}"
    );
}

#[test]
fn indexes_come_after_the_rows_or_before_them() {
    let order = |when: &str| {
        let world = World::new(0);
        load_bundled(
            "tpcc",
            &settings(&[("scale", "1"), ("load_index", when)]),
            ThreadRole::Worker(0),
            &world,
        )
        .command("prepare")
        .unwrap();
        let statements = world.take_statements();
        let first = |start: &str| {
            statements
                .iter()
                .position(|statement| statement.starts_with(start))
                .unwrap()
        };
        (
            first("ALTER TABLE"),
            first("INSERT INTO"),
            statements
                .iter()
                .filter(|s| s.starts_with("ALTER TABLE"))
                .count(),
        )
    };
    let (alter, insert, count) = order("after");
    assert!(alter > insert);
    assert_eq!(count, 12); // five with indexes, seven with foreign keys
    let (alter, insert, _) = order("before");
    assert!(alter < insert);
}

/// A world whose tables answer as a loaded server would, for `events` New-Orders.
fn shop(events: u64) -> Rc<World> {
    let world = World::new(events);
    let row = |fields: &[&str]| -> Rows {
        vec![
            fields
                .iter()
                .map(|field| Some((*field).to_owned()))
                .collect(),
        ]
    };
    for _ in 0..40 * events {
        world.answer("SELECT d_tax", Answer::Rows(row(&["0.1000", "3001"])));
        world.answer(
            "SELECT c_discount",
            Answer::Rows(row(&["0.2000", "BARBARBAR", "GC"])),
        );
        world.answer(
            "SELECT i_price",
            Answer::Rows(row(&["12.34", "name", "data"])),
        );
        world.answer(
            "SELECT s_quantity",
            Answer::Rows(row(&["15", "dist", "data"])),
        );
    }
    world
}

const NEW_ORDERS: &[(&str, &str)] = &[("scale", "1"), ("mix", "1,0,0,0,0"), ("c_load", "100")];

fn run_shop(world: &Rc<World>, options: &[(&str, &str)]) {
    let script = load_bundled("tpcc", &settings(options), ThreadRole::Worker(0), world);
    script.thread_init().unwrap();
    world.take_statements();
    script.run().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_new_order_runs_the_statements_of_its_profile() {
    let world = shop(1);
    run_shop(&world, NEW_ORDERS);
    let statements = world.statements();
    let lines = statements
        .iter()
        .filter(|statement| statement.starts_with("INSERT INTO order_line"))
        .count();
    assert!((5..=15).contains(&lines));
    assert_eq!(statements.len(), 8 + 4 * lines);
    assert_eq!(
        (statements[0].as_str(), statements.last().unwrap().as_str()),
        ("BEGIN", "COMMIT")
    );
    assert!(statements[3].starts_with("UPDATE district SET d_next_o_id = 3002 WHERE d_w_id = 1"));
    let update = statements
        .iter()
        .find(|statement| statement.starts_with("UPDATE stock"))
        .unwrap();
    assert!(
        update.contains("s_ytd = s_ytd + ") && update.contains("s_order_cnt = s_order_cnt + 1"),
        "{update}"
    );
    assert!(
        update.contains("s_remote_cnt = s_remote_cnt + 0 WHERE s_w_id = 1"),
        "{update}"
    );
    assert_eq!(
        *world.calls.borrow(),
        ["start", "operation new_order", "Done"]
    );
}

#[test]
fn a_deadlock_repeats_the_same_transaction() {
    let world = shop(1);
    world.answer("UPDATE stock", Answer::Fails(1213, false));
    run_shop(&world, NEW_ORDERS);
    let statements = world.statements();
    let rollback = statements
        .iter()
        .position(|statement| statement == "ROLLBACK")
        .unwrap();
    let (first, second) = (&statements[..rollback], &statements[rollback + 1..]);
    assert_eq!(*first, second[..first.len()]);
    assert_eq!(second.last().unwrap(), "COMMIT");
    assert_eq!(*world.errors.borrow(), [1213]);
    assert_eq!(
        *world.calls.borrow(),
        [
            "start",
            "operation new_order",
            "operation new_order.retried",
            "Done"
        ]
    );
}

#[test]
fn an_unknown_item_rolls_back_and_is_no_error() {
    let world = World::new(1);
    let row = |fields: &[&str]| -> Rows {
        vec![
            fields
                .iter()
                .map(|field| Some((*field).to_owned()))
                .collect(),
        ]
    };
    world.answer("SELECT d_tax", Answer::Rows(row(&["0.1", "3001"])));
    world.answer(
        "SELECT c_discount",
        Answer::Rows(row(&["0.2", "BARBARBAR", "GC"])),
    );
    world.answer("SELECT i_price", Answer::Rows(Vec::new()));
    run_shop(&world, NEW_ORDERS);
    assert_eq!(world.statements().last().unwrap(), "ROLLBACK");
    assert!(world.errors.borrow().is_empty());
    assert_eq!(
        *world.calls.borrow(),
        [
            "start",
            "operation new_order",
            "operation new_order.rollback",
            "Done"
        ]
    );
}

#[test]
fn waiting_lies_between_the_events() {
    let world = shop(2);
    run_shop(
        &world,
        &[NEW_ORDERS, &[("keying_time", "on"), ("think_time", "on")]].concat(),
    );
    let calls = world.calls.borrow().clone();
    let (waits, others): (Vec<String>, Vec<String>) = calls
        .iter()
        .cloned()
        .partition(|call| call.starts_with("think"));
    assert_eq!(
        others,
        [
            "start",
            "operation new_order",
            "Done",
            "start",
            "operation new_order",
            "Done"
        ]
    );
    assert!(calls[0].starts_with("think") && calls[4].starts_with("think"));
    let seconds: Vec<f64> = waits
        .iter()
        .map(|wait| wait[6..].parse::<f64>().unwrap() / 1e9)
        .collect();
    assert_eq!(seconds[0], 18.0); // keying alone: nothing to think about yet
    assert!(
        seconds[1..]
            .iter()
            .all(|wait| (18.0..=18.0 + 120.0).contains(wait)),
        "{seconds:?}"
    );
}

#[test]
fn thinking_times_have_their_mean_and_their_limit() {
    let drawn = sample(
        "for _ = 1, 50000 do print(string.format('%.6f', random.thinking_s(uniform, 12))) end",
    );
    let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
    assert!((mean - 12.0).abs() < 0.3, "{mean}");
    assert!(drawn.iter().all(|wait| (0.0..=120.0).contains(wait)));
}

#[test]
fn bad_options_are_told_in_one_line() {
    for (name, value, words) in [
        (
            "trx_level",
            "XX",
            "tpcc: --trx_level=XX: it takes RC, RR or SER.",
        ),
        ("mix", "1,2", "five whole numbers"),
        ("statements", "many", "single or multi"),
        ("scale", "0", "a whole number from 1"),
    ] {
        let script = load_bundled(
            "tpcc",
            &settings(&[(name, value)]),
            ThreadRole::Worker(0),
            &World::new(0),
        );
        let error = script.thread_init().expect_err(name).to_string();
        assert!(error.contains(words), "{error}");
        assert!(!error.contains('\n'));
    }
}
