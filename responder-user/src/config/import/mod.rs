//! NetScaler configuration in (spec/netscaler.md 6): a saved ns.conf as a whole, or one command at a time.
//!
//! A [`Session`] holds the objects that commands make, and knows the configuration that it started from. What it gives
//! back, [`Session::output`], is that configuration with what the commands changed: comments, order and keys that
//! NetScaler has no word for stay as they are. So one command on a running daemon is
//!
//! ```
//! use std::path::Path;
//! use responder_user::config::{self, import::{Outcome, Session}};
//!
//! let path = Path::new("responder.toml");
//! let running = "[listen]\naddresses = [\"192.0.2.53:53\"]\n\n[[vserver]] # the shop\nname = \"www\"\n";
//! let mut session = Session::of(running, path)?;
//!
//! let reply = session.run("set gslb vserver WWW -MIR ENABLED");
//! assert_eq!(reply.outcome, Outcome::Done);
//! let output = session.output()?;
//! assert!(output.toml.contains("[[vserver]] # the shop\nname = \"www\"\nmultiple_ip_response = true\n"));
//! config::parse(&output.toml, path)?; // then reload with it, and write `output.files` beside it
//!
//! let reply = session.run("set gslb vserver www -timeout 1"); // changes nothing
//! assert_eq!(reply.outcome, Outcome::Error("timeout: 1 is not in the range 2..1440".to_owned()));
//! # Ok::<(), config::ConfigError>(())
//! ```
//!
//! - [`Reply::outcome`] is [`Outcome::Done`] for a change, [`Outcome::Show`] for `show` and `stat` (the caller prints:
//!   [`Session::store`] has the configuration, the daemon the state), [`Outcome::Notice`] for what has no meaning here,
//!   [`Outcome::Error`] with NetScaler's reason for what is refused, [`Outcome::Nothing`] for an empty line or a comment.
//! - [`Reply::asked`] says what the command was about, so that the caller can do what is no configuration: `enable gslb
//!   vserver` also clears a latch.
//! - [`Reply::remarks`]: warnings (something was repaired, something surprises) and notices (options without an effect).
//! - [`import`] is the whole way of a file: two passes, all errors with their lines.
//!
//! What NetScaler knows and nothing here depends on (sites' addresses, timeouts of connections, `lb vserver`) is kept as
//! commands under `netscaler.kept`; [`Session::of`] runs them, so that nothing is lost between two sessions. DNS records
//! become zones: those with more than SOA and NS get a master file beside the configuration.
//!
//! | file | what |
//! |---|---|
//! | `repair`, [`lexer`] | a line to tokens, slips mended |
//! | `table`, [`kind`] | which command takes what |
//! | `value`, `parse` | tokens to a command |
//! | [`objects`], `execute`, `refer` | a command to objects |
//! | `check` | objects as a whole |
//! | `translate`, `zone` | objects to rows of a configuration, and master files |
//! | `doc` | rows into a TOML document |
//! | `read`, `write` | a configuration to objects, objects to commands |
//! | `file` | a whole ns.conf |

pub mod kind;
pub mod lexer;
pub mod objects;

mod check;
mod doc;
mod execute;
mod file;
mod parse;
mod read;
mod refer;
mod repair;
mod table;
mod translate;
mod value;
mod write;
mod zone;

use std::path::{Path, PathBuf};

use toml_edit::{Array, DocumentMut, Item, Table, Value};

pub use file::{Imported, Refused, import};
pub use kind::{Kind, Op};
pub use objects::{Bound, Object, Store, Values};

use self::{
    check::Trouble,
    doc::Doc,
    execute::Done,
    lexer::Token,
    objects::fold,
    parse::{Command, Mode, Parsed, Remarks},
};
use super::{ConfigError, Problem, file::File, problem::Notes, read as read_file, syntax};

/// Most objects that one range of names stands for: `vs[1-1000]`.
const MOST_IN_RANGE: u32 = 1000;

/// Something said beside a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The line of the file; 0: not of one line, or of a command.
    pub line: usize,
    /// How grave it is.
    pub weight: Weight,
    /// What.
    pub text: String,
}

