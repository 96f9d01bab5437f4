//! Reads the files of `vectors/`; their format is told in `vector_files.rs`.

use std::{collections::BTreeMap, fs, path::Path};

use toml_edit::{DocumentMut, Item, Table};

/// What a vector may say of an answer.
pub const ASPECTS: [&str; 12] = [
    "gives",
    "first",
    "then",
    "how",
    "link",
    "tier",
    "method",
    "reason",
    "code",
    "ttl",
    "weights",
    "addresses",
];

/// What else it may say.
const OTHERS: [&str; 7] = ["source", "title", "down", "do", "after", "ask", "off_wire"];

/// One file.
pub struct VectorFile {
    pub name: String,
    pub groups: Vec<Group>,
}

/// Vectors of one configuration.
pub struct Group {
    /// For messages.
    pub place: String,
    pub config: String,
    /// Commands that come before each vector that starts afresh.
    pub orders: Vec<String>,
    pub vectors: Vec<Vector>,
}

/// One question with what must be answered.
pub struct Vector {
    /// For messages.
    pub place: String,
    /// Goes on from the vector before.
    pub is_after: bool,
    pub orders: Vec<String>,
    pub question: String,
    /// By aspect; never empty.
    pub wants: BTreeMap<String, String>,
    /// Why it cannot be put on the wire.
    pub off_wire: Option<String>,
}

impl Vector {
    /// What it says of an aspect.
    pub fn want(&self, aspect: &str) -> Option<&str> {
        self.wants.get(aspect).map(String::as_str)
    }
}

/// `NAME TYPE from ADDRESS`, and `ecs PREFIX` where the query carries a client subnet.
pub struct Question<'q> {
    pub name: &'q str,
    pub rtype: &'q str,
    pub client: std::net::IpAddr,
    pub ecs: Option<ipnet::IpNet>,
}

impl<'q> Question<'q> {
    pub fn parse(text: &'q str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (name, rtype, client, ecs) = match words[..] {
            [name, rtype, "from", client] => (name, rtype, client, None),
            [name, rtype, "from", client, "ecs", ecs] => (name, rtype, client, Some(ecs)),
            _ => return Err(format!("{text:?} is no question: NAME TYPE from ADDRESS [ecs PREFIX]")),
        };
        let client = client.parse().map_err(|e| format!("{client}: {e}"))?;
        let ecs = ecs.map(str::parse).transpose().map_err(|e| format!("{text}: {e}"))?;
        Ok(Self { name, rtype, client, ecs })
    }
}

fn text<'t>(table: &'t Table, key: &str) -> Option<&'t str> {
    table.get(key).map(|item| item.as_str().unwrap_or_else(|| panic!("{key} is no text")))
}

fn list(table: &Table, key: &str) -> Vec<String> {
    let items = table.get(key).and_then(Item::as_array);
    items.into_iter().flatten().map(|v| v.as_str().expect("a text").to_owned()).collect()
}

fn tables<'t>(table: &'t Table, key: &str) -> impl Iterator<Item = &'t Table> {
    table.get(key).and_then(Item::as_array_of_tables).into_iter().flatten()
}

/// All files, in the order of their names.
pub fn all() -> Vec<VectorFile> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> VectorFile {
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    let written = fs::read_to_string(path).unwrap();
    let document: DocumentMut = written.parse().unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(text(&document, "about").is_some(), "{name}: about is missing");
    let base = text(&document, "base").unwrap_or_default();
    let groups: Vec<Group> = tables(&document, "group")
        .enumerate()
        .map(|(g, group)| {
            let place = format!("{name}: group {}", g + 1);
            let default = text(group, "ask");
            let vectors = tables(group, "vector").enumerate();
            Group {
                config: format!("{base}\n{}", text(group, "config").unwrap_or_default()),
                orders: list(group, "do"),
                vectors: vectors.map(|(v, table)| vector(table, &place, v, default)).collect(),
                place,
            }
        })
        .collect();
    assert!(!groups.is_empty(), "{name}: no group");
    VectorFile { name, groups }
}

fn vector(table: &Table, group: &str, index: usize, default: Option<&str>) -> Vector {
    let question = text(table, "ask").or(default).unwrap_or_else(|| panic!("{group}: no question"));
    let title = text(table, "title").or(text(table, "source")).unwrap_or_default();
    let place = format!("{group}, vector {} ({title}; {question})", index + 1);
    let unknown = table.iter().find(|(key, _)| !ASPECTS.contains(key) && !OTHERS.contains(key));
    assert!(unknown.is_none(), "{place}: {unknown:?} is not a known key");
    let down = text(table, "down").unwrap_or_default().split_whitespace();
    let mut orders: Vec<String> = down.map(|s| format!("force service {s} down")).collect();
    orders.extend(list(table, "do"));
    let said = ASPECTS.iter().filter_map(|key| Some(((*key).to_owned(), text(table, key)?.to_owned())));
    let wants: BTreeMap<String, String> = said.collect();
    assert!(!wants.is_empty(), "{place}: nothing is expected");
    Vector {
        is_after: table.get("after").is_some(),
        orders,
        question: question.to_owned(),
        wants,
        off_wire: text(table, "off_wire").map(str::to_owned),
        place,
    }
}
