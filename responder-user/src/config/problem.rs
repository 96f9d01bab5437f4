//! What is wrong with a configuration, and where.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    fmt, io,
    path::{Path, PathBuf},
};

/// Problems listed of one kind of mass input; the rest is counted. Nobody reads a million lines.
pub(super) const MOST_LISTED: usize = 100;

/// One thing that is wrong or, in [`Loaded::warnings`](super::Loaded::warnings), surprising.
///
/// Prints as `responder.toml:41:14: vserver "www": spillover.timeout: "1m" is below the minimum of 2m`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Problem {
    /// The file as it was named on the command line, or in the configuration.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Object, field, value and what is allowed.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file.display(), self.line, self.column, self.text)
    }
}

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Everything that is wrong, sorted by file and position; never empty. Prints one a line.
    #[error("{}", lines(.0))]
    Problems(Vec<Problem>),
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// A value with the byte offset in the file at which it was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct At<T> {
    /// What was typed.
    pub value: T,
    /// Where: byte offset from the start of the file.
    pub at: usize,
}

/// Collects problems and warnings while one configuration is read and checked.
pub(super) struct Notes<'a> {
    file: &'a Path,
    text: &'a str,
    /// Byte offset of the start of each line.
    lines: Vec<usize>,
    problems: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<Problem>>,
    /// Kinds that had their one warning.
    warned: RefCell<BTreeSet<String>>,
    suggestions: Cell<usize>,
}

impl<'a> Notes<'a> {
    pub(super) fn new(file: &'a Path, text: &'a str) -> Self {
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self {
            file,
            text,
            lines,
            problems: RefCell::default(),
            warnings: RefCell::default(),
            warned: RefCell::default(),
            suggestions: Cell::new(0),
        }
    }

    /// A path of the configuration, which is relative to the folder of the file.
    pub(super) fn resolve(&self, path: &str) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("")).join(path)
    }

    /// Line and column of a byte offset, both from 1.
    pub(super) fn position(&self, at: usize) -> (u32, u32) {
        let at = self.text.floor_char_boundary(at);
        let line = self.lines.partition_point(|start| *start <= at);
        let column = self.text[self.lines[line - 1]..at].chars().count() + 1;
        (line as u32, column as u32)
    }

    /// The line of a byte offset, for a message about another place.
    pub(super) fn line(&self, at: usize) -> u32 {
        self.position(at).0
    }

    /// Where the byte `offset` of the string stands that begins at `at`, quotes and escapes counted.
    pub(super) fn inside_string(&self, at: usize, offset: usize) -> usize {
        let raw = self.text.get(at..).unwrap_or_default();
        let Some(quote) = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| raw.starts_with(quote))
        else {
            return at;
        };
        let mut body = &raw[quote.len()..];
        if quote.len() == 3 {
            // The line break behind the opening quotes is no part of the value.
            body = body.strip_prefix("\r\n").or_else(|| body.strip_prefix('\n')).unwrap_or(body);
        }
        let mut passed = 0;
        while passed < offset && !body.is_empty() {
            let (source, value) = if quote.starts_with('"') { unit(body) } else { plain(body) };
            body = &body[source.min(body.len())..];
            passed += value;
        }
        at + raw.len() - body.len()
    }

    pub(super) fn problem(&self, at: usize, text: impl Into<String>) {
        let problem = self.make(at, text.into());
        self.problems.borrow_mut().push(problem);
    }

    /// A problem in another file than the configuration itself.
    pub(super) fn problem_elsewhere(&self, problem: Problem) {
        self.problems.borrow_mut().push(problem);
    }

    pub(super) fn warning(&self, at: usize, text: impl Into<String>) {
        let warning = self.make(at, text.into());
        self.warnings.borrow_mut().push(warning);
    }

    /// A warning that only the first one of its kind gives.
    pub(super) fn warn_once(&self, kind: &str, at: usize, text: impl Into<String>) {
        if self.warned.borrow_mut().insert(kind.to_owned()) {
            self.warning(at, text);
        }
    }

    fn make(&self, at: usize, text: String) -> Problem {
        let (line, column) = self.position(at);
        Problem { file: self.file.to_owned(), line, column, text }
    }

    /// Number of problems so far; tells whether something in between went wrong.
    pub(super) fn count(&self) -> usize {
        self.problems.borrow().len()
    }

    /// `; did you mean "x"?` with the closest candidate, or nothing.
    pub(super) fn did_you_mean<'c>(&self, typed: &str, candidates: impl Iterator<Item = &'c str>) -> String {
        // A file whose every line is wrong must not cost (lines x names) comparisons.
        self.suggestions.set(self.suggestions.get() + 1);
        if self.suggestions.get() > MOST_LISTED {
            return String::new();
        }
        closest(typed, candidates).map_or_else(String::new, |best| format!("; did you mean {best:?}?"))
    }

    /// Problems and warnings, each sorted by file and position.
    pub(super) fn finish(self) -> (Vec<Problem>, Vec<Problem>) {
        let (mut problems, mut warnings) = (self.problems.into_inner(), self.warnings.into_inner());
        problems.sort();
        warnings.sort();
        (problems, warnings)
    }
}

