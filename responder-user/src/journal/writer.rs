//! The one thread that writes the journal. The engine leaves records and goes on; for orders it is told when they are on
//! the disk.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use nix::sys::signal::{SigSet, Signal};
use serde::Serialize;
use tokio::sync::mpsc;

use super::{Findings, JournalError, Record, Session, State, Store, record::Key};

/// What the daemon found out reaches the disk within this.
const SYNC: Duration = Duration::from_secs(1);

/// After a failure it tries again, at first after this.
const RETRY: Duration = Duration::from_secs(1);

/// And at the latest after this.
const RETRY_MOST: Duration = Duration::from_secs(5);

/// With nothing to do it sleeps.
const SLEEP: Duration = Duration::from_hours(1);

/// What `status` says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The file.
    pub path: PathBuf,
    /// Records in it.
    pub records: u64,
    /// Its length.
    pub bytes: u64,
    /// Why it cannot be written now.
    pub error: Option<String>,
}

/// What the thread has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// An order is on the disk, or it is not given.
    Done {
        /// Of [`Journal::order`].
        ticket: u64,
        /// Err: why not.
        result: Result<(), String>,
    },
    /// It cannot be written.
    Trouble(String),
    /// It can be written again, and nothing is missing.
    Healed,
}

/// A journal that was opened.
#[derive(Debug)]
pub struct Opened {
    /// The writer.
    pub journal: Journal,
    /// What it has to say from now on.
    pub told: mpsc::UnboundedReceiver<Told>,
    /// What was read.
    pub state: State,
    /// What was met while reading.
    pub findings: Findings,
}

/// What waits for the thread. Of each object the last record alone, so that it is bounded, however long a disk takes.
#[derive(Debug, Default)]
struct Inbox {
    notes: BTreeMap<Key, Record>,
    sessions: Option<Vec<Session>>,
    orders: Vec<(u64, Vec<Record>)>,
    is_over: bool,
}

impl Inbox {
    fn is_empty(&self) -> bool {
        self.notes.is_empty() && self.sessions.is_none() && self.orders.is_empty() && !self.is_over
    }
}

#[derive(Debug, Default)]
struct Shared {
    inbox: Mutex<Inbox>,
    more: Condvar,
    status: Mutex<Status>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Plain values: a panic elsewhere leaves none of them half written.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The engine's side.
#[derive(Debug)]
pub struct Journal {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Journal {
    /// Reads the journal of a folder and starts the thread; records that `keep` does not want are dropped. Fails only where
    /// another daemon has it, or without a thread: a folder that cannot be used is told as trouble.
    pub fn open(folder: &Path, keep: impl FnMut(&Record) -> bool) -> Result<Opened, JournalError> {
        let (store, findings, trouble) = Store::open(folder, keep)?;
        let state = store.state().clone();
        let shared = Arc::new(Shared::default());
        let (send, told) = mpsc::unbounded_channel();
        let mut writer = Writer {
            store,
            shared: shared.clone(),
            told: send,
            trouble: None,
            unsynced_since: None,
            retry: (Instant::now(), RETRY),
        };
        if let Some(error) = trouble {
            writer.failed(&error);
        }
        writer.show();
        let path = writer.store.path();
        let thread = std::thread::Builder::new().name("journal".to_owned()).spawn(move || writer.run());
        let thread = thread.map_err(|source| JournalError::Io { path, what: "start its thread", source })?;
        Ok(Opened { journal: Self { shared, thread: Some(thread) }, told, state, findings })
    }

    /// Takes what the daemon found out. Never waits for the disk.
    pub fn note(&self, record: Record) {
        self.leave(|inbox| drop(inbox.notes.insert(record.key(), record)));
    }

    /// Likewise, several.
    pub fn note_all(&self, records: impl IntoIterator<Item = Record>) {
        let mut records = records.into_iter().peekable();
        if records.peek().is_some() {
            self.leave(|inbox| inbox.notes.extend(records.map(|record| (record.key(), record))));
        }
    }

