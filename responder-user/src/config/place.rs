//! Where settings were typed that the host may refuse: a start that fails names the line.

use std::path::PathBuf;

/// Places of settings in the file.
#[derive(Clone, Debug, Default)]
pub struct Places {
    file: PathBuf,
    list: Vec<Place>,
}

#[derive(Clone, Debug)]
struct Place {
    key: &'static str,
    element: String,
    line: u32,
    column: u32,
}

impl Places {
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file, list: Vec::new() }
    }

    pub(super) fn add(&mut self, key: &'static str, element: String, (line, column): (u32, u32)) {
        self.list.push(Place { key, element, line, column });
    }

    /// `text` with the place of a key in front (`xdp.interfaces`), or of one element of its list. What stands nowhere in
    /// the file, because it is a default, has the file alone.
    pub fn say(&self, key: &str, element: &str, text: &str) -> String {
        let of_key = || self.list.iter().filter(|place| place.key == key);
        let place = of_key().find(|place| place.element == element).or_else(|| of_key().next());
        match place {
            Some(Place { line, column, .. }) => format!("{}:{line}:{column}: {text}", self.file.display()),
            None => format!("{}: {text}", self.file.display()),
        }
    }
}
