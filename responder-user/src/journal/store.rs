//! The file: append, take back, sync, compact.
//!
//! A [`Store`] knows what the file must say ([`State`]), so that it can write the whole of it anew at any time: to compact
//! it, and where a failure leaves open what the disk holds. The new file gets its place by `rename`, whole or not at all.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use super::{
    Findings, JournalError, NAME, Record, State, frame,
    record::Key,
    replay::{Replay, replay},
};

/// A file below this is not compacted.
const SMALL: u64 = 256 * 1024;

/// A file may grow to so many times what it has to say.
const GROWTH: u64 = 4;

/// Where the file of an earlier life goes that was damaged.
const DAMAGED: &str = "journal.damaged";

/// Where a file goes that is not ours to read.
const ASIDE: &str = "journal.aside";

/// The journal's file and what it says.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    file: Option<File>,
    /// Held as long as the daemon lives. None: the folder cannot be written.
    lock: Option<File>,
    /// Octets of the file that count.
    len: u64,
    /// Number of the last record.
    number: u64,
    /// Records in the file.
    records: u64,
    state: State,
    /// What the state says and the file does not.
    unsaved: BTreeMap<Key, Record>,
    is_synced: bool,
    /// What the file says is not known: it is written anew before anything else.
    is_broken: bool,
    /// The file could not be read, so it is never written.
    unread: Option<String>,
    /// Length at which it is compacted.
    compact_at: u64,
}

