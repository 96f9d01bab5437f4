//! Everything that is wrong with a text that is no TOML. `toml_edit` tells its first problem alone; its grammar goes on
//! behind a mistake, so that all of them can be listed.

use std::collections::HashMap;

use toml_edit::TomlError;
use toml_parser::{
    ErrorSink, Expected, ParseError, Source,
    parser::{Event, EventKind, RecursionGuard, ValidateWhitespace, parse_document},
};

use super::problem::{MOST_LISTED, Notes};

/// Nesting that `toml_edit` allows.
const DEPTH: u32 = 80;

/// Reports what keeps a text from being a document. `first` is what `toml_edit` says; it is listed in any case.
pub(super) fn report(notes: &Notes<'_>, text: &str, first: &TomlError) {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut keys = Keys::default();
    for (base, section) in sections(text) {
        let mut errors: Vec<ParseError> = Vec::new();
        let source = Source::new(section);
        let events = events(source, &mut errors);
        keys.read(source, base, &events, &mut errors);
        found.extend(without_echoes(section, &events, &errors).map(|(at, text)| (base + at, text)));
    }
    let twice = |key: &Key, earlier: usize| {
        let (line, column) = notes.position(earlier);
        (key.at, format!("{}: is given twice, first at {line}:{column}", key.name))
    };
    found.extend(keys.twice.iter().map(|(key, earlier)| twice(key, *earlier)));
    let at = first.span().map_or(text.len(), |span| span.start);
    // Where what stands in the way of a key was begun, the keys alone know.
    found.push(match keys.earlier(at) {
        Some((key, earlier)) if first.message() == "duplicate key" => twice(key, earlier),
        _ => (at, first.message().to_owned()),
    });
    found.sort();
    // What follows in the same line is most often an echo of its first mistake.
    found.dedup_by_key(|(at, _)| notes.line(*at));
    for (at, message) in found.into_iter().take(MOST_LISTED) {
        notes.problem(at, message);
    }
}

/// The text in pieces that begin with the header of a table, each with its offset: a bracket that is not closed must not
/// swallow the tables behind it.
fn sections(text: &str) -> Vec<(usize, &str)> {
    let mut starts = vec![0];
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if at > 0 && is_header(line) {
            starts.push(at);
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(start, end)| (*start, &text[*start..end])).collect()
}

/// True for `[name]` and `[[name]]` at the start of a line, closed or not: bare words stand in no list.
fn is_header(line: &str) -> bool {
    let Some(rest) = line.strip_prefix('[') else { return false };
    let rest = rest.strip_prefix('[').unwrap_or(rest).trim_start();
    let word = rest.find(|c: char| !c.is_alphanumeric() && !"_-.".contains(c)).unwrap_or(rest.len());
    let after = rest[word..].trim_start().trim_start_matches(']').trim();
    rest.starts_with(|c: char| c.is_alphabetic() || c == '_') && (after.is_empty() || after.starts_with('#'))
}

fn events(source: Source<'_>, errors: &mut dyn ErrorSink) -> Vec<Event> {
    let tokens = source.lex().into_vec();
    let mut events = Vec::with_capacity(tokens.len());
    let mut checked = ValidateWhitespace::new(&mut events, source);
    let mut bounded = RecursionGuard::new(&mut checked, DEPTH);
    parse_document(&tokens, &mut bounded, errors);
    events
}

/// The errors of a section in order. Behind one that stands in a list that an earlier line opened, all others are echoes:
/// the list was to end before.
fn without_echoes<'e>(
    section: &'e str,
    events: &'e [Event],
    errors: &'e [ParseError],
) -> impl Iterator<Item = (usize, String)> + 'e {
    let mut errors: Vec<(usize, String)> = errors
        .iter()
        .map(|error| (error.unexpected().map_or(section.len(), |span| span.start()), message(error)))
        .collect();
    errors.sort();
    errors.truncate(MOST_LISTED);
    let mut is_lost = false;
    errors.into_iter().take_while(move |(at, _)| {
        let was_lost = is_lost;
        let mut open = Vec::new();
        for event in events.iter().take_while(|event| event.span().start() < *at) {
            match event.kind() {
                EventKind::ArrayOpen | EventKind::InlineTableOpen => open.push(event.span().start()),
                EventKind::ArrayClose | EventKind::InlineTableClose => drop(open.pop()),
                _ => {}
            }
        }
        is_lost |= open.first().is_some_and(|start| section[*start..*at].contains('\n'));
        !was_lost
    })
}

/// As `toml_edit` puts it.
fn message(error: &ParseError) -> String {
    let expected = |what: &Expected| match what {
        Expected::Literal("\n") => "newline".to_owned(),
        Expected::Literal("`") => "'`'".to_owned(),
        Expected::Literal(text) if text.chars().all(|c| c.is_ascii_control()) => {
            format!("`{}`", text.escape_debug())
        }
        Expected::Literal(text) => format!("`{text}`"),
        Expected::Description(text) => (*text).to_owned(),
        _ => "etc".to_owned(),
    };
    match error.expected() {
        None => error.description().to_owned(),
        Some([]) => format!("{}, expected nothing", error.description()),
        Some(list) => {
            let list: Vec<_> = list.iter().map(expected).collect();
            format!("{}, expected {}", error.description(), list.join(", "))
        }
    }
}

