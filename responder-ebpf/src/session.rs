//! Sessions in the kernel's table.

use aya_ebpf::helpers::{
    bpf_ktime_get_coarse_ns,
    generated::{bpf_map_lookup_elem, bpf_map_update_elem},
};
use responder_common::{
    layout::PerCpu,
    session::{Key, Session, Store},
};

use crate::maps;

/// Flags of bpf_map_update_elem: only where there is no element, and wherever.
const NOEXIST: u64 = 1;
const ANY: u64 = 0;

/// The kernel's table, with room for what goes into it.
pub struct Table {
    room: *mut (Key, Session),
}

impl Table {
    /// None: this CPU has no memory, which cannot be.
    #[inline(always)]
    pub fn open() -> Option<Self> {
        let cpu: *mut PerCpu = maps::PER_CPU.get_ptr_mut(0)?;
        // SAFETY: the address of words of this CPU's own element.
        Some(Self { room: unsafe { (&raw mut (*cpu).session).cast() } })
    }

    #[inline(always)]
    fn put(&self, key: &Key, session: &Session, flags: u64) -> bool {
        // SAFETY:
        // - the room is this CPU's own, and holds a key and a session, which the layout asserts;
        // - the map has a key and a value of these types.
        unsafe {
            (*self.room).0 = *key;
            (*self.room).1 = *session;
            bpf_map_update_elem(
                (&raw const maps::SESSIONS).cast_mut().cast(),
                (&raw const (*self.room).0).cast(),
                (&raw const (*self.room).1).cast(),
                flags,
            ) == 0
        }
    }
}

impl Store for Table {
    #[inline(always)]
    fn now(&self) -> u64 {
        // SAFETY: a helper without arguments.
        unsafe { bpf_ktime_get_coarse_ns() }
    }

    #[inline(always)]
    fn get(&self, key: &Key) -> Option<Session> {
        // SAFETY:
        // - as in `put`;
        // - the words are read once each; that they belong together is what their check is for.
        unsafe {
            (*self.room).0 = *key;
            let found: *const Session = bpf_map_lookup_elem(
                (&raw const maps::SESSIONS).cast_mut().cast(),
                (&raw const (*self.room).0).cast(),
            )
            .cast();
            if found.is_null() { None } else { Some(found.read_volatile()) }
        }
    }

    #[inline(always)]
    fn insert(&self, key: &Key, session: &Session) -> bool {
        self.put(key, session, NOEXIST)
    }

    #[inline(always)]
    fn replace(&self, key: &Key, session: &Session) {
        self.put(key, session, ANY);
    }
}
