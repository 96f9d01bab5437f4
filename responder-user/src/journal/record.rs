//! One statement on one object: everything of it, by name.

use std::{net::IpAddr, time::Duration};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{JournalError, Stamp, frame::MAX_BODY, stamp::boot};
use crate::{
    decide::{Memory, Report},
    model::RecordType,
};

/// What an operator switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// A service.
    Service,
    /// A virtual server.
    Vserver,
    /// A monitor.
    Monitor,
}

/// A load figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// Finite, not negative.
    pub value: f64,
    /// When it was pushed.
    pub at: Stamp,
}

/// What a virtual server remembers for one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeMemory {
    /// The type's number on the wire.
    pub rtype: u16,
    /// [`Memory::was_up`]
    pub was_up: bool,
    /// [`Memory::latched`]
    pub latched: bool,
    /// [`Memory::spilled`]
    pub spilled: bool,
    /// [`Memory::spill_ended`], on a clock that ends with the boot.
    pub spill_ended: u64,
}

/// Which virtual servers share a session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scope {
    /// Those of this persistenceId.
    Id(u16),
    /// This one.
    Vserver(String),
    /// This one for this domain.
    Domain(String, String),
}

/// What keeps a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionKind {
    /// SOURCEIP persistence.
    SourceIp,
    /// Spillover persistence.
    Spillover,
}

/// A persistence session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Who shares it.
    pub scope: Scope,
    /// Whose: the client address without the bits behind the mask.
    pub client: IpNet,
    /// The virtual server that answered, the primary or a backup, where that matters.
    pub link: Option<String>,
    /// The service that was given.
    pub service: String,
    /// What keeps it.
    pub kind: SessionKind,
    /// When it ends: wall time in milliseconds since 1970, on the calendar that said [`Self::at`].
    pub expires: u64,
    /// When the client came to that virtual server, likewise.
    pub since: u64,
    /// When this was noted.
    pub at: Stamp,
}

impl Session {
    /// How long it still lives at `now`; None: it is over, or nobody can say.
    pub fn left(&self, now: &Stamp) -> Option<Duration> {
        let whole = Duration::from_millis(self.expires.checked_sub(self.at.wall)?);
        whole.checked_sub(self.at.age(now)?).filter(|left| !left.is_zero())
    }
}

/// A record of the journal. The first octet of its encoding is its kind, in this order: new kinds go to the end, and any
/// other change is another [`super::frame::VERSION`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// The number of the last plan, and the boot in which it was made.
    Plan {
        /// Generation of the answers.
        generation: u64,
        /// [`Stamp::boot`]
        boot: u64,
    },
    /// `enable`, `disable`.
    Enabled {
        /// Of what.
        kind: Kind,
        /// Of which.
        name: String,
        /// The operator's word.
        enabled: bool,
    },
    /// `force`.
    Forced {
        /// The service.
        service: String,
        /// The monitor at that service; None: the service itself.
        monitor: Option<String>,
        /// None: `auto`.
        up: Option<bool>,
    },
    /// `load`: all figures of a service.
    Load {
        /// The service.
        service: String,
        /// Each name once.
        figures: Vec<Figure>,
    },
    /// `report`: all that was told of a service.
    Report {
        /// The service.
        service: String,
        /// [`Report::primary_up`]
        primary_up: Option<bool>,
        /// [`Report::effective_up`]
        effective_up: Option<bool>,
        /// [`Report::above`]
        above: Option<bool>,
        /// When it was told last.
        at: Stamp,
    },
    /// What a virtual server remembers: latches, whether it was up, whether it is over its threshold.
    Memory {
        /// The virtual server.
        vserver: String,
        /// [`Stamp::boot`]
        boot: u64,
        /// Types without an entry remember nothing.
        types: Vec<TypeMemory>,
    },
    /// The last decision on an address of a service.
    Address {
        /// The service.
        service: String,
        /// The address.
        address: IpAddr,
        /// None: undecided.
        up: Option<bool>,
    },
    /// The state of one monitor at an address.
    Check {
        /// The service.
        service: String,
        /// The address.
        address: IpAddr,
        /// The monitor.
        monitor: String,
        /// What it asks ([`crate::health::Probe::fingerprint`]): another question has another answer.
        question: u32,
        /// None: undecided.
        up: Option<bool>,
    },
    /// A session.
    Session(Session),
    /// A session that was cleared.
    SessionEnd {
        /// Who shared it.
        scope: Scope,
        /// Whose it was.
        client: IpNet,
    },
    /// An order to enable or disable is over: the configuration decides again.
    Withdrawn {
        /// Kind of the object.
        kind: Kind,
        /// Its name.
        name: String,
    },
}

/// What a record is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The plan.
    Plan,
    /// See [`Record::Enabled`].
    Enabled(Kind, String),
    /// See [`Record::Forced`].
    Forced(String, Option<String>),
    /// See [`Record::Load`].
    Load(String),
    /// See [`Record::Report`].
    Report(String),
    /// See [`Record::Memory`].
    Memory(String),
    /// See [`Record::Address`].
    Address(String, IpAddr),
    /// See [`Record::Check`].
    Check(String, IpAddr, String),
    /// See [`Record::Session`].
    Session(Scope, IpNet),
}

