//! Prints every two seconds how long two CPUs take to pass a cache line to each other and back.
//!
//!     cargo run --release -p bakeoff-load --example cache_line [CPU CPU]

use std::error::Error;
use std::io::Write;
use std::time::{Duration, SystemTime};

use bakeoff_load::machine::cache_line::round_trip;

fn main() -> Result<(), Box<dyn Error>> {
    let cpus: Option<Vec<usize>> = std::env::args().skip(1).map(|text| text.parse().ok()).collect();
    let (first, second) = match cpus.as_deref() {
        Some([]) => (0, 1),
        Some(&[first, second]) => (first, second),
        _ => return Err("usage: cache_line [CPU CPU]".into()),
    };
    loop {
        let quickest =
            round_trip(first, second).ok_or("this process may not use both CPUs, or other work keeps them busy")?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        writeln!(std::io::stdout(), "{} {} ns", now.as_secs(), quickest.as_nanos())?;
        std::thread::sleep(Duration::from_secs(2));
    }
}