    /// Takes all sessions that there are: those that it knew and that are not among them are gone. Never waits.
    pub fn sessions(&self, sessions: &[Session]) {
        self.desk().put(sessions.to_vec());
    }

    /// Where another thread leaves sessions.
    pub fn desk(&self) -> Desk {
        Desk(self.shared.clone())
    }

    /// Takes an order; [`Told::Done`] says with the ticket what became of it.
    pub fn order(&self, ticket: u64, records: Vec<Record>) {
        self.leave(|inbox| inbox.orders.push((ticket, records)));
    }

    /// For `status`.
    pub fn status(&self) -> Status {
        lock(&self.shared.status).clone()
    }

    fn leave(&self, put: impl FnOnce(&mut Inbox)) {
        put(&mut lock(&self.shared.inbox));
        self.shared.more.notify_one();
    }
}

/// Takes sessions for the journal, in any thread.
#[derive(Clone, Debug)]
pub struct Desk(Arc<Shared>);

impl Desk {
    /// As [`Journal::sessions`].
    pub fn put(&self, sessions: Vec<Session>) {
        lock(&self.0.inbox).sessions = Some(sessions);
        self.0.more.notify_one();
    }
}

/// Everything that was left is written and synced.
impl Drop for Journal {
    fn drop(&mut self) {
        self.leave(|inbox| inbox.is_over = true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the journal had panicked");
        }
    }
}

struct Writer {
    store: Store,
    shared: Arc<Shared>,
    told: mpsc::UnboundedSender<Told>,
    trouble: Option<String>,
    unsynced_since: Option<Instant>,
    /// After a failure: when to try again, and how long to wait after that.
    retry: (Instant, Duration),
}

impl Writer {
    fn run(mut self) {
        // A limit of the size of files is an error like a full disk, not the end of the process.
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGXFSZ);
        if let Err(error) = signals.thread_block() {
            tracing::warn!(%error, "journal: a limit of the size of files would end the process");
        }
        loop {
            let inbox = self.wait();
            let is_over = inbox.is_over;
            self.work(inbox);
            if is_over {
                self.end();
                return;
            }
        }
    }

    /// Until there is something to do, or something is due.
    fn wait(&self) -> Inbox {
        let now = Instant::now();
        let due = match (&self.trouble, self.unsynced_since) {
            (Some(_), _) => self.retry.0,
            (None, Some(since)) => since + SYNC,
            (None, None) => now + SLEEP,
        };
        let inbox = lock(&self.shared.inbox);
        let left = due.saturating_duration_since(now);
        let waited = self.shared.more.wait_timeout_while(inbox, left, |inbox| inbox.is_empty());
        let (mut inbox, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *inbox)
    }

    fn work(&mut self, inbox: Inbox) {
        let mut notes: Vec<Record> = inbox.notes.into_values().collect();
        if let Some(sessions) = inbox.sessions {
            notes.extend(self.store.state().difference(&sessions));
        }
        if !notes.is_empty() {
            let noted = self.store.note(notes);
            self.judge(noted, false);
        }
        for (ticket, records) in inbox.orders {
            let result = self.store.order(&records);
            let told = result.as_ref().copied().map_err(ToString::to_string);
            self.judge(result, true);
            let _ = self.told.send(Told::Done { ticket, result: told });
        }
        let now = Instant::now();
        if self.trouble.is_some() && now >= self.retry.0 {
            let wait = (self.retry.1 * 2).min(RETRY_MOST);
            self.retry = (now + wait, wait);
            let probed = self.store.probe();
            self.judge(probed, true);
        } else if self.unsynced_since.is_some_and(|since| now >= since + SYNC) {
            let synced = self.store.sync();
            self.judge(synced, false);
        }
        self.unsynced_since = if self.store.is_synced() { None } else { self.unsynced_since.or(Some(now)) };
        self.show();
    }

    /// Trouble is over when something has reached the disk and nothing is missing.
    fn judge(&mut self, result: Result<(), JournalError>, is_synced: bool) {
        match result {
            // No fault of the disk.
            Err(JournalError::TooLarge { length }) => {
                tracing::error!(length, "journal: a record is too large");
            }
            Err(error) => self.failed(&error),
            Ok(()) if is_synced && self.store.is_saved() && self.trouble.take().is_some() => {
                let _ = self.told.send(Told::Healed);
            }
            Ok(()) => {}
        }
    }