impl Record {
    /// What a virtual server remembers.
    pub fn memory(vserver: &str, memory: &[Memory; RecordType::COUNT]) -> Self {
        let types =
            RecordType::ALL.into_iter().zip(memory).filter(|(_, memory)| **memory != Memory::default());
        let types = types.map(|(rtype, memory)| TypeMemory {
            rtype: rtype.code(),
            was_up: memory.was_up,
            latched: memory.latched,
            spilled: memory.spilled,
            spill_ended: memory.spill_ended,
        });
        Self::Memory { vserver: vserver.to_owned(), boot: boot(), types: types.collect() }
    }

    /// What is told of a service.
    pub fn report(service: &str, report: Report, at: Stamp) -> Self {
        let Report { primary_up, effective_up, above } = report;
        Self::Report { service: service.to_owned(), primary_up, effective_up, above, at }
    }

    /// What it is about.
    pub fn key(&self) -> Key {
        match self {
            Self::Plan { .. } => Key::Plan,
            Self::Enabled { kind, name, .. } | Self::Withdrawn { kind, name } => {
                Key::Enabled(*kind, name.clone())
            }
            Self::Forced { service, monitor, .. } => Key::Forced(service.clone(), monitor.clone()),
            Self::Load { service, .. } => Key::Load(service.clone()),
            Self::Report { service, .. } => Key::Report(service.clone()),
            Self::Memory { vserver, .. } => Key::Memory(vserver.clone()),
            Self::Address { service, address, .. } => Key::Address(service.clone(), *address),
            Self::Check { service, address, monitor, .. } => {
                Key::Check(service.clone(), *address, monitor.clone())
            }
            Self::Session(session) => Key::Session(session.scope.clone(), session.client),
            Self::SessionEnd { scope, client } => Key::Session(scope.clone(), *client),
        }
    }

    /// True if it says what its absence says.
    pub fn is_void(&self) -> bool {
        match self {
            Self::Plan { .. } | Self::Enabled { .. } | Self::Session(_) => false,
            Self::Forced { up, .. } | Self::Address { up, .. } | Self::Check { up, .. } => up.is_none(),
            Self::Load { figures, .. } => figures.is_empty(),
            Self::Report { primary_up, effective_up, above, .. } => {
                (primary_up, effective_up, above) == (&None, &None, &None)
            }
            Self::Memory { types, .. } => types.is_empty(),
            Self::SessionEnd { .. } | Self::Withdrawn { .. } => true,
        }
    }

    /// True if checks will find it out again, so that it is never guessed.
    pub fn is_observation(&self) -> bool {
        matches!(self, Self::Address { .. } | Self::Check { .. })
    }

    /// The octets of a frame.
    pub fn encode(&self) -> Result<Vec<u8>, JournalError> {
        // What serde is asked to write here has no failure but a want of memory.
        let body = postcard::to_stdvec(self).map_err(|_| JournalError::TooLarge { length: usize::MAX })?;
        if body.len() > MAX_BODY {
            return Err(JournalError::TooLarge { length: body.len() });
        }
        Ok(body)
    }

    /// Back; None: these octets are no record that this version could have written.
    pub fn decode(body: &[u8]) -> Option<Self> {
        let (record, rest) = postcard::take_from_bytes::<Self>(body).ok()?;
        (rest.is_empty() && record.is_sane()).then_some(record)
    }

    /// Values that the rest of the program relies on.
    fn is_sane(&self) -> bool {
        match self {
            Self::Load { figures, .. } => {
                figures.iter().all(|figure| figure.value.is_finite() && figure.value >= 0.0)
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_keep_their_first_octet() {
        let first = |record: &Record| record.encode().unwrap()[0];
        let client: IpNet = "10.0.0.0/24".parse().unwrap();
        assert_eq!(first(&Record::Plan { generation: 1, boot: 2 }), 0);
        let order = Record::Enabled { kind: Kind::Service, name: "a".to_owned(), enabled: true };
        assert_eq!(order.encode().unwrap(), [1, 0, 1, b'a', 1], "the form of version 1");
        assert_eq!(first(&Record::SessionEnd { scope: Scope::Id(1), client }), 9);
    }

    #[test]
    fn figures_that_are_no_numbers_are_no_record() {
        for value in [f64::NAN, f64::INFINITY, -1.0] {
            let figure = Figure { name: "x".to_owned(), value, at: Stamp::default() };
            let record = Record::Load { service: "a".to_owned(), figures: vec![figure] };
            assert_eq!(Record::decode(&record.encode().unwrap()), None);
        }
    }

    #[test]
    fn a_session_lives_by_the_clock_that_nobody_sets() {
        let at = Stamp { boot: 1, uptime: 1_000, wall: 1_000_000 };
        let session = Session {
            scope: Scope::Id(7),
            client: "10.0.0.0/24".parse().unwrap(),
            link: Some("www".to_owned()),
            service: "a".to_owned(),
            kind: SessionKind::SourceIp,
            expires: 1_000_000 + 120_000,
            since: 1_000_000,
            at,
        };
        let left = |now: Stamp| session.left(&now).map(|left| left.as_secs());
        assert_eq!(left(Stamp { uptime: 21_000, wall: 5, ..at }), Some(100));
        assert_eq!(left(Stamp { uptime: 121_000, wall: 5, ..at }), None);
        assert_eq!(left(Stamp { boot: 2, uptime: 0, wall: 1_020_000 }), Some(100));
        assert_eq!(left(Stamp { boot: 2, uptime: 0, wall: 900_000 }), None, "the calendar went back");
    }
}
