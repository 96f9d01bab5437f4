//! `show KIND [NAME]`: one object for a name, a list without.

pub mod domain;
pub mod place;
pub mod service;
pub mod vserver;

use serde_json::{Value, json};

use super::{
    Refusal, View,
    command::ShowKind,
    target::{self, unknown},
};
use crate::{
    health::MonitorRow,
    model::{DnsActionKind, MonitorId, MonitorKind, ServiceId, VserverId, policy::BindPoint},
};

/// Longest list. A longer one would hold up everything else that the control process does.
pub const LIST_LIMIT: usize = 10_000;

/// The answer to `show`.
pub fn show(view: &View<'_>, kind: ShowKind, name: Option<&str>) -> Result<Value, Refusal> {
    let model = view.model;
    match (kind, name) {
        (ShowKind::Service, Some(name)) => target::service(model, name).map(|id| service::value(view, id)),
        (ShowKind::Service, None) => list(kind, model.services.len(), |i| service::value(view, ServiceId(i))),
        (ShowKind::Vserver, Some(name)) => target::vserver(model, name).map(|id| vserver::whole(view, id)),
        (ShowKind::Vserver, None) => {
            let ids: Vec<_> = vserver::ids(view).collect();
            list(kind, ids.len(), |i| vserver::value(view, ids[i as usize]))
        }
        (ShowKind::Domain, name) => domain::show(view, name),
        (ShowKind::Monitor, Some(name)) => target::monitor(model, name).map(|id| monitor(view, id)),
        (ShowKind::Monitor, None) => list(kind, model.monitors.len(), |i| monitor(view, MonitorId(i))),
        (ShowKind::Location, name) => place::show(view, name),
        (ShowKind::Policy, Some(name)) => {
            let found = model.policies.iter().position(|p| p.name == name);
            let refusal = || unknown("policy", name, model.policies.iter().map(|p| &*p.name));
            found.map(|i| policy(view, i)).ok_or_else(refusal)
        }
        (ShowKind::Policy, None) => list(kind, model.policies.len(), |i| policy(view, i as usize)),
        (ShowKind::Action, Some(name)) => {
            let found = model.actions.iter().position(|a| a.name == name);
            let refusal = || unknown("action", name, model.actions.iter().map(|a| &*a.name));
            found.map(|i| action(view, i)).ok_or_else(refusal)
        }
        (ShowKind::Action, None) => list(kind, model.actions.len(), |i| action(view, i as usize)),
        // Sessions are the engine's.
        (ShowKind::Record | ShowKind::Scenario | ShowKind::Session, None) => Ok(json!([])),
        (ShowKind::Record | ShowKind::Scenario | ShowKind::Session, Some(name)) => {
            Err(unknown(kind.name(), name, std::iter::empty()))
        }
    }
}

fn list(kind: ShowKind, count: usize, row: impl Fn(u32) -> Value) -> Result<Value, Refusal> {
    bounded(kind, count)?;
    Ok((0..count as u32).map(row).collect())
}

fn bounded(kind: ShowKind, count: usize) -> Result<(), Refusal> {
    if count <= LIST_LIMIT {
        return Ok(());
    }
    let kind = kind.name();
    let narrower = if kind == "domain" { ", or all below one: *.NAME" } else { "" };
    Err(Refusal::new(format!(
        "{count} objects of kind {kind} are more than one list holds ({LIST_LIMIT}); name one{narrower}"
    )))
}

/// The checks of a monitor at a service, or all of a service.
pub(super) fn checks(view: &View<'_>, service: ServiceId) -> impl Iterator<Item = (MonitorRow, Value)> {
    view.health.monitor_rows(service).into_iter().map(|row| {
        let value = json!({
            "name": row.name,
            "address": row.address,
            "state": word(row.state),
            "enabled": row.enabled,
            "forced": forced(row.force),
            "last": row.last,
            "error": row.error,
            "seconds_ago": row.at.map(|at| view.now.saturating_duration_since(at).as_secs()),
            "consecutive": row.consecutive,
        });
        (row, value)
    })
}

fn word(state: crate::health::AddressState) -> &'static str {
    use crate::health::AddressState::{Down, Undecided, Up};
    match state {
        Up => "up",
        Down => "down",
        Undecided => "undecided",
    }
}

