//! From a text to a [`Model`], or to the list of everything that is wrong with it.
//!
//! The text is read in two steps. `read` turns the document into a [`file::File`]: values of the right type, in
//! range, with positions, references still by name. `validate` turns that into the model: references resolved,
//! defaults filled in, objects held against each other. Neither step stops at the first problem.
//!
//! ```
//! use std::path::Path;
//! use responder_user::config;
//!
//! let loaded = config::parse("[listen]\naddresses = [\"192.0.2.53:53\"]\n", Path::new("responder.toml")).unwrap();
//! assert_eq!(loaded.model.settings.listen.len(), 1);
//!
//! let error = config::parse("[listen]\naddresses = [53]\n", Path::new("responder.toml")).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "responder.toml:2:14: listen.addresses: 53 is an integer; allowed is an address with a port",
//! );
//! ```

pub mod draft;
pub mod file;
pub mod import;
pub mod rule;

mod domains;
mod geo;
mod inert;
mod kind;
mod lint;
mod names;
mod place;
mod policies;
mod pool;
mod problem;
mod range;
mod read;
mod read_pool;
mod reader;
mod syntax;
#[cfg(test)]
mod tests;
mod validate;

use std::path::Path;

pub use place::Places;
pub use problem::{At, ConfigError, Problem};

use crate::model::Model;
use problem::Notes;

/// A configuration that can run.
#[derive(Debug)]
pub struct Loaded {
    /// What the program runs on.
    pub model: Model,
    /// What will surprise, and what has no effect yet, sorted by position. Printed with `warning: ` in front.
    pub warnings: Vec<Problem>,
    /// Where settings stand that only the host can judge.
    pub places: Places,
}

/// Reads and checks a file, and the files that it names: lists of domains are read, zone files only opened.
///
/// The path appears in messages as it is given here; paths inside the file are relative to its folder.
pub fn load(path: &Path) -> Result<Loaded, ConfigError> {
    parse(&read_text(path)?, path)
}

/// The text of a file, which must be UTF-8.
pub fn read_text(path: &Path) -> Result<String, ConfigError> {
    let bytes = std::fs::read(path).map_err(|source| ConfigError::Io { path: path.to_owned(), source })?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(error) => {
            let valid = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
            let notes = Notes::new(path, &valid);
            notes.problem(valid.len(), "is not UTF-8 text");
            Err(ConfigError::Problems(notes.finish().0))
        }
    }
}

/// As [`load`], for a text that is at hand. `path` names it in messages and anchors relative paths.
pub fn parse(text: &str, path: &Path) -> Result<Loaded, ConfigError> {
    let notes = Notes::new(path, text);
    let mut places = Places::new(path.to_owned());
    let model = match toml_edit::Document::parse(text) {
        Ok(document) => {
            let file = read::read(&notes, document.as_table());
            for (key, element) in &file.places {
                places.add(key, element.value.clone(), notes.position(element.at));
            }
            validate::validate(&notes, &file)
        }
        Err(error) => {
            syntax::report(&notes, text, &error);
            Model::default()
        }
    };
    let (problems, warnings) = notes.finish();
    if problems.is_empty() {
        Ok(Loaded { model, warnings, places })
    } else {
        Err(ConfigError::Problems(problems))
    }
}
