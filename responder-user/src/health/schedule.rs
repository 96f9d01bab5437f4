//! Runs the checks: one task per monitor and address, at a fixed rate, so that a slow check delays nobody.
//!
//! Turns are spread over the interval, and the very first checks over at most a second, so that a start neither
//! waits nor floods. A check that is still running when its next turn comes is not started twice.

use std::{
    collections::HashMap,
    future::Future,
    hash::{BuildHasher, RandomState},
    io,
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::{Semaphore, mpsc, oneshot},
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval_at, sleep_until},
};

use super::probe::{LocalFault, Probe, ProbeResult};
use crate::model::{MonitorId, ServiceId};

/// The first checks of a start are spread over at most this.
const START_SPREAD: Duration = Duration::from_secs(1);
/// Keeps sums of instants and durations far from overflow.
const MAX_INTERVAL: Duration = Duration::from_hours(365 * 24);
/// 2^64 divided by the golden ratio: successive multiples of it fall evenly around the clock, however many there are.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// What the scheduler reports.
#[derive(Debug)]
pub enum HealthEvent {
    /// A check ended.
    Result {
        /// [`Job::epoch`] as of now.
        epoch: u64,
        /// Which monitor.
        monitor: MonitorId,
        /// Of which service.
        service: ServiceId,
        /// Index into the service's addresses.
        address: usize,
        /// What it found.
        result: ProbeResult,
        /// When the result was there, before it waited for anything: the start of "probe result to new answer".
        at: std::time::Instant,
    },
    /// A check could not be made. States stay.
    Fault {
        /// [`Job::epoch`] as of now.
        epoch: u64,
        /// Which monitor.
        monitor: MonitorId,
        /// Of which service.
        service: ServiceId,
        /// Index into the service's addresses.
        address: usize,
        /// Why.
        fault: LocalFault,
        /// When.
        at: std::time::Instant,
    },
}

/// One check to be repeated.
#[derive(Clone, Debug)]
pub struct Job {
    /// Who this is, across reloads.
    pub key: JobKey,
    /// What is asked.
    pub probe: Probe,
    /// Time between the starts of two checks; at most a year.
    pub interval: Duration,
    /// Which model the ids below belong to. Events carry it, because a reload renumbers.
    pub epoch: u64,
    /// Which monitor.
    pub monitor: MonitorId,
    /// Of which service.
    pub service: ServiceId,
    /// Index into the service's addresses.
    pub address: usize,
}

/// A check by names, which reloads do not change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobKey {
    /// Name of the monitor.
    pub monitor: String,
    /// Name of the service.
    pub service: String,
    /// Address of the service.
    pub address: IpAddr,
}

/// Counters since the start; all but `in_flight` only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulerStats {
    /// Checks that were started.
    pub started: u64,
    /// Checks that ended with a success.
    pub succeeded: u64,
    /// Checks that ended with a failure.
    pub failed: u64,
    /// Checks that could not be made.
    pub faults: u64,
    /// Checks that started late by more than a tenth of their interval.
    pub late: u64,
    /// Checks that are running.
    pub in_flight: u64,
}

/// The running checks. Dropping it stops them all.
#[derive(Debug)]
pub struct Scheduler {
    runtime: Handle,
    events: mpsc::Sender<HealthEvent>,
    shared: Arc<Shared>,
    running: HashMap<JobKey, Running>,
    /// Place on the clock of the last job that was added, as a fraction of 2^64.
    place: u64,
    /// Dropped with the scheduler, which ends its own thread where it has one.
    _thread: Option<oneshot::Sender<()>>,
}

#[derive(Debug)]
struct Running {
    probe: Probe,
    interval: Duration,
    ids: Arc<Mutex<Ids>>,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What may change under a running check.
#[derive(Clone, Copy, Debug)]
struct Ids {
    epoch: u64,
    monitor: MonitorId,
    service: ServiceId,
    address: usize,
}

#[derive(Debug)]
struct Shared {
    limit: Semaphore,
    limit_size: usize,
    started: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
    faults: AtomicU64,
    late: AtomicU64,
}

/// When a job has its turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turns {
    first: Instant,
    /// The start of the regular ones.
    second: Instant,
    interval: Duration,
}

