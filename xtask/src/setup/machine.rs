//! Root and the kernel: what cannot be installed is found out by trying.

use std::path::{Path, PathBuf};

use super::toolchain::Toolchain;
use crate::command;
use crate::error::{Error, Result};

/// The oldest kernel with everything that the XDP program uses.
const OLDEST_KERNEL: (u32, u32) = (6, 1);

/// Where maps and links are pinned.
const BPFFS: &str = "/sys/fs/bpf";

/// Stops without root.
pub fn need_root(what_for: &str) -> Result {
    // The user is the owner of our own folder in /proc, whatever the environment says.
    let user = std::os::unix::fs::MetadataExt::uid(&metadata("/proc/self")?);
    if user == 0 {
        return Ok(());
    }
    Err(Error::missing(
        format!("root is needed for {what_for}"),
        "run the same command as root (sudo --preserve-env=PATH cargo xtask ...)",
    ))
}

/// Root, kernel version, BPF JIT, network namespaces with veth.
pub fn check_kernel() -> Result {
    need_root("loading XDP programs and making network namespaces")?;
    check_version()?;
    check_jit()?;
    try_veth()
}

/// The kernel is new enough.
fn check_version() -> Result {
    let release = read("/proc/sys/kernel/osrelease")?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|digits| digits.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= OLDEST_KERNEL {
        return Ok(());
    }
    let (major, minor) = OLDEST_KERNEL;
    Err(Error::missing(
        format!("Linux {major}.{minor} or newer is needed, this is {}", release.trim()),
        "boot a newer kernel (Debian 12 and later have one)",
    ))
}

/// The BPF JIT is on. A kernel built with CONFIG_BPF_JIT_ALWAYS_ON has no switch that reads 0.
fn check_jit() -> Result {
    let switch = Path::new("/proc/sys/net/core/bpf_jit_enable");
    if !switch.exists() {
        return Err(Error::missing(
            "this kernel has no BPF JIT",
            "boot a kernel with CONFIG_BPF_JIT=y (every distribution's kernel has it)",
        ));
    }
    if read(switch)?.trim() == "0" {
        return Err(Error::missing("the BPF JIT is off", "sysctl -w net.core.bpf_jit_enable=1"));
    }
    Ok(())
}

/// A network namespace with a veth pair can be made.
fn try_veth() -> Result {
    let made = in_namespace("ip link add probe0 type veth peer name probe1");
    made.map_err(|error| {
        Error::missing(
            format!("cannot make a network namespace with a veth pair: {error}"),
            "a kernel with CONFIG_NET_NS and CONFIG_VETH, and CAP_SYS_ADMIN (containers: --privileged)",
        )
    })
}

/// The kernel loads and attaches what the toolchain makes, in the driver.
pub fn try_xdp(toolchain: &Toolchain) -> Result {
    let object = toolchain.probe();
    let attached = in_namespace(&format!(
        "ip link add probe0 type veth peer name probe1 && ip link set dev probe0 xdpdrv object '{}' section xdp",
        object.display()
    ));
    attached.map_err(|error| {
        Error::missing(
            format!("this kernel does not take an XDP program on a veth interface: {error}"),
            "a kernel with CONFIG_BPF_SYSCALL and CONFIG_XDP_SOCKETS, and CAP_BPF (containers: --privileged)",
        )
    })
}

/// Mounts the BPF file system where it is not mounted.
pub fn mount_bpffs() -> Result {
    let mounted = read("/proc/self/mounts")?
        .lines()
        .any(|line| line.split_whitespace().skip(1).take(2).eq([BPFFS, "bpf"]));
    if mounted {
        return Ok(());
    }
    println!("setup: mounting the BPF file system at {BPFFS} (maps and links are pinned there)");
    need_root("mounting the BPF file system")?;
    command::quiet(command::plain("mount").args(["-t", "bpf", "bpf", BPFFS])).map_err(|error| {
        Error::missing(
            format!("the BPF file system cannot be mounted: {error}"),
            "a kernel with CONFIG_BPF_SYSCALL, and CAP_SYS_ADMIN (containers: --privileged)",
        )
    })?;
    Ok(())
}

/// Runs a shell line in a network namespace that ends with it.
fn in_namespace(line: &str) -> Result {
    command::quiet(command::plain("unshare").args(["--net", "sh", "-c", line]))?;
    Ok(())
}

fn read(path: impl Into<PathBuf>) -> Result<String> {
    let path = path.into();
    std::fs::read_to_string(&path).map_err(|source| Error::file(path, source))
}

fn metadata(path: &str) -> Result<std::fs::Metadata> {
    std::fs::metadata(path).map_err(|source| Error::file(path, source))
}
