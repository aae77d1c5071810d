//! TPC-C without a server: its random inputs against the standard's distributions.

use crate::laws::{chi_square, chi_square_limit};
use crate::world::{World, load, settings};

/// Runs `body` in a Lua state with the workload's random module and returns the numbers it prints.
fn sample(body: &str) -> Vec<f64> {
    let world = World::new(0);
    let text = format!(
        "local random = require('tpcc_random')\nlocal uniform = sysbench.rand.uniform\n\
         sysbench.cmdline.commands = {{sample = {{function() {body} end}}}}"
    );
    let script = load(&text, &settings(&[]), &world).expect("the text loads");
    script.command("sample").unwrap_or_else(|error| panic!("{error}"));
    world
        .lines()
        .iter()
        .flat_map(|line| line.split_whitespace().map(|n| n.parse().expect("a number")).collect::<Vec<f64>>())
        .collect()
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

/// Asserts that `count` of `of` is within five standard deviations of `share`.
fn assert_share(count: f64, of: f64, share: f64) {
    let deviation = (share * (1.0 - share) / of).sqrt();
    assert!((count / of - share).abs() < 5.0 * deviation, "{count} of {of} is not {share}");
}

#[test]
fn nurand_has_the_skew_of_the_standard() {
    for (a, x, y, c, groups) in [(255, 0, 999, 77, 50), (1023, 1, 3000, 259, 100), (8191, 1, 10_000, 7911, 100)] {
        let drawn = sample(&format!("for _ = 1, 100000 do print(random.nurand(uniform, {a}, {c}, {x}, {y})) end"));
        let law = nurand_law(a, x, y, c, groups);
        let (statistic, degrees) = chi_square(&in_groups(&drawn, x, y, groups), &law);
        assert!(statistic < chi_square_limit(degrees), "NURand({a}): {statistic}");
        // The test would see a plain uniform draw, which is what constants drawn anew each time amount to.
        let plain = sample(&format!("for _ = 1, 100000 do print(uniform({x}, {y})) end"));
        let (statistic, degrees) = chi_square(&in_groups(&plain, x, y, groups), &law);
        assert!(statistic > 10.0 * chi_square_limit(degrees), "uniform against NURand({a}): {statistic}");
    }
}

#[test]
fn run_constants_are_reproducible_and_valid() {
    let constants = "local c = random.run_constants(SEED, LOAD) print(c.last_name, c.customer, c.item)";
    let of = |seed: &str, load: &str| sample(&constants.replace("SEED", seed).replace("LOAD", load));
    assert_eq!(of("7", "157"), of("7", "157"));
    assert_ne!(of("7", "157"), of("8", "157"));
    for load in 0..=255_u32 {
        let run = of("3", &load.to_string())[0];
        let delta = (run - f64::from(load)).abs();
        assert!((65.0..=119.0).contains(&delta) && delta != 96.0 && delta != 112.0, "C-Load {load}, C-Run {run}");
        assert!((0.0..=255.0).contains(&run));
    }
}

#[test]
fn last_names_are_made_of_syllables() {
    let world = World::new(0);
    let text = "sysbench.cmdline.commands = {names = {function()
        for _, n in ipairs({0, 371, 999}) do print(require('tpcc_random').last_name(n)) end end}}";
    load(text, &settings(&[]), &world).unwrap().command("names").unwrap();
    assert_eq!(world.lines(), ["BARBARBAR", "PRICALLYOUGHT", "EINGEINGEING"]);
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
        assert_eq!(sorted, [vec![1.0; 10], vec![2.0; 10], vec![3.0, 4.0, 5.0]].concat());
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
    let uneven = drawn.chunks(23).filter(|deck| deck.iter().filter(|card| **card == 1.0).count() != 10).count();
    assert!(uneven > 500, "independent draws rarely make whole decks, and {uneven} of 1000 did not");
    assert_share(drawn.iter().filter(|card| **card == 1.0).count() as f64, 23_000.0, 10.0 / 23.0);
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
    let [lines, remote, rollbacks, wrong, others, not_local, far, by_name, status_by_name] = counts[..] else {
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
fn a_single_warehouse_has_no_remote_transactions() {
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

#[test]
fn thinking_times_have_the_right_mean_and_limit() {
    let drawn = sample("for _ = 1, 50000 do print(string.format('%.6f', random.thinking_s(uniform, 12))) end");
    let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
    assert!((mean - 12.0).abs() < 0.3, "{mean}");
    assert!(drawn.iter().all(|wait| (0.0..=120.0).contains(wait)));
}