impl Scheduler {
    /// Starts the jobs on the tokio runtime that this is called in. They end when the receiver of the events is
    /// dropped, too. Events wait where the channel is full: a slow receiver slows the checks down, it loses nothing.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start(jobs: Vec<Job>, events: mpsc::Sender<HealthEvent>) -> Self {
        Self::start_on(Handle::current(), None, jobs, events)
    }

    /// Starts the jobs on a thread of their own, so that neither waits for the other: the checks for a long
    /// computation of the caller, the caller for thousands of checks. Fails where no thread can be made.
    pub fn start_thread(jobs: Vec<Job>, events: mpsc::Sender<HealthEvent>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        std::thread::Builder::new().name("health".to_owned()).spawn(move || {
            // Ends when the sender is dropped; the runtime goes with it, and the checks with the runtime.
            let _ = runtime.block_on(stopped);
        })?;
        Ok(Self::start_on(handle, Some(stop), jobs, events))
    }

    fn start_on(
        runtime: Handle,
        thread: Option<oneshot::Sender<()>>,
        jobs: Vec<Job>,
        events: mpsc::Sender<HealthEvent>,
    ) -> Self {
        let mut scheduler = Self {
            runtime,
            events,
            shared: Arc::new(Shared::new(most_in_flight())),
            running: HashMap::new(),
            // Random, so that nodes which start together do not check together.
            place: RandomState::new().hash_one(0_u8),
            _thread: thread,
        };
        scheduler.reload(jobs);
        scheduler
    }

    /// Replaces the jobs. Those that ask the same as before keep their turns and are not disturbed; of the others
    /// the old stop at once and the new start as at the beginning. Of two jobs with one key the last one counts.
    pub fn reload(&mut self, jobs: Vec<Job>) {
        let now = Instant::now();
        let mut before = std::mem::take(&mut self.running);
        for job in jobs {
            let ids =
                Ids { epoch: job.epoch, monitor: job.monitor, service: job.service, address: job.address };
            let kept = before.remove(&job.key).filter(|old| {
                old.probe == job.probe && old.interval == job.interval && !old.task.is_finished()
            });
            let running = match kept {
                Some(old) => {
                    *old.ids.lock().unwrap_or_else(PoisonError::into_inner) = ids;
                    old
                }
                None => self.spawn(job.probe, job.interval, ids, now),
            };
            self.running.insert(job.key, running);
        }
    }

    fn spawn(&mut self, probe: Probe, interval: Duration, ids: Ids, now: Instant) -> Running {
        self.place = self.place.wrapping_add(GOLDEN);
        let ids = Arc::new(Mutex::new(ids));
        let turns = Turns::new(now, interval, self.place as f64 / 2_f64.powi(64));
        let asked = Arc::new(probe.clone());
        let task = self.runtime.spawn(run(
            turns,
            Arc::clone(&ids),
            Arc::clone(&self.shared),
            self.events.clone(),
            move || {
                let probe = Arc::clone(&asked);
                async move { probe.check().await }
            },
        ));
        Running { probe, interval, ids, task }
    }

    /// The counters as of now.
    pub fn stats(&self) -> SchedulerStats {
        let shared = &self.shared;
        SchedulerStats {
            started: shared.started.load(Relaxed),
            succeeded: shared.succeeded.load(Relaxed),
            failed: shared.failed.load(Relaxed),
            faults: shared.faults.load(Relaxed),
            late: shared.late.load(Relaxed),
            in_flight: shared.limit_size.saturating_sub(shared.limit.available_permits()) as u64,
        }
    }
}

impl Turns {
    /// The turns of a job that is added at `now`, at its place (0 to 1) among the others: the first check soon, the
    /// second half an interval to one and a half later, where the place falls in the interval.
    fn new(now: Instant, interval: Duration, place: f64) -> Self {
        let interval = interval.clamp(Duration::from_millis(1), MAX_INTERVAL);
        let first = interval.min(START_SPREAD).mul_f64(place);
        let mut second = interval.mul_f64(place);
        while second < first + interval / 2 {
            second += interval;
        }
        Self { first: now + first, second: now + second, interval }
    }
}

