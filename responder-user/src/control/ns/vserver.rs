//! `show gslb vserver`, `stat gslb vserver`, `show lb vserver` (spec/netscaler.md 7.1, 7.2, 5.1).

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::{find, service, some_or_all, time::Change, word};
use crate::{
    config::import::{Kind, Object, Store},
    control::{
        Refusal, View,
        show::{LIST_LIMIT, vserver},
    },
    decide::{Decision, Facts, Reason, decide_without_steps, snapshot::figure},
    model::{
        Bound, RecordType, Vserver, VserverId,
        policy::BindPoint,
        vserver::{DynamicWeight, SkipPersistency},
    },
};

fn found(view: &View<'_>, name: Option<&str>) -> Option<Result<usize, Refusal>> {
    name.map(|name| find(view.model.vservers.iter().map(|v| v.name.as_str()), "name", name))
}

/// One with its bindings, or all.
pub(super) fn show(view: &View<'_>, name: Option<&str>) -> Result<Vec<Value>, Refusal> {
    some_or_all(view.model.vservers.len(), found(view, name), |i, alone| {
        let id = VserverId(i as u32);
        let mut out = row(view, id);
        if alone {
            bindings(view, id, &mut out);
        }
        out
    })
}

/// What tells how it answers now: the answer to a client that no policy means. A client that no location knows says nothing
/// of static proximity: then one that is known.
fn current(view: &View<'_>, id: VserverId) -> Decision {
    let now = vserver::current(view, id);
    if now.reason != Reason::ClientNotLocated {
        return now;
    }
    let rtype = view.model.vserver(id).types.first().copied().unwrap_or(RecordType::A);
    let owner = view.owner_of(id);
    let classes = 1..view.classes.count().min(vserver::CLASS_LIMIT) as u16;
    let mut others = classes.map(|class| {
        let client = view.classes.client(view.model, class);
        decide_without_steps(view.model, view.snapshot, &owner, rtype, &client)
    });
    others.find(|decision| decision.reason == Reason::Configured).unwrap_or(now)
}

/// When its state last changed.
pub(super) fn change(view: &View<'_>, kind: &str, name: &str) -> Change {
    Change::of(view.events.last_change(&format!("{kind} {name}")), view.clock, view.uptime)
}

fn row(view: &View<'_>, id: VserverId) -> Value {
    let configured = view.model.vserver(id);
    let states = vserver::states(view, id);
    let now = current(view, id);
    let change = change(view, "vserver", &configured.name);
    let (seconds, millis) = change.epoch();
    let plain = vserver::value(view, id);
    let mut out = json!({
        "name": configured.name,
        "servicetype": configured.service_type,
        "state": word::enabled(view.snapshot.vserver(id).enabled),
        "curstate": word::state(states.primary),
        "status": word::state_code(states.primary),
        "effectivestate": word::state(states.effective),
        "threshold": if states.above { "ABOVE" } else { "BELOW" },
        "dnsrecordtype": word::record_type(configured.types.first()),
        "dnsrecordtypes": configured.types.iter().map(|t| t.name()).collect::<Vec<_>>(),
        "iptype": if configured.types.contains(&RecordType::A) { "IPV4" } else { "IPV6" },
        "health": plain["health"],
        "totalservices": plain["services_total"],
        "activeservices": plain["services_active"],
        "statechangetime": change.date(),
        "statechangetimesec": seconds,
        "statechangetimemsec": millis,
        "tickssincelaststatechange": change.ticks(),
        "timesincelaststatechange": change.since(),
        "backupvserver": configured.backup.map(|b| view.model.vserver(b).name.as_str()),
    });
    let merge = |out: &mut Value, more: Value| {
        if let (Value::Object(out), Value::Object(more)) = (out, more) {
            out.extend(more);
        }
    };
    merge(&mut out, settings(configured));
    merge(&mut out, spillover(view, id));
    merge(&mut out, method(configured, &now));
    out
}

fn mask(bits: u8) -> String {
    Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0)).to_string()
}