fn forced(force: crate::health::Force) -> Option<&'static str> {
    use crate::health::Force::{Auto, Down, Up};
    match force {
        Auto => None,
        Up => Some("up"),
        Down => Some("down"),
    }
}

fn monitor(view: &View<'_>, id: MonitorId) -> Value {
    let monitor = view.model.monitor(id);
    let (type_name, question) = match &monitor.kind {
        MonitorKind::Tcp => ("tcp", None),
        MonitorKind::Http { path, host, expect } => {
            let codes = expect.iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") });
            ("http", Some(json!({"path": path, "host": host, "expect": codes.collect::<Vec<_>>()})))
        }
        MonitorKind::Load { .. } => ("load", None),
        MonitorKind::Inert { type_name } => (type_name.as_str(), None),
    };
    let metrics = match &monitor.kind {
        MonitorKind::Load { metrics } => metrics
            .iter()
            .map(|m| json!({"name": m.name, "threshold": m.threshold, "weight": m.weight}))
            .collect(),
        _ => Value::Null,
    };
    let runs = !matches!(monitor.kind, MonitorKind::Inert { .. });
    let mut states = [0_u64; 3];
    let mut uses = Vec::new();
    for (i, service) in view.model.services.iter().enumerate() {
        if service.monitors.iter().all(|(bound, _)| *bound != id) {
            continue;
        }
        for (row, mut value) in checks(view, ServiceId(i as u32)).filter(|(row, _)| row.name == monitor.name)
        {
            states[["up", "down", "undecided"].iter().position(|w| *w == word(row.state)).unwrap_or(2)] += 1;
            value["service"] = json!(service.name);
            uses.push(value);
        }
    }
    json!({
        "name": monitor.name,
        "type": type_name,
        "http": question,
        "metrics": metrics,
        "enabled": view.health.monitor_enabled(id),
        "runs": runs,
        "interval": humantime::format_duration(monitor.interval).to_string(),
        "timeout": humantime::format_duration(monitor.timeout).to_string(),
        "rise": monitor.rise,
        "fall": monitor.fall,
        "port": monitor.port,
        "up": states[0],
        "down": states[1],
        "undecided": states[2],
        "checks": uses,
    })
}

fn policy(view: &View<'_>, index: usize) -> Value {
    let policy = &view.model.policies[index];
    let vserver = |id: VserverId| view.model.vserver(id).name.as_str();
    let bind = match policy.bind {
        BindPoint::RequestOverride => "request-override".to_owned(),
        BindPoint::Request => "request".to_owned(),
        BindPoint::ResponseOverride => "response-override".to_owned(),
        BindPoint::Response => "response".to_owned(),
        BindPoint::Vserver(id) => format!("vserver {} request", vserver(id)),
        BindPoint::VserverResponse(id) => format!("vserver {} response", vserver(id)),
        BindPoint::Label(id) => format!("label {}", view.model.labels[id.index()]),
    };
    json!({
        "name": policy.name,
        "priority": policy.priority,
        "rule": policy.rule_text,
        "action": view.model.actions[policy.action.index()].name,
        "bind": bind,
        "goto": policy.goto.to_string(),
        "invoke": policy.invoke.map(|id| view.model.labels[id.index()].as_str()),
    })
}

fn action(view: &View<'_>, index: usize) -> Value {
    let action = &view.model.actions[index];
    let list = match &action.kind {
        DnsActionKind::PreferredLocations(list) => list.as_slice(),
        _ => &[],
    };
    let (addresses, ttl) = match &action.kind {
        DnsActionKind::Rewrite { addresses, ttl } => (Some(addresses), Some(*ttl)),
        _ => (None, None),
    };
    let chosen = match action.kind {
        DnsActionKind::View(id) => Some(view.model.views[id.index()].as_str()),
        _ => None,
    };
    let used = view.model.policies.iter().filter(|p| p.action.index() == index);
    json!({
        "name": action.name,
        "kind": action.kind.name(),
        "effective": action.kind.has_effect(),
        "view": chosen,
        "addresses": addresses,
        "ttl": ttl,
        "preferred_locations": list.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "policies": used.map(|p| p.name.as_str()).collect::<Vec<_>>(),
    })
}
