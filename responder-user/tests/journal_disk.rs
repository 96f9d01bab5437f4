//! The journal on a disk that is full: real writes that the kernel cuts at every octet (a limit of the size of files), and
//! a small file system. What was acknowledged is there, what was refused has changed nothing.
//!
//! Needs root: each test mounts its file system where nobody else sees it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread,
};

use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::{
        resource::{Resource, getrlimit, setrlimit},
        signal::{SigSet, Signal},
    },
};
use responder_user::journal::{Kind, NAME, Record, State, Store, frame, replay::replay};

/// The limit is the whole process's.
static LIMIT: Mutex<()> = Mutex::new(());

/// Runs something with a file system of this size in a folder, seen by this thread alone and gone with it.
fn on_disk(size: &str, run: impl FnOnce(PathBuf) + Send + 'static) {
    let _alone = LIMIT.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(nix::unistd::geteuid().is_root(), "mounting needs root: run `sudo cargo xtask test`");
    // A test that failed may have left one.
    limit_files(u64::MAX);
    let options = format!("size={size}");
    let run = move || {
        let folder = tempfile::tempdir().unwrap();
        unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).unwrap();
        let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, flags, None::<&str>).unwrap();
        let tmpfs = Some("tmpfs");
        mount(tmpfs, folder.path(), tmpfs, MsFlags::empty(), Some(options.as_str())).unwrap();
        // As the journal's own thread does: a file that may not grow is an error, no signal.
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGXFSZ);
        signals.thread_block().unwrap();
        run(folder.path().to_owned());
    };
    thread::spawn(run).join().unwrap();
}

fn limit_files(octets: u64) {
    let (_, hard) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, octets.min(hard), hard).unwrap();
}

fn open(folder: &Path) -> Store {
    Store::open(folder, |_| true).unwrap().0
}

fn order(i: usize) -> Record {
    // Of different lengths, so that cuts fall everywhere.
    Record::Enabled {
        kind: Kind::Service,
        name: "x".repeat(i % 7) + &i.to_string(),
        enabled: i.is_multiple_of(3),
    }
}

fn note(i: usize) -> Record {
    let address = format!("192.0.2.{}", i % 2).parse().unwrap();
    Record::Address { service: "a".to_owned(), address, up: Some(i % 4 < 2) }
}

fn state_of(records: &[Record]) -> State {
    let mut out = State::default();
    for record in records {
        out.apply(record.clone());
    }
    out
}

/// Orders and findings in turn. Returns what was acknowledged.
fn live(store: &mut Store, rounds: std::ops::Range<usize>) -> Vec<Record> {
    let mut acknowledged = Vec::new();
    for i in rounds {
        let before = store.state().clone();
        match store.order(&[order(i)]) {
            Ok(()) => acknowledged.push(order(i)),
            Err(error) => {
                assert_eq!(*store.state(), before, "a refused order changes nothing");
                assert_eq!(error.to_string().lines().count(), 1, "{error}");
            }
        }
        // A finding holds, whatever the disk says.
        let _ = store.note(vec![note(i)]);
        assert!(store.state().says(&note(i)));
    }
    acknowledged
}

fn orders_of(state: &State) -> Vec<&Record> {
    state.records().filter(|record| !record.is_observation()).collect()
}

#[test]
fn a_disk_that_is_full_at_any_octet_loses_nothing_acknowledged_and_takes_nothing_refused() {
    on_disk("16m", |disk| {
        let rounds = 12;
        let full = {
            let mut store = open(&disk.join("whole"));
            assert_eq!(live(&mut store, 0..rounds).len(), rounds);
            store.len()
        };
        let last = frame::AROUND + note(rounds - 1).encode().unwrap().len();
        let mut refused = 0;
        for limit in 0..=full {
            let folder = disk.join(limit.to_string());
            limit_files(limit);
            let mut store = open(&folder);
            let acknowledged = live(&mut store, 0..rounds);
            refused += rounds - acknowledged.len();
            assert_eq!(acknowledged.len() == rounds, limit >= full - last as u64, "at {limit} of {full}");
            // What the file says at this moment is what a daemon that is killed now finds.
            let read = replay(&fs::read(folder.join(NAME)).unwrap_or_default());
            assert!(read.findings.is_clean(), "at {limit}: {:?}", read.findings);
            assert_eq!(orders_of(&read.state), orders_of(&state_of(&acknowledged)), "at {limit}");
            limit_files(u64::MAX);
            // With room again everything is caught up with.
            let more = live(&mut store, rounds..rounds + 2);
            assert_eq!(more.len(), 2, "at {limit}");
            store.sync().unwrap();
            let state = store.state().clone();
            drop(store);
            let read = replay(&fs::read(folder.join(NAME)).unwrap());
            assert!(read.findings.is_clean());
            assert_eq!(read.state, state, "at {limit}");
            assert_eq!(orders_of(&state), orders_of(&state_of(&[acknowledged, more].concat())));
            fs::remove_dir_all(folder).unwrap();
        }
        assert!(refused > 0);
    });
}

#[test]
fn a_full_file_system_refuses_orders_compacts_nothing_and_heals() {
    on_disk("320k", |disk| {
        // Room for one journal, not for its successor beside it.
        let folder = disk.join("state");
        let mut store = open(&folder);
        let mut acknowledged = Vec::new();
        let mut i = 0;
        let refused = loop {
            match store.order(&[order(i)]) {
                Ok(()) => acknowledged.push(order(i)),
                Err(error) => break error.to_string(),
            }
            i += 1;
        };
        assert!(refused.contains("No space left on device"), "{refused}");
        assert!(!folder.join("journal.new").exists(), "half a successor takes no room");
        let read = replay(&fs::read(folder.join(NAME)).unwrap());
        assert_eq!((read.state == state_of(&acknowledged), read.findings.is_clean()), (true, true));
        // A start on the full disk goes on with the old file.
        drop(store);
        let (mut store, findings, trouble) = Store::open(&folder, |_| true).unwrap();
        assert!(findings.is_clean() && trouble.is_none(), "{trouble:?}");
        let _ = store.order(&[order(i)]).unwrap_err();
        assert_eq!(*store.state(), state_of(&acknowledged));
        let tmpfs = Some("tmpfs");
        mount(tmpfs, &disk, tmpfs, MsFlags::MS_REMOUNT, Some("size=4m")).unwrap();
        store.order(&[order(i)]).unwrap();
        acknowledged.push(order(i));
        drop(store);
        assert_eq!(*open(&folder).state(), state_of(&acknowledged));
    });
}