impl Store {
    /// Reads the journal of a folder, which is made if it is missing. Records that `keep` does not want are dropped. An
    /// error means that somebody else has it; whatever else is wrong comes with the store, which then holds no file.
    pub fn open(
        folder: &Path,
        keep: impl FnMut(&Record) -> bool,
    ) -> Result<(Self, Findings, Option<JournalError>), JournalError> {
        let mut store = Self {
            folder: folder.to_owned(),
            file: None,
            lock: None,
            len: 0,
            number: 0,
            records: 0,
            state: State::default(),
            unsaved: BTreeMap::new(),
            is_synced: true,
            is_broken: true,
            unread: None,
            compact_at: SMALL,
        };
        let made = match store.prepare() {
            Err(JournalError::InUse(folder)) => return Err(JournalError::InUse(folder)),
            made => made,
        };
        let octets = match fs::read(store.path()) {
            Ok(octets) => octets,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Vec::new()
            }
            Err(error) => {
                let error = store.failed(NAME, "read")(error);
                store.unread = Some(error.to_string());
                return Ok((store, Findings::default(), Some(error)));
            }
        };
        let Replay { state, findings, number } = replay(&octets);
        store.state = state;
        store.number = number;
        store.records = findings.records;
        let dropped = store.state.retain(keep);
        let trouble = match made.and_then(|()| store.set_aside(&findings)) {
            Ok(()) => store.begin(&octets, &findings, dropped).err(),
            Err(error) => Some(error),
        };
        Ok((store, findings, trouble))
    }

    /// The file that was read goes on, or a new one takes its place.
    fn begin(&mut self, octets: &[u8], findings: &Findings, dropped: usize) -> Result<(), JournalError> {
        let is_usable = findings.is_clean() && octets.len() >= frame::HEADER;
        let is_tidy = dropped == 0 && (octets.len() as u64) < SMALL;
        if is_usable && is_tidy {
            return self.go_on(octets.len() as u64);
        }
        let rewritten = self.rewrite();
        // On a full disk the old file is good for appending, too: behind damaged parts, and without a torn tail.
        let end = findings.torn.unwrap_or(octets.len() as u64);
        match rewritten {
            Err(_) if end >= frame::HEADER as u64 && self.unread.is_none() => self.go_on(end),
            rewritten => rewritten,
        }
    }

    fn go_on(&mut self, len: u64) -> Result<(), JournalError> {
        let path = self.path();
        let file =
            OpenOptions::new().read(true).write(true).open(&path).map_err(self.failed(NAME, "open"))?;
        file.set_len(len).map_err(self.failed(NAME, "cut"))?;
        // Of an earlier life: nobody knows what of it was synced.
        file.sync_all().map_err(self.failed(NAME, "sync"))?;
        self.file = Some(file);
        self.len = len;
        self.is_broken = false;
        self.compact_at = (GROWTH * len).max(SMALL);
        Ok(())
    }

    /// What is damaged is kept for whoever wants to look; what is not ours must not be written over.
    fn set_aside(&mut self, findings: &Findings) -> Result<(), JournalError> {
        if !findings.damaged.is_empty() {
            if let Err(error) = fs::copy(self.path(), self.folder.join(DAMAGED)) {
                tracing::warn!(%error, "journal: no copy of the damaged file");
            }
        } else if findings.other_version.is_some() || findings.is_foreign {
            let moved =
                fs::rename(self.path(), self.folder.join(ASIDE)).map_err(self.failed(ASIDE, "rename"));
            if let Err(error) = moved {
                self.unread = Some(error.to_string());
                return Err(error);
            }
        }
        Ok(())
    }

    /// The folder and the lock.
    fn prepare(&mut self) -> Result<(), JournalError> {
        if self.lock.is_some() {
            return Ok(());
        }
        let folder = self.folder.clone();
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(self.failed("", "create"))?;
        let name = "journal.lock";
        let open =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(folder.join(name));
        let lock = open.map_err(self.failed(name, "open"))?;
        match lock.try_lock() {
            Ok(()) => self.lock = Some(lock),
            Err(TryLockError::WouldBlock) => return Err(JournalError::InUse(folder)),
            Err(TryLockError::Error(error)) => return Err(self.failed(name, "lock")(error)),
        }
        Ok(())
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    /// What it says.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Octets of the file.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if nothing was ever written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Records in the file; more than the state has, until it is compacted.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// True if all that was written has reached the disk.
    pub fn is_synced(&self) -> bool {
        self.is_synced
    }

    /// True if the file says what the state says.
    pub fn is_saved(&self) -> bool {
        self.unsaved.is_empty() && !self.is_broken
    }

    /// Takes what the daemon found out: it holds, whatever the disk says. On an error it is not saved, and goes with
    /// whatever is written next.
    pub fn note(&mut self, records: Vec<Record>) -> Result<(), JournalError> {
        let news: Vec<Record> = records.into_iter().filter(|record| !self.state.says(record)).collect();
        if news.is_empty() {
            return Ok(());
        }
        let mut too_large = Ok(());
        for record in news {
            match record.encode() {
                Ok(_) => {
                    self.state.apply(record.clone());
                    self.unsaved.insert(record.key(), record);
                }
                Err(error) => too_large = Err(error),
            }
        }
        self.save().and(too_large)
    }

    /// Writes an order and syncs it: on an error it has not been given.
    pub fn order(&mut self, records: &[Record]) -> Result<(), JournalError> {
        self.save()?;
        self.append(records, true)?;
        for record in records {
            self.state.apply(record.clone());
        }
        Ok(())
    }

    /// Somebody took the file away, or put another one in its place: what is written now nobody would read.
    fn is_gone(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        let Some(ours) = self.file.as_ref().and_then(|file| file.metadata().ok()) else { return false };
        let there = std::fs::metadata(self.path());
        !there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino()))
    }

    /// Writes what is not saved. Compacts where it is time.
    pub fn save(&mut self) -> Result<(), JournalError> {
        if self.is_gone() {
            self.is_broken = true;
        }
        if self.is_broken {
            return self.rewrite();
        }
        if !self.unsaved.is_empty() {
            let records: Vec<Record> = self.unsaved.values().cloned().collect();
            self.append(&records, false)?;
            self.unsaved.clear();
        }
        if self.len > self.compact_at
            && let Err(error) = self.rewrite()
        {
            // The file is as good as before, and goes on.
            self.compact_at = self.len.saturating_mul(2);
            tracing::warn!(%error, "the journal cannot be compacted now");
            if self.is_broken {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Waits until the disk has what was written.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        let Some(file) = self.file.as_ref().filter(|_| !self.is_synced) else { return Ok(()) };
        if let Err(error) = file.sync_data() {
            // The kernel forgets what it could not write: another try would succeed with nothing written.
            self.is_broken = true;
            return Err(self.failed(NAME, "sync")(error));
        }
        self.is_synced = true;
        Ok(())
    }

    /// Writes what is known already once more, to see whether the disk takes it.
    pub fn probe(&mut self) -> Result<(), JournalError> {
        self.save()?;
        let plan = self.state.get(&Key::Plan).cloned();
        let plan = plan.unwrap_or(Record::Plan { generation: 0, boot: 0 });
        self.append(&[plan], true)
    }

    /// Appends whole records, or nothing.
    fn append(&mut self, records: &[Record], sync: bool) -> Result<(), JournalError> {
        if let Some(unread) = &self.unread {
            return Err(JournalError::Unread(unread.clone()));
        }
        let mut octets = Vec::new();
        let mut number = self.number;
        for record in records {
            number += 1;
            frame::put(&mut octets, number, &record.encode()?);
        }
        let Some(file) = &self.file else {
            self.is_broken = true;
            return Err(self.failed(NAME, "write")(io::ErrorKind::NotFound.into()));
        };
        let mut done = file.write_all_at(&octets, self.len).map_err(self.failed(NAME, "write"));
        if done.is_ok() && sync {
            done = file.sync_data().map_err(self.failed(NAME, "sync"));
            self.is_broken |= done.is_err();
        }
        if let Err(error) = done {
            // A part of it may be there.
            self.is_broken |= file.set_len(self.len).is_err();
            return Err(error);
        }
        self.len += octets.len() as u64;
        self.number = number;
        self.records += records.len() as u64;
        self.is_synced = sync;
        Ok(())
    }

    /// Writes what the state says into a new file that takes the place of the old one.
    fn rewrite(&mut self) -> Result<(), JournalError> {
        if let Some(unread) = &self.unread {
            return Err(JournalError::Unread(unread.clone()));
        }
        self.prepare()?;
        let mut octets = frame::header().to_vec();
        let mut number = self.number;
        for record in self.state.records() {
            number += 1;
            frame::put(&mut octets, number, &record.encode()?);
        }
        let name = "journal.new";
        let new = self.folder.join(name);
        let written = (|| {
            let mut open = OpenOptions::new();
            let open = open.read(true).write(true).create(true).truncate(true).mode(0o600).open(&new);
            let file = open.map_err(self.failed(name, "open"))?;
            file.write_all_at(&octets, 0).map_err(self.failed(name, "write"))?;
            file.sync_all().map_err(self.failed(name, "sync"))?;
            fs::rename(&new, self.path()).map_err(self.failed(name, "rename"))?;
            Ok(file)
        })();
        let file = match written {
            Ok(file) => file,
            Err(error) => {
                // It takes room that others need.
                let _ = fs::remove_file(&new);
                return Err(error);
            }
        };
        self.file = Some(file);
        self.len = octets.len() as u64;
        self.number = number;
        self.records = self.state.len() as u64;
        self.compact_at = (GROWTH * self.len).max(SMALL);
        self.unsaved.clear();
        self.is_synced = true;
        // Until the folder is on the disk, a loss of power may bring the old file back.
        let folder = File::open(&self.folder).and_then(|folder| folder.sync_all());
        self.is_broken = folder.is_err();
        folder.map_err(self.failed("", "sync"))
    }

    fn failed(&self, name: &str, what: &'static str) -> impl FnOnce(io::Error) -> JournalError + use<> {
        let path = if name.is_empty() { self.folder.clone() } else { self.folder.join(name) };
        move |source| JournalError::Io { path, what, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Kind;

    fn order(name: &str, enabled: bool) -> Record {
        Record::Enabled { kind: Kind::Service, name: name.to_owned(), enabled }
    }

    fn address(name: &str, up: bool) -> Record {
        Record::Address { service: name.to_owned(), address: "192.0.2.1".parse().unwrap(), up: Some(up) }
    }

    fn open(folder: &Path) -> (Store, Findings) {
        let (store, findings, trouble) = Store::open(folder, |_| true).unwrap();
        assert!(trouble.is_none(), "{trouble:?}");
        (store, findings)
    }

    #[test]
    fn what_was_written_is_there_again() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("state");
        let (mut store, findings) = open(&folder);
        assert!(findings.is_clean());
        store.order(&[order("a", false), order("b", false)]).unwrap();
        store.note(vec![address("a", true)]).unwrap();
        assert!(!store.is_synced());
        let len = store.len();
        store.note(vec![address("a", true)]).unwrap();
        assert_eq!(store.len(), len, "it says nothing new");
        store.order(&[order("b", true)]).unwrap();
        assert!(store.is_synced() && store.is_saved());
        let state = store.state().clone();
        let busy = Store::open(&folder, |_| true);
        assert!(matches!(busy, Err(JournalError::InUse(_))), "{busy:?}");
        drop(store);
        let (store, findings) = open(&folder);
        assert_eq!((store.state(), findings.records, findings.is_clean()), (&state, 4, true));
    }

    #[test]
    fn a_torn_tail_is_cut_and_appended_to() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, _) = open(folder.path());
        store.order(&[order("a", false)]).unwrap();
        let good = store.len();
        store.order(&[order("b", false)]).unwrap();
        let (path, len) = (store.path(), store.len());
        drop(store);
        let whole = fs::read(&path).unwrap();
        for cut in good + 1..len {
            fs::write(&path, &whole[..cut as usize]).unwrap();
            let (mut store, findings) = open(folder.path());
            assert_eq!((findings.torn, findings.is_whole()), (Some(good), true));
            store.order(&[order("c", false)]).unwrap();
            drop(store);
            let (store, findings) = open(folder.path());
            assert!(findings.is_clean());
            let names: Vec<Key> = store.state().records().map(Record::key).collect();
            let key = |name: &str| Key::Enabled(Kind::Service, name.to_owned());
            assert_eq!(names, [key("a"), key("c")]);
        }
    }

    #[test]
    fn a_damaged_file_is_kept_and_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, _) = open(folder.path());
        store.order(&[order("a", false)]).unwrap();
        let at = store.len() as usize;
        store.order(&[order("b", false)]).unwrap();
        store.note(vec![address("a", true)]).unwrap();
        let path = store.path();
        drop(store);
        let mut octets = fs::read(&path).unwrap();
        octets[at + 22] ^= 1;
        fs::write(&path, &octets).unwrap();
        let (store, findings) = open(folder.path());
        assert_eq!(findings.damaged, [at as u64]);
        assert_eq!(store.state().records().collect::<Vec<_>>(), [&order("a", false)]);
        drop(store);
        assert_eq!(fs::read(folder.path().join(DAMAGED)).unwrap(), octets);
        assert!(open(folder.path()).1.is_clean());
    }

    #[test]
    fn a_file_of_another_version_is_set_aside_and_a_strange_one_too() {
        let folder = tempfile::tempdir().unwrap();
        let mut newer = frame::header();
        newer[16] = 2;
        let sum = crc32fast::hash(&newer[..20]);
        newer[20..].copy_from_slice(&sum.to_le_bytes());
        for octets in [&newer[..], b"not a journal, but somebody may want to keep it"] {
            fs::write(folder.path().join(NAME), octets).unwrap();
            let (mut store, findings) = open(folder.path());
            assert!(!findings.is_whole());
            assert_eq!(fs::read(folder.path().join(ASIDE)).unwrap(), octets);
            store.order(&[order("a", false)]).unwrap();
        }
    }

    #[test]
    fn it_is_compacted_and_nothing_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, _) = open(folder.path());
        store.order(&[order("a", false)]).unwrap();
        let mut most = 0;
        for round in 0..20_000 {
            store.note(vec![address("a", round % 2 == 0)]).unwrap();
            most = most.max(store.len());
        }
        assert!(most <= SMALL + 100 && store.len() < most, "{most}");
        let state = store.state().clone();
        drop(store);
        let (store, findings) = open(folder.path());
        assert_eq!((store.state(), findings.is_clean()), (&state, true));
        drop(store);
        // What the configuration does not have any more goes.
        let (store, _, _) = Store::open(folder.path(), Record::is_observation).unwrap();
        assert_eq!(store.state().len(), 1);
        drop(store);
        assert_eq!(open(folder.path()).1.records, 1);
    }

    #[test]
    fn without_a_folder_orders_are_refused_and_findings_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        fs::write(&path, "a file stands here").unwrap();
        let (mut store, _, trouble) = Store::open(&path, |_| true).unwrap();
        assert!(trouble.is_some());
        let refused = store.order(&[order("a", false)]).unwrap_err().to_string();
        assert!(refused.contains(path.to_str().unwrap()) && !refused.contains('\n'), "{refused}");
        assert!(store.note(vec![address("a", true)]).is_err());
        assert_eq!((store.state().len(), store.is_saved()), (1, false));
        // It heals as soon as it can.
        fs::remove_file(&path).unwrap();
        store.order(&[order("b", false)]).unwrap();
        drop(store);
        assert_eq!(open(&path).0.state().len(), 2);
    }
}
