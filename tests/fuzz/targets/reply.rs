//! See `redlatch::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| redlatch::fuzzing::reply(data));
