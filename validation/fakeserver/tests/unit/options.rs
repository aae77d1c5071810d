//! Tests of `src/options.rs`.

use super::*;

#[test]
fn option_values_are_parsed() {
    assert_eq!(read_draw("constant:50us"), Ok(Draw::Constant { ns: 50e3 }));
    assert_eq!(read_draw("lognormal:1.5ms,0.5"), Ok(Draw::LogNormal { median_ns: 1.5e6, sigma: 0.5 }));
    assert_eq!(read_stall("200ms/10s"), Ok(Stall { length_ns: 200_000_000, period_ns: 10_000_000_000 }));
    assert_eq!(read_drift("step:0.2@30s"), Ok(Drift::Step { share: 0.2, at_s: 30.0 }));
    assert_eq!(read_drift("sin:-0.1/60s"), Ok(Drift::Sine { share: -0.1, period_s: 60.0 }));
    assert_eq!(read_injected_error("1213/1000"), Ok((1213, 1000)));
}

#[test]
fn nonsense_is_refused() {
    for wrong in ["50", "us", "-1us", "1h", "constant", "normal:5us", "lognormal:5us"] {
        assert!(read_draw(wrong).is_err(), "{wrong}");
        assert!(read_duration_ns(wrong).is_err(), "{wrong}");
    }
    assert!(read_stall("10s/10s").is_err());
    assert!(read_drift("linear:0.1/0s").is_err());
    assert!(read_injected_error("1213/0").is_err());
    assert!(read_factor("0").is_err());
}

#[test]
fn the_command_line_definition_is_valid() {
    use clap::CommandFactory;
    Options::command().debug_assert();
}
