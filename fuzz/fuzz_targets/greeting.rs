#![no_main]

use bakeoff_wire::Greeting;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|payload: &[u8]| {
    let _ = Greeting::parse(payload);
});
