//! Tests of `src/run_options.rs`.

use super::*;

fn read(words: &str) -> Result<RunOptions, String> {
    let arguments: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    RunOptions::read(&CommandLine::parse(&arguments).expect("well formed"), |_| ())
}

#[test]
fn defaults_match_sysbench() {
    let options = read("cpu run").expect("fine");
    assert_eq!((options.threads, options.events, options.time), (1, None, Some(Duration::from_secs(10))));
    assert_eq!((options.rate_per_s, options.forced_shutdown, options.verbosity), (None, None, 3));
    assert_eq!(options.percentiles, [Percentile { per_cent: 95.0, label: "95".into() }]);
    assert_eq!(options.rand, RandSettings::default());
}

#[test]
fn deprecated_names_win_unless_they_have_their_default() {
    let options = read("--num-threads=4 --max-time=3 --time=5 --tx-rate=9 --max-requests=7").expect("fine");
    assert_eq!((options.threads, options.time), (4, Some(Duration::from_secs(3))));
    assert_eq!((options.rate_per_s, options.events), (Some(9), Some(7)));
    let options = read("--num-threads=1 --threads=2 --max-time=0 --time=5").expect("fine");
    assert_eq!((options.threads, options.time), (2, Some(Duration::from_secs(5))));
}

#[test]
fn huge_durations_do_not_overflow() {
    let words = "--time=9000000000 --forced-shutdown=18446744073709551615 --thread-init-timeout=9000000000";
    let options = read(words).expect("fine");
    let (time, grace) = (options.time.expect("limited"), options.forced_shutdown.expect("on"));
    assert!((time + grace).max(options.thread_init_timeout).as_nanos() < u128::from(u64::MAX));
}

#[test]
fn forced_shutdown_takes_seconds_or_a_percentage() {
    let grace =
        |text: &str| read(&format!("--time=60 --forced-shutdown={text}")).map(|options| options.forced_shutdown);
    for (text, seconds) in [("off", None), ("OFF", None), ("5", Some(5)), ("10%", Some(6)), ("0%", Some(0))] {
        assert_eq!(grace(text), Ok(seconds.map(Duration::from_secs)), "{text}");
    }
    for text in ["10%%", "x", "1.5", "-1"] {
        assert!(grace(text).is_err(), "{text}");
    }
}

#[test]
fn verbosity_uses_only_the_low_byte() {
    for (given, verbosity) in [("256", 0), ("261", 5), ("-256", 0), ("4", 4)] {
        assert_eq!(read(&format!("--verbosity={given}")).expect("fine").verbosity, verbosity, "{given}");
    }
}

#[test]
fn a_failed_thread_start_mentions_an_explicit_stack_size() {
    let failure = Failure::new(bakeoff_load::failure::Code::Internal, "no more threads").on_arm("sb");
    assert_eq!(read("cpu run").expect("fine").no_thread(&failure), "no more threads");
    let words = read("--thread-stack-size=1G").expect("fine").no_thread(&failure);
    assert_eq!(words, "no more threads, or a --thread-stack-size below 1073741824");
}

#[test]
fn several_percentiles_or_none_can_be_requested() {
    let labels: Vec<_> =
        read("--percentile=50,95,99.9").expect("fine").percentiles.into_iter().map(|p| p.label).collect();
    assert_eq!(labels, ["50", "95", "99.9"]);
    assert!(read("--percentile=0").expect("fine").percentiles.is_empty());
}

#[test]
fn invalid_values_are_refused() {
    for (words, message) in [
        ("--threads=0", "Invalid value for --threads: 0.\n"),
        ("--percentile=200", "Invalid value for --percentile: 200"),
        ("--rand-type=foo", "Invalid random numbers distribution: foo."),
        ("--forced-shutdown=1s", "Invalid value for --forced-shutdown: '1s'"),
        ("--report-checkpoints=a", "Invalid value for --report-checkpoints: 'a'"),
        ("--histogram --percentile=0", "--histogram cannot be used with --percentile=0"),
        ("--rate=-5", "Invalid value for --rate: -5"),
        ("--rand-zipfian-exp=inf", "Invalid value for --rand-zipfian-exp: inf"),
        ("--rand-zipfian-exp=1e400", "Invalid value for --rand-zipfian-exp: inf"),
        ("--rand-pareto-h=nan", "Invalid value for --rand-pareto-h: NaN"),
    ] {
        assert_eq!(read(words).expect_err(words), message);
    }
}