/// Repeats one check for as long as somebody listens.
async fn run<F>(
    turns: Turns,
    ids: Arc<Mutex<Ids>>,
    shared: Arc<Shared>,
    events: mpsc::Sender<HealthEvent>,
    ask: impl Fn() -> F,
) where
    F: Future<Output = Result<ProbeResult, LocalFault>>,
{
    sleep_until(turns.first).await;
    let mut due = turns.first;
    // Skip: a turn that was missed is made up for once, then the old beat goes on.
    let mut beat = interval_at(turns.second, turns.interval);
    beat.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        let Ok(permit) = shared.limit.acquire().await else { return };
        shared.started.fetch_add(1, Relaxed);
        if due.elapsed() > turns.interval / 10 {
            shared.late.fetch_add(1, Relaxed);
        }
        let outcome = ask().await;
        let at = Instant::now().into_std();
        drop(permit);
        shared.count(&outcome);
        // The ids are read when there is room, not before: a reload may have come while we waited.
        let Ok(room) = events.reserve().await else { return };
        let ids = *ids.lock().unwrap_or_else(PoisonError::into_inner);
        room.send(ids.event(outcome, at));
        due = beat.tick().await;
    }
}

impl Shared {
    fn new(limit_size: usize) -> Self {
        Self {
            limit: Semaphore::new(limit_size),
            limit_size,
            started: AtomicU64::default(),
            succeeded: AtomicU64::default(),
            failed: AtomicU64::default(),
            faults: AtomicU64::default(),
            late: AtomicU64::default(),
        }
    }

    fn count(&self, outcome: &Result<ProbeResult, LocalFault>) {
        let counter = match outcome {
            Ok(result) if result.ok => &self.succeeded,
            Ok(_) => &self.failed,
            Err(_) => &self.faults,
        };
        counter.fetch_add(1, Relaxed);
    }
}

impl Ids {
    fn event(self, outcome: Result<ProbeResult, LocalFault>, at: std::time::Instant) -> HealthEvent {
        let Self { epoch, monitor, service, address } = self;
        match outcome {
            Ok(result) => HealthEvent::Result { epoch, monitor, service, address, result, at },
            Err(fault) => HealthEvent::Fault { epoch, monitor, service, address, fault, at },
        }
    }
}

