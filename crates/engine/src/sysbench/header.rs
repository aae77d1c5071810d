//! What is said before a run: who speaks, and with which options.

use super::run_options::RunOptions;

/// The first line of all but `--help` and `--version`, and the empty one after it.
pub(super) fn header(options: &RunOptions) -> String {
    format!(
        "sysbench {} (using bakeoff {}, LuaJIT)\n",
        options.dialect.version(),
        env!("CARGO_PKG_VERSION")
    )
}

/// The options of the run. `of_test`: a line of a built-in test.
pub(super) fn preamble(options: &RunOptions, of_test: Option<&str>) -> String {
    let mut lines = vec![
        "Running the test with following options:".to_owned(),
        format!("Number of threads: {}", options.threads),
    ];
    if !options.warmup.is_zero() {
        lines.push(format!("Warmup time: {}s", options.warmup.as_secs()));
    }
    if let Some(rate) = options.rate_per_s {
        lines.push(format!("Target transaction rate: {rate}/sec"));
    }
    if let Some(seconds) = options.report_interval_s {
        lines.push(format!(
            "Report intermediate results every {seconds} second(s)"
        ));
    }
    if !options.checkpoints_s.is_empty() {
        let seconds: Vec<String> = options.checkpoints_s.iter().map(u64::to_string).collect();
        lines.push(format!(
            "Report checkpoint(s) at {} seconds",
            seconds.join(", ")
        ));
    }
    if options.debug {
        lines.push("Debug mode enabled.\n".to_owned());
    }
    if options.validate {
        lines.push("Validation checks: on.\n".to_owned());
    }
    lines.push(match options.given_seed {
        Some(seed) => format!("Initializing random number generator from seed ({seed}).\n"),
        None => "Initializing random number generator from current time\n".to_owned(),
    });
    if let (Some(time), Some(grace)) = (options.time, options.forced_shutdown) {
        lines.push(format!(
            "Forcing shutdown in {} seconds",
            (options.warmup + time + grace).as_secs()
        ));
    }
    lines.push(String::new());
    lines.extend(of_test.map(|line| format!("{line}\n")));
    lines.push("Initializing worker threads...\n".to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysbench::command_line::CommandLine;

    fn options(words: &str) -> RunOptions {
        let arguments: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        RunOptions::read(&CommandLine::parse(&arguments).expect("well formed")).expect("fine")
    }

    #[test]
    fn the_preamble_is_sysbenchs() {
        let options = options(
            "--threads=2 --rate=20 --report-interval=1 --report-checkpoints=4,2 --rand-seed=7 --time=1 --forced-shutdown=1",
        );
        assert_eq!(
            preamble(&options, None),
            "Running the test with following options:\nNumber of threads: 2\nTarget transaction rate: 20/sec\n\
             Report intermediate results every 1 second(s)\nReport checkpoint(s) at 2, 4 seconds\n\
             Initializing random number generator from seed (7).\n\nForcing shutdown in 2 seconds\n\nInitializing worker threads...\n"
        );
    }

    #[test]
    fn a_plain_preamble_has_two_empty_lines() {
        assert_eq!(
            preamble(&options("run"), Some("Prime numbers limit: 10000")),
            "Running the test with following options:\nNumber of threads: 1\n\
             Initializing random number generator from current time\n\n\nPrime numbers limit: 10000\n\nInitializing worker threads...\n"
        );
    }
}