/// What was configured and says nothing of now.
fn settings(configured: &Vserver) -> Value {
    let flag = word::enabled;
    let persistence = configured.persistence;
    json!({
        "edr": flag(configured.empty_down_response),
        "ecs": flag(configured.ecs),
        "ecsaddrvalidation": flag(configured.ecs_validation),
        "mir": flag(configured.multiple_ip_response),
        "disableprimaryondown": flag(configured.disable_primary_on_down),
        "dynamicweight": word::dynamic_weight(configured.dynamic_weight),
        "considereffectivestate": if configured.effective_state { "STATE_ONLY" } else { "NONE" },
        "iscname": flag(configured.types.contains(&RecordType::Cname)),
        "toggleorder": if configured.descending_order { "DESCENDING" } else { "ASCENDING" },
        "orderthreshold": configured.order_threshold,
        "netmask": mask(configured.hash_mask.0),
        "v6netmasklen": configured.hash_mask.1,
        "tolerance": 0,
        "persistencetype": if persistence.is_some() { "SOURCEIP" } else { "NONE" },
        "persistenceid": persistence.and_then(|p| p.id),
        "persistmask": mask(persistence.map_or(32, |p| p.mask)),
        "v6persistmasklen": persistence.map_or(128, |p| p.mask6),
        "timeout": persistence.map_or(2, |p| p.timeout.as_secs() / 60),
        "backupsessiontimeout": configured.backup_session_timeout.map_or(0, |t| t.as_secs() / 60),
        "sitepersistence": "NONE",
        "skippersistency": word::skip_persistency(configured.skip_persistency),
    })
}

fn spillover(view: &View<'_>, id: VserverId) -> Value {
    let configured = view.model.vserver(id);
    let state = view.snapshot.vserver(id);
    let spill = configured.spillover.as_ref();
    let levels: Vec<_> = configured
        .types
        .iter()
        .map(|rtype| Facts { model: view.model, snapshot: view.snapshot, rtype: *rtype }.level(id))
        .collect();
    let level = levels.iter().find(|level| level.is_over()).or(levels.first());
    json!({
        "latched": state.is_latched(),
        "spilled": level.is_some_and(|level| level.is_over()),
        "spillstate": spill.and(level).map(ToString::to_string),
        "somethod": spill.map_or("NONE", |s| word::spillover(s.method)),
        "sothreshold": spill.map(|s| s.threshold),
        "sopersistence": word::enabled(spill.is_some_and(|s| s.persistence)),
        "sopersistencetimeout": spill.map_or(2, |s| s.timeout.as_secs() / 60),
        "sobackupaction": spill.map(|s| word::action(s.action)),
    })
}

fn method(configured: &Vserver, now: &Decision) -> Value {
    json!({
        "lbmethod": word::method(configured.method),
        "backuplbmethod": configured.backup_method.map(word::method),
        "currentmethod": word::method_title(now.method),
        "currentmethodreason": now.reason.to_string(),
        "lbrrreason": now.reason.lbrrreason().unwrap_or(0),
        "preferredlocationtier": now.tier.to_string(),
        "currentactiveorder": now.order,
    })
}

/// What is bound to it, under NITRO's names.
fn bindings(view: &View<'_>, id: VserverId, out: &mut Value) {
    let configured = view.model.vserver(id);
    let bound = configured.services.iter();
    out["gslbvserver_gslbservice_binding"] =
        bound.map(|bound| bound_service(view, configured, bound)).collect();
    let domains = view.model.domains.iter().filter(|domain| domain.vserver == id);
    out["gslbvserver_domain_binding"] = domains
        .take(LIST_LIMIT)
        .map(|domain| {
            json!({
                "domainname": domain.name.to_string(),
                "ttl": domain.ttl,
                "backupip": domain.backup_ip.first(),
                "backupips": *domain.backup_ip,
                "cookietimeout": 0,
                "sitedomainttl": 3600,
            })
        })
        .collect();
    let left = (view.names.count(id) as usize).saturating_sub(LIST_LIMIT);
    out["domainsleftout"] = json!(left);
    let is_here = |point| matches!(point, BindPoint::Vserver(v) | BindPoint::VserverResponse(v) if v == id);
    let policies = view.model.policies.iter().filter(|policy| is_here(policy.bind));
    out["gslbvserver_gslbpolicy_binding"] = policies
        .map(|policy| {
            json!({
                "policyname": policy.name,
                "priority": policy.priority,
                "gotopriorityexpression": policy.goto.to_string(),
                "type": word::bind_point(policy.bind),
            })
        })
        .collect();
}

