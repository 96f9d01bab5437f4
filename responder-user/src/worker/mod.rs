//! Resolver workers: what the XDP program passes, and everything where there is none (design section 6).
//!
//! ```text
//! pin, socket -> udp (batch), tcp (connections) -> answer -> the table, by the functions of the XDP program
//!                                                    |   `-> walk: zone (master), along aliases, additional -> writer
//!                                                    `-----> message: errors
//!                                          limit <- every reply by UDP
//! ```
//!
//! One thread per CPU, pinned, with a runtime, sockets, a limiter and counters of its own. Nothing is locked on the way
//! of a query: the world is a snapshot behind [`arc_swap`], and [`epoch`] tells its writer when a worker is done with it.

mod additional;
pub mod answer;
pub mod batch;
mod connections;
pub mod counters;
pub mod deferred;
pub mod epoch;
pub mod limit;
mod local;
pub mod master;
pub mod message;
pub mod pin;
mod socket;
mod subnet;
pub mod tcp;
#[doc(hidden)]
pub mod testing;
mod thread;
mod udp;
mod walk;
mod writer;
pub mod zone;

use std::{io, net::SocketAddr, sync::Arc, thread::JoinHandle};

use arc_swap::ArcSwap;
use responder_common::lookup::World;
use tokio::sync::Notify;

pub use self::{
    answer::{Names, Outcome, Transport},
    deferred::{Beside, DeferredTable},
    epoch::Epochs,
    limit::Responses,
    zone::Zones,
};
use self::{
    counters::{Count, Counters, Totals},
    local::Local,
};
use crate::model::Settings;

/// What workers answer from. Replaced as a whole; the parts are shared, so that making a new one is cheap.
#[derive(Debug)]
pub struct Served<W> {
    /// The table.
    pub world: W,
    /// What is known of names beside it.
    pub names: Names,
    /// How many replies by UDP a client network may get.
    pub responses: Responses,
}

/// Why workers do not start.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The system does not say which CPUs there are.
    #[error("the CPUs that this process may use are not known")]
    NoCpus,
    /// `listen.workers` names a CPU that cannot be had.
    #[error("listen.workers: CPU {cpu} is not one that this process may use: {allowed:?}")]
    Cpu {
        /// The CPU.
        cpu: u32,
        /// Those that can be had.
        allowed: Vec<usize>,
    },
    /// `listen.workers` is zero or absurd.
    #[error("listen.workers: {count} is not between 1 and {most}")]
    Count {
        /// The number.
        count: u32,
        /// The most.
        most: usize,
    },
    /// There are fewer epochs than workers.
    #[error("there are epochs for {epochs} workers, and {workers} workers")]
    Epochs {
        /// Readers that [`Epochs::new`] was called with.
        epochs: usize,
        /// Workers.
        workers: usize,
    },
    /// An address cannot be bound.
    #[error("listen.addresses: {address} ({protocol}): {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// UDP or TCP.
        protocol: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A thread or its runtime could not be made.
    #[error("worker {worker} cannot start: {source}")]
    Thread {
        /// Its number.
        worker: usize,
        /// Why.
        source: io::Error,
    },
}

/// Running workers.
#[derive(Debug)]
pub struct Workers {
    threads: Vec<Running>,
    /// CPUs and sockets of workers that do not run yet.
    waiting: Vec<(usize, socket::Sockets)>,
    addresses: Vec<SocketAddr>,
    /// What those before these counted.
    past: Totals,
}

#[derive(Debug)]
struct Running {
    thread: JoinHandle<()>,
    stop: Arc<Notify>,
    counters: Arc<Counters>,
}

impl Workers {
    /// How many workers `settings` asks for, which [`Epochs::new`] needs before [`Self::start`].
    pub fn count(settings: &Settings) -> Result<usize, WorkerError> {
        pin::cpus(&settings.workers).map(|cpus| cpus.len())
    }

