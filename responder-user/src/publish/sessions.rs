//! Sessions of clients as workers and commands reach them: the kernel's table, or one of this process where there is no
//! XDP.

use std::sync::{Mutex, PoisonError};

use aya::maps::{HashMap, Map, MapData};
use nix::time::{ClockId, clock_gettime};
use quick_cache::sync::Cache;
use responder_common::session::{Key, Session, Store};

use super::PublishError;
use crate::compile::session::Holds;

/// Writers of the kernel's table that do not wait for each other: one for each worker, up to so many.
const WRITERS: usize = 16;

/// Only where there is no element (bpf_map_update_elem).
const NOEXIST: u64 = 1;

#[derive(Clone, Copy)]
#[repr(transparent)]
struct KeyOf(Key);

#[derive(Clone, Copy)]
#[repr(transparent)]
struct SessionOf(Session);

#[expect(unsafe_code, reason = "aya's marker for map keys")]
// SAFETY: `Key` is bytemuck Pod: no padding, every bit pattern valid.
unsafe impl aya::Pod for KeyOf {}

#[expect(unsafe_code, reason = "aya's marker for map values")]
// SAFETY: `Session` is bytemuck Pod: no padding, every bit pattern valid.
unsafe impl aya::Pod for SessionOf {}

/// A handle of the kernel's table.
type Handle = HashMap<MapData, KeyOf, SessionOf>;

/// All sessions.
pub struct Sessions(Kind);

enum Kind {
    Kernel { reader: Box<Handle>, writers: Vec<Mutex<Handle>> },
    Memory(Cache<Key, Session>),
}

impl Sessions {
    /// Room for so many in this process; the ones that were not used for longest go first.
    pub fn plain(capacity: u32) -> Self {
        Self(Kind::Memory(Cache::new(capacity as usize)))
    }

    /// The kernel's table.
    pub fn of_map(data: &MapData) -> Result<Self, PublishError> {
        let failed = |e: &dyn std::error::Error| PublishError::Program(format!("map SESSIONS: {e}"));
        let handle = || -> Result<Handle, PublishError> {
            use std::os::fd::AsFd;
            let fd = data.fd().as_fd().try_clone_to_owned().map_err(|e| failed(&e))?;
            let data = MapData::from_fd(fd).map_err(|e| failed(&e))?;
            Handle::try_from(Map::LruHashMap(data)).map_err(|e| failed(&e))
        };
        let writers = (0..WRITERS).map(|_| handle().map(Mutex::new)).collect::<Result<_, _>>()?;
        Ok(Self(Kind::Kernel { reader: Box::new(handle()?), writers }))
    }

    /// Every session that is whole, in no order. Those that come and go meanwhile may be missing.
    pub fn all(&self) -> Vec<(Key, Session)> {
        let whole = |(key, session): &(Key, Session)| session.is_of(key);
        match &self.0 {
            Kind::Kernel { reader, .. } => {
                let all = reader.iter().filter_map(Result::ok);
                all.map(|(key, session)| (key.0, session.0)).filter(whole).collect()
            }
            Kind::Memory(cache) => cache.iter().filter(whole).collect(),
        }
    }

    /// Removes these. Returns how many were there.
    pub fn remove<'k>(&self, keys: impl Iterator<Item = &'k Key>) -> usize {
        keys.filter(|key| match &self.0 {
            Kind::Kernel { writers, .. } => {
                writers.first().is_some_and(|writer| lock(writer).remove(&KeyOf(**key)).is_ok())
            }
            Kind::Memory(cache) => cache.remove(*key).is_some(),
        })
        .count()
    }

    /// Removes what has ended.
    pub fn sweep(&self, holds: &Holds) -> usize {
        let now = self.now();
        let all = self.all();
        self.remove(all.iter().filter(|(key, session)| !holds.lives(key, session, now)).map(|(key, _)| key))
    }

    /// Puts in what another world has and this one has not.
    pub fn take_over(&self, from: &Self) {
        for (key, session) in from.all() {
            self.insert(&key, &session);
        }
    }

    fn put(&self, key: &Key, session: &Session, flags: u64) -> bool {
        let Kind::Kernel { writers, .. } = &self.0 else { return false };
        let Some(writer) = writers.get(super::world::reader_index() % WRITERS) else { return false };
        lock(writer).insert(KeyOf(*key), SessionOf(*session), flags).is_ok()
    }
}

fn lock(writer: &Mutex<Handle>) -> std::sync::MutexGuard<'_, Handle> {
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store for Sessions {
    fn now(&self) -> u64 {
        // The clock of the kernel program.
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE);
        now.map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
    }

    fn get(&self, key: &Key) -> Option<Session> {
        match &self.0 {
            Kind::Kernel { reader, .. } => reader.get(&KeyOf(*key), 0).ok().map(|session| session.0),
            Kind::Memory(cache) => cache.get(key),
        }
    }

    fn insert(&self, key: &Key, session: &Session) -> bool {
        match &self.0 {
            Kind::Kernel { .. } => self.put(key, session, NOEXIST),
            Kind::Memory(cache) => {
                let mut is_new = false;
                let there = cache.get_or_insert_with(key, || {
                    is_new = true;
                    Ok::<_, std::convert::Infallible>(*session)
                });
                // Whoever comes second may be told before it stands there; who looks again must find it.
                let mut tries = 0;
                while !is_new && cache.get(key).is_none() && tries < 1000 {
                    std::thread::yield_now();
                    tries += 1;
                }
                is_new && there.is_ok()
            }
        }
    }

    fn replace(&self, key: &Key, session: &Session) {
        match &self.0 {
            Kind::Kernel { .. } => drop(self.put(key, session, 0)),
            Kind::Memory(cache) => cache.insert(*key, *session),
        }
    }
}

/// Somebody who only looks: no session begins, ends or lives longer.
pub struct Looking<'s>(pub &'s Sessions);

impl Store for Looking<'_> {
    fn now(&self) -> u64 {
        self.0.now()
    }

    fn get(&self, key: &Key) -> Option<Session> {
        self.0.get(key)
    }

    fn insert(&self, _key: &Key, _session: &Session) -> bool {
        true
    }

    fn replace(&self, _key: &Key, _session: &Session) {}
}
