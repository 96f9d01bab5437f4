//! Warnings: what is valid and will surprise.

use super::{
    file::{File, Payload, Policy},
    problem::Notes,
    validate::label,
};
use crate::model::{
    Location, Method, Model, RecordType, Rule,
    location::{WildcardMatchesAny, same_qualifier},
    policy::Goto,
};

/// Looks at the finished model.
pub(super) fn lint(notes: &Notes<'_>, file: &File, model: &Model) {
    zones(notes, file, model);
    vservers(notes, file);
    preferred(notes, file, model);
    for policy in &file.policies {
        pattern(notes, file, policy);
        goto(notes, model, policy);
    }
    types(notes, file, model);
}

fn zones(notes: &Notes<'_>, file: &File, model: &Model) {
    for zone in file.zones.iter().filter(|zone| zone.file.is_none()) {
        for server in &zone.ns {
            let (name, address) = (&server.name.value, server.addresses.first());
            // The closest zone is to have the address.
            let is_closest = |apex: &crate::model::DnsName| {
                model.zone_of(name).is_some_and(|closest| closest.apex == *apex)
            };
            let is_ours = zone.apex.as_ref().is_some_and(is_closest);
            let is_bound = file.domains.iter().any(|domain| domain.dns.as_ref() == Some(name));
            let text = match address {
                None if is_ours && !is_bound => format!(
                    "{name} lies in the zone and has no address; write {{ name = \"{name}\", address = \"...\" }}"
                ),
                Some(_) if is_bound => {
                    format!("{name} is bound to a vserver, which answers instead of these addresses")
                }
                _ => continue,
            };
            notes.warning(server.name.at, format!("{}: ns: {text}", label("zone", &zone.head)));
        }
    }
    for zone in file.zones.iter().filter(|zone| zone.file.is_some()) {
        let label = label("zone", &zone.head);
        if let Some(soa) = &zone.soa {
            notes.warning(soa.at, format!("{label}: soa: has no effect beside file, which brings its own"));
        }
        if let Some(first) = zone.ns.first() {
            notes.warning(
                first.name.at,
                format!("{label}: ns: has no effect beside file, which brings its own"),
            );
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
        let at = vserver.method.as_ref().map_or(vserver.head.at, |m| m.at);
        let default = if vserver.method.is_none() { ", the default," } else { "" };
        let text = match method {
            Method::RoundRobin | Method::StaticProximity | Method::SourceIpHash => None,
            Method::Rtt => {
                Some("has nothing that measures round trip times, so backup_method or round-robin decides")
            }
            Method::Api => Some("has no callouts, so round-robin decides"),
            _ => Some("acts as round-robin until every service has load figures (responderctl load)"),
        };
        if let Some(text) = text {
            let text = format!("{label}: method: {method}{default} {text}");
            notes.warn_once(&format!("vserver/method/{method}"), at, text);
        }
        if vserver.plain.disable_primary_on_down && vserver.backup.is_none() {
            let name = &vserver.head.name.value;
            let has_backup_ip =
                file.domains.iter().any(|d| d.vserver.value == *name && !d.backup_ip.is_empty());
            if !has_backup_ip {
                let text = "disable_primary_on_down: has no effect without backup or a backup_ip";
                notes.warning(vserver.head.at, format!("{label}: {text}"));
            }
        }
    }
}

/// A rule that tests the type sees what the virtual server answers.
fn types(notes: &Notes<'_>, file: &File, model: &Model) {
    if !model.vservers.iter().any(|v| v.types.contains(&RecordType::Cname)) {
        return;
    }
    for policy in &file.policies {
        let mut tests = false;
        if let Some(rule) = &policy.rule {
            rule.visit(&mut |part| tests |= matches!(part, Rule::Type { .. }));
        }
        if tests {
            let text = "for names of a vserver of type CNAME the type is CNAME, whatever was asked";
            let label = label("dns_policy", &policy.head);
            notes.warn_once("dns_policy/type", policy.rule_text.at, format!("{label}: rule: {text}"));
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
fn goto(notes: &Notes<'_>, model: &Model, policy: &Policy) {
    let name = &policy.head.name.value;
    for bind in &policy.binds {
        let Some((Goto::Priority(target), at)) = bind.goto.as_ref().map(|goto| (goto.value, goto.at)) else {
            continue;
        };
        let own = bind.priority.value;
        let made = model.policies.iter().find(|p| p.name == *name && p.priority == own);
        let Some(made) = made else { continue };
        let same = || model.policies.iter().filter(|p| p.bind == made.bind).map(|p| p.priority);
        let highest = same().max().unwrap_or(own);
        let leads = target > highest || (target >= own && same().any(|p| p == target));
        if !leads {
            let text =
                format!("{target} leads to no policy behind priority {own}; a match ends the evaluation");
            notes.warning(at, format!("{}: goto: {text}", label("dns_policy", &policy.head)));
        }
    }
}
