//! `show vserver`: states, the method that works now and why, and what each class of clients is answered.

use serde_json::{Value, json};

use super::service::{self, word};
use crate::{
    control::View,
    decide::{self, AddressState, Decision, Facts, Give, Outcome, Reason, Snapshot, decide_without_steps},
    model::{Model, RecordType, VserverId},
};

/// Classes that are decided for `show vserver NAME`; beyond them `classes_left_out` counts.
pub(in crate::control) const CLASS_LIMIT: usize = 256;

/// States of a virtual server: "up", "down", "undecided", or "disabled" for its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct States {
    /// By its own services.
    pub primary: &'static str,
    /// With its backup chain (spec/netscaler.md 3.6).
    pub effective: &'static str,
    /// It has reached its spillover threshold.
    pub above: bool,
}

/// All virtual servers.
pub fn ids(view: &View<'_>) -> impl Iterator<Item = VserverId> + use<> {
    (0..view.model.vservers.len() as u32).map(VserverId)
}

/// Over all types.
pub fn states(view: &View<'_>, id: VserverId) -> States {
    states_of(view.model, view.snapshot, id)
}

/// Likewise, of a model and a snapshot.
pub fn states_of(model: &Model, snapshot: &Snapshot, id: VserverId) -> States {
    let facts = |rtype: &RecordType| Facts { model, snapshot, rtype: *rtype };
    let all: Vec<_> = model.vserver(id).types.iter().map(|rtype| facts(rtype).vserver_states(id)).collect();
    let over_all = |state: fn(&decide::States) -> AddressState| {
        let any = |wanted| all.iter().any(|s| state(s) == wanted);
        let found = [AddressState::Up, AddressState::Undecided].into_iter().find(|wanted| any(*wanted));
        word(found.unwrap_or(AddressState::Down))
    };
    let primary = if snapshot.vserver(id).enabled { over_all(|s| s.primary) } else { "disabled" };
    States { primary, effective: over_all(|s| s.effective), above: all.iter().any(|s| s.above) }
}

/// What there is to look at, for each type that a virtual server answers.
fn facts<'v>(view: &View<'v>, id: VserverId) -> impl Iterator<Item = Facts<'v>> + use<'v> {
    let (model, snapshot) = (view.model, view.snapshot);
    model.vserver(id).types.iter().map(move |rtype| Facts { model, snapshot, rtype: *rtype })
}

/// Spillover as configured, and where it stands; null without it.
fn spillover(view: &View<'_>, id: VserverId) -> Value {
    let Some(spillover) = &view.model.vserver(id).spillover else { return Value::Null };
    let levels: Vec<_> = facts(view, id).map(|facts| facts.level(id)).collect();
    let level = levels.iter().find(|level| level.is_over()).or(levels.first());
    json!({
        "method": spillover.method.name(),
        "threshold": spillover.threshold,
        "persistence": spillover.persistence,
        "timeout": humantime::format_duration(spillover.timeout).to_string(),
        "action": spillover.action.name(),
        "redirect": spillover.redirect.as_ref().map(|(url, _)| url),
        "over": level.is_some_and(|level| level.is_over()),
        "level": level.map(ToString::to_string),
    })
}

fn persistence(view: &View<'_>, id: VserverId) -> Value {
    let Some(persistence) = view.model.vserver(id).persistence else { return Value::Null };
    json!({
        "type": "source-ip",
        "mask": persistence.mask,
        "mask6": persistence.mask6,
        "timeout": humantime::format_duration(persistence.timeout).to_string(),
        "id": persistence.id,
    })
}

/// What is wrong with a virtual server, and what clients get meanwhile; None where nothing is.
pub fn plight(view: &View<'_>, id: VserverId) -> Option<String> {
    let States { primary, effective, .. } = states(view, id);
    let bound = view.model.vserver(id).services.len();
    let why = match primary {
        "up" if view.snapshot.vserver(id).is_latched() => {
            "held back since it was down: `enable vserver` brings it back".to_owned()
        }
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
        Reason::BackupVserver | Reason::Latched => {
            format!("vserver {} answers", view.model.vserver(decision.link).name)
        }
        Reason::BackupIp | Reason::BackupIpLatched => "backup IP is answered".to_owned(),
        Reason::EmptyDownResponse => "answers are empty".to_owned(),
        Reason::AllBound => "the addresses of all bound services are answered".to_owned(),
        other => other.to_string(),
    };
    Some(format!("{why}; {answer}"))
}

/// What a client that no policy and no location mentions is answered, for the first type.
pub(in crate::control) fn current(view: &View<'_>, id: VserverId) -> Decision {
    let rtype = view.model.vserver(id).types.first().copied().unwrap_or(RecordType::A);
    let client = view.classes.client(view.model, 0);
    decide_without_steps(view.model, view.snapshot, &view.owner_of(id), rtype, &client)
}

/// A row of the list.
pub fn value(view: &View<'_>, id: VserverId) -> Value {
    let vserver = view.model.vserver(id);
    let States { primary, effective, above } = states(view, id);
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
        "threshold": service::threshold(above),
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
        "disable_primary_on_down": vserver.disable_primary_on_down,
        "latched": view.snapshot.vserver(id).is_latched(),
        "spillover": spillover(view, id),
        "persistence": persistence(view, id),
        "skip_persistency": vserver.skip_persistency.name(),
        "effective_state": if vserver.effective_state { "state-only" } else { "none" },
        "dynamic_weight": vserver.dynamic_weight.name(),
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
            "effective": word(verdict.effective),
            "threshold": verdict.threshold(),
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
        "outcome": outcome(&decision.outcome),
        "give": give(&decision.outcome),
        "addresses": addresses(&decision.outcome),
        "records": records(&decision.outcome),
    })
}

/// "answer", "empty", "undecided", "drop", "refused" or "not-ours".
pub(in crate::control) fn outcome(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Answer(_) | Outcome::Records(_) => "answer",
        Outcome::Empty => "empty",
        Outcome::Undecided => "undecided",
        Outcome::Drop => "drop",
        Outcome::Refused => "refused",
        Outcome::NotOurs => "not-ours",
    }
}

/// How many of the addresses an answer carries: "one", "all", or "best-first" for all with the best one first.
pub(in crate::control) fn give(outcome: &Outcome) -> Option<&'static str> {
    let give = match outcome {
        Outcome::Answer(pool) => pool.give,
        Outcome::Records(pool) => pool.give,
        _ => return None,
    };
    Some(match give {
        Give::One => "one",
        Give::All => "all",
        Give::BestFirst => "best-first",
    })
}

/// Every address that an answer may carry.
pub(in crate::control) fn addresses(outcome: &Outcome) -> Vec<std::net::IpAddr> {
    match outcome {
        Outcome::Answer(pool) => pool.rotate.iter().chain(&pool.extras).map(|m| m.address).collect(),
        _ => Vec::new(),
    }
}

/// Every record that is no address and that an answer may carry.
pub(in crate::control) fn records(outcome: &Outcome) -> Vec<String> {
    match outcome {
        Outcome::Records(pool) => {
            pool.rotate.iter().chain(&pool.extras).map(|m| m.address.to_string()).collect()
        }
        _ => Vec::new(),
    }
}
