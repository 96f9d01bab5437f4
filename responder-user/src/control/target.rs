//! From the name that an operator typed to the object; a name that does not exist is refused with the nearest one.

use super::{
    Refusal,
    command::{ForceKind, SwitchKind},
};
use crate::model::{Model, MonitorId, ServiceId, VserverId};

/// What a command is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A virtual server.
    Vserver(VserverId),
    /// A service.
    Service(ServiceId),
    /// A monitor, wherever it checks.
    Monitor(MonitorId),
    /// A monitor at one service.
    MonitorAt(MonitorId, ServiceId),
}

/// The object of `enable` and `disable`.
pub fn switch(model: &Model, kind: SwitchKind, name: &str) -> Result<Target, Refusal> {
    match kind {
        SwitchKind::Vserver => vserver(model, name).map(Target::Vserver),
        SwitchKind::Service => service(model, name).map(Target::Service),
        SwitchKind::Monitor => monitor(model, name).map(Target::Monitor),
    }
}

/// The object of `force`: a service, `MONITOR` or `MONITOR@SERVICE`.
pub fn force(model: &Model, kind: ForceKind, name: &str) -> Result<Target, Refusal> {
    if kind == ForceKind::Service {
        return service(model, name).map(Target::Service);
    }
    // A name may hold an @ itself: the whole text first.
    let whole = model.monitors.iter().any(|m| m.name == name);
    let Some((check, at)) = name.rsplit_once('@').filter(|_| !whole) else {
        return monitor(model, name).map(Target::Monitor);
    };
    let (check, at) = (monitor(model, check)?, service(model, at)?);
    let (found, place) = (&model.monitor(check).name, model.service(at));
    if place.monitors.iter().all(|(id, _)| *id != check) {
        return Err(Refusal::new(format!("monitor \"{found}\" does not check service \"{}\"", place.name)));
    }
    Ok(Target::MonitorAt(check, at))
}

/// A virtual server by name.
pub fn vserver(model: &Model, name: &str) -> Result<VserverId, Refusal> {
    model.vserver_named(name).ok_or_else(|| unknown("vserver", name, model.vservers.iter().map(|v| &*v.name)))
}

/// A service by name.
pub fn service(model: &Model, name: &str) -> Result<ServiceId, Refusal> {
    model.service_named(name).ok_or_else(|| unknown("service", name, model.services.iter().map(|s| &*s.name)))
}

/// A monitor by name.
pub fn monitor(model: &Model, name: &str) -> Result<MonitorId, Refusal> {
    let found = model.monitors.iter().position(|m| m.name == name).map(|i| MonitorId(i as u32));
    found.ok_or_else(|| unknown("monitor", name, model.monitors.iter().map(|m| &*m.name)))
}

/// The refusal of a name that does not exist.
pub fn unknown<'a>(kind: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Refusal {
    let mut best: Option<(f64, &str)> = None;
    let mut any = false;
    for candidate in known {
        any = true;
        let score = strsim::jaro_winkler(&candidate.to_lowercase(), &name.to_lowercase());
        if score > 0.7 && best.is_none_or(|(s, _)| score > s) {
            best = Some((score, candidate));
        }
    }
    Refusal::new(match (best, any) {
        (Some((_, near)), _) => format!("no {kind} \"{name}\"; did you mean \"{near}\"?"),
        (None, true) => format!("no {kind} \"{name}\"; `responderctl show {kind}` lists them"),
        (None, false) => format!("no {kind} \"{name}\": none is configured"),
    })
}
