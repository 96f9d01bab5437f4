//! `cargo xtask demo`: the eight-site example on the wire.

use crate::error::Result;
use crate::release;

/// Makes the machine ready, builds, and becomes the demo.
pub fn run(options: &release::Options) -> Result {
    release::become_binary("responder-demo", options)
}
