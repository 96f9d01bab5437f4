//! Files of a `[[domain_list]]`: `name [ttl]` a line, `#` begins a comment.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::problem::{MOST_LISTED, Problem};
use crate::model::DnsName;

/// One line of a list.
pub(super) struct Entry {
    pub(super) name: DnsName,
    pub(super) ttl: Option<u32>,
    pub(super) line: u32,
}

/// Reads a whole list. Gives every good line and the problems of the others, with the line numbers of that file.
pub(super) fn read(path: &Path) -> std::io::Result<(Vec<Entry>, Vec<Problem>)> {
    regular(path)?;
    Ok(parse(&fs::read(path)?, path))
}

/// Err unless the path leads to a file of ordinary data: reading a pipe or a device would never end.
pub(super) fn regular(path: &Path) -> std::io::Result<()> {
    if fs::metadata(path)?.is_file() { Ok(()) } else { Err(std::io::Error::other("it is not a file")) }
}

fn parse(bytes: &[u8], path: &Path) -> (Vec<Entry>, Vec<Problem>) {
    let mut lines = Vec::new();
    let mut problems = Problems { path: path.to_owned(), list: Vec::new(), more: 0 };
    // As a configuration file, a list may begin with a byte order mark.
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    for (index, raw) in bytes.split(|b| *b == b'\n').enumerate() {
        let number = index as u32 + 1;
        match std::str::from_utf8(raw) {
            Ok(text) => match line(text, number) {
                Ok(found) => lines.extend(found),
                Err((column, text)) => problems.push(number, column, text),
            },
            Err(error) => problems.push(number, error.valid_up_to() + 1, "is not UTF-8 text".to_owned()),
        }
    }
    (lines, problems.finish())
}

/// One line; None for an empty one. Err: column and message.
fn line(text: &str, line: u32) -> Result<Option<Entry>, (usize, String)> {
    let mut words = words(text);
    let Some((at, name)) = words.next() else { return Ok(None) };
    let name = DnsName::parse(name).map_err(|error| (column(text, at), error.to_string()))?;
    let ttl = match words.next() {
        None => None,
        Some((at, typed)) => {
            let ttl = typed.parse().ok().filter(|ttl| (1..=0x7fff_ffff).contains(ttl));
            Some(ttl.ok_or_else(|| {
                (
                    column(text, at),
                    format!("{typed:?} is not a TTL; allowed is an integer from 1 to 2147483647"),
                )
            })?)
        }
    };
    match words.next() {
        None => Ok(Some(Entry { name, ttl, line })),
        Some((at, word)) => {
            Err((column(text, at), format!("{word:?} is too much; a line is a name and a TTL")))
        }
    }
}

/// Words with their byte offset, up to a word that begins with `#`.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_ascii_start();
        let at = text.len() - rest.len();
        let end = rest.bytes().position(|b| b.is_ascii_whitespace()).unwrap_or(rest.len());
        let word = &rest[..end];
        rest = &rest[end..];
        (!word.is_empty() && !word.starts_with('#')).then_some((at, word))
    })
}

fn column(text: &str, at: usize) -> usize {
    text[..at].chars().count() + 1
}

/// Keeps the first problems and counts the rest.
struct Problems {
    path: PathBuf,
    list: Vec<Problem>,
    more: usize,
}

impl Problems {
    fn push(&mut self, line: u32, column: usize, text: String) {
        if self.list.len() == MOST_LISTED {
            self.more += 1;
            return;
        }
        self.list.push(Problem { file: self.path.clone(), line, column: column as u32, text });
    }

    fn finish(mut self) -> Vec<Problem> {
        if let Some(last) = self.list.last().filter(|_| self.more > 0).cloned() {
            self.list.push(Problem { text: format!("and {} more lines with problems", self.more), ..last });
        }
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_a_name_a_ttl_and_comments() {
        let text = b"# all\nWWW.example.com\r\n\n  a.example 30 # why\n\tb.example 60\nc.example#x";
        let (lines, problems) = parse(text, Path::new("n"));
        let found: Vec<_> = lines.iter().map(|l| format!("{} {} {:?}", l.line, l.name, l.ttl)).collect();
        assert_eq!(
            found,
            ["2 www.example.com None", "4 a.example Some(30)", "5 b.example Some(60)", "6 c.example#x None"]
        );
        assert!(problems.is_empty());
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_name() {
        let (lines, problems) = parse("\u{feff}a.example\r\nb.example\r\n".as_bytes(), Path::new("n"));
        let found: Vec<_> = lines.iter().map(|l| l.name.to_string()).collect();
        assert_eq!(found, ["a.example", "b.example"]);
        assert!(problems.is_empty());
    }

    #[test]
    fn problems_have_the_line_of_the_list() {
        let text = b"ok\n a..b\na 0\na 1 2\n\xff\na 2147483648\n";
        let shown: Vec<_> = parse(text, Path::new("n")).1.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "n:2:2: \"a..b\" has an empty label",
                "n:3:3: \"0\" is not a TTL; allowed is an integer from 1 to 2147483647",
                "n:4:5: \"2\" is too much; a line is a name and a TTL",
                "n:5:1: is not UTF-8 text",
                "n:6:3: \"2147483648\" is not a TTL; allowed is an integer from 1 to 2147483647",
            ]
        );
        let (_, problems) = parse(&b"a..b\n".repeat(1000), Path::new("n"));
        assert_eq!(problems.len(), MOST_LISTED + 1);
        assert_eq!(problems[MOST_LISTED].text, "and 900 more lines with problems");
    }
}
