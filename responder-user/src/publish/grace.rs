//! Waiting until nobody can hold what no word leads to any more.
//!
//! The kernel returns from an update of a map-in-map only when every running program is done (since 1ae80cf31938;
//! measured 10 to 100 ms). Workers that read the same memory are waited for by a function that the caller gives. The
//! wait runs on a thread of its own: it is never on the way to a new answer.

#![expect(unsafe_code, reason = "three bpf(2) commands that aya does not offer")]

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    thread,
    time::Duration,
};

use crossbeam::channel::{Receiver, Sender, unbounded};
use nix::libc;

use super::PublishError;

const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_MAP_TYPE_ARRAY_OF_MAPS: u32 = 12;

/// The head of `union bpf_attr` for BPF_MAP_CREATE.
#[repr(C)]
struct CreateAttr {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
}

/// The head of `union bpf_attr` for BPF_MAP_UPDATE_ELEM.
#[repr(C)]
struct UpdateAttr {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

fn bpf<T>(command: libc::c_long, attr: &mut T) -> io::Result<i32> {
    // SAFETY: the attribute is a live, initialised struct whose size is given; unknown trailing fields are zero for
    // the kernel.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attr, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

fn create(map_type: u32, inner: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let mut attr = CreateAttr {
        map_type,
        key_size: 4,
        value_size: 4,
        max_entries: 1,
        map_flags: 0,
        inner_map_fd: inner.map_or(0, |fd| fd.as_raw_fd() as u32),
    };
    let fd = bpf(BPF_MAP_CREATE, &mut attr)?;
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A map-in-map whose only use is that updating it waits for running programs.
pub struct KernelGrace {
    outer: OwnedFd,
    inner: OwnedFd,
}

impl KernelGrace {
    /// Makes the two maps. Needs CAP_BPF.
    pub fn new() -> Result<Self, PublishError> {
        let failed =
            |source| PublishError::Bpf { call: "BPF_MAP_CREATE", object: "grace".to_owned(), source };
        let inner = create(BPF_MAP_TYPE_ARRAY, None).map_err(failed)?;
        let outer = create(BPF_MAP_TYPE_ARRAY_OF_MAPS, Some(&inner)).map_err(failed)?;
        Ok(Self { outer, inner })
    }

    /// Returns when every program that ran at the time of the call is done.
    pub fn wait(&self) -> Result<(), PublishError> {
        let (key, value) = (0_u32, self.inner.as_raw_fd());
        let mut attr = UpdateAttr {
            map_fd: self.outer.as_raw_fd() as u32,
            padding: 0,
            key: (&raw const key) as u64,
            value: (&raw const value) as u64,
            flags: 0,
        };
        bpf(BPF_MAP_UPDATE_ELEM, &mut attr).map_err(|source| PublishError::Bpf {
            call: "BPF_MAP_UPDATE_ELEM",
            object: "grace".to_owned(),
            source,
        })?;
        Ok(())
    }
}

/// Slots that no word leads to any more.
#[derive(Debug, Default)]
pub struct Retired {
    /// Of NAMES.
    pub names: Vec<u32>,
    /// Of ANSWERS.
    pub answers: Vec<u32>,
    /// How many batches these are; the thread joins those that wait for the same moment.
    batches: usize,
}

impl Retired {
    /// True if there is nothing to give back.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.answers.is_empty()
    }

    fn join(&mut self, other: Self) {
        self.names.extend(other.names);
        self.answers.extend(other.answers);
        self.batches += other.batches;
    }
}

/// Gives retired slots back after the wait.
pub struct Reclaimer {
    send: Sender<Retired>,
    done: Receiver<Retired>,
    outstanding: usize,
}

/// A wait longer than this is a fault of the system; the writer then says that the table is full.
const PATIENCE: Duration = Duration::from_secs(5);

impl Reclaimer {
    /// Starts the thread. `wait` returns when no reader that was there at its call is left; an error from it leaks the
    /// slots, loudly, because reusing them would be worse.
    pub fn start(wait: impl Fn() -> Result<(), PublishError> + Send + 'static) -> Result<Self, PublishError> {
        let (send, work) = unbounded::<Retired>();
        let (give_back, done) = unbounded();
        thread::Builder::new()
            .name("reclaim".to_owned())
            .spawn(move || {
                while let Ok(mut retired) = work.recv() {
                    work.try_iter().for_each(|more| retired.join(more));
                    if let Err(error) = wait() {
                        tracing::error!(%error, "cannot wait for readers: retired slots are lost until restart");
                        retired = Retired { batches: retired.batches, ..Retired::default() };
                    }
                    if give_back.send(retired).is_err() {
                        return;
                    }
                }
            })
            .map_err(|source| PublishError::Bpf { call: "thread", object: "reclaim".to_owned(), source })?;
        Ok(Self { send, done, outstanding: 0 })
    }

    /// Hands slots over.
    pub fn retire(&mut self, mut retired: Retired) {
        retired.batches = 1;
        if !retired.is_empty() && self.send.send(retired).is_ok() {
            self.outstanding += 1;
        }
    }

    /// What has come back, without waiting.
    pub fn collect(&mut self) -> Option<Retired> {
        let back = self.done.try_recv().ok()?;
        self.outstanding -= back.batches;
        Some(back)
    }

    /// Waits for the next batch; None when none is under way.
    pub fn collect_blocking(&mut self) -> Option<Retired> {
        if self.outstanding == 0 {
            return None;
        }
        let back = self.done.recv_timeout(PATIENCE).ok()?;
        self.outstanding -= back.batches;
        Some(back)
    }
}