/// Bytes of the first character in the source and in the value.
fn plain(body: &str) -> (usize, usize) {
    let length = body.chars().next().map_or(1, char::len_utf8);
    (length, length)
}

/// As [`plain`], for a string with escapes (TOML: basic string).
fn unit(body: &str) -> (usize, usize) {
    let Some(escaped) = body.strip_prefix('\\') else { return plain(body) };
    let code = |digits: usize| {
        let value = escaped.get(1..=digits).and_then(|hex| u32::from_str_radix(hex, 16).ok());
        (2 + digits, value.and_then(char::from_u32).map_or(1, char::len_utf8))
    };
    match escaped.chars().next() {
        Some('x') => code(2),
        Some('u') => code(4),
        Some('U') => code(8),
        Some(c) if c.is_whitespace() => {
            // A backslash at the end of a line swallows all white space up to the next character.
            (1 + escaped.len() - escaped.trim_start().len(), 0)
        }
        Some(c) => (1 + c.len_utf8(), 1),
        None => (1, 1),
    }
}

/// The candidate with the fewest typing mistakes, if they are few for the length of the word.
fn closest<'c>(typed: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let folded = typed.to_lowercase();
    let most = (typed.chars().count() / 3).max(1);
    candidates
        .map(|c| (strsim::damerau_levenshtein(&folded, &c.to_lowercase()), c))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_from_one() {
        let notes = Notes::new(Path::new("x"), "aä=1\r\n\nb");
        assert_eq!(notes.position(0), (1, 1));
        assert_eq!(notes.position(3), (1, 3));
        assert_eq!(notes.position(2), (1, 2), "inside a character");
        assert_eq!(notes.position(7), (2, 1));
        assert_eq!(notes.position(8), (3, 1));
        assert_eq!(notes.position(999), (3, 2));
    }

    #[test]
    fn offsets_inside_strings_count_quotes_and_escapes() {
        for (text, offset, at) in [
            ("'abc'", 1, 2),
            (r#""a\"b""#, 2, 4),
            (r#""\u00e4b""#, 2, 7),
            ("'''\nabc'''", 1, 5),
            ("\"\"\"a\\\n  b\"\"\"", 2, 9),
            ("'abc'", 99, 5),
            ("17", 1, 0),
        ] {
            assert_eq!(Notes::new(Path::new("x"), text).inside_string(0, offset), at, "{text}");
        }
    }

    #[test]
    fn suggestions_are_close_or_absent() {
        let words = ["address", "port", "location"];
        assert_eq!(closest("adress", words.into_iter()), Some("address"));
        assert_eq!(closest("PORT", words.into_iter()), Some("port"));
        assert_eq!(closest("prot", words.into_iter()), Some("port"));
        assert_eq!(closest("weight", words.into_iter()), None);
        assert_eq!(closest("", words.into_iter()), None);
    }
}
