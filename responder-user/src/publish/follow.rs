//! Interfaces that come, go and change under the program: put it back, or say why not.
//!
//! ```text
//! interface gone              -> its pin goes; nothing is attached
//! interface there (again)     -> attach
//! link detached by somebody   -> attach again
//! pin removed by somebody     -> stay off until a reload: that is the emergency stop
//! somebody else's program     -> stay off until it is gone
//! VLAN tags are taken off     -> take the program off until they are not
//! ```

use std::time::{Duration, Instant};

use super::{
    PublishError,
    attach::Program,
    interface::HostInterface,
    offload,
    pin::{Pins, remove_file},
};
use crate::model::settings::XdpMode;

/// What failed for no reason that can be seen from here is tried again after this.
const RETRY: Duration = Duration::from_secs(10);

/// An interface of the configuration, and how our program fares there.
#[derive(Clone, Debug, Default)]
pub struct Attached {
    /// Interface.
    pub name: String,
    /// native or generic; None: not attached.
    pub mode: Option<&'static str>,
    /// Why it is not attached.
    pub why: Option<String>,
    /// Of the interface when it was last seen; 0: it is missing.
    index: u32,
    tried: Option<Instant>,
    /// Somebody else's program is there.
    is_foreign: bool,
    /// The pin was removed while the program was attached.
    is_stopped: bool,
}

/// Something happened to the program of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Interface.
    pub name: String,
    /// The program answers there from now on.
    pub is_attached: bool,
    /// One line.
    pub text: String,
}

impl Attached {
    /// An interface that is missing.
    pub fn missing(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// How attaching ended.
    pub fn new(name: &str, index: u32, result: Result<&'static str, PublishError>) -> Self {
        let mut row = Self { index, ..Self::missing(name) };
        row.set(result);
        row
    }

    fn set(&mut self, result: Result<&'static str, PublishError>) {
        self.is_stopped = false;
        self.is_foreign = matches!(result, Err(PublishError::Foreign { .. } | PublishError::Orphan { .. }));
        self.tried = Some(Instant::now());
        (self.mode, self.why) = match result {
            Ok(mode) => (Some(mode), None),
            Err(error) => {
                // Problems name the interface anyway.
                let text = error.to_string();
                let prefix = format!("interface {}: ", self.name);
                (None, Some(text.strip_prefix(&prefix).map_or(text.clone(), str::to_owned)))
            }
        };
    }

    /// True if the program is off and whoever runs the daemon knows it.
    pub fn is_known_off(&self) -> bool {
        self.mode.is_none() && self.tried.is_some()
    }

    fn say(&self, text: impl Into<String>) -> Change {
        Change { name: self.name.clone(), is_attached: self.mode.is_some(), text: text.into() }
    }

    /// Looks at the interface, if it is there (`host`), and puts the program back where it is missing.
    pub fn follow(
        &mut self,
        pins: &Pins,
        program: &mut Program,
        mode: XdpMode,
        host: Option<&HostInterface>,
    ) -> Option<Change> {
        let Some(host) = host else {
            if self.index != 0 {
                *self = Self { tried: Some(Instant::now()), ..Self::missing(&self.name) };
                // Its link is dead, or has gone with it into another namespace: it answers for us no more.
                unpin(pins, &self.name);
            }
            return None;
        };
        let is_new = std::mem::replace(&mut self.index, host.index) != host.index;
        if let Err(error) = offload::refuse_stripped_tags(&self.name, host.index) {
            unpin(pins, &self.name);
            return self.fail(error);
        }
        let was = self.mode;
        if let Some(mode) = Program::is_on(pins, &self.name, host.index) {
            self.why = None;
            self.mode = Some(mode.name());
            return (was != self.mode)
                .then(|| self.say(format!("XDP program attached, mode {}", mode.name())));
        }
        if !is_new && was.is_some() && !pins.link(&self.name).exists() {
            self.is_stopped = true;
            self.mode = None;
            self.why = Some("its pin was removed; a reload attaches it again".to_owned());
            return Some(self.say(
                "the pin of the XDP program was removed: sockets answer until a reload attaches it again",
            ));
        }
        if !self.may_try(is_new, host.index) {
            return None;
        }
        match program.attach(pins, &self.name, mode) {
            Ok(mode) => {
                self.set(Ok(mode.name()));
                let again = if was.is_some() && !is_new { " again: somebody had detached it" } else { "" };
                Some(self.say(format!("XDP program attached{again}, mode {}", mode.name())))
            }
            Err(error) => self.fail(error),
        }
    }

    fn may_try(&self, is_new: bool, index: u32) -> bool {
        if is_new {
            return true;
        }
        if self.is_stopped {
            return false;
        }
        if self.is_foreign {
            return super::interface::xdp_on(index).is_ok_and(|found| found.is_none());
        }
        self.mode.is_some() || self.tried.is_none_or(|tried| tried.elapsed() >= RETRY)
    }

    /// Told once.
    fn fail(&mut self, error: PublishError) -> Option<Change> {
        let before = self.why.take();
        self.set(Err(error));
        (before != self.why).then(|| {
            let why = self.why.clone().unwrap_or_default();
            tracing::warn!(interface = self.name, why, "XDP is off on this interface: sockets answer");
            self.say(format!("XDP is off, sockets answer: {why}"))
        })
    }
}

fn unpin(pins: &Pins, name: &str) {
    if let Err(error) = remove_file(&pins.link(name)) {
        tracing::error!(interface = name, %error, "the program cannot be taken off");
    }
}
