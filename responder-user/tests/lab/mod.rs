//! The real object in the kernel, fed with frames by BPF_PROG_TEST_RUN.
//!
//! | file | what |
//! |---|---|
//! | [`frame`] | builds frames in a few words |
//! | [`oracle`], [`message`] | what a frame asks, by code that shares nothing with the product |
//! | [`second`] | the same by hickory-proto |
//! | [`read`] | reads replies, by code that shares nothing with the product |
//! | [`run`] | the system call |
//! | [`world`] | the configuration that the frames meet |
#![allow(dead_code, reason = "every test binary uses its own part")]

pub mod frame;
pub mod message;
pub mod oracle;
pub mod random;
pub mod read;
pub mod run;
pub mod second;
pub mod world;

use std::{
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use aya::{
    maps::{MapData, PerCpuArray, PerCpuValues},
    util::nr_cpus,
};
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::{Pid, geteuid},
};
use responder_common::{cookie::Secrets, counters::Counter, layout::Interface};
use responder_user::{
    compile::Compiled,
    decide::{OwnerId, Snapshot},
    model::{DnsName, Model, settings::OnExit},
    publish::{
        world::Surroundings,
        writer::{Writer, surroundings},
    },
    worker::Zones,
};
use run::Runner;

/// MAC address of the interface under test.
pub const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// The interface that test runs come from: the loopback device.
pub const OUR_IFINDEX: u32 = 1;

/// A loaded and filled world. Dropping it removes everything from the kernel.
pub struct Lab {
    /// The configuration in numbers.
    pub compiled: Compiled,
    writer: Option<Writer>,
    runner: Runner,
    around: Surroundings,
}

/// Panics with the way out where the tests of the kernel cannot run.
pub fn need_root() {
    assert!(geteuid().is_root(), "this test loads an XDP program and needs root: sudo -E cargo xtask test");
}

/// The CPUs that this process may use, as they were before any thread was pinned.
pub fn cpus() -> &'static [usize] {
    static CPUS: OnceLock<Vec<usize>> = OnceLock::new();
    CPUS.get_or_init(|| {
        let all = sched_getaffinity(Pid::this()).expect("sched_getaffinity");
        (0..CpuSet::count()).filter(|cpu| all.is_set(*cpu).unwrap_or(false)).collect()
    })
}

/// Keeps this thread on one CPU, the `nth` of those there are: per-CPU counters stay in step.
pub fn pin_to(nth: usize) {
    let mut set = CpuSet::new();
    set.set(cpus()[nth]).expect("a CPU number below 1024");
    sched_setaffinity(Pid::from_raw(0), &set).expect("sched_setaffinity");
}

/// A folder for pins that nobody else uses.
pub fn pin_path(what: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    PathBuf::from(format!("/sys/fs/bpf/test-{what}-{}-{number}", std::process::id()))
}

impl Lab {
    /// Loads the object over a world of this model, and publishes the decisions of the snapshot. No zone is complete: what
    /// is not in the table passes.
    pub fn open(what: &str, model: Model, snapshot: &dyn Fn(&Model) -> Snapshot) -> Self {
        Self::open_with(what, model, snapshot, &|_, _| None)
    }

    /// The same, with all names of the configured zones.
    pub fn open_complete(what: &str, model: Model, snapshot: &dyn Fn(&Model) -> Snapshot) -> Self {
        Self::open_with(what, model, snapshot, &|model, zone| {
            let zones = Zones::load(model).expect("zones without files");
            zones.existing(&model.zones[zone].apex)
        })
    }

