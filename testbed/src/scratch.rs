//! A folder of one run, and the place of its pins.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use super::{Result, TestbedError};

/// Where the BPF file system is mounted.
const BPFFS: &str = "/sys/fs/bpf";

/// Shows that the folder has an owner: locked while the owner lives. A folder without it was kept on purpose.
const LOCK: &str = "owner";

/// A folder in the temporary folder, and a folder of the same name for pins; both go with it.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    pins: PathBuf,
    is_kept: bool,
    /// Locked as long as it is open, that is for our life.
    _owner: File,
}

impl Scratch {
    /// Makes the folder `responder-<purpose>-<random>`, and removes those of owners that were killed.
    pub fn new(purpose: &str) -> Result<Self> {
        let prefix = format!("responder-{purpose}-");
        sweep(&prefix);
        let made = tempfile::Builder::new().prefix(&prefix).tempdir();
        let folder = made.map_err(TestbedError::system("make a temporary folder"))?.keep();
        let owner = own(&folder).map_err(TestbedError::system(format!("lock {}", folder.display())))?;
        Ok(Self { pins: pins_of(&folder), folder, is_kept: false, _owner: owner })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A file in the folder.
    pub fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.join(name)
    }

    /// A path on the BPF file system, for `xdp.pin_path`. Nobody has made it yet.
    pub fn pins(&self) -> &Path {
        &self.pins
    }

    /// Leaves the folder (not the pins) behind, for somebody to look at.
    pub fn keep(&mut self) {
        self.is_kept = true;
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Removing may find nothing, and there is nobody to tell what else it may find.
        let _ = fs::remove_dir_all(&self.pins);
        let _ = if self.is_kept {
            fs::remove_file(self.folder.join(LOCK))
        } else {
            fs::remove_dir_all(&self.folder)
        };
    }
}

fn pins_of(folder: &Path) -> PathBuf {
    Path::new(BPFFS).join(folder.file_name().unwrap_or_default())
}

/// Makes the lock file. It gets its name when it is locked: nobody ever sees it unlocked while we live.
fn own(folder: &Path) -> io::Result<File> {
    let unready = folder.join("owner.new");
    let file = File::create(&unready)?;
    file.lock()?;
    fs::rename(unready, folder.join(LOCK))?;
    Ok(file)
}

/// Removes what killed owners left.
fn sweep(prefix: &str) {
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let folder = entry.path();
        if entry.file_name().to_string_lossy().starts_with(prefix) && is_orphan(&folder) {
            // Another sweep may be faster.
            let _ = fs::remove_dir_all(pins_of(&folder));
            let _ = fs::remove_dir_all(&folder);
        }
    }
}

fn is_orphan(folder: &Path) -> bool {
    File::open(folder.join(LOCK)).is_ok_and(|file| match file.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_owner_and_a_dead_owners_folder_with_the_next() {
        let first = Scratch::new("testbed").expect("a folder");
        let folder = first.folder().to_owned();
        let second = Scratch::new("testbed").expect("another folder");
        assert!(folder.exists(), "the owner lives");
        // As if the owner had been killed: the lock goes, the folder stays.
        let orphan = std::env::temp_dir().join("responder-testbed-orphan");
        fs::create_dir_all(&orphan).expect("a folder");
        fs::write(orphan.join(LOCK), "").expect("a file");
        let third = Scratch::new("testbed").expect("a third folder");
        assert!(!orphan.exists() && folder.exists());
        drop((first, second, third));
        assert!(!folder.exists());
    }

    #[test]
    fn what_is_kept_is_swept_by_nobody() {
        let mut scratch = Scratch::new("testbed-kept").expect("a folder");
        scratch.keep();
        let folder = scratch.folder().to_owned();
        drop(scratch);
        drop(Scratch::new("testbed-kept").expect("another folder"));
        assert!(folder.exists());
        fs::remove_dir_all(folder).expect("it is there");
    }
}