fn bound_service(view: &View<'_>, configured: &Vserver, bound: &Bound) -> Value {
    let mut out = service::states(view, bound.service);
    let state = view.snapshot.service(bound.service);
    let name = match configured.dynamic_weight {
        DynamicWeight::Disabled => None,
        DynamicWeight::ServiceCount => Some(figure::SERVICES),
        DynamicWeight::ServiceWeight => Some(figure::WEIGHTS),
    };
    let dynamic = name.and_then(|name| state.figure(name)).unwrap_or(0.0) as u64;
    let weight = u64::from(bound.weight);
    out["weight"] = json!(weight);
    out["dynamicconfwt"] = json!(dynamic);
    // Without a figure the configured weight stands alone.
    out["cumulativeweight"] = json!(if dynamic > 0 { weight * dynamic } else { weight });
    out["gslbboundsvctype"] = json!(configured.service_type);
    out["order"] = json!(bound.order);
    out["orderstr"] = json!(bound.order.map_or_else(|| "Default".to_owned(), |order| order.to_string()));
    out["sitepersistence"] = json!("NONE");
    out
}

/// Figures of one or of all.
pub(super) fn stat(view: &View<'_>, name: Option<&str>) -> Result<Vec<Value>, Refusal> {
    some_or_all(view.model.vservers.len(), found(view, name), |i, _| {
        let id = VserverId(i as u32);
        let configured = view.model.vserver(id);
        let states = vserver::states(view, id);
        let plain = vserver::value(view, id);
        let sum = |name: &str| {
            let states = configured.services.iter().map(|bound| view.snapshot.service(bound.service));
            let known: Vec<f64> = states.filter_map(|state| state.figure(name)).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>())
        };
        let connections = sum(figure::CONNECTIONS);
        let total = plain["services_total"].as_u64().unwrap_or(0);
        let active = plain["services_active"].as_u64().unwrap_or(0);
        let spill = configured.spillover.as_ref();
        json!({
            "name": configured.name,
            "vslbhealth": plain["health"],
            "type": configured.service_type,
            "state": word::state(states.primary),
            "effectivestate": word::state(states.effective),
            "primaryipaddress": "0.0.0.0",
            "primaryport": 0,
            "actsvcs": active,
            "inactsvcs": total - active,
            "tothits": Value::Null,
            "hitsrate": Value::Null,
            "curclntconnections": connections,
            "establishedconn": connections,
            "bandwidth": sum(figure::BANDWIDTH),
            "curpersistencesessions": Value::Null,
            "sothreshold": spill.map(|s| s.threshold),
            "totspillovers": view.events.spillovers(&format!("vserver {}", configured.name)),
            "spilled": view.snapshot.vserver(id).memory.iter().any(|memory| memory.spilled),
            "latched": view.snapshot.vserver(id).is_latched(),
        })
    })
}

/// Those that were added as such, which this daemon keeps and does not run, and those of the model that services stand for
/// or that are nothing else; any of the model by its name.
pub(super) fn show_lb(view: &View<'_>, store: &Store, name: Option<&str>) -> Result<Vec<Value>, Refusal> {
    let is_behind = |id: VserverId| view.model.services.iter().any(|service| service.behind == Some(id));
    let is_lb = |id: VserverId| {
        let skips = view.model.vserver(id).skip_persistency != SkipPersistency::None;
        is_behind(id) || (view.names.count(id) == 0 && skips)
    };
    let of_model = |id: VserverId| {
        let mut out = row(view, id);
        out["ipv46"] = json!("*");
        out["port"] = json!("*");
        out["type"] = json!("ADDRESS");
        out
    };
    if let Some(name) = name {
        return match (store.get(Kind::LbVserver, name), found(view, Some(name))) {
            (Some(added), _) => Ok(vec![added_lb(added)]),
            (None, Some(found)) => Ok(vec![of_model(VserverId(found? as u32))]),
            (None, None) => Ok(Vec::new()),
        };
    }
    let is_added = |id: &VserverId| store.get(Kind::LbVserver, &view.model.vserver(*id).name).is_some();
    let rest = vserver::ids(view).filter(|id| is_lb(*id) && !is_added(id)).map(of_model);
    Ok(store.all(Kind::LbVserver).map(added_lb).chain(rest).collect())
}

fn added_lb(added: &Object) -> Value {
    let given = |key: &str, default: &'static str| added.given(key).unwrap_or(default).to_owned();
    json!({
        "name": added.name,
        "servicetype": given("serviceType", "ANY"),
        "ipv46": given("IPAddress", "*"),
        "port": given("port", "*"),
        "type": "ADDRESS",
        "state": given("state", "ENABLED"),
        "curstate": "UNKNOWN",
        "lbmethod": given("lbMethod", "LEASTCONNECTION"),
        "persistencetype": given("persistenceType", "NONE"),
        "timeout": given("timeout", "2"),
        "skippersistency": given("skippersistency", "None"),
        "backupvserver": added.given("backupVServer"),
        "somethod": given("soMethod", "NONE"),
        "totalservices": added.bound.len(),
    })
}
