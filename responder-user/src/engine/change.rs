//! `set`, `add`, `rm`, `diff`, `save`: the running configuration as a document.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, fchown},
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use super::{Engine, EngineError, Plan};
use crate::{
    config::{
        self, ConfigError,
        draft::{Draft, differences},
    },
    control::{Command, Done, EventKind, Refusal, edit},
    journal::{self, Record},
    model::Model,
};

/// `enabled` of objects that an operator switched, by kind and name; false: of a virtual server.
pub(super) type Withdrawn = Vec<(bool, String, bool)>;

/// A configuration that is to take the place of the running one.
pub(super) struct Changed {
    /// The document.
    pub(super) text: String,
    /// Master files that it names, as the document has their paths. They are written before the document is read.
    pub(super) files: Vec<(PathBuf, String)>,
    /// What will surprise.
    pub(super) warnings: Vec<String>,
}

impl Engine {
    /// `set`, `add`, `rm`.
    pub(super) fn edit(&mut self, command: &Command) -> Result<Done, Refusal> {
        let headline = edit::headline(command).unwrap_or_default();
        self.change(&headline, |text| {
            let mut draft = Draft::of(text).map_err(|error| Refusal::new(error.to_string()))?;
            edit::edit(&mut draft, command)?;
            Ok(Changed { text: draft.text(), files: Vec::new(), warnings: Vec::new() })
        })
    }

    /// Changes the running configuration: whole or not at all, on the way of a reload. `make` gets the document and gives
    /// another one. The file stays as it is.
    pub(super) fn change(
        &mut self,
        headline: &str,
        make: impl FnOnce(&str) -> Result<Changed, Refusal>,
    ) -> Result<Done, Refusal> {
        let Changed { text, files, mut warnings } = make(&self.plan.text)?;
        let files = self.write_masters(&files)?;
        if *text == *self.plan.text && files.is_empty() {
            let (message, generation) = (format!("{headline}: it was so already"), self.generation);
            return Ok(Done { message, changed: false, generation, warnings });
        }
        let known = self.unplaced(&self.plan.warnings());
        let taken = Plan::of(text.into(), &self.config).and_then(|plan| self.take(plan));
        if taken.is_err() {
            files.restore();
        }
        let (_, found) = taken.map_err(|error| self.refused(&error))?;
        warnings.extend(self.unplaced(&found).into_iter().filter(|warning| !known.contains(warning)));
        self.event(EventKind::Reload, "configuration", headline, Map::new());
        Ok(Done { message: headline.to_owned(), changed: true, generation: self.generation, warnings })
    }

    /// Writes master files beside the configuration; what was there before comes back with [`Before::restore`].
    fn write_masters(&self, files: &[(PathBuf, String)]) -> Result<Before, Refusal> {
        let folder = self.config.parent().unwrap_or(Path::new(""));
        let mut before = Before::default();
        for (path, text) in files {
            let path = folder.join(path);
            let old = fs::read(&path).ok();
            if old.as_deref() == Some(text.as_bytes()) {
                continue;
            }
            if let Err(error) = replace(&path, text.as_bytes()) {
                before.restore();
                return Err(Refusal::new(format!("{} cannot be written: {error}", path.display())));
            }
            before.0.push((path, old));
        }
        Ok(before)
    }

    /// Every problem of a changed configuration. Lines of a file that does not exist would only mislead: the problems
    /// name object and field.
    fn refused(&self, error: &EngineError) -> Refusal {
        let lines: Vec<String> = error.to_string().lines().map(str::to_owned).collect();
        let message = "refused; nothing is changed".to_owned();
        Refusal { message, details: self.unplaced(&lines) }
    }

    /// Messages without their place in the configuration. Places in other files stay.
    fn unplaced(&self, lines: &[String]) -> Vec<String> {
        let file = self.config.display().to_string();
        let plain = |line: &String| {
            let rest = line.strip_prefix(&file)?.strip_prefix(':')?;
            let (row, rest) = rest.split_once(':')?;
            let (column, text) = rest.split_once(": ")?;
            let is_number = |word: &str| word.parse::<u32>().is_ok();
            (is_number(row) && is_number(column)).then(|| text.to_owned())
        };
        let short = |line: &String| {
            plain(line).or_else(|| line.strip_prefix(&format!("{file}: ")).map(str::to_owned))
        };
        lines.iter().map(|line| short(line).unwrap_or_else(|| line.clone())).collect()
    }

    /// `diff`
    pub(super) fn diff(&self) -> Result<Value, Refusal> {
        let text = self.read_file()?;
        let draft = |text: &str| Draft::of(text);
        let file = draft(&text).map_err(|error| {
            Refusal::new(format!("{}: {error}; `responderctl check` says more", self.config.display()))
        })?;
        let running = draft(&self.plan.text).map_err(|error| Refusal::new(error.to_string()))?;
        let found = differences(&file, &running);
        Ok(edit::diff(&self.config.display().to_string(), *text != *self.on_disk, &found))
    }

