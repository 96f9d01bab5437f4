//! Where the kernel objects are pinned, so that they outlive the daemon.
//!
//! ```text
//! <pin_path>/v4/<MAP>                counters and samples, shared by all worlds
//! <pin_path>/v4/link-<interface>     removing this file takes the program off the interface
//! <pin_path>/v4/world-<n>/<MAP>      the maps of one world
//! <pin_path>/v4/world-<n>/program-*  the program over them, by the hash of the object that it came from
//! ```

use std::{
    cell::Cell,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use aya::programs::links::{FdLink, PinnedLink};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};
use responder_common::layout::LAYOUT_VERSION;

use super::PublishError;

/// Maps of a world.
pub const WORLD_MAPS: [&str; 19] = [
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
    "RULES",
    "SESSIONS",
    "TURNS",
    "LIMITS",
    "ALLOWED",
    "ZONES",
];

/// Maps that all worlds share.
pub const SHARED_MAPS: [&str; 3] = ["PER_CPU", "SAMPLES", "FILTER"];

/// Begins the names of links' pins.
const LINK_PREFIX: &str = "link-";

/// Folders inside folders of a BPF file system that are looked through for pins.
const DEPTH: u32 = 4;

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

    /// The folders that are there, of any layout version.
    pub fn existing(pin_path: &Path) -> Vec<Self> {
        let entries = fs::read_dir(pin_path).into_iter().flatten().flatten();
        entries.filter_map(|entry| Self::of_folder(&entry.path())).collect()
    }

    /// A folder, if its name is that of a layout version.
    pub fn of_folder(folder: &Path) -> Option<Self> {
        let version = folder.file_name()?.to_str()?.strip_prefix('v')?;
        version.parse::<u32>().ok().map(|_| Self { folder: folder.to_owned() })
    }

    /// True if this daemon can read the maps.
    pub fn is_of_this_layout(&self) -> bool {
        self.folder.file_name().is_some_and(|name| *name == *format!("v{LAYOUT_VERSION}"))
    }

    /// `xdp.pin_path`
    pub fn pin_path(&self) -> &Path {
        self.folder.parent().unwrap_or(&self.folder)
    }

    /// Pin of a map that all worlds share.
    pub fn shared(&self, map: &str) -> PathBuf {
        self.folder.join(map)
    }

    /// Pin of the link on an interface. Interface names may hold dots, which a BPF file system does not take.
    pub fn link(&self, interface: &str) -> PathBuf {
        self.folder.join(format!("{LINK_PREFIX}{}", interface.replace('.', "%")))
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
            .filter_map(|e| {
                Some(e.file_name().into_string().ok()?.strip_prefix(LINK_PREFIX)?.replace('%', "."))
            })
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

    /// Removes everything: the program leaves its interfaces. A daemon does it by [`Held::remove`].
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

/// Pins that no other daemon uses. Where no program is left on an interface, nothing is left of them at the end.
#[derive(Debug)]
pub struct Held {
    pins: Pins,
    is_removed: Cell<bool>,
    /// Locked as long as it is open.
    _folder: File,
}

impl Held {
    /// Makes the folder of this layout version, and keeps other daemons away from it.
    pub fn open(pin_path: &Path) -> Result<Self, PublishError> {
        loop {
            if let Some(held) = Self::try_lock(Pins::open(pin_path)?)? {
                return Ok(held);
            }
        }
    }

    /// Keeps other daemons away from a folder that is there.
    pub fn lock(pins: Pins) -> Result<Self, PublishError> {
        let path = pins.folder.clone();
        Self::try_lock(pins)?.ok_or(PublishError::InUse { path })
    }

    /// None: a daemon that just ended has removed the folder that we opened; the lock keeps nobody away.
    fn try_lock(pins: Pins) -> Result<Option<Self>, PublishError> {
        use std::os::unix::fs::MetadataExt;
        let failed = |source| PublishError::Pin { path: pins.folder.clone(), source };
        let folder = match File::open(&pins.folder) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        match folder.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(PublishError::InUse { path: pins.folder }),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let ours = folder.metadata().map_err(failed)?;
        let is_it = fs::metadata(&pins.folder).is_ok_and(|m| (m.dev(), m.ino()) == (ours.dev(), ours.ino()));
        Ok(is_it.then_some(Self { pins, is_removed: Cell::new(false), _folder: folder }))
    }

    /// The pins.
    pub fn pins(&self) -> &Pins {
        &self.pins
    }

    /// Removes everything: the program leaves its interfaces.
    pub fn remove(&self) -> Result<(), PublishError> {
        // Once: behind us another daemon may make the folder again.
        if self.is_removed.replace(true) { Ok(()) } else { self.pins.remove() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.pins.linked().is_empty()
            && let Err(error) = self.remove()
        {
            tracing::warn!(%error, "cannot remove pins that nobody needs");
        }
    }
}

/// The pins of the daemon that left a program, wherever they stand.
pub fn pins_of(program: u32) -> Option<Pins> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let folders = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let folder = words.nth(1)?;
        (words.next()? == "bpf").then(|| PathBuf::from(folder))
    });
    folders.filter(|f| statfs(f).is_ok_and(|s| s.filesystem_type() == BPF_FS_MAGIC)).find_map(|f| {
        let link = find(&f, program, DEPTH)?;
        Pins::of_folder(link.parent()?)
    })
}

/// The pin of a link that holds a program.
fn find(folder: &Path, program: u32, depth: u32) -> Option<PathBuf> {
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        let found = if kind.is_dir() && depth > 0 {
            find(&path, program, depth - 1)
        } else if kind.is_file() && entry.file_name().to_string_lossy().starts_with(LINK_PREFIX) {
            let link = PinnedLink::from_pin(&path).map(FdLink::from);
            let holds = link.is_ok_and(|link| link.info().is_ok_and(|info| info.program_id() == program));
            holds.then_some(path)
        } else {
            None
        };
        if found.is_some() {
            return found;
        }
    }
    None
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
