//! What the tasks of one worker share. It never leaves the worker's thread.

use std::{cell::RefCell, net::SocketAddr, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use nix::time::{ClockId, clock_gettime};
use responder_common::{limit::Verdict, lookup::World, wire::rcode};

use super::{
    Served,
    answer::{self, Facts, Outcome, Size, Transport},
    counters::{Count, Counters},
    epoch::Epochs,
    limit::Errors,
    walk::YXDOMAIN,
};

/// Ports that are known to answer anything with something (CVE-2024-2169): the list of the XDP program, and 0.
const SERVICE_PORTS: [u16; 15] = [0, 7, 13, 17, 19, 37, 69, 111, 123, 137, 138, 161, 389, 520, 1900];

/// Port of name servers. A query may come from it, but so may the other half of a loop.
const DNS_PORT: u16 = 53;

/// The state of one worker.
pub(super) struct Local<W> {
    pub index: usize,
    pub served: Arc<ArcSwap<Served<W>>>,
    pub epochs: Arc<Epochs>,
    pub counters: Arc<Counters>,
    errors: RefCell<Errors>,
}

impl<W: World> Local<W> {
    pub fn new(
        index: usize,
        served: Arc<ArcSwap<Served<W>>>,
        epochs: Arc<Epochs>,
        counters: Arc<Counters>,
    ) -> Self {
        Self { index, served, epochs, counters, errors: RefCell::new(Errors::default()) }
    }

    /// Runs `work` inside an epoch, on the world of this moment. Never await inside.
    pub fn batch<R>(&self, work: impl FnOnce(&Served<W>) -> R) -> Option<R> {
        let served = self.served.load();
        let guard = self.epochs.guard(self.index);
        if guard.is_none() {
            // Two workers with one number: a fault of whoever made `Epochs`. Silence is safer than stale memory.
            tracing::error!(worker = self.index, "no epoch for this worker");
        }
        let _inside = guard?;
        Some(work(&served))
    }

    /// Answers and counts a datagram. None: nothing is sent.
    pub fn udp(&self, query: &[u8], client: SocketAddr, served: &Served<W>, out: &mut [u8]) -> Option<usize> {
        self.counters.add(Count::QueryUdp);
        if SERVICE_PORTS.contains(&client.port()) {
            self.counters.add(Count::ServicePort);
            return None;
        }
        let (world, names) = (&served.world, &served.names);
        let (outcome, facts) =
            answer::reply_in(Size::Whole, query, Transport::Udp, client, world, names, out);
        let Outcome::Reply { len, rcode, .. } = outcome else {
            self.counters.add(if outcome == Outcome::Dropped { Count::Dropped } else { Count::Silent });
            return None;
        };
        let helps = matches!(rcode, rcode::NOERROR | rcode::NXDOMAIN | YXDOMAIN) && client.port() != DNS_PORT;
        let limited = |reply: Option<usize>| {
            self.counters.add(if reply.is_some() { Count::Slipped } else { Count::Limited });
            reply
        };
        if !helps && !self.errors.borrow_mut().allow(client.ip(), now()) {
            return limited(None);
        }
        match served.responses.ask(client.ip(), now(), facts.has_valid_cookie) {
            Verdict::Answer => {}
            // An error helps nobody more with TC.
            Verdict::Slip if helps => {
                return limited(match answer::slip(query, client, world, names, out) {
                    Outcome::Reply { len, .. } => Some(len),
                    Outcome::Silent | Outcome::Dropped => None,
                });
            }
            Verdict::Slip | Verdict::Nothing => return limited(None),
        }
        self.count(outcome, facts, served);
        Some(len)
    }

    /// Answers and counts a message of a connection. None: nothing is sent.
    pub fn tcp(&self, query: &[u8], client: SocketAddr, served: &Served<W>, out: &mut [u8]) -> Option<usize> {
        self.counters.add(Count::QueryTcp);
        let (world, names) = (&served.world, &served.names);
        let (outcome, facts) =
            answer::reply_in(Size::Whole, query, Transport::Tcp, client, world, names, out);
        let Outcome::Reply { len, .. } = outcome else {
            self.counters.add(if outcome == Outcome::Dropped { Count::Dropped } else { Count::Silent });
            return None;
        };
        self.count(outcome, facts, served);
        Some(len)
    }

    /// A reply that goes out.
    fn count(&self, outcome: Outcome, facts: Facts, served: &Served<W>) {
        let Outcome::Reply { rcode, truncated, zone, .. } = outcome else { return };
        self.counters.reply(rcode, truncated, facts.qtype);
        if let Some(slot) = zone {
            served.names.zones.counts().add(self.index, slot, 1);
        }
    }
}

/// The clock that the XDP program reads.
fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE).map_or(Duration::ZERO, Duration::from)
}
