//! A configuration file, through the real reader and validator: a model that compiles, or problems with their places.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use responder_user::{
    compile::{Compiled, name::StaticTypes},
    config::{self, ConfigError, Problem},
};

/// Where the file lies: a folder in which it finds nothing.
fn place() -> &'static PathBuf {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| std::env::temp_dir().join("responder-fuzz-nowhere").join("responder.toml"))
}

/// Reads a file.
pub fn check(octets: &[u8]) {
    let Ok(text) = std::str::from_utf8(octets) else { return };
    // Files of the machine say nothing about us.
    if text.contains('/') && ["/proc", "/sys", "/dev"].iter().any(|folder| text.contains(folder)) {
        return;
    }
    let read = config::parse(text, place());
    let again = config::parse(text, place());
    match (read, again) {
        (Ok(loaded), Ok(_)) => {
            sound(text, &loaded.warnings);
            // What is accepted is compiled or refused with a reason; memory bounds the number of names here.
            if loaded.model.domains.len() < 1000 {
                let model = Arc::new(loaded.model);
                let compiled = Compiled::of(model, &|_| StaticTypes::default(), &|_| None, &|_| None);
                if let Err(error) = compiled {
                    assert!(!error.to_string().is_empty());
                }
            }
        }
        (Err(ConfigError::Problems(problems)), Err(ConfigError::Problems(same))) => {
            assert!(!problems.is_empty(), "refused without a problem");
            assert_eq!(problems, same, "the same file, other problems");
            sound(text, &problems);
        }
        (read, again) => panic!("{read:?}\nand then {again:?}"),
    }
}

/// Problems have a place in the file, something to say, and stand in order.
fn sound(text: &str, problems: &[Problem]) {
    for problem in problems.iter().filter(|problem| problem.file == *place()) {
        let line = text.split('\n').nth(problem.line as usize - 1);
        let line = line.unwrap_or_else(|| panic!("no line {}: {problem}", problem.line));
        let columns = line.chars().count() + 1;
        assert!(
            (1..=columns).contains(&(problem.column as usize)),
            "column {} of {columns}: {problem}",
            problem.column
        );
        assert!(!problem.text.trim().is_empty() && !problem.text.contains('\n'), "{problem:?}");
    }
    assert!(problems.is_sorted(), "{problems:?}");
}
