//! `show gslb domain`, `stat gslb domain`, `show gslb site` (spec/netscaler.md 7.3).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{no_such, service, some_or_all, vserver, word};
use crate::{
    config::import::{Kind, Store},
    control::{Refusal, View, show},
    model::{DnsName, Domain, ServiceId, policy::BindPoint},
};

/// A name with its bindings, or every name.
fn names<'v>(view: &View<'v>, name: Option<&str>) -> Result<Vec<(&'v DnsName, Vec<&'v Domain>)>, Refusal> {
    let Some(text) = name else {
        let count = view.model.domains.len();
        if count > show::LIST_LIMIT {
            let most = show::LIST_LIMIT;
            return Err(Refusal::new(format!(
                "{count} domains are more than one list holds ({most}); name one"
            )));
        }
        return Ok(view.model.domains_by_name().into_iter().collect());
    };
    let unknown = || no_such("name", text);
    let parsed = DnsName::parse(text).map_err(|_| unknown())?;
    let found = view.names.find(view.model, &parsed);
    let bound: Vec<&Domain> = found.iter().map(|i| &view.model.domains[*i]).collect();
    let first = bound.first().ok_or_else(unknown)?;
    Ok(vec![(&first.name, bound)])
}

/// Per name its virtual servers, their services and policies.
pub(super) fn show(view: &View<'_>, name: Option<&str>) -> Result<Vec<Value>, Refusal> {
    let alone = name.is_some();
    let rows = names(view, name)?.into_iter().map(|(name, bound)| {
        let vservers = bound.iter().map(|domain| binding(view, domain, alone));
        let global = view.model.policies.iter().filter(|policy| {
            matches!(
                policy.bind,
                BindPoint::RequestOverride
                    | BindPoint::Request
                    | BindPoint::ResponseOverride
                    | BindPoint::Response
            )
        });
        json!({
            "name": name.to_string(),
            "gslbdomain_gslbvserver_binding": vservers.collect::<Vec<_>>(),
            "gslbdomain_dnspolicy_binding": global.map(|p| json!({
                "policyname": p.name,
                "priority": p.priority,
                "type": word::bind_point(p.bind),
            })).collect::<Vec<_>>(),
        })
    });
    Ok(rows.collect())
}

fn binding(view: &View<'_>, domain: &Domain, alone: bool) -> Value {
    let name = view.model.vserver(domain.vserver).name.as_str();
    let row = vserver::show(view, Some(name)).ok().and_then(|rows| rows.into_iter().next());
    let row = row.unwrap_or_default();
    let pick = |key: &str| row[key].clone();
    let mut out = json!({
        "vservername": name,
        "servicetype": pick("servicetype"),
        "state": pick("curstate"),
        "effectivestate": pick("effectivestate"),
        "health": pick("health"),
        "dnsrecordtype": pick("dnsrecordtype"),
        "dnsrecordtypes": pick("dnsrecordtypes"),
        "lbmethod": pick("lbmethod"),
        "currentmethod": pick("currentmethod"),
        "currentmethodreason": pick("currentmethodreason"),
        "ttl": domain.ttl,
        "backupips": *domain.backup_ip,
    });
    if alone {
        let bound = view.model.vserver(domain.vserver).services.iter();
        out["gslbservice"] = bound.map(|bound| service::states(view, bound.service)).collect();
    }
    out
}

/// What is known of the queries for a name: those of its zone are counted.
pub(super) fn stat(view: &View<'_>, name: Option<&str>) -> Result<Vec<Value>, Refusal> {
    let rows = names(view, name)?.into_iter().map(|(name, bound)| {
        let types = bound.iter().flat_map(|d| &view.model.vserver(d.vserver).types).map(|t| t.name());
        let zone = view.model.zone_of(name).map(|zone| zone.apex.to_string());
        let counter = zone.as_ref().map(|zone| format!("zone_{zone}_xdp"));
        let hits = counter.and_then(|counter| view.counters.iter().find(|(name, _)| *name == counter));
        json!({
            "name": name.to_string(),
            "rectype": types.collect::<Vec<_>>(),
            "dnsqueries": Value::Null,
            "zone": zone,
            "zonexdpanswers": hits.map(|(_, count)| *count),
        })
    });
    Ok(rows.collect())
}

/// The sites that were added, and those that services name beside them. There is no metric exchange between sites here:
/// each node has its own monitors, whatever the site says.
pub(super) fn sites(view: &View<'_>, store: &Store, name: Option<&str>) -> Result<Vec<Value>, Refusal> {
    let mut sites: BTreeMap<String, (String, Vec<ServiceId>)> = BTreeMap::new();
    for site in store.all(Kind::Site) {
        sites.insert(site.name.to_ascii_lowercase(), (site.name.clone(), Vec::new()));
    }
    for (i, service) in view.model.services.iter().enumerate() {
        if let Some(site) = &service.site {
            let at = sites.entry(site.to_ascii_lowercase()).or_insert_with(|| (site.clone(), Vec::new()));
            at.1.push(ServiceId(i as u32));
        }
    }
    let all: Vec<(String, Vec<ServiceId>)> = sites.into_values().collect();
    let found = name.map(|name| super::find(all.iter().map(|(site, _)| site.as_str()), "siteName", name));
    some_or_all(all.len(), found, |i, alone| {
        let (site, services) = &all[i];
        let added = store.get(Kind::Site, site);
        let given = |key: &str| added.and_then(|site| site.given(key));
        let verdicts = services.iter().map(|id| show::service::verdict(view, *id));
        let up = verdicts.filter(|verdict| verdict.word() == "up").count();
        let mut out = json!({
            "sitename": site,
            "sitetype": given("siteType"),
            "siteipaddress": given("siteIPAddress"),
            "publicip": given("publicIP"),
            "parentsite": given("parentSite"),
            "metricexchange": given("metricExchange").unwrap_or("ENABLED"),
            "nwmetricexchange": given("nwMetricExchange").unwrap_or("ENABLED"),
            "sessionexchange": given("sessionExchange").unwrap_or("ENABLED"),
            "triggermonitor": given("triggerMonitor").unwrap_or("ALWAYS"),
            "status": "INACTIVE",
            "sitestate": if up > 0 { "ACTIVE" } else { "INACTIVE" },
            "totalservices": services.len(),
            "activeservices": up,
        });
        if alone {
            out["gslbsite_gslbservice_binding"] =
                services.iter().map(|id| service::states(view, *id)).collect();
        }
        out
    })
}
