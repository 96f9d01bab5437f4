//! `show dns policy | action | global | view` (spec/netscaler.md 7.3).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{find, some_or_all, word};
use crate::{
    config::import::{Kind, Store},
    control::{Refusal, View},
    model::{DnsActionKind, DnsPolicy, ViewId, policy::BindPoint},
};

/// Each policy once, with its bind points; then those that are bound nowhere.
pub(super) fn policies(view: &View<'_>, store: &Store, name: Option<&str>) -> Result<Vec<Value>, Refusal> {
    let mut names: Vec<&str> = Vec::new();
    for policy in &view.model.policies {
        if !names.contains(&policy.name.as_str()) {
            names.push(&policy.name);
        }
    }
    let is_bound = |name: &str| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    let loose: Vec<_> = store.all(Kind::DnsPolicy).filter(|policy| !is_bound(&policy.name)).collect();
    let all = names.iter().copied().chain(loose.iter().map(|policy| policy.name.as_str()));
    let found = name.map(|name| find(all, "name", name));
    some_or_all(names.len() + loose.len(), found, |i, _| {
        if let Some(policy) = i.checked_sub(names.len()).map(|i| loose[i]) {
            return policy_row(&policy.name, policy.given("rule"), policy.given("actionName"), &[]);
        }
        let bound: Vec<&DnsPolicy> = view.model.policies.iter().filter(|p| p.name == names[i]).collect();
        let first = bound[0];
        let action = view.model.actions[first.action.index()].name.as_str();
        let binds = bound.iter().map(|policy| {
            json!({
                "boundto": bound_to(view, policy.bind),
                "priority": policy.priority,
                "gotopriorityexpression": policy.goto.to_string(),
                "type": word::bind_point(policy.bind),
            })
        });
        policy_row(&first.name, Some(&first.rule_text), Some(action), &binds.collect::<Vec<_>>())
    })
}

fn policy_row(name: &str, rule: Option<&str>, action: Option<&str>, binds: &[Value]) -> Value {
    json!({
        "name": name,
        "rule": rule,
        "actionname": action,
        "hits": Value::Null,
        "undefhits": Value::Null,
        "dnspolicy_binding": binds,
    })
}

fn bound_to(view: &View<'_>, point: BindPoint) -> String {
    match point {
        BindPoint::Vserver(id) | BindPoint::VserverResponse(id) => view.model.vserver(id).name.clone(),
        BindPoint::Label(id) => view.model.labels[id.index()].clone(),
        _ => "global".to_owned(),
    }
}

/// One or all.
pub(super) fn actions(view: &View<'_>, name: Option<&str>) -> Result<Vec<Value>, Refusal> {
    let all = &view.model.actions;
    let found = name.map(|name| find(all.iter().map(|a| a.name.as_str()), "actionName", name));
    some_or_all(all.len(), found, |i, _| {
        let mut out = json!({"actionname": all[i].name, "actiontype": word::action_type(&all[i].kind)});
        match &all[i].kind {
            DnsActionKind::PreferredLocations(list) => {
                out["preferredloclist"] = list.iter().map(ToString::to_string).collect();
            }
            DnsActionKind::View(id) => out["viewname"] = json!(view.model.views[id.index()]),
            DnsActionKind::Rewrite { addresses, ttl } => {
                out["ipaddress"] = json!(addresses);
                out["ttl"] = json!(ttl);
            }
            DnsActionKind::Drop | DnsActionKind::CacheBypass | DnsActionKind::Noop => {}
        }
        out
    })
}

/// The policies of the global bind points, in the order of evaluation.
pub(super) fn global(view: &View<'_>) -> Vec<Value> {
    let points =
        [BindPoint::RequestOverride, BindPoint::Request, BindPoint::ResponseOverride, BindPoint::Response];
    let rows = points.into_iter().filter_map(|point| {
        let bound: Vec<Value> = view
            .model
            .policies
            .iter()
            .filter(|policy| policy.bind == point)
            .map(|policy| {
                json!({
                    "policyname": policy.name,
                    "priority": policy.priority,
                    "gotopriorityexpression": policy.goto.to_string(),
                    "labelname": policy.invoke.map(|id| view.model.labels[id.index()].as_str()),
                })
            })
            .collect();
        (!bound.is_empty()).then(|| {
            json!({
                "type": word::bind_point(point),
                "numpol": bound.len(),
                "dnsglobal_dnspolicy_binding": bound,
            })
        })
    });
    rows.collect()
}

/// One or all, with the addresses in it.
pub(super) fn views(view: &View<'_>, name: Option<&str>) -> Result<Vec<Value>, Refusal> {
    let all = &view.model.views;
    let found = name.map(|name| find(all.iter().map(String::as_str), "viewName", name));
    some_or_all(all.len(), found, |i, _| {
        let id = ViewId(i as u32);
        let services = view.model.services.iter().flat_map(|service| {
            let addresses = service.in_view(id).unwrap_or_default();
            addresses.iter().map(|address| json!({"gslbservicename": service.name, "ipaddress": address}))
        });
        let policies = view.model.policies.iter().filter(|policy| {
            matches!(view.model.actions[policy.action.index()].kind, DnsActionKind::View(chosen) if chosen == id)
        });
        // One that is bound at several points is named once.
        let policies: BTreeSet<&str> = policies.map(|policy| policy.name.as_str()).collect();
        json!({
            "viewname": all[i],
            "dnsview_gslbservice_binding": services.collect::<Vec<_>>(),
            "dnsview_dnspolicy_binding": policies,
        })
    })
}