    fn failed(&mut self, error: &JournalError) {
        let text = error.to_string();
        if self.trouble.is_none() {
            self.retry = (Instant::now() + RETRY, RETRY);
        }
        if self.trouble.as_ref() != Some(&text) {
            self.trouble = Some(text.clone());
            let _ = self.told.send(Told::Trouble(text));
        }
    }

    fn show(&self) {
        *lock(&self.shared.status) = Status {
            path: self.store.path(),
            records: self.store.records(),
            bytes: self.store.len(),
            error: self.trouble.clone(),
        };
    }

    fn end(&mut self) {
        let result = self.store.save().and_then(|()| self.store.sync());
        if let Err(error) = result {
            tracing::error!(%error, "the journal does not know the last states");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Kind, Scope, SessionKind, Stamp};

    fn order(name: &str) -> Vec<Record> {
        vec![Record::Enabled { kind: Kind::Vserver, name: name.to_owned(), enabled: false }]
    }

    #[test]
    fn orders_are_told_and_everything_is_there_after_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let mut opened = Journal::open(folder.path(), |_| true).unwrap();
        opened.journal.note(Record::Plan { generation: 5, boot: 1 });
        opened.journal.order(9, order("www"));
        assert_eq!(opened.told.blocking_recv(), Some(Told::Done { ticket: 9, result: Ok(()) }));
        let session = Session {
            scope: Scope::Id(3),
            client: "10.0.0.0/24".parse().unwrap(),
            link: Some("www".to_owned()),
            service: "a".to_owned(),
            kind: SessionKind::SourceIp,
            expires: 7,
            since: 1,
            at: Stamp::default(),
        };
        opened.journal.sessions(std::slice::from_ref(&session));
        drop(opened.journal);
        let again = Journal::open(folder.path(), |_| true).unwrap();
        assert_eq!(again.state.len(), 3);
        assert_eq!(again.state.sessions(), [session]);
        let status = again.journal.status();
        assert_eq!((status.records, status.error), (3, None));
        again.journal.sessions(&[]);
        drop(again.journal);
        assert!(Journal::open(folder.path(), |_| true).unwrap().state.sessions().is_empty());
    }

    #[test]
    fn what_is_found_out_is_written_without_an_order() {
        let folder = tempfile::tempdir().unwrap();
        let opened = Journal::open(folder.path(), |_| true).unwrap();
        opened.journal.note(Record::Plan { generation: 5, boot: 1 });
        let started = Instant::now();
        while opened.journal.status().records == 0 {
            assert!(started.elapsed() < Duration::from_secs(10));
            std::thread::yield_now();
        }
        // As if the process had been killed now.
        let octets = std::fs::read(folder.path().join("journal")).unwrap();
        assert_eq!(crate::journal::replay::replay(&octets).findings.records, 1);
    }

    #[test]
    fn trouble_is_told_once_and_so_is_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        std::fs::write(&path, "a file stands here").unwrap();
        let mut opened = Journal::open(&path, |_| true).unwrap();
        let Some(Told::Trouble(text)) = opened.told.blocking_recv() else { panic!("no trouble") };
        assert!(text.contains("state"), "{text}");
        opened.journal.order(1, order("www"));
        let refused = opened.told.blocking_recv();
        assert!(matches!(&refused, Some(Told::Done { ticket: 1, result: Err(_) })), "{refused:?}");
        opened.journal.note(Record::Plan { generation: 5, boot: 1 });
        std::fs::remove_file(&path).unwrap();
        assert_eq!(opened.told.blocking_recv(), Some(Told::Healed));
        drop(opened.journal);
        let again = Journal::open(&path, |_| true).unwrap();
        let records: Vec<&Record> = again.state.records().collect();
        assert_eq!(records, [&Record::Plan { generation: 5, boot: 1 }], "and no order that was refused");
    }
}
