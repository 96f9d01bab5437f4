//! `show service`: what an operator must see of a service (spec/netscaler.md 7).

use serde_json::{Value, json};

use super::{checks, forced};
use crate::{
    control::View,
    decide::{AddressState, snapshot::is_monitored},
    health::MonitorRow,
    model::ServiceId,
};

/// What a service is worth now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Enabled by configuration and operator.
    pub admin: bool,
    /// Its state, whether or not it is enabled.
    pub state: AddressState,
    /// May be given to clients.
    pub usable: bool,
}

impl Verdict {
    /// "up", "down", "undecided" or "disabled".
    pub fn word(self) -> &'static str {
        if self.admin { word(self.state) } else { "disabled" }
    }
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

/// Of one service, over both families.
pub fn verdict(view: &View<'_>, id: ServiceId) -> Verdict {
    let service = view.snapshot.service(id);
    let any = |wanted| service.addresses.contains(&wanted);
    let state = match service.forced {
        // An alias that is forced up has still nothing to give.
        Some(true) if !service.addresses.is_empty() => AddressState::Up,
        None if any(AddressState::Up) => AddressState::Up,
        None if any(AddressState::Undecided) => AddressState::Undecided,
        _ => AddressState::Down,
    };
    let admin = service.admin;
    Verdict { admin, state, usable: admin && state == AddressState::Up }
}

/// Why a service is usable, or why not.
pub fn reason(view: &View<'_>, id: ServiceId) -> String {
    let service = view.snapshot.service(id);
    let total = service.addresses.len();
    let up = service.addresses.iter().filter(|s| **s == AddressState::Up).count();
    match (service.forced, verdict(view, id)) {
        (_, Verdict { admin: false, .. }) => "disabled".to_owned(),
        _ if total == 0 => "no address: an alias is not answered in this version".to_owned(),
        (Some(true), _) => "forced up".to_owned(),
        (Some(false), _) => "forced down".to_owned(),
        (_, Verdict { state: AddressState::Undecided, .. }) => "monitors have not decided yet".to_owned(),
        (_, Verdict { state: AddressState::Down, .. }) => {
            complaint(view, id).unwrap_or_else(|| "monitors are not satisfied".to_owned())
        }
        _ if up < total => {
            let why = complaint(view, id).map_or_else(String::new, |c| format!(": {c}"));
            format!("{up} of {total} addresses up{why}")
        }
        _ if !is_monitored(view.model, view.model.service(id)) => "no monitor".to_owned(),
        _ => "monitors are satisfied".to_owned(),
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
        // A service of this version stands for itself alone, and no load is measured.
        "primary": word(verdict.state),
        "effective": word(verdict.state),
        "threshold": "below",
        "load": null,
        "monitors": checks(view, id).map(|(_, value)| value).collect::<Vec<_>>(),
        "usable": verdict.usable,
        "reason": reason(view, id),
        "vservers": vservers.iter().map(|v| view.model.vserver(*v).name.as_str()).collect::<Vec<_>>(),
        "last_change": view.events.last_change(&format!("service {}", service.name)),
    })
}
