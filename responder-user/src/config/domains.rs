//! Names bound to virtual servers, one by one and by the million.

use std::{
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    path::PathBuf,
    sync::Arc,
};

use super::{
    file::File,
    names,
    problem::{MOST_LISTED, Notes, Problem},
    validate::{Index, label},
};
use crate::model::{Domain, Model, RecordType, VserverId, vserver::MAX_POOL};

/// TTL when none is given (spec/netscaler.md 3.9).
const DEFAULT_TTL: u32 = 5;

/// Where a name was typed: byte offset in the configuration, or line in a list.
#[derive(Clone, Copy)]
enum Origin {
    File { at: usize },
    List { list: u32, line: u32 },
}

/// Names as they are gathered, each with its origin.
#[derive(Default)]
struct Gathered {
    domains: Vec<Domain>,
    origins: Vec<Origin>,
    /// Each list with the place in the configuration that names it.
    lists: Vec<(PathBuf, usize)>,
}

/// All names of the file and of its lists.
pub(super) fn domains(notes: &Notes<'_>, file: &File, vservers: &Index<'_>, model: &Model) -> Vec<Domain> {
    let mut all = Gathered::default();
    let nothing: Arc<[IpAddr]> = Arc::from([]);
    for typed in &file.domains {
        let label = label("domain", &typed.head);
        let vserver = vservers.find(notes, &label, "vserver", &typed.vserver);
        let Some(vserver) = vserver else { continue };
        let backup_ip = if typed.backup_ip.is_empty() {
            Arc::clone(&nothing)
        } else {
            typed.backup_ip.iter().map(|a| a.value).collect()
        };
        if !file.vservers[vserver].head.broken {
            backup_fits(notes, &label, typed, &model.vservers[vserver]);
        }
        let Some(name) = typed.dns.clone() else { continue };
        let vserver = VserverId(vserver as u32);
        all.origins.push(Origin::File { at: typed.head.name.at });
        all.domains.push(Domain { name, vserver, ttl: typed.ttl.unwrap_or(DEFAULT_TTL), backup_ip });
    }
    for typed in &file.domain_lists {
        let label =
            typed.file.as_ref().map_or("domain_list".to_owned(), |f| format!("domain_list {:?}", f.value));
        let vserver = vservers.find(notes, &label, "vserver", &typed.vserver);
        let Some(list_file) = &typed.file else { continue };
        let path = notes.resolve(&list_file.value);
        let (lines, problems) = match names::read(&path) {
            Ok(read) => read,
            Err(error) => {
                notes.problem(list_file.at, format!("{label}: file: cannot be read: {error}"));
                continue;
            }
        };
        for problem in problems {
            notes.problem_elsewhere(problem);
        }
        let Some(vserver) = vserver.map(|i| VserverId(i as u32)) else { continue };
        let list = all.lists.len() as u32;
        all.lists.push((path, list_file.at));
        let ttl = typed.ttl.unwrap_or(DEFAULT_TTL);
        all.origins.extend(lines.iter().map(|l| Origin::List { list, line: l.line }));
        all.domains.extend(lines.into_iter().map(|line| Domain {
            name: line.name,
            vserver,
            ttl: line.ttl.unwrap_or(ttl),
            backup_ip: Arc::clone(&nothing),
        }));
    }
    all.check(notes, model);
    all.domains
}

fn backup_fits(notes: &Notes<'_>, label: &str, typed: &super::file::Domain, vserver: &crate::model::Vserver) {
    for address in &typed.backup_ip {
        if !vserver.types.iter().any(|kind| kind.fits(address.value)) {
            let types: Vec<_> = vserver.types.iter().map(|t| t.name()).collect();
            let text = format!(
                "\"{}\" fits no type of vserver {:?}, which answers {}",
                address.value,
                vserver.name,
                types.join(" and ")
            );
            notes.problem(address.at, format!("{label}: backup_ip: {text}"));
        }
    }
    if let Some(last) = typed.backup_ip.last().filter(|_| typed.backup_ip.len() > MAX_POOL) {
        let text = format!("{} addresses are too many; allowed are {MAX_POOL}", typed.backup_ip.len());
        notes.problem(last.at, format!("{label}: backup_ip: {text}"));
    }
}

