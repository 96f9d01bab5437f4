//! Master files (RFC 1035 5, RFC 2308 4 for $TTL): text to records, with the place of every problem.
//!
//! Entries are split here, because positions are wanted and `hickory_proto` has none; their data are read by its
//! parser, one record at a time.

mod entry;
mod record;
mod whole;

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use responder_common::{limits::MAX_TTL, wire::rtype};

use self::entry::{Entry, Fault, Token};
use super::zone::RrSet;
use crate::model::{DnsName, zone::Soa};

/// Files inside files.
const MAX_INCLUDES: usize = 16;

/// Problems of one file that are listed; a file that is not a master file would list every line.
const MAX_PROBLEMS: usize = 100;

/// Type DNAME.
pub const DNAME: u16 = 39;
/// Type DS.
pub const DS: u16 = 43;
/// RRSIG, NSEC, DNSKEY, NSEC3, NSEC3PARAM.
const DNSSEC: [u16; 5] = [46, 47, 48, 50, 51];

/// A problem of a master file, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterProblem {
    /// The file.
    pub path: PathBuf,
    /// From 1.
    pub line: u32,
    /// From 1.
    pub column: u32,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for MasterProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.path.display(), self.line, self.column, self.message)
    }
}

/// The records of one zone.
#[derive(Clone, Debug)]
pub struct Contents {
    /// Start of authority, with its serial.
    pub soa: Soa,
    /// Sets by folded owner name, the SOA left out.
    pub names: HashMap<Box<[u8]>, Vec<RrSet>>,
    /// Where the first record of each owner and type stands, the SOA among them.
    pub places: Places,
    /// What an operator should know.
    pub warnings: Vec<MasterProblem>,
}

/// Line and column of a record, and its file: `$INCLUDE` brings others.
pub type Places = HashMap<(Box<[u8]>, u16), (Arc<Path>, (u32, u32))>;

/// Reads the master file of a zone. `children` are other zones of ours below it: what the file says of them (NS, DS,
/// glue) is left to them.
pub fn read(path: &Path, apex: &DnsName, children: &[&DnsName]) -> Result<Contents, Vec<MasterProblem>> {
    match std::fs::read(path) {
        Ok(octets) => parse(&octets, path, apex, children),
        Err(e) => Err(vec![problem(path, (1, 1), format!("cannot be read: {e}"))]),
    }
}

/// The same from octets; `path` is for messages and for `$INCLUDE`.
pub fn parse(
    octets: &[u8],
    path: &Path,
    apex: &DnsName,
    children: &[&DnsName],
) -> Result<Contents, Vec<MasterProblem>> {
    let mut loader = Loader {
        apex,
        children,
        soa: None,
        names: HashMap::new(),
        places: Places::new(),
        file: Arc::from(path),
        problems: Vec::new(),
    };
    let mut state = State { origin: apex.clone(), owner: None, default_ttl: None, last_ttl: None };
    loader.file(octets, path, &mut state, 0);
    loader.finish(path)
}

/// What an entry takes from those before it.
struct State {
    origin: DnsName,
    owner: Option<DnsName>,
    default_ttl: Option<u32>,
    last_ttl: Option<u32>,
}

struct Loader<'a> {
    apex: &'a DnsName,
    children: &'a [&'a DnsName],
    soa: Option<Soa>,
    names: HashMap<Box<[u8]>, Vec<RrSet>>,
    places: Places,
    /// The file that is read now.
    file: Arc<Path>,
    problems: Vec<MasterProblem>,
}

fn problem(path: &Path, (line, column): (u32, u32), message: String) -> MasterProblem {
    MasterProblem { path: path.to_owned(), line, column, message }
}

