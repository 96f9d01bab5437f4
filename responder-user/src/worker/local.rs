//! What the tasks of one worker share. It never leaves the worker's thread.

use std::{
    cell::RefCell,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use responder_common::{lookup::World, wire::rcode};

use super::{
    Served,
    answer::{self, Outcome, Transport},
    counters::{Count, Counters},
    epoch::Epochs,
    limit::Limiter,
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
    limiter: RefCell<Limiter>,
    started: Instant,
}

impl<W: World> Local<W> {
    pub fn new(
        index: usize,
        served: Arc<ArcSwap<Served<W>>>,
        epochs: Arc<Epochs>,
        counters: Arc<Counters>,
    ) -> Self {
        let limiter = RefCell::new(Limiter::default());
        Self { index, served, epochs, counters, limiter, started: Instant::now() }
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
        let outcome = answer::reply(query, Transport::Udp, client, &served.world, &served.names, out);
        let Outcome::Reply { len, rcode, truncated, .. } = outcome else {
            self.counters.add(Count::Silent);
            return None;
        };
        let helps = matches!(rcode, rcode::NOERROR | rcode::NXDOMAIN) && client.port() != DNS_PORT;
        if !helps && !self.limiter.borrow_mut().allow(client.ip(), self.now()) {
            self.counters.add(Count::Limited);
            return None;
        }
        self.counters.reply(rcode, truncated);
        Some(len)
    }

    /// Answers and counts a message of a connection. None: nothing is sent.
    pub fn tcp(&self, query: &[u8], client: SocketAddr, served: &Served<W>, out: &mut [u8]) -> Option<usize> {
        self.counters.add(Count::QueryTcp);
        let outcome = answer::reply(query, Transport::Tcp, client, &served.world, &served.names, out);
        let Outcome::Reply { len, rcode, truncated, .. } = outcome else {
            self.counters.add(Count::Silent);
            return None;
        };
        self.counters.reply(rcode, truncated);
        Some(len)
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}