/// How grave a remark is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// It cannot be taken over.
    Error,
    /// Something was repaired or left out, or will surprise.
    Warning,
    /// It has no meaning here.
    Notice,
}

impl std::fmt::Display for Weight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Notice => "notice",
        })
    }
}

/// What a command was about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its first word.
    pub op: Op,
    /// The kind of object.
    pub kind: Kind,
    /// Which; None: all of them, or there is one alone.
    pub name: Option<String>,
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done: NetScaler prints ` Done`.
    Done,
    /// `show` or `stat`: [`Reply::asked`] says of what. Whether that exists is for the caller to see.
    Show,
    /// It has no meaning here.
    Notice(String),
    /// Refused, and nothing is changed: NetScaler prints `ERROR: ` and this.
    Error(String),
    /// An empty line, or a comment.
    Nothing,
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// What became of it.
    pub outcome: Outcome,
    /// What is to be said besides.
    pub remarks: Vec<Remark>,
    /// What it was about, if it was understood.
    pub asked: Option<Asked>,
}

impl Reply {
    fn new(outcome: Outcome) -> Self {
        Self { outcome, remarks: Vec::new(), asked: None }
    }
}

/// A configuration as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// responder.toml
    pub toml: String,
    /// Master files of zones: path as the configuration has it, relative to its folder, and text.
    pub files: Vec<(PathBuf, String)>,
    /// What could not be taken over.
    pub remarks: Vec<Remark>,
}

/// What a session started from.
#[derive(Clone, Debug)]
struct Base {
    text: String,
    before: Doc,
    /// The commands under `netscaler.kept`, as they would be written now.
    kept: Vec<String>,
}

/// Objects, and the configuration that they came from.
#[derive(Clone, Debug)]
pub struct Session {
    store: Store,
    base: Option<Base>,
    /// Tables, old and new names of what was renamed since.
    renamed: Vec<(&'static str, String, String)>,
    /// Where the configuration stands, or will stand.
    path: PathBuf,
}

/// Where bare names of location files are looked up (spec/netscaler.md 1.4).
const LOCATIONS: &str = "/var/netscaler/locdb";

impl Session {
    /// Without any object. `path` is where the configuration will stand.
    pub fn new(path: &Path) -> Self {
        Self { store: Store::default(), base: None, renamed: Vec::new(), path: path.to_owned() }
    }

    /// Starts from a configuration: the text of `path`, whose folder holds the files that it names.
    pub fn of(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let mut session = Self::new(path);
        let file = typed(text, path)?;
        session.store = session.objects(&file, &[], true);
        let translated = translate::translate(&session.store, &|typed| session.find(typed));
        let kept = session.kept(text, &translated.files)?;
        session.base = Some(Base { text: text.to_owned(), before: translated.doc, kept });
        Ok(session)
    }

    /// The objects.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Everything as commands that an appliance takes, one each.
    pub fn export(&self) -> Vec<String> {
        write::export(&self.store)
    }

    /// Runs one command as a person types it: words may be cut short. What it refers to must be there. A command that is
    /// refused changes nothing.
    pub fn run(&mut self, line: &str) -> Reply {
        let mut warnings = Vec::new();
        let tokens = match repair::tokens(line, &mut warnings) {
            Ok(tokens) if tokens.is_empty() => return Reply::new(Outcome::Nothing),
            Ok(tokens) => tokens,
            Err(error) => return Reply::new(Outcome::Error(error.to_string())),
        };
        let mut reply = Reply::new(Outcome::Done);
        reply.remarks = warnings.into_iter().map(|text| remark(0, Weight::Warning, text)).collect();
        let (before, renamed) = (self.store.clone(), self.renamed.len());
        let known = check::check(&before);
        let lines = match expand(&tokens) {
            Ok(lines) => lines,
            Err(text) => {
                reply.outcome = Outcome::Error(text);
                return reply;
            }
        };
        for tokens in lines {
            self.one(&tokens, &mut reply);
            if !matches!(reply.outcome, Outcome::Done) {
                break;
            }
        }
        let found = check::check(&self.store);
        let is_new = |old: &[Trouble], new: &Trouble| !old.iter().any(|trouble| trouble.text == new.text);
        if let Some(error) = found.errors.iter().find(|error| is_new(&known.errors, error))
            && reply.outcome == Outcome::Done
        {
            reply.outcome = Outcome::Error(error.text.clone());
        }
        if matches!(reply.outcome, Outcome::Error(_)) {
            self.store = before;
            self.renamed.truncate(renamed);
        } else {
            let news = found.warnings.into_iter().filter(|warning| is_new(&known.warnings, warning));
            reply.remarks.extend(news.map(|warning| remark(0, Weight::Warning, warning.text)));
        }
        reply
    }

