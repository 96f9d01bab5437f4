//! Embeds the XDP program, which `cargo xtask build` makes from responder-ebpf.

use std::{env, fs, path::PathBuf};

fn main() {
    println!("cargo:rerun-if-env-changed=RESPONDER_EBPF_OBJECT");
    let object = env::var_os("RESPONDER_EBPF_OBJECT")
        .map_or_else(|| PathBuf::from("../target/bpf/bpfel-unknown-none/release/responder"), PathBuf::from);
    println!("cargo:rerun-if-changed={}", object.display());
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("responder.o");
    if let Err(error) = fs::copy(&object, &out) {
        panic!("{}: {error}. Build the XDP program first: cargo xtask build --ebpf-only", object.display());
    }
}
