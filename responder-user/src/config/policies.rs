//! Policies with their bind points: names become ids, tests of names are numbered, tests of the address that was asked
//! become constants.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
};

use ipnet::IpNet;

use super::{
    file::{Bind, File, Point, Policy},
    problem::{At, Notes},
    validate::{Index, label},
};
use crate::model::{
    ActionId, DnsPolicy, LabelId, Model, Rule, VserverId,
    policy::{BindPoint, NameTest},
};

/// Fills in policies, labels and tests of names.
pub(super) fn policies(
    notes: &Notes<'_>,
    file: &File,
    actions: &Index<'_>,
    vservers: &Index<'_>,
    model: &mut Model,
) {
    for bind in file.policies.iter().flat_map(|policy| &policy.binds) {
        if let Point::Label(name) = &bind.point
            && !model.labels.contains(name)
        {
            model.labels.push(name.clone());
        }
    }
    let mut taken: HashMap<(BindPoint, u32), usize> = HashMap::new();
    for typed in &file.policies {
        let label = label("dns_policy", &typed.head);
        let action = actions.find(notes, &label, "action", &typed.action);
        let rule = typed.rule.clone().and_then(|rule| prepare(notes, &label, typed, rule, model));
        for bind in &typed.binds {
            let Some(point) = point(notes, &label, bind, vservers, &model.labels) else { continue };
            let priority = bind.priority.value;
            let first = *taken.entry((point, priority)).or_insert(bind.priority.at);
            if first != bind.priority.at {
                let line = notes.line(first);
                let text = format!("{priority} is taken by the dns_policy in line {line}");
                notes.problem(bind.priority.at, format!("{label}: priority: {text}"));
            }
            let invoke = bind.invoke.as_ref().and_then(|name| find_label(notes, &label, name, &model.labels));
            let (Some(action), Some(rule)) = (action, &rule) else { continue };
            model.policies.push(DnsPolicy {
                name: typed.head.name.value.clone(),
                rule: rule.clone(),
                rule_text: typed.rule_text.value.clone(),
                action: ActionId(action as u32),
                bind: point,
                priority,
                goto: bind.goto.as_ref().map_or_else(Default::default, |goto| goto.value),
                invoke,
            });
        }
    }
    model.policies.sort_by_key(|policy| (policy.bind, policy.priority));
}

fn point(
    notes: &Notes<'_>,
    label: &str,
    bind: &Bind,
    vservers: &Index<'_>,
    labels: &[String],
) -> Option<BindPoint> {
    match &bind.point {
        Point::Global(point) => Some(*point),
        Point::Vserver(name, is_response) => {
            let id = VserverId(vservers.find(notes, label, "bind.vserver", name)? as u32);
            Some(if *is_response { BindPoint::VserverResponse(id) } else { BindPoint::Vserver(id) })
        }
        Point::Label(name) => {
            labels.iter().position(|known| known == name).map(|i| BindPoint::Label(LabelId(i as u32)))
        }
    }
}

fn find_label(notes: &Notes<'_>, label: &str, name: &At<String>, labels: &[String]) -> Option<LabelId> {
    let found = labels.iter().position(|known| *known == name.value);
    if found.is_none() {
        let hint = notes.did_you_mean(&name.value, labels.iter().map(String::as_str));
        let text = format!("no policy is bound to a label {:?}{hint}", name.value);
        notes.problem(name.at, format!("{label}: invoke: {text}"));
    }
    found.map(|i| LabelId(i as u32))
}

/// Numbers the tests of names, and decides those of the address that was asked.
fn prepare(
    notes: &Notes<'_>,
    label: &str,
    typed: &Policy,
    mut rule: Rule,
    model: &mut Model,
) -> Option<Rule> {
    let listen: Vec<IpAddr> = model.settings.listen.iter().map(SocketAddr::ip).collect();
    let tests = &mut model.name_tests;
    let mut problem = None;
    rule.visit_mut(&mut |part| match part {
        Rule::Name { test, id, .. } => *id = number(tests, test),
        Rule::Destination(net) => match destination(*net, &listen) {
            Ok(constant) => *part = constant,
            Err(text) => problem = Some(text),
        },
        _ => {}
    });
    if let Some(text) = problem {
        notes.problem(typed.rule_text.at, format!("{label}: rule: {text}"));
        return None;
    }
    Some(rule)
}

fn number(tests: &mut Vec<NameTest>, test: &NameTest) -> u32 {
    let known = tests.iter().position(|other| other == test);
    known.unwrap_or_else(|| {
        tests.push(test.clone());
        tests.len() - 1
    }) as u32
}

/// The address that was asked is one of ours. A rule about it that holds for all of its family, or for none, is a rule
/// about the family; others would need answers by listening address.
fn destination(net: IpNet, listen: &[IpAddr]) -> Result<Rule, String> {
    let of_family = || listen.iter().filter(|a| a.is_ipv4() == net.addr().is_ipv4());
    if let Some(all) = of_family().find(|a| a.is_unspecified()) {
        return Err(format!(
            "CLIENT.IP.DST cannot be decided while {all} is listened on; list the addresses"
        ));
    }
    let inside = of_family().filter(|a| net.contains(*a)).count();
    match inside {
        0 => Ok(Rule::Constant(false)),
        n if n == of_family().count() => {
            let everything = if net.addr().is_ipv4() { "0.0.0.0/0" } else { "::/0" };
            Ok(everything.parse().map_or(Rule::Constant(true), Rule::InSubnet))
        }
        _ => Err(format!(
            "{net} holds some of listen.addresses and not others; answers that differ by listening address are not supported"
        )),
    }
}
