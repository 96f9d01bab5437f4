//! libFuzzer calls [`oracle::reply::check`].
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|octets: &[u8]| responder_fuzz::oracle::reply::check(octets));

#[cfg(not(fuzzing))]
fn main() {
    eprintln!("this is no fuzzer without its instrumentation: run `cargo xtask fuzz reply`");
    std::process::exit(2);
}
