//! `show vserver`: states, the method that works now and why, and what each class of clients is answered.

use serde_json::{Value, json};

use super::service::{self, word};
use crate::{
    control::View,
    decide::{Decision, Give, Outcome, Pool, Reason, chain, decide_without_steps},
    model::{RecordType, VserverId},
};

/// Classes that are decided for `show vserver NAME`; beyond them `classes_left_out` counts.
const CLASS_LIMIT: usize = 256;

/// States of a virtual server: "up", "down", "undecided", or "disabled" for its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct States {
    /// By its own services.
    pub primary: &'static str,
    /// With its backup chain (spec/netscaler.md 3.6).
    pub effective: &'static str,
}

/// All virtual servers.
pub fn ids(view: &View<'_>) -> impl Iterator<Item = VserverId> + use<> {
    (0..view.model.vservers.len() as u32).map(VserverId)
}

/// Both states.
pub fn states(view: &View<'_>, id: VserverId) -> States {
    let primary = own(view, id);
    let chain = chain::links(view.model, id);
    let decides =
        chain.iter().map(|link| own(view, *link)).find(|state| matches!(*state, "up" | "undecided"));
    States { primary, effective: decides.unwrap_or("down") }
}

fn own(view: &View<'_>, id: VserverId) -> &'static str {
    if !view.snapshot.vserver(id).enabled {
        return "disabled";
    }
    let bound = &view.model.vserver(id).services;
    let words: Vec<&str> = bound.iter().map(|b| service::verdict(view, b.service).word()).collect();
    ["up", "undecided"].into_iter().find(|state| words.contains(state)).unwrap_or("down")
}

/// What is wrong with a virtual server, and what clients get meanwhile; None where nothing is.
pub fn plight(view: &View<'_>, id: VserverId) -> Option<String> {
    let States { primary, effective } = states(view, id);
    let bound = view.model.vserver(id).services.len();
    let why = match primary {
        "up" => return None,
        "undecided" => return Some("waiting for the first results of its monitors".to_owned()),
        "disabled" => "disabled".to_owned(),
        _ if bound == 0 => "no service is bound".to_owned(),
        _ if bound == 1 => "its service is not usable".to_owned(),
        _ => format!("none of its {bound} services is usable"),
    };
    let decision = current(view, id);
    let answer = match decision.reason {
        _ if effective == "undecided" => "its backup waits for the first results of its monitors".to_owned(),
        Reason::BackupVserver => format!("vserver {} answers", view.model.vserver(decision.link).name),
        Reason::BackupIp => "backup IP is answered".to_owned(),
        Reason::EmptyDownResponse => "answers are empty".to_owned(),
        Reason::AllBound => "the addresses of all bound services are answered".to_owned(),
        other => other.to_string(),
    };
    Some(format!("{why}; {answer}"))
}

/// What a client that no policy and no location mentions is answered, for the first type.
fn current(view: &View<'_>, id: VserverId) -> Decision {
    let rtype = view.model.vserver(id).types.first().copied().unwrap_or(RecordType::A);
    let client = view.classes.client(view.model, 0);
    decide_without_steps(view.model, view.snapshot, &view.owner_of(id), rtype, &client)
}

/// A row of the list.
pub fn value(view: &View<'_>, id: VserverId) -> Value {
    let vserver = view.model.vserver(id);
    let States { primary, effective } = states(view, id);
    let now = current(view, id);
    let (mut active, mut weights) = (0_u64, (0_u64, 0_u64));
    for bound in &vserver.services {
        let verdict = service::verdict(view, bound.service);
        active += u64::from(verdict.usable);
        // Services that an operator took out are left out of the health (spec/netscaler.md 7.1).
        weights.1 += if verdict.admin { u64::from(bound.weight) } else { 0 };
        weights.0 += if verdict.usable { u64::from(bound.weight) } else { 0 };
    }
    json!({
        "name": vserver.name,
        "service_type": vserver.service_type,
        "admin": if view.snapshot.vserver(id).enabled { "enabled" } else { "disabled" },
        "primary": primary,
        "effective": effective,
        "threshold": "below",
        "types": vserver.types.iter().map(|t| t.name()).collect::<Vec<_>>(),
        "method": vserver.method.name(),
        "backup_method": vserver.backup_method.map(crate::model::Method::name),
        "current_method": now.method.name(),
        "reason": now.reason.to_string(),
        "reason_code": now.reason.lbrrreason(),
        "services_total": vserver.services.len(),
        "services_active": active,
        "health": (weights.0 * 100).checked_div(weights.1).unwrap_or(0),
        "domains": view.names.count(id),
        "backup": vserver.backup.map(|b| view.model.vserver(b).name.as_str()),
        "multiple_ip_response": vserver.multiple_ip_response,
        "empty_down_response": vserver.empty_down_response,
        "latched": false,
        "spillover": null,
        "last_change": view.events.last_change(&format!("vserver {}", vserver.name)),
    })
}

/// The whole object: the row, its services, and its answers by class.
pub fn whole(view: &View<'_>, id: VserverId) -> Value {
    let mut out = value(view, id);
    let services = view.model.vserver(id).services.iter().map(|bound| {
        let (service, verdict) = (view.model.service(bound.service), service::verdict(view, bound.service));
        json!({
            "name": service.name,
            "weight": bound.weight,
            "order": bound.order,
            "addresses": service.addresses,
            "port": service.port,
            "location": service.location.as_ref().map(ToString::to_string),
            "state": verdict.word(),
            "effective": word(verdict.state),
            "threshold": "below",
            "usable": verdict.usable,
            "reason": service::reason(view, bound.service),
        })
    });
    out["services"] = services.collect();
    out["answers"] = answers(view, id);
    out["classes_left_out"] = json!(view.classes.count().saturating_sub(CLASS_LIMIT));
    out
}

/// Equal answers of several classes stand in one row, with a client of the first of them.
fn answers(view: &View<'_>, id: VserverId) -> Value {
    let owner = view.owner_of(id);
    let mut rows: Vec<(Value, Value, u64)> = Vec::new();
    for &rtype in &view.model.vserver(id).types {
        for class in 0..view.classes.count().min(CLASS_LIMIT) as u16 {
            let client = view.classes.client(view.model, class);
            let decision = decide_without_steps(view.model, view.snapshot, &owner, rtype, &client);
            let answer = answer(view, rtype, &decision);
            match rows.iter_mut().find(|(known, ..)| *known == answer) {
                Some((.., classes)) => *classes += 1,
                None => rows.push((answer, json!({"class": class, "client": client.address}), 1)),
            }
        }
    }
    let rows = rows.into_iter().map(|(mut answer, example, classes)| {
        answer["class"] = example["class"].clone();
        answer["client"] = example["client"].clone();
        answer["classes"] = json!(classes);
        answer
    });
    rows.collect()
}

fn answer(view: &View<'_>, rtype: RecordType, decision: &Decision) -> Value {
    json!({
        "type": rtype.name(),
        "policy": decision.policy.map(|p| view.model.policies[p.index()].name.as_str()),
        "link": view.model.vserver(decision.link).name,
        "order": decision.order,
        "tier": decision.tier.to_string(),
        "method": decision.method.name(),
        "reason": decision.reason.to_string(),
        "give": match &decision.outcome {
            Outcome::Answer(pool) => Some(give(pool)),
            Outcome::Undecided | Outcome::Empty => None,
        },
        "addresses": addresses(&decision.outcome),
    })
}

/// How many of the addresses an answer carries: "one", "all", or "best-first" for all with the best one first.
pub(in crate::control) fn give(pool: &Pool) -> &'static str {
    match pool.give {
        Give::One => "one",
        Give::All => "all",
        Give::BestFirst => "best-first",
    }
}

/// Every address that an answer may carry.
pub(in crate::control) fn addresses(outcome: &Outcome) -> Vec<std::net::IpAddr> {
    match outcome {
        Outcome::Answer(pool) => pool.rotate.iter().chain(&pool.extras).map(|m| m.address).collect(),
        Outcome::Undecided | Outcome::Empty => Vec::new(),
    }
}
