//! Checks a configuration and says how long it took: `cargo run --release -p responder-user --example check -- FILE`.

use std::{path::Path, process::ExitCode, time::Instant};

use responder_user::config;

fn main() -> ExitCode {
    let Some(file) = std::env::args().nth(1) else {
        eprintln!("usage: check FILE");
        return ExitCode::from(2);
    };
    let start = Instant::now();
    match config::load(Path::new(&file)) {
        Ok(loaded) => {
            let took = start.elapsed();
            for warning in &loaded.warnings {
                println!("warning: {warning}");
            }
            println!("{} names in {took:.1?}", loaded.model.domains.len());
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}
