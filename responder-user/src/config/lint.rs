//! Warnings: what is valid and will surprise.

use super::{
    file::{File, Payload, Policy},
    problem::Notes,
    validate::label,
};
use crate::model::{
    Location, Method, Model,
    location::{WildcardMatchesAny, same_qualifier},
    policy::Goto,
};

/// Looks at the finished model.
pub(super) fn lint(notes: &Notes<'_>, file: &File, model: &Model) {
    zones(notes, file);
    vservers(notes, file);
    preferred(notes, file, model);
    for policy in file.policies.iter().filter(|policy| policy.global) {
        pattern(notes, file, policy);
        goto(notes, file, policy);
    }
}

fn zones(notes: &Notes<'_>, file: &File) {
    for zone in file.zones.iter().filter(|zone| zone.file.is_some()) {
        let label = label("zone", &zone.head);
        if let Some(soa) = &zone.soa {
            notes.warning(soa.at, format!("{label}: soa: has no effect beside file, which brings its own"));
        }
        if let Some(first) = zone.ns.as_ref().and_then(|ns| ns.first()) {
            notes.warning(first.at, format!("{label}: ns: has no effect beside file, which brings its own"));
        }
    }
}

fn vservers(notes: &Notes<'_>, file: &File) {
    for vserver in file.vservers.iter().filter(|vserver| !vserver.head.broken) {
        let label = label("vserver", &vserver.head);
        if vserver.services.is_empty() {
            notes.warning(vserver.head.at, format!("{label}: services: is empty; it is always down"));
        }
        let method = vserver.method.as_ref().map_or(Method::default(), |method| method.value);
        let methods = [
            ("method", method, vserver.method.as_ref().map_or(vserver.head.at, |m| m.at)),
            (
                "backup_method",
                vserver.backup_method.as_ref().map_or(Method::RoundRobin, |m| m.value),
                vserver.backup_method.as_ref().map_or(vserver.head.at, |m| m.at),
            ),
        ];
        for (field, method, at) in methods {
            if !matches!(method, Method::RoundRobin | Method::StaticProximity) {
                let default = if at == vserver.head.at { ", the default," } else { "" };
                let text = format!("{label}: {field}: {method}{default} acts as round-robin for now");
                notes.warn_once(&format!("vserver/{field}/{method}"), at, text);
            }
        }
        if let Some(backup) = &vserver.backup {
            notes.warn_once("vserver/backup", backup.at, format!("{label}: backup has no effect yet"));
        }
    }
}

fn preferred(notes: &Notes<'_>, file: &File, model: &Model) {
    for action in &file.actions {
        let Payload::Preferred(list) = &action.payload else { continue };
        let label = label("dns_action", &action.head);
        for wanted in list {
            if wanted.value.is_all_wildcards() {
                let text = format!("\"{}\" matches every service that has a location", wanted.value);
                notes.warning(wanted.at, format!("{label}: preferred_locations: {text}"));
            } else if !model
                .services
                .iter()
                .any(|s| s.location.as_ref().is_some_and(|l| hits(&wanted.value, l)))
            {
                let text = format!("no service is located at or near \"{}\"", wanted.value);
                notes.warning(wanted.at, format!("{label}: preferred_locations: {text}"));
            }
        }
    }
}

/// True if a qualifier of the preferred location is that of the service: a perfect or partial match
/// (spec/netscaler.md 2.5).
fn hits(wanted: &Location, service: &Location) -> bool {
    wanted.qualifiers.iter().zip(&service.qualifiers).any(|pair| match pair {
        (Some(wanted), Some(service)) => same_qualifier(wanted, service),
        _ => false,
    })
}

/// The surprise of the default wildcard rule (spec/netscaler.md 1.2).
fn pattern(notes: &Notes<'_>, file: &File, policy: &Policy) {
    let star = policy.rule_text.value.find('*').filter(|_| policy.rule.is_some());
    let Some(star) = star.filter(|_| file.wildcard_matches_any == WildcardMatchesAny::No) else { return };
    let text = "* matches only clients whose location has a * there: location.wildcard_matches_any is \"no\"";
    notes.warning(
        notes.inside_string(policy.rule_text.at, star),
        format!("{}: rule: {text}", label("dns_policy", &policy.head)),
    );
}

/// A goto that leads nowhere is an undefined event at run time (spec/netscaler.md 2.4).
fn goto(notes: &Notes<'_>, file: &File, policy: &Policy) {
    let Some((Goto::Priority(target), at)) = policy.goto.as_ref().map(|goto| (goto.value, goto.at)) else {
        return;
    };
    let own = policy.priority.value;
    let mut priorities = file.policies.iter().filter(|p| p.global).map(|p| p.priority.value);
    let highest = priorities.clone().max().unwrap_or(own);
    let leads = target > highest || (target >= own && priorities.any(|p| p == target));
    if !leads {
        let text = format!("{target} leads to no policy behind priority {own}; a match ends the evaluation");
        notes.warning(at, format!("{}: goto: {text}", label("dns_policy", &policy.head)));
    }
}
