//! `sysbench.rand` from Lua: ranges, distributions, reproducibility.

use crate::world::{World, run, settings};
use bakeoff_script::{RandKind, RandSettings, Settings};

/// What a worker's `thread_init` prints.
fn printed(body: &str, settings: &Settings, thread: u32) -> Vec<String> {
    let world = World::new(0);
    let source = bakeoff_script::ScriptSource::inline("t.lua", &format!("function thread_init() {body} end"));
    let script = bakeoff_script::Script::load(&source, settings, thread, world.host()).expect("loads");
    script.thread_init().unwrap_or_else(|error| panic!("{error}"));
    world.lines()
}

const TEN: &str = "for i = 1, 10 do print(sysbench.rand.default(1, 1000000), sysbench.rand.unique()) end";

#[test]
fn every_function_answers_in_its_range() {
    let body = r"
        local r = sysbench.rand
        for _, f in ipairs{ r.default, r.uniform, r.gaussian, r.special, r.pareto, r.zipfian } do
          for i = 1, 200 do
            local n = f(10, 20)
            assert(type(n) == 'number' and n >= 10 and n <= 20 and n % 1 == 0, n)
          end
          assert(f(4294967295, 4294967295) == 4294967295 and f(0, 0) == 0)
        end
        for i = 1, 200 do
          local d, v = r.uniform_double(), r.varstring(2, 5)
          assert(d >= 0 and d < 1 and #v >= 2 and #v <= 5 and not v:find('[^0-z]'))
          assert(r.string('##-@@x'):match('^%d%d%-%l%lx$'))
        end
        assert(r.string('') == '' and #r.string(('#'):rep(5000)) == 5000 and #r.varstring(3000, 3000) == 3000)
        print(type(r.uniform_uint64()), tostring(r.uniform_uint64()):match('ULL$'), type(r.unique()))";
    assert_eq!(printed(body, &settings(&[]), 0), ["cdata\tULL\tnumber"]);
}

#[test]
fn the_distribution_is_configurable_and_uniform_by_default() {
    let mean = |kind| {
        let settings = Settings { rand: RandSettings { kind, ..RandSettings::default() }, ..settings(&[]) };
        let body =
            "local sum = 0 for i = 1, 20000 do sum = sum + sysbench.rand.default(1, 1000) end print(sum / 20000)";
        printed(body, &settings, 0)[0].parse::<f64>().expect("a mean")
    };
    assert_eq!(RandSettings::default().kind, RandKind::Uniform);
    for kind in [RandKind::Uniform, RandKind::Gaussian, RandKind::Special] {
        assert!((480.0..520.0).contains(&mean(kind)), "{kind:?}: {}", mean(kind));
    }
    assert!((100.0..150.0).contains(&mean(RandKind::Pareto)), "{}", mean(RandKind::Pareto));
    assert!((180.0..260.0).contains(&mean(RandKind::Zipfian)), "{}", mean(RandKind::Zipfian));
}

#[test]
fn streams_follow_from_seed_and_thread() {
    let settings = Settings { threads: 2, ..settings(&[]) };
    let first = printed(TEN, &settings, 0);
    assert_eq!(first, printed(TEN, &settings, 0));
    assert_ne!(first, printed(TEN, &settings, 1));
    assert_ne!(first, printed(TEN, &Settings { seed: 8, ..settings.clone() }, 0));
}

#[test]
fn reseeding_restarts_the_stream_but_not_the_unique_numbers() {
    let world = World::new(3);
    *world.on_more_events.borrow_mut() =
        Some(Box::new(|left| bakeoff_script::reseed(11, if left == 2 { 4 } else { 3 }, 5)));
    run(&format!("function event() {TEN} end"), &world).expect("draws");
    let lines = world.lines();
    let draws: Vec<_> = lines.chunks(10).collect();
    let column = |lines: &[String], n: usize| -> Vec<String> {
        lines.iter().map(|line| line.split('\t').nth(n).unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(column(draws[0], 0), column(draws[2], 0));
    assert_ne!(column(draws[0], 0), column(draws[1], 0));
    let mut unique: Vec<String> = draws.iter().flat_map(|lines| column(lines, 1)).collect();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), 30);
}