    fn one(&mut self, tokens: &[Token], reply: &mut Reply) {
        let mut remarks = Remarks::default();
        let policy = foreign_policy(tokens);
        let parsed = parse::parse(Mode::Shell, tokens, &mut remarks);
        match parsed {
            Err(text) => reply.outcome = Outcome::Error(text),
            Ok(Parsed::Notice(text)) => {
                self.store.foreign_policies.extend(policy);
                reply.outcome = Outcome::Notice(text);
            }
            Ok(Parsed::Command(command)) => {
                reply.asked = asked(&command);
                // Any line number but 0: what a command says is checked more strictly than what a file had.
                reply.outcome = match execute::execute(&mut self.store, Mode::Shell, &command, 1) {
                    Ok(Done::Changed) => {
                        self.renamed.extend(renamed(&command));
                        Outcome::Done
                    }
                    Ok(Done::Show) => Outcome::Show,
                    Ok(Done::Notice(text)) => Outcome::Notice(text),
                    Err(text) => Outcome::Error(text),
                };
            }
        }
        reply.remarks.extend(remarks.said(0));
    }

    /// The configuration as it is to be written.
    pub fn output(&self) -> Result<Output, ConfigError> {
        let translated = translate::translate(&self.store, &|typed| self.find(typed));
        let text = self.base.as_ref().map_or("", |base| &base.text);
        let mut before = self.base.as_ref().map_or_else(Doc::default, |base| base.before.clone());
        let mut document: DocumentMut = text.parse().map_err(|_| self.broken("is no TOML"))?;
        for (table, from, to) in &self.renamed {
            doc::rename(&mut document, &mut before, table, from, to);
        }
        let mut remarks: Vec<Remark> = translated
            .warnings
            .iter()
            .map(|(line, text)| remark(*line, Weight::Warning, text.clone()))
            .collect();
        if self.base.is_none() && !translated.doc.tables.iter().any(|(table, _)| *table == "listen") {
            let mut listen = Table::new();
            listen.insert(
                "addresses",
                Item::Value(Value::Array(["0.0.0.0:53", "[::]:53"].into_iter().collect())),
            );
            document.insert("listen", Item::Table(listen));
            let text =
                "no service of type ADNS says where to listen: every address of this host is listened on";
            remarks.push(remark(0, Weight::Warning, text.to_owned()));
        }
        doc::merge(&mut document, &before, &translated.doc);
        let kept = self.kept(&document.to_string(), &translated.files)?;
        if self.base.as_ref().is_none_or(|base| base.kept != kept) {
            keep(&mut document, &kept);
        }
        let mut toml = document.to_string();
        if self.base.is_none() {
            toml = format!(
                "# From a NetScaler configuration, by `responderctl import`.\n\n{}",
                toml.trim_start()
            );
        }
        let files = translated.files.into_iter().map(|(path, text)| (PathBuf::from(path), text)).collect();
        Ok(Output { toml, files, remarks })
    }

    /// The commands that a configuration does not say in keys of ours.
    fn kept(&self, text: &str, files: &[(String, String)]) -> Result<Vec<String>, ConfigError> {
        let said = self.objects(&typed(text, &self.path)?, files, false);
        let mut wanted = self.store.clone();
        let made: Vec<String> = wanted
            .all(Kind::Adns)
            .filter(|adns| adns.name == read::listener_name(adns))
            .map(|adns| adns.name.clone())
            .collect();
        for name in made {
            wanted.remove(Kind::Adns, &name);
        }
        Ok(write::between(&said, &wanted))
    }

