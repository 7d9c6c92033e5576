#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::router_ops::check(data));
