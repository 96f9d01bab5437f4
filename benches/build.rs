//! Embeds the programs of the benches, which `cargo xtask build` makes from responder-ebpf.

use std::{env, fs, path::PathBuf};

fn main() {
    let built = PathBuf::from("../target/bpf/bpfel-unknown-none/release");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for program in ["generate", "count", "swap", "empty", "flood"] {
        let object = built.join(program);
        println!("cargo:rerun-if-changed={}", object.display());
        if let Err(error) = fs::copy(&object, out.join(format!("{program}.o"))) {
            panic!(
                "{}: {error}. Build the XDP programs first: cargo xtask build --ebpf-only",
                object.display()
            );
        }
    }
}