    /// The objects of a configuration; with what is kept beside them, if that is wanted.
    fn objects(&self, file: &File, files: &[(String, String)], with_kept: bool) -> Store {
        let mut store = read::read(file);
        for zone in &file.zones {
            let Some(name) = zone.file.as_ref().map(|at| at.value.as_str()) else { continue };
            let made = files.iter().find(|(path, _)| path == name).map(|(_, text)| text.clone());
            let text = made.or_else(|| std::fs::read_to_string(self.beside(name)).ok());
            match text.as_deref().and_then(zone::commands) {
                Some(commands) => commands.iter().for_each(|line| replay(&mut store, line)),
                None => store.foreign_zones.extend(zone.apex.as_ref().map(ToString::to_string)),
            }
        }
        if with_kept {
            for line in &file.kept {
                replay(&mut store, &line.value);
            }
            read::listeners(&mut store, file);
        }
        store
    }

    /// A path of the configuration.
    fn beside(&self, path: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(path)
    }

    /// Under which path a location file can be read.
    fn find(&self, typed: &str) -> Option<String> {
        let is_bare = !typed.contains('/');
        let vendor = Path::new(LOCATIONS).join(typed);
        if self.beside(typed).is_file() {
            Some(typed.to_owned())
        } else if is_bare && vendor.is_file() {
            Some(vendor.display().to_string())
        } else {
            None
        }
    }