impl Gathered {
    /// A name may be bound once for each type; names with `*` are not what they look like.
    fn check(&self, notes: &Notes<'_>, model: &Model) {
        // An alias is all there is at its name.
        let bit = |t: &RecordType| if *t == RecordType::Cname { u8::MAX } else { 1 << *t as u8 };
        let masks: Vec<u8> =
            model.vservers.iter().map(|v| v.types.iter().fold(0, |mask, t| mask | bit(t))).collect();
        if let Some(i) = self.domains.iter().position(|d| d.name.wire().starts_with(b"\x01*")) {
            let text =
                format!("domain \"{}\": name: * stands for itself, not for every name", self.domains[i].name);
            notes.warning(self.offset(i), text);
        }
        // Sorted hashes find equal names of a million in a tenth of the time that a hash map of them takes.
        let hasher = RandomState::new();
        let mut hashes: Vec<(u64, u32)> = self
            .domains
            .iter()
            .enumerate()
            .map(|(i, d)| (hasher.hash_one(d.name.wire()), i as u32))
            .collect();
        hashes.sort_unstable();
        let mut clashes = Vec::new();
        for group in hashes.chunk_by(|a, b| a.0 == b.0).filter(|group| group.len() > 1) {
            self.clashes(group, &masks, &mut clashes);
        }
        clashes.sort_unstable();
        for (second, first) in clashes.into_iter().take(MOST_LISTED) {
            self.report(notes, model, first, second);
        }
    }

    /// Pairs of bindings of one name for one type: later one, earlier one. `group`: equal hashes, in order.
    fn clashes(&self, group: &[(u64, u32)], masks: &[u8], out: &mut Vec<(usize, usize)>) {
        let binding = |i: u32| {
            let domain = &self.domains[i as usize];
            (&domain.name, masks[domain.vserver.index()])
        };
        for (i, (_, second)) in group.iter().enumerate() {
            let (name, mask) = binding(*second);
            // The first of many equal lines is found at once, so a list of one name a million times is no square.
            let first = group[..i].iter().find(|(_, first)| {
                let (earlier, theirs) = binding(*first);
                earlier == name && theirs & mask != 0
            });
            out.extend(first.map(|(_, first)| (*second as usize, *first as usize)));
        }
    }

    fn report(&self, notes: &Notes<'_>, model: &Model, first: usize, second: usize) {
        let domain = &self.domains[second];
        let earlier = model.vserver(self.domains[first].vserver);
        let kind = model.vserver(domain.vserver).types.iter().find(|t| earlier.types.contains(t));
        let place = match self.origins[first] {
            Origin::File { at } => format!("in line {}", notes.line(at)),
            Origin::List { list, line } => {
                format!("in {}:{line}", self.lists[list as usize].0.display())
            }
        };
        let text = format!(
            "domain \"{}\": name: is already bound to vserver {:?} for type {} {place}",
            domain.name,
            earlier.name,
            kind.map_or("CNAME, which goes with no other", |t| t.name()),
        );
        match self.origins[second] {
            Origin::File { at } => notes.problem(at, text),
            Origin::List { list, line } => {
                let file = self.lists[list as usize].0.clone();
                notes.problem_elsewhere(Problem { file, line, column: 1, text });
            }
        }
    }

    /// The place in the configuration that brings a name: its own, or that of its list.
    fn offset(&self, index: usize) -> usize {
        match self.origins[index] {
            Origin::File { at } => at,
            Origin::List { list, .. } => self.lists[list as usize].1,
        }
    }
}
