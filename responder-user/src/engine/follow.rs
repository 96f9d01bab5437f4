//! Interfaces and addresses that come, go and change.

use serde_json::Map;

use super::{Engine, host};
use crate::{
    control::{EventKind, InterfaceStatus},
    model::Settings,
    publish::{
        interface::{self, HostInterface, Listening},
        writer::surroundings_of,
    },
};

impl Engine {
    /// Looks at the interfaces: addresses and links are followed, and the program is put back where it is missing.
    pub(super) fn follow_interfaces(&mut self) {
        let settings = self.plan.compiled.model.settings.clone();
        let all = match interface::all() {
            Ok(all) => all,
            Err(error) => {
                // What is known goes on; the next look may succeed.
                tracing::warn!(%error, "the interfaces of this host are not known");
                return;
            }
        };
        self.absent = settings
            .listen
            .iter()
            .filter_map(|address| Some(format!("listen.addresses: {address}: {}", host::plight(*address)?)))
            .collect();
        if self.writer.is_kernel() {
            // First, so that the program compares with what is there when it is attached.
            self.follow_addresses(&settings, &all);
        }
        if self.is_attached {
            for change in self.writer.follow(&settings, &all) {
                self.event(EventKind::Attach, format!("interface {}", change.name), change.text, Map::new());
            }
        }
        self.follow_links(&settings, &all);
    }

    fn follow_links(&mut self, settings: &Settings, all: &[HostInterface]) {
        let was = std::mem::take(&mut self.interfaces);
        for name in &settings.xdp.interfaces {
            let host = all.iter().find(|interface| interface.name == *name);
            let link = host.map_or("missing", |interface| if interface.is_up { "up" } else { "down" });
            let mode = host.and_then(|interface| self.writer.mode_on(name, interface.index)).unwrap_or("off");
            let status = InterfaceStatus { name: name.clone(), mode: mode.to_owned(), link: link.to_owned() };
            if was.iter().any(|before| before.name == *name && before.link != status.link) {
                let text = format!("link is {link}");
                self.event(EventKind::Attach, format!("interface {name}"), text, Map::new());
            }
            self.interfaces.push(status);
        }
    }

    /// An interface that is missing does not keep the program from following the others.
    fn follow_addresses(&mut self, settings: &Settings, all: &[HostInterface]) {
        let named = |name: &String| all.iter().find(|interface| interface.name == *name).cloned();
        let ours: Vec<HostInterface> = settings.xdp.interfaces.iter().filter_map(named).collect();
        let listening = interface::listening(&settings.listen, &ours);
        if let Ok(around) = surroundings_of(settings, &ours) {
            self.writer.world_mut().surround(&around);
        }
        let before = std::mem::replace(&mut self.listening, listening);
        // The first look is no change.
        if before != self.listening && before != Listening::default() {
            let list: Vec<String> = self.listening.addresses.iter().map(ToString::to_string).collect();
            let text = format!("XDP answers for {}", list.join(", "));
            self.event(EventKind::Attach, "listen.addresses", text, Map::new());
        }
    }

    /// What is wrong with interfaces and addresses, one line each.
    pub(super) fn surroundings_problems(&self) -> Vec<String> {
        let mut out = self.absent.clone();
        let settings = &self.plan.compiled.model.settings;
        if settings.xdp.route_check && settings.xdp.is_on() {
            let all = settings.xdp.interfaces.iter();
            out.extend(all.flat_map(|name| interface::without_forwarding(name, &settings.listen)));
        }
        let left_out = &self.listening.left_out;
        if let Some(first) = left_out.first() {
            let count = left_out.len();
            out.push(format!("listen.addresses: workers answer for {count} addresses that XDP has no room for: {first}, ..."));
        }
        out
    }
}