    /// Binds every address for every worker and starts the threads: [`Self::bind`] and [`Self::run`].
    pub fn start<W: World + Send + Sync + 'static>(
        settings: &Settings,
        served: &Arc<ArcSwap<Served<W>>>,
        epochs: &Arc<Epochs>,
    ) -> Result<Self, WorkerError> {
        let mut workers = Self::bind(settings)?;
        workers.run(served, epochs)?;
        Ok(workers)
    }

    /// Binds every address for every worker. Queries wait at the sockets until [`Self::run`].
    pub fn bind(settings: &Settings) -> Result<Self, WorkerError> {
        Self::bind_beside(settings, &[])
    }

    /// Starts successors on other addresses or CPUs, with epochs of their own, while these still run: an address that
    /// both have is served all the time. Stop these afterwards.
    pub fn succeed<W: World + Send + Sync + 'static>(
        &self,
        settings: &Settings,
        served: &Arc<ArcSwap<Served<W>>>,
        epochs: &Arc<Epochs>,
    ) -> Result<Self, WorkerError> {
        let mut workers = Self::bind_beside(settings, &self.addresses)?;
        workers.run(served, epochs)?;
        Ok(workers)
    }

    fn bind_beside(settings: &Settings, ours: &[SocketAddr]) -> Result<Self, WorkerError> {
        let cpus = pin::cpus(&settings.workers)?;
        let (addresses, sockets) = socket::bind(&settings.listen, &cpus, ours)?;
        let waiting = cpus.into_iter().zip(sockets).collect();
        Ok(Self { threads: Vec::new(), waiting, addresses, past: Totals::default() })
    }

    /// Starts the threads. Worker `n` is reader `n` of `epochs`, which may have more readers than there are workers. An
    /// error leaves nothing running.
    pub fn run<W: World + Send + Sync + 'static>(
        &mut self,
        served: &Arc<ArcSwap<Served<W>>>,
        epochs: &Arc<Epochs>,
    ) -> Result<(), WorkerError> {
        if epochs.len() < self.waiting.len() {
            return Err(WorkerError::Epochs { epochs: epochs.len(), workers: self.waiting.len() });
        }
        for (index, (cpu, sockets)) in std::mem::take(&mut self.waiting).into_iter().enumerate() {
            let counters = Arc::new(Counters::default());
            let stop = Arc::new(Notify::new());
            let parts = thread::Parts {
                served: Arc::clone(served),
                epochs: Arc::clone(epochs),
                counters: Arc::clone(&counters),
                stop: Arc::clone(&stop),
                sockets,
            };
            match thread::start(index, cpu, parts) {
                Ok(thread) => self.threads.push(Running { thread, stop, counters }),
                Err(source) => {
                    stop_all(std::mem::take(&mut self.threads));
                    return Err(WorkerError::Thread { worker: index, source });
                }
            }
        }
        Ok(())
    }

    /// The addresses as bound: those of the settings, with real ports in the place of 0.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// How many run.
    pub fn len(&self) -> usize {
        self.threads.len()
    }

    /// True if none runs yet.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// All workers together, and those before them.
    pub fn totals(&self) -> Totals {
        let mut totals = self.past.clone();
        self.threads.iter().for_each(|running| totals.add(&running.counters));
        totals
    }

    /// Every counter of [`Self::totals`] with its name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        Count::ALL.iter().map(|count| count.name()).zip(self.totals().counts).collect()
    }

    /// Goes on counting where workers before these ended.
    pub fn take_over(&mut self, past: Totals) {
        self.past = past;
    }

    /// Every counter of one worker.
    pub fn counters_of(&self, worker: usize) -> Option<Vec<(&'static str, u64)>> {
        self.threads.get(worker).map(|t| t.counters.snapshot())
    }

    /// Ends every worker and waits for them. Datagrams that wait at the sockets are answered first; connections are closed.
    /// Gives what they counted to the end.
    pub fn stop(mut self) -> Totals {
        let threads = std::mem::take(&mut self.threads);
        let counters: Vec<Arc<Counters>> = threads.iter().map(|running| running.counters.clone()).collect();
        stop_all(threads);
        let mut totals = self.past;
        for counters in &counters {
            totals.add(counters);
        }
        totals
    }
}

fn stop_all(threads: Vec<Running>) {
    for running in &threads {
        running.stop.notify_one();
    }
    for running in threads {
        if running.thread.join().is_err() {
            tracing::error!("a worker had ended by a fault of ours");
        }
    }
}
