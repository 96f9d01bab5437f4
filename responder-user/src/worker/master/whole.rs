//! What the records of a zone say together: what may not stand beside, above or below what.

use std::collections::HashMap;

use responder_common::wire::rtype;

use super::{DNAME, DS, MasterProblem, Places, at};
use crate::{
    model::DnsName,
    worker::zone::{RrSet, suffixes},
};

/// All records of a zone.
pub struct Whole<'a> {
    pub apex: &'a DnsName,
    /// Other zones of ours below it.
    pub children: &'a [&'a DnsName],
    pub names: &'a HashMap<Box<[u8]>, Vec<RrSet>>,
    pub places: &'a Places,
}

/// What is wrong with a zone, by places.
#[derive(Debug, Default)]
pub struct Findings {
    pub problems: Vec<MasterProblem>,
    pub warnings: Vec<MasterProblem>,
    /// Owners and types that a delegation takes out of the zone.
    pub unused: Vec<(Box<[u8]>, u16)>,
}

impl Whole<'_> {
    /// Looks at every name.
    pub fn check(&self) -> Findings {
        let mut out = Findings::default();
        for (owner, sets) in self.names {
            let Some(name) = DnsName::from_wire(owner) else { continue };
            self.aliases(&name, sets, &mut out.problems);
            self.redirections(&name, sets, &mut out.problems);
            self.delegations(&name, sets, &mut out);
        }
        let by_place = |a: &MasterProblem, b: &MasterProblem| {
            (&a.path, a.line, a.column, &a.message).cmp(&(&b.path, b.line, b.column, &b.message))
        };
        out.problems.sort_by(by_place);
        out.warnings.sort_by(by_place);
        out
    }

    fn at(&self, owner: &DnsName, rtype: u16, message: String) -> MasterProblem {
        at(self.places, owner.wire(), rtype, message)
    }

    fn aliases(&self, owner: &DnsName, sets: &[RrSet], problems: &mut Vec<MasterProblem>) {
        let Some(alias) = with(sets, rtype::CNAME) else { return };
        if sets.len() > 1 || owner == self.apex {
            let message = format!("{owner} has a CNAME and other data (RFC 1034 3.6.2)");
            problems.push(self.at(owner, rtype::CNAME, message));
        } else if alias.records.len() > 1 {
            let message = format!("{owner} has more than one CNAME (RFC 2181 10.1)");
            problems.push(self.at(owner, rtype::CNAME, message));
        }
    }

    fn redirections(&self, owner: &DnsName, sets: &[RrSet], problems: &mut Vec<MasterProblem>) {
        if let Some(redirection) = with(sets, DNAME) {
            if redirection.records.len() > 1 {
                let message = format!("{owner} has more than one DNAME (RFC 6672 2.4)");
                problems.push(self.at(owner, DNAME, message));
            }
            if owner != self.apex && with(sets, rtype::NS).is_some() {
                let message = format!("{owner} has a DNAME and is delegated (RFC 6672 2.4)");
                problems.push(self.at(owner, DNAME, message));
            }
        }
        let Some(above) = self.above(owner).find(|above| self.has(above, DNAME)) else { return };
        if let Some(first) = sets.first() {
            let message =
                format!("{owner} lies below the DNAME of {above}, which takes its place (RFC 6672 2.4)");
            problems.push(self.at(owner, first.rtype, message));
        }
    }

    fn delegations(&self, owner: &DnsName, sets: &[RrSet], out: &mut Findings) {
        let is_cut = |name: &DnsName| name != self.apex && self.has(name, rtype::NS);
        if with(sets, DS).is_some() && !is_cut(owner) && !self.children.contains(&owner) {
            let message = format!("{owner} has a DS and no NS: it is not delegated (RFC 4035 2.4)");
            out.problems.push(self.at(owner, DS, message));
        }
        let cut = self.above(owner).filter(|above| is_cut(above)).last();
        let mut unused = |kept: &[u16], cut: &DnsName| {
            for set in sets.iter().filter(|set| !kept.contains(&set.rtype)) {
                let with = if owner == cut { String::new() } else { format!(" with {cut}") };
                let message = format!(
                    "{owner} is delegated{with}: its records of type {} are not in the zone, and are not used",
                    set.rtype
                );
                out.warnings.push(self.at(owner, set.rtype, message));
                out.unused.push((owner.wire().into(), set.rtype));
            }
        };
        match &cut {
            Some(cut) => unused(&[rtype::A, rtype::AAAA], cut),
            // Whether its addresses are glue is seen at each lookup.
            None if is_cut(owner) => unused(&[rtype::NS, DS, rtype::A, rtype::AAAA], owner),
            None => {}
        }
        if cut.is_none() && is_cut(owner) {
            self.glue(owner, sets, &mut out.warnings);
        }
    }

    /// Servers that nobody finds.
    fn glue(&self, cut: &DnsName, sets: &[RrSet], warnings: &mut Vec<MasterProblem>) {
        for server in
            with(sets, rtype::NS).iter().flat_map(|set| &set.records).filter_map(|s| DnsName::from_wire(s))
        {
            let has_address = self.has(&server, rtype::A) || self.has(&server, rtype::AAAA);
            if server.is_under(cut) && !has_address {
                let message =
                    format!("{cut} is delegated to {server}, which lies in it and has no address here");
                warnings.push(self.at(cut, rtype::NS, message));
            }
        }
    }

    /// The names above one, up to the apex, nearest first.
    fn above(&self, owner: &DnsName) -> impl Iterator<Item = DnsName> {
        let all = suffixes(owner.wire()).skip(1);
        let inside = all.take_while(|at| owner.wire().len() - at >= self.apex.wire().len());
        inside.filter_map(|at| DnsName::from_wire(&owner.wire()[at..]))
    }

    fn has(&self, name: &DnsName, rtype: u16) -> bool {
        self.names.get(name.wire()).is_some_and(|sets| with(sets, rtype).is_some())
    }
}

fn with(sets: &[RrSet], rtype: u16) -> Option<&RrSet> {
    sets.iter().find(|set| set.rtype == rtype)
}
