//! `show service`: what an operator must see of a service (spec/netscaler.md 7).

use serde_json::{Value, json};

use super::{checks, forced};
use crate::{
    control::View,
    decide::{AddressState, Facts, ServiceState, States, snapshot::is_monitored},
    health::MonitorRow,
    model::{RecordType, Service, ServiceId},
};

/// What a service is worth now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Enabled by configuration and operator.
    pub admin: bool,
    /// Its primary state, whether or not it is enabled.
    pub state: AddressState,
    /// The state of what it stands for together with its backups.
    pub effective: AddressState,
    /// What it stands for has reached its threshold.
    pub above: bool,
    /// May be given to clients.
    pub usable: bool,
}

impl Verdict {
    /// "up", "down", "undecided" or "disabled".
    pub fn word(self) -> &'static str {
        if self.admin { word(self.state) } else { "disabled" }
    }

    /// "above" or "below".
    pub fn threshold(self) -> &'static str {
        threshold(self.above)
    }
}

/// The word for a threshold flag.
pub(in crate::control) fn threshold(above: bool) -> &'static str {
    if above { "above" } else { "below" }
}

/// The word for a state.
pub(in crate::control) fn word(state: AddressState) -> &'static str {
    match state {
        AddressState::Up => "up",
        AddressState::Down => "down",
        AddressState::Undecided => "undecided",
    }
}

/// Of all services, in the order of the model.
pub fn verdicts(view: &View<'_>) -> impl Iterator<Item = Verdict> {
    (0..view.model.services.len() as u32).map(|i| verdict(view, ServiceId(i)))
}

/// Of one service, over all types that it has something for.
pub fn verdict(view: &View<'_>, id: ServiceId) -> Verdict {
    let mut states: Vec<States> = Vec::new();
    let mut usable = false;
    for rtype in types(view.model.service(id)) {
        let facts = Facts { model: view.model, snapshot: view.snapshot, rtype };
        states.push(facts.states(id));
        usable |= facts.usable(id).0;
    }
    let over_all = |state: fn(&States) -> AddressState| {
        let any = |wanted| states.iter().any(|s| state(s) == wanted);
        let found = [AddressState::Up, AddressState::Undecided].into_iter().find(|wanted| any(*wanted));
        found.unwrap_or(AddressState::Down)
    };
    Verdict {
        admin: view.snapshot.service(id).admin,
        state: over_all(|s| s.primary),
        effective: over_all(|s| s.effective),
        above: states.iter().any(|s| s.above),
        usable,
    }
}

/// The types that a service has something for.
fn types(service: &Service) -> impl Iterator<Item = RecordType> + use<'_> {
    RecordType::ALL.into_iter().filter(|rtype| match rtype {
        RecordType::A | RecordType::Aaaa => service.addresses.iter().any(|a| rtype.fits(*a)),
        RecordType::Cname => service.cname.is_some(),
        RecordType::Naptr => service.naptr.is_some(),
    })
}

/// Why a service is usable, or why not.
pub fn reason(view: &View<'_>, id: ServiceId) -> String {
    let (model, service) = (view.model.service(id), view.snapshot.service(id));
    let total = service.addresses.len();
    let up = service.addresses.iter().filter(|s| **s == AddressState::Up).count();
    let found = verdict(view, id);
    let told = service.report.primary_up.is_some() || model.behind.is_some();
    match (service.forced, found) {
        (_, Verdict { admin: false, .. }) => "disabled".to_owned(),
        (Some(true), _) => "forced up".to_owned(),
        (Some(false), _) => "forced down".to_owned(),
        (_, Verdict { state: AddressState::Undecided, .. }) => "monitors have not decided yet".to_owned(),
        (_, Verdict { state: AddressState::Down, .. }) => complaint(view, id).unwrap_or_else(|| {
            if told && !is_monitored(view.model, model) {
                "its primary is down".to_owned()
            } else {
                "monitors are not satisfied".to_owned()
            }
        }),
        (_, Verdict { usable: false, .. }) => {
            let first = types(model).next().unwrap_or(RecordType::A);
            let facts = Facts { model: view.model, snapshot: view.snapshot, rtype: first };
            facts.usable(id).1
        }
        _ if up < total => {
            let why = complaint(view, id).map_or_else(String::new, |c| format!(": {c}"));
            format!("{up} of {total} addresses up{why}")
        }
        _ if is_monitored(view.model, model) => "monitors are satisfied".to_owned(),
        _ if told => "its primary is up".to_owned(),
        _ => "no monitor".to_owned(),
    }
}

/// What the first failing check says: `web at 192.0.2.1: connection refused`; the address where there are several.
pub(in crate::control) fn complaint(view: &View<'_>, id: ServiceId) -> Option<String> {
    let several = view.model.service(id).addresses.len() > 1;
    let failing = |row: &MonitorRow| row.enabled && row.state == crate::health::AddressState::Down;
    let row = view.health.monitor_rows(id).into_iter().find(failing)?;
    let at = if several { format!(" at {}", row.address) } else { String::new() };
    let why = match (forced(row.force), row.error) {
        (Some(word), _) => format!("forced {word}"),
        (None, error) => error.unwrap_or_else(|| "down".to_owned()),
    };
    Some(format!("{}{at}: {why}", row.name))
}

/// Load figures by name; null where none is known.
fn load(state: &ServiceState) -> Value {
    if state.load.is_empty() {
        return Value::Null;
    }
    state.load.iter().map(|(name, figure)| (name.clone(), json!(figure.value))).collect()
}

/// A row of the list, and the whole object.
pub fn value(view: &View<'_>, id: ServiceId) -> Value {
    let (service, state) = (view.model.service(id), view.snapshot.service(id));
    let verdict = verdict(view, id);
    let addresses = service.addresses.iter().zip(&state.addresses);
    let addresses: Vec<Value> =
        addresses.map(|(address, state)| json!({"address": address, "state": word(*state)})).collect();
    let vservers = view.model.vservers_using(id);
    json!({
        "name": service.name,
        "addresses": addresses,
        "port": service.port,
        "location": service.location.as_ref().map(ToString::to_string),
        "site": service.site,
        "admin": if verdict.admin { "enabled" } else { "disabled" },
        "forced": state.forced.map(|up| if up { "up" } else { "down" }),
        "primary": word(verdict.state),
        "effective": word(verdict.effective),
        "threshold": verdict.threshold(),
        // For HTTP front ends that ask whether a cookie may redirect to it (spec/netscaler.md 0.1, 5).
        "cookie_redirect": verdict.admin && verdict.state == AddressState::Up,
        "behind": service.behind.map(|v| view.model.vserver(v).name.as_str()),
        "load": load(state),
        "max_connections": service.max_connections,
        "max_bandwidth": service.max_bandwidth,
        "cname": service.cname.as_ref().map(ToString::to_string),
        "views": service.views.iter().map(|(id, addresses)| {
            (view.model.views[id.index()].clone(), json!(addresses))
        }).collect::<serde_json::Map<_, _>>(),
        "monitors": checks(view, id).map(|(_, value)| value).collect::<Vec<_>>(),
        "usable": verdict.usable,
        "reason": reason(view, id),
        "vservers": vservers.iter().map(|v| view.model.vserver(*v).name.as_str()).collect::<Vec<_>>(),
        "last_change": view.events.last_change(&format!("service {}", service.name)),
    })
}
