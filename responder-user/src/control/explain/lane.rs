//! Where a query is answered: in the XDP program, or by a worker and why.

use responder_common::{
    counters::Counter,
    limits::{FAST_GIVE, FAST_NAME, FAST_SOA_WORDS},
};

use super::wire;
use crate::model::{DnsName, Zone};

/// A lane with the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lane {
    /// "xdp" or "worker".
    pub source: &'static str,
    /// Why.
    pub reason: String,
}

/// What the rules go by where the published maps were not asked.
pub(super) struct Case<'a> {
    pub name: &'a DnsName,
    pub rtype: u16,
    pub zone: Option<&'a Zone>,
    pub apex: bool,
    /// Bound to a virtual server.
    pub bound: bool,
    pub undecided: bool,
    /// Of one reply.
    pub addresses: usize,
}

impl Lane {
    pub(super) fn worker(reason: impl Into<String>) -> Self {
        Self { source: "worker", reason: reason.into() }
    }

    fn xdp(reason: &str) -> Self {
        Self { source: "xdp", reason: reason.to_owned() }
    }

    /// For people.
    pub(super) fn words(&self) -> &'static str {
        if self.source == "xdp" { "answered in XDP" } else { "answered by a worker" }
    }

    /// What the program did.
    pub(super) fn of(verdict: Counter) -> Self {
        Self::worker(match verdict {
            Counter::AnswerA | Counter::AnswerAaaa => return Self::xdp("the addresses are in the table"),
            Counter::AnswerNodata => return Self::xdp("the name is in the table and has no such type"),
            Counter::AnswerNxdomain => return Self::xdp("the whole zone is in the table and lacks the name"),
            Counter::AnswerTruncated => {
                return Self::xdp("TC=1: the whole reply would be too long against the query");
            }
            Counter::DropDecision => return Self::xdp("the program drops it: there is no reply"),
            Counter::PassUnknownName => "the name is not in the table of the XDP program".to_owned(),
            Counter::PassLongName => format!("the name is longer than {FAST_NAME} octets"),
            Counter::PassOtherType => "only a worker knows this type of the name".to_owned(),
            Counter::PassMetaType => "the type is no data".to_owned(),
            Counter::PassUndecided => "no answer has been decided yet".to_owned(),
            Counter::PassLarge => "the answer is larger than the XDP program writes".to_owned(),
            Counter::PassStale => "the answers in the kernel are stale".to_owned(),
            other => format!("the XDP program passes it: {}", other.name()),
        })
    }
}

impl Case<'_> {
    pub(super) fn lane(&self) -> Lane {
        let length = self.name.wire().len();
        let address = matches!(self.rtype, 1 | 28);
        if !self.bound {
            Lane::worker("the name is bound to no vserver")
        } else if length > FAST_NAME {
            Lane::worker(format!("the name is longer than {FAST_NAME} octets: {length}"))
        } else if !address && wire::is_meta(self.rtype) {
            Lane::worker("the type is no data")
        } else if !address && self.apex {
            Lane::worker("the name is an apex: it has SOA and NS records")
        } else if !address && self.zone.is_some_and(|z| z.file.is_some()) {
            Lane::worker("the zone has a master file")
        } else if self.undecided {
            Lane::worker("no answer has been decided yet")
        } else if self.addresses > FAST_GIVE {
            Lane::worker(format!("{} addresses are more than {FAST_GIVE}", self.addresses))
        } else if self.addresses == 0 && self.has_long_soa() {
            Lane::worker("the SOA of the zone is longer than the XDP program writes")
        } else {
            Lane::xdp("name, type and answer fit into the tables")
        }
    }

    fn has_long_soa(&self) -> bool {
        let apex = self.zone.map_or(self.name, |z| &z.apex);
        let own = |name: &DnsName| {
            let shared = if name.is_under(apex) { apex.wire().len() } else { 0 };
            name.wire().len() - shared > FAST_SOA_WORDS * 8
        };
        self.zone.is_some_and(|z| own(&z.soa.mname) || own(&z.soa.rname))
    }
}
