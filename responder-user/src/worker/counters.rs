//! What workers count, named once. Each worker writes its own line of numbers; readers add them up.

use std::{
    array,
    sync::atomic::{AtomicU64, Ordering},
};

use crossbeam::utils::CachePadded;
use responder_common::{
    counters::{TYPES, type_place},
    wire::rcode,
};

use super::{message::BADCOOKIE, walk::YXDOMAIN};

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal),* $(,)?) => {
        /// What happened to a query or a connection.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Count {
            $($(#[doc = $doc])* $variant),*
        }

        impl Count {
            /// All of them, in the order of their places.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The stable name, as `stats` and metrics show it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

counters! {
    /// Messages that came by UDP.
    QueryUdp = "worker_query_udp",
    /// Messages that came by TCP.
    QueryTcp = "worker_query_tcp",
    /// Sent: NOERROR.
    NoError = "worker_answer_noerror",
    /// Sent: FORMERR.
    FormErr = "worker_answer_formerr",
    /// Sent: SERVFAIL.
    ServFail = "worker_answer_servfail",
    /// Sent: NXDOMAIN.
    NxDomain = "worker_answer_nxdomain",
    /// Sent: YXDOMAIN, for a name that a DNAME makes too long.
    YxDomain = "worker_answer_yxdomain",
    /// Sent: NOTIMP.
    NotImp = "worker_answer_notimp",
    /// Sent: REFUSED.
    Refused = "worker_answer_refused",
    /// Sent: BADVERS.
    BadVers = "worker_answer_badvers",
    /// Sent: BADCOOKIE, to a query for a cookie alone.
    BadCookie = "worker_answer_badcookie",
    /// Sent with TC=1; counted under its rcode too.
    Truncated = "worker_truncated",
    /// Not answered: a response, or less than a header.
    Silent = "worker_silent",
    /// Not answered: a policy or a saturated virtual server says so.
    Dropped = "worker_dropped",
    /// Not answered: over the limit of error replies.
    Limited = "worker_limited",
    /// Not answered: from a port that no query comes from.
    ServicePort = "worker_service_port",
    /// Truncated replies without records to a client network over its limit, every nth of its queries.
    Slipped = "worker_slipped",
    /// Replies by UDP that the kernel did not take.
    SendFailed = "worker_send_failed",
    /// TCP connections accepted.
    TcpAccepted = "worker_tcp_accepted",
    /// TCP connections closed to make room for newer ones: too many in all, or of one client.
    TcpEvicted = "worker_tcp_evicted",
    /// TCP connections that could not be accepted.
    TcpRefused = "worker_tcp_refused",
    /// TCP connections closed because the client was too slow, writing or reading.
    TcpTimeout = "worker_tcp_timeout",
    /// TCP connections closed after the most queries that one may carry, or after something that is no query.
    TcpClosed = "worker_tcp_closed",
    /// A task ended by a fault of ours and was started again. Raise an alarm.
    Restarted = "worker_restarted",
}

/// The numbers of one worker.
#[derive(Debug)]
pub struct Counters(CachePadded<Numbers>);

#[derive(Debug)]
struct Numbers {
    counts: [AtomicU64; Count::ALL.len()],
    types: [AtomicU64; TYPES],
}

impl Default for Counters {
    fn default() -> Self {
        let zero = |_| AtomicU64::new(0);
        Self(CachePadded::new(Numbers { counts: array::from_fn(zero), types: array::from_fn(zero) }))
    }
}

impl Counters {
    /// Adds one.
    pub fn add(&self, count: Count) {
        self.add_many(count, 1);
    }

    /// Adds `n`.
    pub fn add_many(&self, count: Count, n: u64) {
        self.0.counts[count as usize].fetch_add(n, Ordering::Relaxed);
    }

    /// A reply that goes out. `qtype`: of its question, if it could be read.
    pub fn reply(&self, rcode: u16, truncated: bool, qtype: Option<u16>) {
        self.add(match rcode {
            rcode::NOERROR => Count::NoError,
            rcode::FORMERR => Count::FormErr,
            rcode::NXDOMAIN => Count::NxDomain,
            YXDOMAIN => Count::YxDomain,
            rcode::NOTIMP => Count::NotImp,
            rcode::REFUSED => Count::Refused,
            rcode::BADVERS => Count::BadVers,
            BADCOOKIE => Count::BadCookie,
            _ => Count::ServFail,
        });
        if truncated {
            self.add(Count::Truncated);
        }
        if let Some(qtype) = qtype {
            self.0.types[type_place(qtype)].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One number.
    pub fn get(&self, count: Count) -> u64 {
        self.0.counts[count as usize].load(Ordering::Relaxed)
    }

    /// Every number with its name.
    pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
        Count::ALL.iter().map(|c| (c.name(), self.get(*c))).collect()
    }
}

/// Numbers of several workers together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    /// In the order of [`Count::ALL`].
    pub counts: Vec<u64>,
    /// Replies by type, in the order of [`type_place`].
    pub types: Vec<u64>,
}

impl Default for Totals {
    fn default() -> Self {
        Self { counts: vec![0; Count::ALL.len()], types: vec![0; TYPES] }
    }
}

impl Totals {
    /// Adds the numbers of a worker.
    pub fn add(&mut self, worker: &Counters) {
        add_all(&mut self.counts, &worker.0.counts);
        add_all(&mut self.types, &worker.0.types);
    }
}

fn add_all(totals: &mut [u64], numbers: &[AtomicU64]) {
    totals.iter_mut().zip(numbers).for_each(|(total, number)| *total += number.load(Ordering::Relaxed));
}

/// Answers by zone. Each worker has a row of its own.
#[derive(Debug, Default)]
pub struct ZoneCounts(Box<[Box<[AtomicU64]>]>);

impl ZoneCounts {
    /// For so many slots of starts of authority.
    pub fn new(slots: usize) -> Self {
        let rows = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self((0..rows).map(|_| (0..slots).map(|_| AtomicU64::new(0)).collect()).collect())
    }

    /// Adds `n` answers from a zone.
    pub fn add(&self, worker: usize, slot: u32, n: u64) {
        let row = self.0.get(worker % self.0.len().max(1));
        if let Some(number) = row.and_then(|row| row.get(slot as usize)) {
            number.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// All answers from a zone.
    pub fn get(&self, slot: u32) -> u64 {
        self.0.iter().filter_map(|row| row.get(slot as usize)).map(|n| n.load(Ordering::Relaxed)).sum()
    }
}
