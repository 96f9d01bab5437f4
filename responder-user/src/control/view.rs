//! Everything that can be shown, borrowed from the engine for one command; `status` and `stats`.

use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    Events, NameIndex, Queries, Rates,
    show::{service, vserver},
};
use crate::{
    compile::class::Classes,
    decide::{Owner, Owners, Snapshot},
    health::Health,
    journal,
    model::{Model, ServiceId, VserverId},
};

/// An interface that the responder is to answer on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InterfaceStatus {
    /// Its name.
    pub name: String,
    /// What runs there now: "native", "generic" or "off".
    pub mode: String,
    /// "up", "down" or "missing".
    pub link: String,
}

impl InterfaceStatus {
    /// True if the XDP program runs there.
    pub fn answers(&self) -> bool {
        self.mode != "off" && self.link != "missing"
    }
}

/// The state of the daemon at one moment. All parts belong to the same model.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// Version of the daemon.
    pub version: &'a str,
    /// What is configured.
    pub model: &'a Model,
    /// The names of the model.
    pub names: &'a NameIndex,
    /// Whose answers there are.
    pub owners: &'a Owners,
    /// The partition of the clients.
    pub classes: &'a Classes,
    /// What answers are decided from.
    pub snapshot: &'a Snapshot,
    /// What the monitors found.
    pub health: &'a Health,
    /// What happened.
    pub events: &'a Events,
    /// Of the answers that are published.
    pub generation: u64,
    /// Every name has its answer, or the warm-up is over.
    pub ready: bool,
    /// Time since the start.
    pub uptime: Duration,
    /// Wall time.
    pub clock: SystemTime,
    /// Monotonic time, for the age of check results.
    pub now: Instant,
    /// The listed interfaces.
    pub interfaces: &'a [InterfaceStatus],
    /// What is wrong now, beside what the view itself finds; one line each, in plain words.
    pub problems: &'a [String],
    /// Totals.
    pub queries: Queries,
    /// The journal.
    pub journal: &'a journal::Status,
    /// From [`super::RateMeter`].
    pub rates: Option<Rates>,
    /// Every counter with its stable name.
    pub counters: &'a [(String, u64)],
}

impl View<'_> {
    /// The owner that stands for a virtual server: that of the names that the fewest policies mean, or one without
    /// backup addresses.
    pub(super) fn owner_of(&self, vserver: VserverId) -> Owner {
        let all = self.owners.list.iter().filter(|owner| owner.vserver == vserver);
        let named = all.min_by_key(|owner| owner.names.iter().map(|bits| bits.count_ones()).sum::<u32>());
        named.cloned().unwrap_or_else(|| Owner {
            vserver,
            backup_ip: [].into(),
            names: [].into(),
            domain: None,
        })
    }

    /// True if some interface answers in XDP.
    pub(super) fn xdp(&self) -> bool {
        self.interfaces.iter().any(InterfaceStatus::answers)
    }
}

/// The answer to `status`.
pub fn status(view: &View<'_>) -> Value {
    json!({
        "version": view.version,
        "generation": view.generation,
        "ready": view.ready,
        "uptime_seconds": view.uptime.as_secs(),
        "interfaces": view.interfaces,
        "queries": view.queries,
        "rates": view.rates,
        "services": counts(service::verdicts(view).map(service::Verdict::word)),
        "vservers": counts(vserver::ids(view).map(|id| vserver::states(view, id).effective)),
        "domains": view.model.domains.len(),
        "journal": view.journal,
        "problems": problems(view),
    })
}

/// The answer to `stats`: a flat object.
pub fn stats(view: &View<'_>) -> Value {
    let counters = view.counters.iter().map(|(name, value)| (name.clone(), Value::from(*value)));
    Value::Object(counters.collect())
}

/// How many of each word.
fn counts<'w>(words: impl Iterator<Item = &'w str>) -> Value {
    let mut out = Map::from_iter(
        ["total", "up", "down", "undecided", "disabled"].map(|key| (key.to_owned(), Value::from(0))),
    );
    let mut add = |key: &str| {
        let so_far = out.get(key).and_then(Value::as_u64).unwrap_or(0);
        out.insert(key.to_owned(), Value::from(so_far + 1));
    };
    for word in words {
        add("total");
        add(word);
    }
    Value::Object(out)
}

/// Services that `problems` names; the others are counted.
const NAMED: usize = 10;

/// What the engine says, then virtual servers that cannot answer by themselves, then services that are down.
fn problems(view: &View<'_>) -> Vec<String> {
    let mut out = view.problems.to_vec();
    for id in vserver::ids(view) {
        // One without names answers nobody; as a backup it shows in the virtual server that it stands in for.
        if view.names.count(id) > 0
            && let Some(plight) = vserver::plight(view, id)
        {
            out.push(format!("vserver {}: {plight}", view.model.vserver(id).name));
        }
    }
    let down: Vec<ServiceId> = (0..view.model.services.len() as u32)
        .map(ServiceId)
        .filter(|id| service::verdict(view, *id).word() == "down")
        .collect();
    for id in down.iter().take(NAMED) {
        let name = &view.model.service(*id).name;
        out.push(format!("service {name} is down: {}", service::reason(view, *id)));
    }
    if let Some(more @ 1..) = down.len().checked_sub(NAMED) {
        out.push(format!("{more} more services are down; `responderctl show service` lists them"));
    }
    out
}
