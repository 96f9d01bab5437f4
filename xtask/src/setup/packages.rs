//! Debian packages: which are missing, and installing them without touching anything else.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::machine;
use crate::command;
use crate::error::{Error, Result};

/// A Debian package that we use.
pub struct Package {
    /// Its name.
    pub name: &'static str,
    /// The program, or the path of another file, that shows that it is there, whoever installed it.
    pub program: &'static str,
    /// What we use it for.
    pub why: &'static str,
}

/// What the tests and the demo talk to the responder with.
pub const TEST_TOOLS: [Package; 13] = [
    Package { name: "iproute2", program: "ip", why: "network namespaces and veth pairs of the tests" },
    Package { name: "bind9-dnsutils", program: "dig", why: "real queries, one at a time" },
    Package {
        name: "knot-dnsutils",
        program: "kdig",
        why: "real queries from a second implementation, kxdpgun load",
    },
    Package { name: "dnsperf", program: "dnsperf", why: "query load of the demo and the tests" },
    Package { name: "bpftool", program: "bpftool", why: "looks at loaded programs and pinned maps" },
    Package { name: "tcpdump", program: "tcpdump", why: "reads what `responderctl capture` writes" },
    Package { name: "e2fsprogs", program: "mkfs.ext4", why: "disks of the tests that hang" },
    Package { name: "tshark", program: "tshark", why: "reads the same, and says what is malformed" },
    Package {
        name: "python3-dnspython",
        program: "/usr/lib/python3/dist-packages/dns/version.py",
        why: "a second reader of replies",
    },
    Package { name: "ethtool", program: "ethtool", why: "switches offloads of the test interfaces" },
    Package { name: "nginx-light", program: "nginx", why: "real HTTP endpoints for health checks" },
    Package { name: "knot", program: "knotd", why: "answers of another name server to compare ours with" },
    Package { name: "gdnsd", program: "gdnsd", why: "another GSLB name server, asked the same questions" },
];

/// What the fuzz targets are built with.
pub const FUZZ_TOOLS: [Package; 1] = [Package { name: "g++", program: "c++", why: "compiles libFuzzer" }];

/// Packages that bring a service, with its name.
const SERVICES: [(&str, &str); 3] = [("nginx-light", "nginx"), ("knot", "knot"), ("gdnsd", "gdnsd")];

/// Asked by Debian's packages before they start a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// An answer to them: no.
const START_NOTHING: &str =
    "#!/bin/sh\n# Put here by `cargo xtask setup` while it installs packages.\nexit 101\n";

/// Installs those of `packages` whose program is not there.
pub fn install(packages: &[Package]) -> Result {
    let missing: Vec<&Package> =
        packages.iter().filter(|package| command::find(package.program).is_none()).collect();
    for package in &missing {
        println!("setup: installing {} ({})", package.name, package.why);
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    install_named(&names)?;
    let brought = SERVICES.iter().filter(|(package, _)| names.contains(package));
    for (_, service) in brought.filter(|_| Path::new("/run/systemd/system").exists()) {
        // The tests start servers of their own; the machine shall not begin to serve anything at the next boot.
        command::quiet(command::plain("systemctl").args(["disable", service]))?;
    }
    Ok(())
}

/// Installs Debian packages by name; refuses where that would remove others.
pub fn install_named(names: &[&str]) -> Result {
    if names.is_empty() {
        return Ok(());
    }
    let wanted = names.join(" ");
    if command::find("apt-get").is_none() {
        return Err(Error::missing(
            format!("{wanted}: not installed, and this is not a Debian system (no apt-get)"),
            "install the same programs with the package manager of this system, then run this again",
        ));
    }
    machine::need_root(&format!("installing {wanted}"))?;
    if let Err(error) = command::quiet(apt().arg("update")) {
        // Often a source that has nothing to do with us; the lists of before may do.
        eprintln!("setup: going on with old package lists: {error}");
    }
    let plan = command::quiet(apt().args(["--simulate", "install"]).args(names))?;
    refuse_removals(&wanted, &plan)?;
    let _policy = NoServices::begin()?;
    command::quiet(apt().arg("install").args(names))?;
    Ok(())
}

/// Stops where apt would remove packages (`rustc-web` and Debian's `rustc` or `rustup` exclude each other).
fn refuse_removals(wanted: &str, plan: &str) -> Result {
    let removed: Vec<&str> =
        plan.lines().filter_map(|line| line.strip_prefix("Remv ")?.split_whitespace().next()).collect();
    if removed.is_empty() {
        return Ok(());
    }
    let removed = removed.join(" ");
    Err(Error::missing(
        format!("installing {wanted} would make apt remove {removed}"),
        format!(
            "apt-get remove {removed} if nothing needs it; or, for the eBPF toolchain, a nightly with sources: \
             rustup toolchain install nightly --component rust-src"
        ),
    ))
}

/// apt-get that asks nothing and installs no recommended packages.
fn apt() -> Command {
    let mut apt = command::plain("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive").args(["--quiet", "--yes", "--no-install-recommends"]);
    // Another apt-get (the daily one of a fresh machine) may be at work: wait for it.
    apt.args(["-o", "DPkg::Lock::Timeout=300"]);
    apt
}

/// While it lives, packages start no services. A machine that has a policy of its own keeps it.
struct NoServices(Option<PathBuf>);

impl NoServices {
    fn begin() -> Result<Self> {
        let path = Path::new(POLICY);
        // One of ours is left over from a run that was killed.
        if path.exists() && !std::fs::read_to_string(path).is_ok_and(|text| text == START_NOTHING) {
            return Ok(Self(None));
        }
        std::fs::write(path, START_NOTHING).map_err(|source| Error::file(path, source))?;
        command::quiet(command::plain("chmod").arg("755").arg(path))?;
        Ok(Self(Some(path.to_owned())))
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        let Some(path) = &self.0 else { return };
        if let Err(error) = std::fs::remove_file(path) {
            eprintln!("xtask: remove {} by hand: {error}", path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::refuse_removals;

    #[test]
    fn a_plan_that_only_installs_is_accepted() {
        let plan = "Inst rustc-web (1.96.0)\nConf rustc-web (1.96.0)\n";
        assert!(refuse_removals("rustc-web", plan).is_ok());
    }

    #[test]
    fn a_plan_that_removes_packages_is_refused_with_their_names() {
        let plan = "Remv cargo [0.66]\nRemv rustc [1.63]\nInst rustc-web (1.96.0)\n";
        let said = refuse_removals("rustc-web", plan).map_err(|error| error.to_string());
        assert!(said.is_err_and(|text| text.contains("apt remove cargo rustc")));
    }
}
