//! Where the benches run: a veth pair in namespaces that belong to this process alone.
//!
//! The kernel removes network namespace, interfaces, mounts and pins with the process, however it ends: nothing is
//! left behind by Ctrl-C, a panic or kill -9, and nothing of the host is touched.

use std::process::Command;

use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, CpuSet, sched_getaffinity, sched_setaffinity, unshare},
    unistd::Pid,
};
use responder_user::publish::interface::{self, HostInterface};

use crate::error::{Error, Result};

/// The folder of the pins, on a BPF file system of our own.
pub const BPFFS: &str = "/sys/fs/bpf";

/// Two interfaces that are one cable.
pub struct Rig {
    /// The end of the generator.
    pub near: HostInterface,
    /// The end of the program under test.
    pub far: HostInterface,
    /// CPU on which packets are made, answered and counted; everything else runs on the others.
    pub cpu: usize,
}

impl Rig {
    /// Moves this process into its own namespaces and lays the cable. Call it before any thread is started.
    pub fn make() -> Result<Self> {
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)
            .map_err(Error::system("own namespaces (root is needed: sudo cargo xtask bench)"))?;
        let nothing = None::<&str>;
        mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)
            .map_err(Error::system("private mounts"))?;
        mount(Some("bpf"), BPFFS, Some("bpf"), MsFlags::empty(), nothing)
            .map_err(Error::system("mount of a BPF file system"))?;
        let pid = std::process::id();
        let (near, far) = (format!("gen{pid}"), format!("gslb{pid}"));
        // One queue at each end: packets never leave the CPU of the generator (placement S1).
        ip(&format!(
            "link add {near} numrxqueues 1 numtxqueues 1 type veth peer name {far} numrxqueues 1 numtxqueues 1"
        ))?;
        for name in [&near, &far] {
            ip(&format!("link set {name} addrgenmode none"))?;
            ip(&format!("link set {name} up"))?;
        }
        ip("link set lo up")?;
        let cpus = sched_getaffinity(Pid::from_raw(0)).map_err(Error::system("sched_getaffinity"))?;
        let allowed: Vec<usize> =
            (0..CpuSet::count()).filter(|cpu| cpus.is_set(*cpu).unwrap_or(false)).collect();
        let cpu = allowed.last().copied().unwrap_or(0);
        if allowed.len() > 1 {
            pin(&allowed[..allowed.len() - 1])?;
        }
        Ok(Self { near: interface::named(&near)?, far: interface::named(&far)?, cpu })
    }
}

/// Puts the calling thread, and those that it starts from now on, on these CPUs.
pub fn pin(cpus: &[usize]) -> Result {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu).map_err(Error::system("CPU set"))?;
    }
    sched_setaffinity(Pid::from_raw(0), &set).map_err(Error::system("sched_setaffinity"))
}

fn ip(arguments: &str) -> Result {
    let output = Command::new("ip")
        .args(arguments.split_whitespace())
        .output()
        .map_err(Error::file("ip (apt-get install iproute2)"))?;
    if output.status.success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Command { command: format!("ip {arguments}"), output })
}
