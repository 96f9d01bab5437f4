//! `show gslb service`, `stat gslb service` (spec/netscaler.md 7.3).

use serde_json::{Value, json};

use super::{find, some_or_all, vserver::change, word};
use crate::{
    control::{Refusal, View, show},
    decide::snapshot::figure,
    health::AddressState,
    model::{MonitorKind, ServiceId},
};

fn found(view: &View<'_>, name: Option<&str>) -> Option<Result<usize, Refusal>> {
    name.map(|name| find(view.model.services.iter().map(|s| s.name.as_str()), "serviceName", name))
}

/// What a service and its bindings have in common.
pub(super) fn states(view: &View<'_>, id: ServiceId) -> Value {
    let service = view.model.service(id);
    let verdict = show::service::verdict(view, id);
    let location = service.location.as_ref().map(ToString::to_string);
    json!({
        "servicename": service.name,
        "ipaddress": service.addresses.first(),
        "ipaddresses": service.addresses,
        "port": service.port,
        "curstate": word::state(verdict.word()),
        "svreffgslbstate": word::state(show::service::word(verdict.effective)),
        "gslbthreshold": if verdict.above { "ABOVE" } else { "BELOW" },
        "thresholdvalue": if is_overloaded(view, id) { "ABOVE" } else { "BELOW" },
        "preferredlocation": location,
        "location": location,
        "cnameentry": service.cname.as_ref().map(ToString::to_string),
    })
}

/// Some load monitor withdraws it.
fn is_overloaded(view: &View<'_>, id: ServiceId) -> bool {
    let state = view.snapshot.service(id);
    view.model.service(id).monitors.iter().any(|(monitor, _)| match &view.model.monitor(*monitor).kind {
        MonitorKind::Load { metrics } => metrics.iter().any(|metric| {
            metric.threshold > 0 && state.figure(&metric.name).is_some_and(|v| v >= metric.threshold as f64)
        }),
        _ => false,
    })
}

/// Services have no type of their own: that of the first virtual server that they are bound to.
fn type_of(view: &View<'_>, id: ServiceId) -> String {
    let first = view.model.vservers_using(id).into_iter().next();
    first.map_or_else(|| "ANY".to_owned(), |vserver| view.model.vserver(vserver).service_type.clone())
}

/// One with its monitors, or all.
pub(super) fn show(view: &View<'_>, name: Option<&str>) -> Result<Vec<Value>, Refusal> {
    some_or_all(view.model.services.len(), found(view, name), |i, alone| {
        let id = ServiceId(i as u32);
        let service = view.model.service(id);
        let verdict = show::service::verdict(view, id);
        let change = change(view, "service", &service.name);
        let (seconds, millis) = change.epoch();
        let mut out = states(view, id);
        let more = json!({
            "ip": service.addresses.first(),
            "publicip": service.addresses.first(),
            "publicport": service.port,
            "servicetype": type_of(view, id),
            "sitename": service.site,
            "state": word::enabled(verdict.admin),
            "svrstate": word::state(verdict.word()),
            "maxclient": service.max_connections,
            "maxbandwidth": service.max_bandwidth,
            "monthreshold": service.monitor_threshold,
            "hashid": service.hash_id,
            "healthmonitor": if service.monitors.is_empty() { "NO" } else { "YES" },
            "sitepersistence": "NONE",
            "reason": show::service::reason(view, id),
            "behind": service.behind.map(|v| view.model.vserver(v).name.as_str()),
            "statechangetime": change.date(),
            "statechangetimesec": seconds,
            "statechangetimemsec": millis,
            "tickssincelaststatechange": change.ticks(),
            "timesincelaststatechange": change.since(),
            "viewname": service.views.first().map(|(id, _)| view.model.views[id.index()].as_str()),
            "viewip": service.views.first().and_then(|(_, addresses)| addresses.first()),
        });
        if let (Value::Object(out), Value::Object(more)) = (&mut out, more) {
            out.extend(more);
        }
        if alone {
            out["gslbservice_dnsview_binding"] = views(view, id);
            out["gslbservice_lbmonitor_binding"] = monitors(view, id);
        }
        out
    })
}

fn views(view: &View<'_>, id: ServiceId) -> Value {
    let rows = view.model.service(id).views.iter().flat_map(|(id, addresses)| {
        let name = view.model.views[id.index()].as_str();
        addresses.iter().map(move |address| json!({"viewname": name, "viewip": address}))
    });
    rows.collect()
}

fn monitors(view: &View<'_>, id: ServiceId) -> Value {
    let service = view.model.service(id);
    let rows = view.health.monitor_rows(id).into_iter().map(|row| {
        let weight = service.monitors.iter().find(|(id, _)| view.model.monitor(*id).name == row.name);
        let failed = if row.state == AddressState::Down { row.consecutive } else { 0 };
        let state = match row.state {
            AddressState::Up => "UP",
            AddressState::Down => "DOWN",
            AddressState::Undecided => "UNKNOWN",
        };
        json!({
            "monitor_name": row.name,
            "ipaddress": row.address,
            "monstate": word::enabled(row.enabled),
            "monitor_state": state,
            "weight": weight.map_or(1, |(_, weight)| *weight),
            "failedprobes": failed,
            "lastresponse": row.last,
        })
    });
    rows.collect()
}

/// Figures of one or of all.
pub(super) fn stat(view: &View<'_>, name: Option<&str>) -> Result<Vec<Value>, Refusal> {
    some_or_all(view.model.services.len(), found(view, name), |i, _| {
        let id = ServiceId(i as u32);
        let (service, state) = (view.model.service(id), view.snapshot.service(id));
        let verdict = show::service::verdict(view, id);
        let connections = state.figure(figure::CONNECTIONS);
        json!({
            "servicename": service.name,
            "primaryipaddress": service.addresses.first(),
            "primaryport": service.port,
            "servicetype": type_of(view, id),
            "state": word::state(verdict.word()),
            "svreffgslbstate": word::state(show::service::word(verdict.effective)),
            "gslbthreshold": if verdict.above { "ABOVE" } else { "BELOW" },
            "curload": Value::from(is_overloaded(view, id)),
            "load": state.load.iter().map(|(name, figure)| (name.clone(), json!(figure.value)))
                .collect::<serde_json::Map<_, _>>(),
            "tothits": Value::Null,
            "curclntconnections": connections,
            "establishedconn": connections,
            "bandwidth": state.figure(figure::BANDWIDTH),
        })
    })
}
