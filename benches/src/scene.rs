//! A responder with so many names behind one virtual server, made the way the daemon makes it, with times.

use std::{
    fmt::Write as _,
    fs::File,
    io::{BufWriter, Write as _},
    net::Ipv4Addr,
    os::fd::AsRawFd,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use responder_common::load;
use responder_user::{
    compile::{Compiled, name::StaticTypes},
    config,
    decide::{OwnerId, Snapshot},
    model::RecordType,
    publish::writer::Writer,
    worker::Zones,
};

use crate::{
    error::{Error, Result},
    rig::{BPFFS, Rig},
};

/// Address of the responder (RFC 2544).
pub const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 53);
/// First address of the pool.
pub const POOL_FIRST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// Addresses of the pool.
pub const POOL_LEN: u32 = 8;

/// How long each step of loading took.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadTimes {
    /// Reading the file and the list of names.
    pub config: Duration,
    /// Owners, classes, numbers, entries.
    pub compile: Duration,
    /// Loading and verifying the program, making the maps, filling the name table.
    pub open: Duration,
    /// The first decision and its answer sets.
    pub publish: Duration,
}

impl LoadTimes {
    /// All of it.
    pub fn total(&self) -> Duration {
        self.config + self.compile + self.open + self.publish
    }
}

/// A responder that has published its first answers. It is not attached.
pub struct Scene {
    /// How many names.
    pub names: u32,
    /// The configuration in numbers.
    pub compiled: Compiled,
    /// What is known of the services.
    pub snapshot: Snapshot,
    /// Maps and program.
    pub writer: Writer,
    /// Generation of the last plan.
    pub generation: u64,
    /// How long loading took.
    pub times: LoadTimes,
}

impl Scene {
    /// Loads a responder with `host0` to `host<names - 1>`.
    pub fn load(rig: &Rig, names: u32) -> Result<Self> {
        let list = list_of(names)?;
        // The list has no name in any folder, so it goes with the process; the path leads to the open file.
        let path = format!("/proc/self/fd/{}", list.as_raw_fd());
        let text = configuration(&rig.far.name, names, &path);
        let mut times = LoadTimes::default();

        let model = timed(&mut times.config, || config::parse(&text, Path::new("/bench.toml")))?.model;
        let settings = model.settings.clone();
        let compiled = timed(&mut times.compile, || {
            let zones = Zones::load(&model).map_err(|problems| {
                Error::Wrong(problems.first().map(ToString::to_string).unwrap_or_default())
            })?;
            let apexes: Vec<_> = model.zones.iter().map(|zone| zone.apex.clone()).collect();
            let existing = |zone: usize| zones.existing(&apexes[zone]);
            Ok::<_, Error>(Compiled::of(Arc::new(model), &|_| StaticTypes::default(), &|_| None, &existing)?)
        })?;
        let (writer, _) = timed(&mut times.open, || Writer::open(&settings, &compiled, Arc::new(|| ())))?;
        let snapshot = Snapshot::all_up(&compiled.model);
        let mut scene = Self { names, compiled, snapshot, writer, generation: 0, times };
        let begin = Instant::now();
        for owner in 0..scene.compiled.owners.list.len() as u32 {
            scene.publish(&[OwnerId(owner)])?;
        }
        scene.times.publish = begin.elapsed();
        Ok(scene)
    }

    /// Decides for these owners and publishes what differs, as one batch. Returns how many references changed.
    pub fn publish(&mut self, owners: &[OwnerId]) -> Result<usize> {
        self.generation += 1;
        let mut changed = 0;
        for owner in owners {
            for rtype in [RecordType::A, RecordType::Aaaa] {
                let Some(side) = self.compiled.numbering.side(*owner, rtype) else { continue };
                let columns = self.compiled.columns(&self.snapshot, *owner, rtype);
                changed += self.writer.publish(side, &columns.columns, self.generation)?;
            }
        }
        self.writer.world_mut().end_batch(self.generation);
        Ok(changed)
    }

    /// Instructions that the verifier looked at.
    pub fn verified_instructions(&mut self) -> Option<u32> {
        self.writer.program_mut()?.verified_instructions()
    }
}

fn timed<T, E>(time: &mut Duration, step: impl FnOnce() -> std::result::Result<T, E>) -> Result<T>
where
    Error: From<E>,
{
    let begin = Instant::now();
    let result = step();
    *time = begin.elapsed();
    Ok(result?)
}

/// The file of a `[[domain_list]]`.
fn list_of(names: u32) -> Result<File> {
    let write = || -> std::io::Result<File> {
        let mut out = BufWriter::new(tempfile::tempfile()?);
        for number in 0..names {
            writeln!(out, "host{number}.gslb.example.com {}", load::ttl(number))?;
        }
        Ok(out.into_inner()?)
    };
    write().map_err(Error::file("list of names"))
}

fn configuration(interface: &str, names: u32, list: &str) -> String {
    let mut text = format!(
        "[server]\nstate_dir = \"{}\"\n[listen]\naddresses = [\"{SERVER}:53\"]\n\
         [xdp]\ninterfaces = [\"{interface}\"]\nmode = \"native\"\npin_path = \"{BPFFS}/{names}\"\n\
         [[zone]]\nname = \"gslb.example.com\"\n\
         soa = {{ mname = \"ns1.gslb.example.com\", rname = \"hostmaster.gslb.example.com\" }}\n\
         ns = [\"ns1.gslb.example.com\"]\n",
        std::env::temp_dir().join("responder-bench").display()
    );
    let mut services = Vec::new();
    for i in 0..POOL_LEN {
        let address = Ipv4Addr::from_bits(POOL_FIRST.to_bits() + i);
        // Writing to a string cannot fail.
        let _ = write!(text, "[[service]]\nname = \"s{i}\"\naddress = \"{address}\"\nport = 80\n");
        services.push(format!("\"s{i}\""));
    }
    let _ = write!(
        text,
        "[[vserver]]\nname = \"pool\"\nmethod = \"round-robin\"\nservices = [{}]\n\
         [[domain_list]]\nfile = \"{list}\"\nvserver = \"pool\"\n",
        services.join(", ")
    );
    text
}