/// Half of the files that this process may open; the other half belongs to those who answer queries. More checks
/// wait for their turn instead of failing for want of a descriptor.
fn most_in_flight() -> usize {
    use nix::sys::resource::{Resource, getrlimit};
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _hard)| soft);
    usize::try_from(files / 2).unwrap_or(usize::MAX).clamp(16, 1 << 16)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::sleep;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn shared(limit_size: usize) -> Arc<Shared> {
        Arc::new(Shared::new(limit_size))
    }

    fn ids() -> Arc<Mutex<Ids>> {
        Arc::new(Mutex::new(Ids { epoch: 0, monitor: MonitorId(0), service: ServiceId(0), address: 0 }))
    }

    fn fine() -> ProbeResult {
        ProbeResult { ok: true, detail: String::new(), took: Duration::ZERO }
    }

    /// Runs a job whose checks take `took` for ten intervals of a second; returns when its checks began.
    async fn starts(
        took: impl Fn(usize) -> Duration + Send + 'static,
        room: usize,
        drain: bool,
    ) -> Vec<Duration> {
        let origin = Instant::now();
        let begun = Arc::new(Mutex::new(Vec::new()));
        let (tx, mut rx) = mpsc::channel(room);
        let record = Arc::clone(&begun);
        let ask = move || {
            let mut begun = record.lock().expect("no panic elsewhere");
            let took = took(begun.len());
            begun.push(origin.elapsed());
            async move {
                sleep(took).await;
                Ok(fine())
            }
        };
        let turns = Turns { first: origin, second: origin + SECOND, interval: SECOND };
        let task = tokio::spawn(run(turns, ids(), shared(1), tx, ask));
        let end = origin + SECOND * 10 - Duration::from_millis(1);
        while drain && tokio::time::timeout_at(end, rx.recv()).await.is_ok() {}
        sleep_until(end).await;
        task.abort();
        begun.lock().expect("no panic elsewhere").clone()
    }

    #[tokio::test(start_paused = true)]
    async fn the_beat_does_not_drift() {
        let begun = starts(|_| Duration::from_millis(700), 100, true).await;
        assert_eq!(begun, (0..10).map(|i| SECOND * i).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn a_running_check_is_not_started_twice_and_the_beat_survives() {
        let slow_once = |nth| if nth == 2 { Duration::from_millis(2300) } else { Duration::from_millis(10) };
        let begun = starts(slow_once, 100, true).await;
        let expected = [0, 1000, 2000, 4300, 5000, 6000, 7000, 8000, 9000].map(Duration::from_millis);
        assert_eq!(begun, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_channel_holds_the_job_and_loses_nothing() {
        let begun = starts(|_| Duration::ZERO, 2, false).await;
        assert_eq!(begun.len(), 3, "two results in the channel, one waiting for room");
    }

    #[tokio::test(start_paused = true)]
    async fn the_job_ends_with_its_listener() {
        let (tx, rx) = mpsc::channel(1);
        drop(rx);
        let turns = Turns { first: Instant::now(), second: Instant::now() + SECOND, interval: SECOND };
        run(turns, ids(), shared(1), tx, || async { Ok(fine()) }).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_limit_makes_checks_wait_not_fail() {
        let (tx, mut rx) = mpsc::channel(100);
        let shared = shared(2);
        let turns =
            Turns { first: Instant::now(), second: Instant::now() + SECOND * 60, interval: SECOND * 60 };
        for _ in 0..6 {
            tokio::spawn(run(turns, ids(), Arc::clone(&shared), tx.clone(), || async {
                sleep(SECOND).await;
                Ok(fine())
            }));
        }
        let origin = Instant::now();
        for expected in [1, 1, 2, 2, 3, 3] {
            assert!(rx.recv().await.is_some());
            assert_eq!(origin.elapsed().as_secs(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_carries_the_ids_of_the_newest_model() {
        let (tx, mut rx) = mpsc::channel(1);
        let ids = ids();
        let turns = Turns { first: Instant::now(), second: Instant::now() + SECOND, interval: SECOND };
        tokio::spawn(run(turns, Arc::clone(&ids), shared(1), tx, || async {
            sleep(SECOND / 2).await;
            Ok(fine())
        }));
        sleep(SECOND / 4).await;
        *ids.lock().expect("no panic elsewhere") =
            Ids { epoch: 7, monitor: MonitorId(3), service: ServiceId(2), address: 1 };
        let Some(HealthEvent::Result { epoch, monitor, service, address, .. }) = rx.recv().await else {
            panic!("no result")
        };
        assert_eq!((epoch, monitor, service, address), (7, MonitorId(3), ServiceId(2), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn turns_are_soon_and_spread() {
        let now = Instant::now();
        for interval in [10, 250, 1000, 5000, 60_000].map(Duration::from_millis) {
            let turns: Vec<_> = (0..1000).map(|i| Turns::new(now, interval, f64::from(i) / 1000.0)).collect();
            for turn in &turns {
                assert!(turn.first - now <= interval.min(SECOND));
                let gap = turn.second - turn.first;
                assert!(gap >= interval / 2 && gap <= interval * 3 / 2, "{gap:?} of {interval:?}");
            }
            // In every tenth of the interval a tenth of the regular turns.
            let mut tenths = [0; 10];
            for turn in &turns {
                let phase = (turn.second - now).as_secs_f64() / interval.as_secs_f64();
                tenths[(phase.fract() * 10.0) as usize % 10] += 1;
            }
            assert!(tenths.iter().all(|n| (95..=105).contains(n)), "{interval:?}: {tenths:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn absurd_intervals_do_not_overflow() {
        for interval in [Duration::ZERO, Duration::MAX] {
            let turns = Turns::new(Instant::now(), interval, 0.999);
            assert!(turns.interval >= Duration::from_millis(1) && turns.interval <= MAX_INTERVAL);
        }
    }
}
