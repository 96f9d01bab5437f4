//! Where the kernel objects are pinned, so that they outlive the daemon.
//!
//! ```text
//! <pin_path>/v3/PER_CPU              counters, shared by all worlds
//! <pin_path>/v3/link-<interface>     removing this file takes the program off the interface
//! <pin_path>/v3/world-<n>/<MAP>      the maps of one world
//! <pin_path>/v3/world-<n>/program-*  the program over them, by the hash of the object that it came from
//! ```

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use nix::sys::statfs::{BPF_FS_MAGIC, statfs};
use responder_common::layout::LAYOUT_VERSION;

use super::PublishError;

/// Maps of a world.
pub const WORLD_MAPS: [&str; 14] = [
    "CONTROL",
    "BUCKETS",
    "NAMES",
    "NAME_TAILS",
    "REFERENCES",
    "ANSWERS",
    "SOAS",
    "CLASS4",
    "CLASS4_SPLIT",
    "CLASS6",
    "SCOPE4",
    "SCOPE4_SPLIT",
    "SCOPE6",
    "TURNS",
];

/// Map that all worlds share.
pub const SHARED_MAP: &str = "PER_CPU";

/// Begins the names of programs' pins.
const PROGRAM_PREFIX: &str = "program-";

/// The folder of this layout version.
#[derive(Clone, Debug)]
pub struct Pins {
    folder: PathBuf,
}

impl Pins {
    /// Makes the folder, readable by this user alone: who can write the maps owns every answer.
    pub fn open(pin_path: &Path) -> Result<Self, PublishError> {
        let folder = pin_path.join(format!("v{LAYOUT_VERSION}"));
        let mut above = pin_path;
        while !above.exists() {
            above = above.parent().unwrap_or(Path::new("/"));
        }
        let is_bpffs = statfs(above).is_ok_and(|s| s.filesystem_type() == BPF_FS_MAGIC);
        if !is_bpffs {
            return Err(PublishError::NotBpffs { path: pin_path.to_owned() });
        }
        make(&folder)?;
        Ok(Self { folder })
    }

    /// Pin of the counters.
    pub fn shared(&self) -> PathBuf {
        self.folder.join(SHARED_MAP)
    }

    /// Pin of the link on an interface. Interface names may hold dots, which a BPF file system does not take.
    pub fn link(&self, interface: &str) -> PathBuf {
        self.folder.join(format!("link-{}", interface.replace('.', "%")))
    }

    /// Pin of a map.
    pub fn map(&self, world: u32, map: &str) -> PathBuf {
        self.world(world).join(map)
    }

    /// Pin of the program that an object with this hash gave.
    pub fn program(&self, world: u32, object: u64) -> PathBuf {
        self.world(world).join(format!("{PROGRAM_PREFIX}{object:016x}"))
    }

    /// Removes the pins of programs from other objects.
    pub fn remove_other_programs(&self, world: u32, object: u64) -> Result<(), PublishError> {
        let own = self.program(world, object);
        for entry in fs::read_dir(self.world(world)).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(PROGRAM_PREFIX) && entry.path() != own {
                remove_file(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Keeps other daemons away from the pins, as long as the file is open.
    pub fn lock(&self) -> Result<File, PublishError> {
        let failed = |source| PublishError::Pin { path: self.folder.clone(), source };
        let folder = File::open(&self.folder).map_err(failed)?;
        match folder.try_lock() {
            Ok(()) => Ok(folder),
            Err(TryLockError::WouldBlock) => Err(PublishError::InUse { path: self.folder.clone() }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    fn world(&self, world: u32) -> PathBuf {
        self.folder.join(format!("world-{world}"))
    }

    /// Numbers of the worlds that are there, whole or not.
    pub fn worlds(&self) -> Vec<u32> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let number = |name: String| name.strip_prefix("world-")?.parse().ok();
        let mut out: Vec<u32> = entries.filter_map(|e| number(e.file_name().into_string().ok()?)).collect();
        out.sort_unstable();
        out
    }

    /// Interfaces with a link of ours.
    pub fn linked(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries
            .filter_map(|e| Some(e.file_name().into_string().ok()?.strip_prefix("link-")?.replace('%', ".")))
            .collect()
    }

    /// Makes the folder of a new world.
    pub fn make_world(&self) -> Result<u32, PublishError> {
        let world = self.worlds().last().map_or(0, |last| last + 1);
        make(&self.world(world))?;
        Ok(world)
    }

    /// Removes the pins of a world.
    pub fn remove_world(&self, world: u32) -> Result<(), PublishError> {
        remove_all(&self.world(world))
    }

    /// Removes everything: the program leaves its interfaces.
    pub fn remove(&self) -> Result<(), PublishError> {
        // Links first: a program without its maps' pins still answers, a half-removed folder must not hold a link.
        for interface in self.linked() {
            remove_file(&self.link(&interface))?;
        }
        remove_all(&self.folder)?;
        if let Some(parent) = self.folder.parent() {
            // Another layout version may still be there.
            let _ = fs::remove_dir(parent);
        }
        Ok(())
    }
}

fn make(folder: &Path) -> Result<(), PublishError> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|source| PublishError::Pin { path: folder.to_owned(), source })
}

/// Removes a pin that may be gone already.
pub fn remove_file(path: &Path) -> Result<(), PublishError> {
    gone(fs::remove_file(path), path)
}

fn remove_all(folder: &Path) -> Result<(), PublishError> {
    gone(fs::remove_dir_all(folder), folder)
}

fn gone(result: io::Result<()>, path: &Path) -> Result<(), PublishError> {
    match result {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(PublishError::Pin { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}