    /// `save`
    pub(super) fn save(&mut self, force: bool) -> Result<Done, Refusal> {
        let path = self.config.display().to_string();
        let now = match self.read_file() {
            Ok(text) => Some(text),
            Err(_) if force => None,
            Err(refusal) => return Err(refusal),
        };
        if !force && now.as_deref() != Some(&*self.on_disk) {
            let hint =
                "`responderctl diff` shows how, `reload` takes the file, `save --force` writes over it";
            return Err(Refusal::new(format!(
                "{path} was changed by somebody else since it was read; {hint}"
            )));
        }
        let changed = now.as_deref() != Some(&*self.plan.text);
        if changed {
            replace(&self.config, self.plan.text.as_bytes()).map_err(|error| {
                Refusal::new(format!("{path} cannot be written: {error}; it is as it was"))
            })?;
            self.on_disk = self.plan.text.clone();
            self.event(EventKind::Reload, "configuration", format!("saved to {path}"), Map::new());
        }
        let message = if changed { format!("saved to {path}") } else { format!("{path} says the same") };
        Ok(Done { message, changed, generation: self.generation, warnings: Vec::new() })
    }

    fn read_file(&self) -> Result<String, Refusal> {
        config::read_text(&self.config).map_err(|error: ConfigError| Refusal::new(error.to_string()))
    }

    /// A configuration that says something new of an object's `state` is newer than the operator's order.
    pub(super) fn withdraw_orders(&mut self, new: &Model) -> Withdrawn {
        let old = self.plan.compiled.model.clone();
        let mut out = Withdrawn::new();
        let services = &mut self.orders.services;
        for service in &new.services {
            let before = old.service_named(&service.name).map(|id| old.service(id).enabled);
            if before.is_some_and(|before| before != service.enabled)
                && let Some(said) = services.remove(&service.name)
            {
                out.push((true, service.name.clone(), said));
            }
        }
        for vserver in &new.vservers {
            let before = old.vserver_named(&vserver.name).map(|id| old.vserver(id).enabled);
            if before.is_some_and(|before| before != vserver.enabled)
                && let Some(said) = self.orders.vservers.remove(&vserver.name)
            {
                out.push((false, vserver.name.clone(), said));
            }
        }
        out
    }

    /// The configuration is in force: its orders are over after a restart, too.
    pub(super) fn forget_orders(&mut self, said: Withdrawn) {
        for (is_service, name, _) in said {
            let kind = if is_service { journal::Kind::Service } else { journal::Kind::Vserver };
            self.note(Record::Withdrawn { kind, name });
        }
    }

    /// The configuration was refused.
    pub(super) fn restore_orders(&mut self, said: Withdrawn) {
        for (is_service, name, enabled) in said {
            let orders = if is_service { &mut self.orders.services } else { &mut self.orders.vservers };
            orders.insert(name, enabled);
        }
    }
}

/// Files that were written, with what they held before.
#[derive(Default)]
struct Before(Vec<(PathBuf, Option<Vec<u8>>)>);

impl Before {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn restore(self) {
        for (path, octets) in self.0 {
            let done = match octets {
                Some(octets) => replace(&path, &octets),
                None => fs::remove_file(&path),
            };
            if let Err(error) = done {
                tracing::error!(%error, path = %path.display(), "cannot go back to the old master file");
            }
        }
    }
}

/// Writes a file whole or not at all, on the disk when it returns. Owner and mode stay; a link stays a link.
fn replace(path: &Path, octets: &[u8]) -> io::Result<()> {
    let path = fs::canonicalize(path).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(path.to_owned()),
        _ => Err(error),
    })?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let draft = folder.join(name);
    let written = write(&path, &draft, octets).and_then(|()| fs::rename(&draft, &path));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written?;
    File::open(folder)?.sync_all()
}

fn write(path: &Path, draft: &PathBuf, octets: &[u8]) -> io::Result<()> {
    let before = fs::metadata(path).ok();
    let _ = fs::remove_file(draft);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    file.write_all(octets)?;
    match before {
        Some(before) => {
            // Without root only the owner of the file gets here, and it stays theirs.
            if nix::unistd::geteuid().is_root() {
                fchown(&file, Some(before.uid()), Some(before.gid()))?;
            }
            file.set_permissions(before.permissions())?;
        }
        None => file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o640))?,
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_with_its_mode_and_through_links() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a.toml"), folder.path().join("link.toml"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o604)).unwrap();
        symlink(&file, &link).unwrap();
        replace(&link, b"new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o604);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        replace(&folder.path().join("fresh.toml"), b"x").unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "no draft is left");
    }

    #[test]
    fn a_file_that_cannot_be_written_stays() {
        let folder = tempfile::tempdir().unwrap();
        // A folder cannot be renamed over.
        let path = folder.path().join("d");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), "x").unwrap();
        assert!(replace(&path, b"new").is_err());
        assert!(path.join("inside").exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }
}
