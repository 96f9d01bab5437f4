//! libFuzzer calls [`oracle::master::check`].
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|octets: &[u8]| responder_fuzz::oracle::master::check(octets));

#[cfg(not(fuzzing))]
fn main() {
    eprintln!("this is no fuzzer without its instrumentation: run `cargo xtask fuzz master`");
    std::process::exit(2);
}