/// A key as it stands in the text.
struct Key {
    at: usize,
    /// With the tables around it, dots between.
    name: String,
    /// The same, with the number of each element of a list of tables: two of the same path are one thing.
    path: String,
}

/// All keys and tables of a text.
#[derive(Default)]
struct Keys {
    all: Vec<Key>,
    /// Where a path, or one that begins with it, was first given.
    begun: HashMap<String, usize>,
    /// Values and tables: each may be given once.
    given: HashMap<String, usize>,
    /// Keys that were given before, and where.
    twice: Vec<(Key, usize)>,
    /// How many elements a list of tables has.
    lists: HashMap<String, usize>,
}

/// The table that keys belong to.
#[derive(Clone, Default)]
struct Place {
    name: String,
    path: String,
}

impl Place {
    fn inner(&self, key: &str) -> Self {
        let dot = if self.name.is_empty() { "" } else { "." };
        // Keys may hold dots; a separator that no key holds keeps paths apart.
        Self { name: format!("{}{dot}{key}", self.name), path: format!("{}\0{key}", self.path) }
    }

    fn element(&self, number: usize) -> Self {
        Self { name: self.name.clone(), path: format!("{}\0\0{number}", self.path) }
    }
}

impl Keys {
    /// The keys of a section, which begins at `base`.
    fn read(&mut self, source: Source<'_>, base: usize, events: &[Event], errors: &mut dyn ErrorSink) {
        let mut table = Place::default();
        // The inline tables around: what they belong to, and the value in which they stand.
        let mut around: Vec<(Place, Place)> = Vec::new();
        let mut value = Place::default();
        let mut typed: Vec<(String, usize)> = Vec::new();
        for (number, event) in events.iter().enumerate() {
            match event.kind() {
                EventKind::StdTableOpen | EventKind::ArrayTableOpen | EventKind::Error => {
                    typed.clear();
                    if event.kind() != EventKind::Error {
                        around.clear();
                    }
                }
                EventKind::SimpleKey => {
                    let mut key = String::new();
                    if let Some(raw) = source.get(event) {
                        raw.decode_key(&mut key, errors);
                    }
                    typed.push((key, base + event.span().start()));
                }
                EventKind::StdTableClose => {
                    table = self.header(&typed);
                    // A table that dotted keys began is whole.
                    if let Some(begun) = self.begun.get(&table.path) {
                        self.given.entry(table.path.clone()).or_insert(*begun);
                    }
                    self.give(&table, &typed);
                    typed.clear();
                }
                EventKind::ArrayTableClose => {
                    table = self.header(&typed[..typed.len().saturating_sub(1)]);
                    if let Some((last, _)) = typed.last() {
                        let list = table.inner(last);
                        let count = self.lists.entry(list.path.clone()).or_default();
                        *count += 1;
                        table = list.element(*count);
                    }
                    typed.clear();
                }
                EventKind::KeyValSep => {
                    value = typed.iter().fold(table.clone(), |place, (key, at)| {
                        let inner = place.inner(key);
                        self.begun.entry(inner.path.clone()).or_insert(*at);
                        inner
                    });
                    self.give(&value, &typed);
                    typed.clear();
                }
                EventKind::InlineTableOpen => {
                    around.push((table, value.clone()));
                    table = value.element(base + number);
                }
                EventKind::InlineTableClose => {
                    (table, value) = around.pop().unwrap_or_default();
                    typed.clear();
                }
                EventKind::Scalar => {
                    if let Some(raw) = source.get(event) {
                        let _ = raw.decode_scalar(&mut String::new(), errors);
                    }
                }
                _ => {}
            }
        }
    }

    /// The table of a header; of a list of tables its last element.
    fn header(&self, typed: &[(String, usize)]) -> Place {
        typed.iter().fold(Place::default(), |place, (key, _)| {
            let inner = place.inner(key);
            match self.lists.get(&inner.path) {
                Some(last) => inner.element(*last),
                None => inner,
            }
        })
    }

    fn give(&mut self, place: &Place, typed: &[(String, usize)]) {
        let Some((_, at)) = typed.last() else { return };
        let key = || Key { at: *at, name: place.name.clone(), path: place.path.clone() };
        let first = *self.given.entry(place.path.clone()).or_insert(*at);
        if first != *at {
            self.twice.push((key(), first));
        }
        self.all.push(key());
    }

    /// The key at a place, and where what it names was begun before.
    fn earlier(&self, at: usize) -> Option<(&Key, usize)> {
        let key = self.all.iter().find(|key| key.at == at)?;
        let begun = [&self.given, &self.begun].into_iter().filter_map(|map| map.get(&key.path));
        begun.min().filter(|earlier| **earlier < at).map(|earlier| (key, *earlier))
    }
}
