//! What a zone says of a name (RFC 1034 4.3.2, RFC 4592, RFC 6672).

use responder_common::wire::rtype;

use super::{RrSet, Zone, suffixes};
use crate::worker::master::{DNAME, DS};

/// Labels of the longest name, the root label among them.
const MAX_LABELS: usize = 128;

/// What a zone says of a name and a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<'z> {
    /// These records. The name that was asked for is their owner, although they may be a wildcard's.
    Records(&'z RrSet),
    /// The name is an alias; the same holds for its owner.
    Alias(&'z RrSet),
    /// Every type was asked for, and there is at least one.
    Any,
    /// What lies below a name moved: a DNAME, whose owner begins at `at`.
    Moved {
        /// Octets in front of the owner.
        at: usize,
        /// The DNAME.
        set: &'z RrSet,
    },
    /// Other servers know; the name that is delegated begins at `at`.
    Referral {
        /// Octets in front of the delegated name.
        at: usize,
        /// Its NS records.
        servers: &'z RrSet,
    },
    /// The name exists without records of the type.
    NoData,
    /// There is no such name.
    NoName,
}

impl Zone {
    /// What is at a folded name of this zone. `exists`: whether a name is a GSLB name, and so exists with or without zone data.
    /// It is asked for the name itself, and where the zone has wildcards, DNAME or delegations for those above, too.
    pub fn lookup<E>(
        &self,
        name: &[u8],
        qtype: u16,
        exists: impl Fn(&[u8]) -> Result<bool, E>,
    ) -> Result<Lookup<'_>, E> {
        if self.is_plain {
            return match self.names.get(name) {
                Some(sets) => self.at(name, sets, qtype, &exists),
                None if exists(name)? => self.at(name, &[], qtype, &exists),
                None => Ok(Lookup::NoName),
            };
        }
        let (mut starts, mut count) = ([0; MAX_LABELS], 0);
        let apex_at = name.len() - self.apex.wire().len();
        for (start, at) in starts.iter_mut().zip(suffixes(name).take_while(|at| *at <= apex_at)) {
            (*start, count) = (at, count + 1);
        }
        let mut closest = apex_at;
        // From the apex down: what is met first holds for all below it.
        for at in starts[..count].iter().rev().copied() {
            let sets = self.names.get(&name[at..]).map(Vec::as_slice);
            if sets.is_none() && !exists(&name[at..])? {
                return self.missing(name, closest, qtype);
            }
            let sets = sets.unwrap_or_default();
            let with = |rtype| find(sets, rtype);
            // The zone above a cut answers for DS (RFC 4035 3.1.4.1).
            let is_above_cut = at == apex_at || (at == 0 && qtype == DS);
            if let Some(servers) = with(rtype::NS).filter(|_| !is_above_cut) {
                return Ok(Lookup::Referral { at, servers });
            }
            if at == 0 {
                return self.at(name, sets, qtype, &exists);
            }
            // What is at the owner of a DNAME itself did not move (RFC 6672 2.3).
            if let Some(set) = with(DNAME) {
                return Ok(Lookup::Moved { at, set });
            }
            closest = at;
        }
        Ok(Lookup::NoName)
    }

    /// A name that does not exist: the wildcard below its closest encloser stands for it (RFC 4592 3.3.1).
    fn missing<E>(&self, name: &[u8], closest: usize, qtype: u16) -> Result<Lookup<'_>, E> {
        let wildcard = [b"\x01*", &name[closest..]].concat();
        match self.names.get(&wildcard[..]) {
            Some(sets) => self.at(name, sets, qtype, &|_| Ok(false)),
            None => Ok(Lookup::NoName),
        }
    }

    fn at<'z, E>(
        &'z self,
        name: &[u8],
        sets: &'z [RrSet],
        qtype: u16,
        exists: &dyn Fn(&[u8]) -> Result<bool, E>,
    ) -> Result<Lookup<'z>, E> {
        Ok(match (find(sets, qtype), find(sets, rtype::CNAME)) {
            (Some(set), _) => Lookup::Records(set),
            (None, Some(alias)) => Lookup::Alias(alias),
            (None, None) if qtype != rtype::ANY => Lookup::NoData,
            _ if !sets.is_empty() || name == self.apex.wire() || exists(name)? => Lookup::Any,
            _ => Lookup::NoData,
        })
    }

    /// The addresses that the zone has for a name. `glue`: those of a server in a delegated part count, too; they are not data of
    /// the zone (RFC 2181 5.4.1).
    pub fn addresses(&self, name: &[u8], glue: bool) -> impl Iterator<Item = &RrSet> {
        let is_wanted = glue || self.cut_above(name).is_none();
        let sets = self.names.get(name).filter(|_| is_wanted).map_or(&[][..], Vec::as_slice);
        sets.iter().filter(|set| set.rtype == rtype::A || set.rtype == rtype::AAAA)
    }

    /// The topmost delegated name that is this one or lies above it.
    pub(super) fn cut_above(&self, name: &[u8]) -> Option<usize> {
        self.highest(name, rtype::NS)
    }

    /// The topmost name below the apex that is this one or lies above it and has records of a type.
    pub(super) fn highest(&self, name: &[u8], rtype: u16) -> Option<usize> {
        if self.is_plain {
            return None;
        }
        let apex = self.apex.wire().len();
        let below = suffixes(name).take_while(|at| name.len() - at > apex);
        below.filter(|at| self.names.get(&name[*at..]).is_some_and(|sets| find(sets, rtype).is_some())).last()
    }
}

/// The set of a type.
pub(super) fn find(sets: &[RrSet], rtype: u16) -> Option<&RrSet> {
    sets.iter().find(|set| set.rtype == rtype)
}