    fn broken(&self, text: &str) -> ConfigError {
        let problem = Problem { file: self.path.clone(), line: 1, column: 1, text: text.to_owned() };
        ConfigError::Problems(vec![problem])
    }
}

fn remark(line: usize, weight: Weight, text: String) -> Remark {
    Remark { line, weight, text }
}

impl Remarks {
    /// As remarks about a line.
    fn said(self, line: usize) -> Vec<Remark> {
        let mut out: Vec<Remark> =
            self.warnings.into_iter().map(|text| remark(line, Weight::Warning, text)).collect();
        out.extend(self.notices.into_iter().map(|text| remark(line, Weight::Notice, text)));
        if !self.kept.is_empty() {
            let keys: Vec<String> = self.kept.iter().map(|key| format!("-{key}")).collect();
            out.push(remark(line, Weight::Notice, format!("no effect here, kept: {}", keys.join(" "))));
        }
        if !self.dropped.is_empty() {
            let text = format!("no meaning here, left out: {}", self.dropped.join(" "));
            out.push(remark(line, Weight::Notice, text));
        }
        out
    }
}

fn asked(command: &Command) -> Option<Asked> {
    let name = command.names.first().map(|parts| parts.join(" ")).filter(|name| !name.is_empty());
    Some(Asked { op: command.op?, kind: command.kind?, name })
}

/// Table, old and new name of an object that a command renames.
fn renamed(command: &Command) -> Option<(&'static str, String, String)> {
    let table = match command.kind.filter(|_| command.op == Some(Op::Rename))? {
        Kind::Vserver => "vserver",
        Kind::Service => "service",
        Kind::Monitor => "monitor",
        Kind::DnsAction => "dns_action",
        Kind::DnsPolicy => "dns_policy",
        _ => return None,
    };
    let to = command.values.get("newName")?.first()?.clone();
    Some((table, command.names.first()?.join(" "), to))
}

/// The name of a policy that is no DNS policy: `add lb policy p …`.
fn foreign_policy(tokens: &[Token]) -> Option<String> {
    let word = |i: usize| tokens.get(i).map(|token| fold(&token.text));
    let is_policy = word(0)? == "add" && word(2)?.contains("policy") && word(1)? != "dns";
    is_policy.then(|| word(3)).flatten()
}

/// Ranges of names stand for several commands: `rm gslb vserver vs[1-3]`.
fn expand(tokens: &[Token]) -> Result<Vec<Vec<Token>>, String> {
    let range = |token: &Token| -> Option<(usize, usize, u32, u32)> {
        if token.is_quoted || token.text.contains('(') {
            return None;
        }
        let open = token.text.find('[')?;
        let close = open + token.text[open..].find(']')?;
        let (first, last) = token.text[open + 1..close].split_once('-')?;
        Some((open, close, first.parse().ok()?, last.parse().ok()?))
    };
    let count = tokens.iter().skip(2).take_while(|token| !token.is_keyword()).filter_map(range);
    let Some((_, _, first, last)) = count.clone().next() else { return Ok(vec![tokens.to_vec()]) };
    let length = last.checked_sub(first).filter(|length| *length < MOST_IN_RANGE);
    let Some(length) = length else {
        return Err(format!("range [{first}-{last}]: allowed are up to {MOST_IN_RANGE} names"));
    };
    if count.clone().any(|(_, _, a, b)| b.checked_sub(a) != Some(length)) {
        return Err("the ranges of a command must be of one length".to_owned());
    }
    let end = tokens.iter().skip(2).position(Token::is_keyword).map_or(tokens.len(), |at| at + 2);
    let step = |i: u32| -> Vec<Token> {
        let one = |(at, token): (usize, &Token)| match range(token).filter(|_| (2..end).contains(&at)) {
            Some((open, close, first, _)) => {
                let text = format!("{}{}{}", &token.text[..open], first + i, &token.text[close + 1..]);
                Token { text, ..token.clone() }
            }
            None => token.clone(),
        };
        tokens.iter().enumerate().map(one).collect()
    };
    Ok((0..=length).map(step).collect())
}

/// Runs a command that a configuration keeps. What no longer fits the objects is let go.
fn replay(store: &mut Store, line: &str) {
    let Ok(tokens) = lexer::lex(line) else { return };
    if let Ok(Parsed::Command(command)) = parse::parse(Mode::Kept, &tokens, &mut Remarks::default()) {
        let _ = execute::execute(store, Mode::Kept, &command, 0);
    }
}

/// Whether a configuration may keep a command.
pub(in crate::config) fn check_kept(line: &str) -> Result<(), String> {
    let tokens = lexer::lex(line).map_err(|error| error.to_string())?;
    match parse::parse(Mode::Kept, &tokens, &mut Remarks::default())? {
        Parsed::Command(Command { op: Some(Op::Show | Op::Stat), .. }) => {
            Err("asks for something".to_owned())
        }
        Parsed::Command(_) => Ok(()),
        Parsed::Notice(text) => Err(text),
    }
}

/// The typed values of a text.
fn typed(text: &str, path: &Path) -> Result<File, ConfigError> {
    let notes = Notes::new(path, text);
    let file = match toml_edit::Document::parse(text) {
        Ok(document) => read_file::read(&notes, document.as_table()),
        Err(error) => {
            syntax::report(&notes, text, &error);
            File::default()
        }
    };
    let (problems, _) = notes.finish();
    if problems.is_empty() { Ok(file) } else { Err(ConfigError::Problems(problems)) }
}

/// Puts commands under `netscaler.kept`.
fn keep(document: &mut DocumentMut, commands: &[String]) {
    if commands.is_empty() {
        document.remove("netscaler");
        return;
    }
    let mut list = Array::new();
    for line in commands {
        list.push_formatted(literal(line).decorated("\n  ", ""));
    }
    list.set_trailing("\n");
    list.set_trailing_comma(true);
    let mut table = Table::new();
    table.insert("kept", Item::Value(Value::Array(list)));
    table
        .decor_mut()
        .set_prefix("\n# What NetScaler knows and nothing here depends on; `responderctl ns` has it back.\n");
    document.insert("netscaler", Item::Table(table));
}

/// A string without escapes where that is possible: commands are full of quotes.
fn literal(text: &str) -> Value {
    let is_plain = !text.contains('\'') && !text.contains(char::is_control);
    if is_plain && let Ok(value) = format!("'{text}'").parse::<Value>() { value } else { text.into() }
}

/// True for a master file that an import wrote and nobody changed into one of their own.
pub fn is_master_of_ours(text: &str) -> bool {
    text.lines().next() == Some(zone::HEADER)
}
