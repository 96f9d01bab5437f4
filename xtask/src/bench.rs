//! `cargo xtask bench`: what an answer costs, in the kernel.

use crate::error::Result;
use crate::release;

/// Makes the machine ready, builds, and becomes the benchmark.
pub fn run(options: &release::Options) -> Result {
    release::become_binary("responder-bench", options)
}
