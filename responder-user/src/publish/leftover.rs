//! What an earlier daemon left in the kernel (`on_exit = "keep"`) and this one does not take over.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
};

use aya::maps::MapData;
use responder_common::layout::Control;

use super::{
    PublishError, attach, interface,
    pin::{Held, Pins, pins_of},
    region::Region,
    sessions::Sessions,
    world,
};
use crate::model::Settings;

/// Pins that may go on answering until somebody else has the answers.
#[derive(Default)]
pub struct Leftover(Vec<(Held, Option<Region<Control>>)>);

impl Leftover {
    /// What stands at `xdp.pin_path`, of every layout version, unless a daemon that lives is in charge of it.
    pub fn at(pin_path: &Path) -> Result<Self, PublishError> {
        let mut out = Vec::new();
        for pins in Pins::existing(pin_path) {
            match Held::lock(pins) {
                Ok(held) => out.push(Self::of(held)),
                Err(PublishError::InUse { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self(out))
    }

    /// The pins of this daemon, which cannot use them.
    pub fn one(held: Held) -> Self {
        Self(vec![Self::of(held)])
    }

    fn of(held: Held) -> (Held, Option<Region<Control>>) {
        let control = control(held.pins());
        (held, control)
    }

    /// A sign of life for `xdp.max_stale`.
    pub fn beat(&self) {
        self.0.iter().filter_map(|(_, control)| control.as_ref()).for_each(world::beat_old);
    }

    /// Takes it out of the kernel.
    pub fn remove(&mut self) -> Result<(), PublishError> {
        for (held, _) in self.0.drain(..) {
            held.remove()?;
        }
        Ok(())
    }
}

/// The control words of the world that answers now.
pub fn control(pins: &Pins) -> Option<Region<Control>> {
    Region::of_map("CONTROL", &map(pins, "CONTROL")?).ok()
}

/// The sessions of the world that answers now.
pub fn sessions(pins: &Pins) -> Option<Sessions> {
    Sessions::of_map(&map(pins, "SESSIONS")?).ok()
}

fn map(pins: &Pins, name: &str) -> Option<MapData> {
    if !pins.is_of_this_layout() {
        return None;
    }
    MapData::from_pin(pins.map(attach::live_world(pins)?, name)).ok()
}

/// Err if a program that nobody is in charge of answers for an address of these settings: it would give the answers of
/// another day beside ours.
pub fn refuse_orphans(settings: &Settings) -> Result<(), PublishError> {
    let failed = |source| PublishError::Bpf { call: "getifaddrs", object: "interfaces".to_owned(), source };
    for host in interface::all().map_err(failed)? {
        let Ok(Some((_, id))) = interface::xdp_on(host.index) else { continue };
        let Some(pins) = pins_of(id) else { continue };
        if pins.pin_path() == settings.xdp.pin_path || Held::lock(pins.clone()).is_err() {
            continue;
        }
        let control = control(&pins).and_then(|region| region.get(0).copied());
        let answers = match &control {
            Some(control) => {
                let mut answers = listening(control);
                answers.retain(|address| settings.listen.iter().any(|ours| covers(*ours, *address)));
                answers
            }
            // Another layout: what it listens on cannot be read.
            None => settings.listen.clone(),
        };
        if !answers.is_empty() {
            return Err(PublishError::Orphan { interface: host.name, path: pins.pin_path().to_owned() });
        }
    }
    Ok(())
}

fn covers(ours: SocketAddr, other: SocketAddr) -> bool {
    ours.port() == other.port()
        && ours.is_ipv4() == other.is_ipv4()
        && (ours.ip() == other.ip() || ours.ip().is_unspecified())
}

/// The addresses that a program compares packets with.
fn listening(control: &Control) -> Vec<SocketAddr> {
    let port = |word: u64| u16::from_be(word as u16);
    let v4 = control.listen4.iter().filter(|word| **word != 0).map(|word| {
        let address = Ipv4Addr::from(((word >> 16) as u32).to_ne_bytes());
        SocketAddr::new(IpAddr::V4(address), port(*word))
    });
    let v6 = control.listen6.iter().filter(|row| row.port != 0).map(|row| {
        let address: [u8; 16] = bytemuck::cast(row.address);
        SocketAddr::new(IpAddr::V6(Ipv6Addr::from(address)), port(row.port))
    });
    v4.chain(v6).collect()
}