impl Loader<'_> {
    fn file(&mut self, octets: &[u8], path: &Path, state: &mut State, depth: usize) {
        let text = match std::str::from_utf8(octets) {
            Ok(text) => text,
            Err(e) => {
                let line = octets[..e.valid_up_to()].split(|b| *b == b'\n').count() as u32;
                self.problems.push(problem(path, (line, 1), "is not UTF-8 text".to_owned()));
                return;
            }
        };
        for entry in entry::entries(text) {
            if self.problems.len() >= MAX_PROBLEMS {
                return;
            }
            let outcome = match entry {
                Ok(entry) => self.entry(&entry, path, state, depth),
                Err((place, message)) => Err((place, message)),
            };
            if let Err((place, message)) = outcome {
                self.problems.push(problem(path, place, message));
            }
        }
    }

    fn entry(
        &mut self,
        entry: &Entry<'_>,
        path: &Path,
        state: &mut State,
        depth: usize,
    ) -> Result<(), Fault> {
        let Some(first) = entry.tokens.first() else { return Ok(()) };
        if let Some(directive) = first.text.strip_prefix('$').filter(|_| !entry.is_blank && !first.quoted) {
            let argument = entry.tokens.get(1).ok_or((first.place, format!("${directive} wants a value")))?;
            let at = |message| (argument.place, message);
            match directive.to_ascii_uppercase().as_str() {
                "ORIGIN" => {
                    state.origin = record::name(&argument.text, &state.origin).map_err(at)?;
                }
                "TTL" => state.default_ttl = Some(record::ttl(&argument.text).map_err(at)?),
                "INCLUDE" => return self.include(entry, argument, path, state, depth),
                _ => return Err((first.place, format!("${directive} is not known"))),
            }
            return Ok(());
        }
        let head = record::head(entry, state.owner.as_ref(), &state.origin)?;
        state.owner = Some(head.owner.clone());
        state.last_ttl = head.ttl.or(state.last_ttl);
        let at_owner = |message| (first.place, message);
        // First what the record is: data of a type that is refused need not be readable.
        if !self.is_wanted(&head.owner, head.rtype).map_err(at_owner)? {
            return Ok(());
        }
        let data = head.data(&state.origin)?;
        let ttl = match head.ttl.or(state.default_ttl).or(state.last_ttl) {
            Some(ttl) => ttl,
            // What BIND does with the first record of a file without $TTL.
            None if head.rtype == rtype::SOA => {
                data.last_chunk().map_or(0, |minimum| u32::from_be_bytes(*minimum))
            }
            None => return Err(at_owner("the record has no TTL, and there is no $TTL before it".to_owned())),
        };
        state.last_ttl = Some(ttl);
        if ttl > MAX_TTL {
            return Err(at_owner(format!("a TTL of {ttl} is above {MAX_TTL} (RFC 2181 8)")));
        }
        self.take(&head.owner, head.rtype, ttl, data, first.place).map_err(at_owner)
    }

    fn include(
        &mut self,
        entry: &Entry<'_>,
        argument: &Token<'_>,
        path: &Path,
        state: &mut State,
        depth: usize,
    ) -> Result<(), Fault> {
        if depth >= MAX_INCLUDES {
            return Err((argument.place, format!("more than {MAX_INCLUDES} files inside each other")));
        }
        let file = path.parent().unwrap_or(Path::new("")).join(&*argument.text);
        let octets = std::fs::read(&file)
            .map_err(|e| (argument.place, format!("{} cannot be read: {e}", file.display())))?;
        // The file's own $ORIGIN ends with it (RFC 1035 5.1).
        let origin = state.origin.clone();
        if let Some(inner) = entry.tokens.get(2) {
            state.origin = record::name(&inner.text, &origin).map_err(|message| (inner.place, message))?;
        }
        let outer = std::mem::replace(&mut self.file, Arc::from(file.as_path()));
        self.file(&octets, &file, state, depth + 1);
        self.file = outer;
        state.origin = origin;
        Ok(())
    }

    /// True if a record belongs into the zone; false if it belongs to a zone below that is served here too.
    fn is_wanted(&self, owner: &DnsName, kind: u16) -> Result<bool, String> {
        if !owner.is_under(self.apex) {
            return Err(format!("{owner} lies outside the zone {}", self.apex));
        }
        if let Some(child) = self.children.iter().find(|child| owner.is_under(child)) {
            return match kind {
                // The only thing that the zone above says of itself (RFC 4035 2.4).
                DS if owner == *child => Ok(true),
                // The delegation to it.
                rtype::NS | DS | rtype::A | rtype::AAAA => Ok(false),
                _ => Err(format!("{owner} belongs to the zone {child}")),
            };
        }
        self.check(owner, kind).map(|()| true)
    }

    /// Puts a record into its set.
    fn take(
        &mut self,
        owner: &DnsName,
        kind: u16,
        ttl: u32,
        data: Box<[u8]>,
        place: (u32, u32),
    ) -> Result<(), String> {
        let file = &self.file;
        self.places.entry((owner.wire().into(), kind)).or_insert_with(|| (file.clone(), place));
        if kind == rtype::SOA {
            if self.soa.is_some() {
                return Err("a second SOA".to_owned());
            }
            self.soa = Some(soa(&data, ttl).ok_or("the SOA cannot be read")?);
            return Ok(());
        }
        let sets = self.names.entry(owner.wire().into()).or_default();
        match sets.iter_mut().find(|set| set.rtype == kind) {
            None => sets.push(RrSet { rtype: kind, ttl, records: vec![data] }),
            Some(set) => {
                // All records of a set have one TTL, and none stands twice (RFC 2181 5).
                set.ttl = set.ttl.min(ttl);
                if !set.records.contains(&data) {
                    set.records.push(data);
                }
            }
        }
        Ok(())
    }

    /// What is not served is refused, because half of it would be a wrong answer.
    fn check(&self, owner: &DnsName, kind: u16) -> Result<(), String> {
        let is_apex = owner == self.apex;
        let is_wildcard = !is_apex && owner.wire().starts_with(b"\x01*");
        match kind {
            rtype::NS if is_wildcard => Err(format!("{owner}: a wildcard delegates nothing (RFC 4592 4.2)")),
            DNAME if is_wildcard => Err(format!("{owner}: a wildcard has no DNAME (RFC 4592 4.4)")),
            rtype::SOA if !is_apex => Err(format!("{owner}: the SOA belongs to {}", self.apex)),
            DS if is_apex => {
                Err(format!("{owner}: the DS of an apex stands in the zone above it (RFC 4035 2.4)"))
            }
            0 | rtype::OPT | rtype::META_FIRST..=rtype::ANY => Err(format!("type {kind} is no data")),
            kind if DNSSEC.contains(&kind) => Err(format!("{owner}: signed zones are not served yet")),
            _ => Ok(()),
        }
    }

    fn finish(mut self, path: &Path) -> Result<Contents, Vec<MasterProblem>> {
        let whole = whole::Whole {
            apex: self.apex,
            children: self.children,
            names: &self.names,
            places: &self.places,
        };
        let findings = whole.check();
        self.problems.extend(findings.problems);
        for (owner, kind) in findings.unused {
            if let Some(sets) = self.names.get_mut(&owner) {
                sets.retain(|set| set.rtype != kind);
            }
        }
        match self.soa {
            Some(soa) if self.problems.is_empty() => {
                Ok(Contents { soa, names: self.names, places: self.places, warnings: findings.warnings })
            }
            Some(_) => Err(self.problems),
            None => {
                let message = format!("there is no SOA of {}", self.apex);
                self.problems.push(problem(path, (1, 1), message));
                Err(self.problems)
            }
        }
    }
}

/// A message about the records of an owner and type.
pub fn at(places: &Places, owner: &[u8], rtype: u16, message: String) -> MasterProblem {
    let (path, place) = places
        .get(&(owner.into(), rtype))
        .map_or((PathBuf::new(), (1, 1)), |(file, at)| (file.to_path_buf(), *at));
    problem(&path, place, message)
}

/// From data in wire format (RFC 1035 3.3.13).
fn soa(data: &[u8], ttl: u32) -> Option<Soa> {
    let (names, numbers) = data.split_at_checked(data.len().checked_sub(20)?)?;
    let mut end = 0;
    while let label @ 1.. = *names.get(end)? {
        end += usize::from(label) + 1;
    }
    let (mname, rname) = names.split_at_checked(end + 1)?;
    let number = |i: usize| numbers.get(i * 4..)?.first_chunk().map(|b| u32::from_be_bytes(*b));
    Some(Soa {
        mname: DnsName::from_wire(mname)?,
        rname: DnsName::from_wire(rname)?,
        serial: Some(number(0)?),
        refresh: number(1)?,
        retry: number(2)?,
        expire: number(3)?,
        minimum: number(4)?,
        ttl,
    })
}

#[cfg(test)]
mod tests;