    fn open_with(
        what: &str,
        mut model: Model,
        snapshot: &dyn Fn(&Model) -> Snapshot,
        existing: &dyn Fn(&Model, usize) -> Option<Vec<DnsName>>,
    ) -> Self {
        need_root();
        model.settings.xdp.pin_path = pin_path(what);
        let settings = model.settings.clone();
        let model = Arc::new(model);
        let names = |zone: usize| existing(&model, zone);
        let compiled = Compiled::of(model.clone(), &world::static_types, &|_| None, &names)
            .unwrap_or_else(|error| panic!("{error}"));
        let (mut writer, _) =
            Writer::open(&settings, &compiled, Arc::new(|| ())).unwrap_or_else(|error| panic!("{error}"));
        let mut around = surroundings(&settings).unwrap_or_else(|error| panic!("{error}"));
        around.interfaces[0] = interface(OUR_MAC, OUR_IFINDEX);
        let [current, previous] = world::COOKIE_SECRETS;
        around.cookies = Some(Secrets { current, previous });
        writer.world_mut().surround(&around);
        let program = writer.program_mut().expect("XDP is on").xdp().expect("the program is in the object");
        let runner = Runner::new(program);
        let mut lab = Self { compiled, writer: Some(writer), runner, around };
        lab.publish(&snapshot(&lab.compiled.model), 1);
        lab
    }

    /// Publishes all decisions.
    pub fn publish(&mut self, snapshot: &Snapshot, generation: u64) {
        self.publish_of(0..self.compiled.owners.list.len() as u32, snapshot, generation);
    }

    /// Publishes the decisions of some owners.
    pub fn publish_of(&mut self, owners: std::ops::Range<u32>, snapshot: &Snapshot, generation: u64) {
        let writer = self.writer.as_mut().expect("open");
        for owner in owners {
            for rtype in responder_user::compile::number::SIDES {
                let Some(side) = self.compiled.numbering.side(OwnerId(owner), rtype) else { continue };
                let columns = self.compiled.columns(snapshot, OwnerId(owner), rtype);
                writer.publish(side, &columns.columns, generation).unwrap_or_else(|error| panic!("{error}"));
            }
        }
        writer.world_mut().end_batch(generation);
    }

    /// The writer.
    pub fn writer(&mut self) -> &mut Writer {
        self.writer.as_mut().expect("open")
    }

    /// Runs the program on frames; may be used by several threads.
    pub fn runner(&self) -> &Runner {
        &self.runner
    }

    /// Changes what the control words say beside the table; `None` restores it.
    pub fn surround(&mut self, change: Option<&dyn Fn(&mut Surroundings)>) {
        let mut around = self.around;
        if let Some(change) = change {
            change(&mut around);
        }
        self.writer().world_mut().surround(&around);
    }

    /// Makes the table's names those of `compiled`.
    pub fn reconcile(&mut self) {
        let writer = self.writer.as_mut().expect("open");
        writer.world_mut().reconcile_names(&self.compiled).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Counters of all CPUs.
    pub fn counters(&self) -> Vec<u64> {
        self.writer.as_ref().expect("open").counters()
    }

    /// Counters that differ, by name.
    pub fn risen(before: &[u64], after: &[u64]) -> Vec<(&'static str, u64)> {
        let name = |slot: usize| Counter::ALL.get(slot).map_or("unknown", |counter| counter.name());
        let pairs = before.iter().zip(after).enumerate();
        pairs.filter(|(_, (b, a))| a != b).map(|(slot, (b, a))| (name(slot), a.wrapping_sub(*b))).collect()
    }

    /// Sets every rotation counter to the first turn.
    pub fn rewind(&mut self) {
        let total = self.compiled.numbering.total();
        let cpus = nr_cpus().expect("number of CPUs");
        let map = self.writer().program_mut().expect("XDP is on").map_mut("TURNS").expect("map TURNS");
        let mut turns: PerCpuArray<&mut MapData, u32> = PerCpuArray::try_from(map).expect("map TURNS");
        for index in 0..total {
            let zero = PerCpuValues::try_from(vec![0; cpus]).expect("one value per CPU");
            turns.set(index, zero, 0).expect("map TURNS");
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take()
            && let Err(error) = writer.close(OnExit::Detach)
        {
            eprintln!("pins are left behind: {error}");
        }
    }
}

/// A row of the interface table.
pub fn interface(mac: [u8; 6], ifindex: u32) -> Interface {
    let mut word = [0; 8];
    word[..6].copy_from_slice(&mac);
    Interface { mac: u64::from_ne_bytes(word), ifindex: u64::from(ifindex) }
}
