//! The parts of a long verb, each with the time that it took.

use std::time::Instant;

use crate::error::Result;

/// Runs one part, with its name before and its time after it.
pub fn section(name: &str, part: impl FnOnce() -> Result) -> Result {
    println!("== {name}");
    let began = Instant::now();
    let done = part();
    let word = if done.is_ok() { "ok" } else { "FAILED" };
    println!("== {name}: {word} in {:.1} s", began.elapsed().as_secs_f64());
    done
}
