//! Models as operators write them: blocks of `responder.toml`, so that their order can be changed.
//!
//! What a model has that no configuration can say is left out or mended: tables of location files, whatever makes a circle,
//! services without an address of some family.

use std::{fmt::Write, net::IpAddr};

use responder_user::model::{
    DnsActionKind, LabelId, Model, Vserver, VserverId,
    location::{LocationRange, WildcardMatchesAny},
    policy::{BindPoint, Goto},
    vserver::{DynamicWeight, SkipPersistency, SpilloverAction, SpilloverMethod},
};

/// One block for each object, in the order of the model.
pub fn blocks(model: &Model) -> Vec<String> {
    let mut out = vec![
        "[limits]\nmax_amplification = 0\n".to_owned(),
        locations(model),
        "[[monitor]]\nname = \"busy\"\ntype = \"load\"\nsource = \"push\"\nmetrics = [{ name = \"cpu\", threshold = 80 }]\n"
            .to_owned(),
    ];
    out.extend((0..model.services.len()).map(|i| service(model, i)));
    out.extend((0..model.vservers.len()).map(|i| vserver(model, VserverId(i as u32))));
    for domain in &model.domains {
        let vserver = &model.vserver(domain.vserver).name;
        let name = domain.name.to_string();
        let name = name.trim_end_matches('.');
        let types = &model.vserver(domain.vserver).types;
        let backup = domain.backup_ip.iter().filter(|address| types.iter().any(|t| t.fits(**address)));
        out.push(format!(
            "[[domain]]\nname = {name:?}\nvserver = {vserver:?}\nttl = {}\nbackup_ip = {}\n",
            domain.ttl,
            list(backup)
        ));
    }
    for action in &model.actions {
        let what = match &action.kind {
            DnsActionKind::PreferredLocations(all) => format!("preferred_locations = {}", list(all.iter())),
            DnsActionKind::View(id) => format!("view = {:?}", model.views[id.index()]),
            DnsActionKind::Drop => "drop = true".to_owned(),
            DnsActionKind::Rewrite { addresses, ttl } => {
                format!("rewrite = {}\nttl = {ttl}", list(addresses.iter()))
            }
            DnsActionKind::CacheBypass => "cache_bypass = true".to_owned(),
            DnsActionKind::Noop => "noop = true".to_owned(),
        };
        out.push(format!("[[dns_action]]\nname = {:?}\n{what}\n", action.name));
    }
    out.extend((0..model.policies.len()).map(|i| policy(model, i)));
    out
}

/// Texts in single quotes, which need no escapes.
fn list<T: ToString>(items: impl Iterator<Item = T>) -> String {
    let items: Vec<String> = items.map(|item| format!("'{}'", item.to_string())).collect();
    format!("[{}]", items.join(", "))
}

fn locations(model: &Model) -> String {
    let any = match model.locations.wildcard_matches_any {
        WildcardMatchesAny::No => "no",
        WildcardMatchesAny::Yes => "yes",
        WildcardMatchesAny::Expression => "expression",
    };
    let range = |range: &LocationRange| {
        let place = range.coordinates.map_or_else(String::new, |(longitude, latitude)| {
            format!(", longitude = {longitude:.1}, latitude = {latitude:.1}")
        });
        format!(
            "  {{ range = \"{}-{}\", location = '{}'{place} }},\n",
            range.first, range.last, range.location
        )
    };
    let custom: String = model.locations.custom.iter().map(range).collect();
    format!("[location]\nwildcard_matches_any = {any:?}\ncustom = [\n{custom}]\n")
}

fn service(model: &Model, index: usize) -> String {
    let service = &model.services[index];
    let mut addresses = service.addresses.clone();
    for own in [format!("203.0.113.{}", index + 100), format!("2001:db8:f::{}", index + 100)] {
        let own: IpAddr = own.parse().expect("an address");
        if !addresses.iter().any(|address| address.is_ipv4() == own.is_ipv4()) {
            addresses.push(own);
        }
    }
    let mut out = format!("[[service]]\nname = {:?}\naddress = {}\n", service.name, list(addresses.iter()));
    let mut key = |key: &str, value: String| {
        let _ = writeln!(out, "{key} = {value}");
    };
    if let Some(location) = &service.location {
        key("location", format!("'{location}'"));
    }
    if !service.enabled {
        key("state", "\"disabled\"".to_owned());
    }
    if service.max_connections > 0 {
        key("max_connections", service.max_connections.to_string());
    }
    if let Some(id) = service.hash_id {
        key("hash_id", (id + 1).to_string());
    }
    if !service.monitors.is_empty() {
        key("monitors", "[\"busy\"]".to_owned());
    }
    if !service.views.is_empty() {
        let views = service.views.iter();
        let views: Vec<String> = views
            .map(|(id, addresses)| format!("{} = {}", model.views[id.index()], list(addresses.iter())))
            .collect();
        key("views", format!("{{ {} }}", views.join(", ")));
    }
    // Only what cannot close a circle: a virtual server of services that stand for none.
    let stands_for_none = |id: &VserverId| {
        let mut links = model.vserver(*id).services.iter();
        links.all(|bound| model.service(bound.service).behind.is_none())
    };
    if let Some(id) = service.behind.filter(stands_for_none).filter(|id| model.vserver(*id).backup.is_none())
    {
        key("behind", format!("{:?}", model.vserver(id).name));
    }
    out
}

fn vserver(model: &Model, id: VserverId) -> String {
    let vserver = model.vserver(id);
    let mut out = format!("[[vserver]]\nname = {:?}\nmethod = {:?}\n", vserver.name, vserver.method.name());
    let types: Vec<String> = vserver.types.iter().map(|t| format!("{:?}", t.name())).collect();
    let bound: Vec<String> = vserver
        .services
        .iter()
        .map(|bound| {
            let order = bound.order.map_or_else(String::new, |order| format!(", order = {order}"));
            format!("{{ name = {:?}, weight = {}{order} }}", model.service(bound.service).name, bound.weight)
        })
        .collect();
    let mut key = |key: &str, value: String| {
        let _ = writeln!(out, "{key} = {value}");
    };
    key("types", format!("[{}]", types.join(", ")));
    key("services", format!("[{}]", bound.join(", ")));
    if let Some(backup) = vserver.backup_method {
        key("backup_method", format!("{:?}", backup.name()));
    }
    // Later ones alone: no circles.
    let serves_all =
        |backup: &VserverId| vserver.types.iter().all(|rtype| model.vserver(*backup).types.contains(rtype));
    if let Some(backup) = vserver.backup.filter(|backup| *backup > id).filter(serves_all) {
        key("backup", format!("{:?}", model.vserver(backup).name));
    }
    if !vserver.enabled {
        key("state", "\"disabled\"".to_owned());
    }
    for (name, value) in [
        ("multiple_ip_response", vserver.multiple_ip_response),
        ("empty_down_response", vserver.empty_down_response),
        ("disable_primary_on_down", vserver.disable_primary_on_down),
    ] {
        if value {
            key(name, "true".to_owned());
        }
    }
    further(vserver, &mut key);
    out
}

fn further(vserver: &Vserver, key: &mut impl FnMut(&str, String)) {
    if vserver.effective_state {
        key("effective_state", "\"state-only\"".to_owned());
    }
    if vserver.descending_order {
        key("toggle_order", "\"descending\"".to_owned());
    }
    if vserver.order_threshold > 0 {
        key("order_threshold", vserver.order_threshold.to_string());
    }
    let dynamic = match vserver.dynamic_weight {
        DynamicWeight::Disabled => None,
        DynamicWeight::ServiceCount => Some("service-count"),
        DynamicWeight::ServiceWeight => Some("service-weight"),
    };
    if let Some(dynamic) = dynamic {
        key("dynamic_weight", format!("{dynamic:?}"));
    }
    match vserver.skip_persistency {
        SkipPersistency::None => {}
        SkipPersistency::Rebalance => key("skip_persistency", "\"rebalance\"".to_owned()),
        SkipPersistency::Bypass => key("skip_persistency", "\"bypass\"".to_owned()),
    }
    let Some(spillover) = &vserver.spillover else { return };
    let threshold = match spillover.method {
        SpilloverMethod::Health => spillover.threshold.clamp(1, 99),
        _ => spillover.threshold,
    };
    let (how, threshold) = match spillover.method {
        SpilloverMethod::Connection => ("connection", format!(", threshold = {threshold}")),
        SpilloverMethod::DynamicConnection => ("dynamic-connection", String::new()),
        SpilloverMethod::Bandwidth => ("bandwidth", format!(", threshold = {threshold}")),
        SpilloverMethod::Health => ("health", format!(", threshold = {threshold}")),
    };
    let action = match spillover.action {
        SpilloverAction::Drop => "drop",
        SpilloverAction::Redirect => "redirect",
        SpilloverAction::Accept => "accept",
        SpilloverAction::Empty => "empty",
        SpilloverAction::Refused => "refused",
    };
    let url = if action == "redirect" { ", redirect = \"https://sorry.example.org/\"" } else { "" };
    key("spillover", format!("{{ method = {how:?}{threshold}, action = {action:?}{url} }}"));
}

fn policy(model: &Model, index: usize) -> String {
    let policy = &model.policies[index];
    let bind = match policy.bind {
        BindPoint::Request => "{ global = \"request\" }".to_owned(),
        BindPoint::RequestOverride => "{ global = \"request-override\" }".to_owned(),
        BindPoint::Response => "{ global = \"response\" }".to_owned(),
        BindPoint::ResponseOverride => "{ global = \"response-override\" }".to_owned(),
        BindPoint::Vserver(id) => format!("{{ vserver = {:?} }}", model.vserver(id).name),
        BindPoint::VserverResponse(id) => {
            format!("{{ vserver = {:?}, on = \"response\" }}", model.vserver(id).name)
        }
        BindPoint::Label(id) => format!("{{ label = {:?} }}", model.labels[id.index()]),
    };
    let goto = match policy.goto {
        Goto::End => "\"END\"".to_owned(),
        Goto::Next | Goto::Priority(0) => "\"NEXT\"".to_owned(),
        Goto::UseInvocationResult => "\"USE_INVOCATION_RESULT\"".to_owned(),
        Goto::Priority(priority) => priority.to_string(),
    };
    let is_bound = |id: &LabelId| model.policies.iter().any(|other| other.bind == BindPoint::Label(*id));
    let invoke = policy
        .invoke
        .filter(is_bound)
        .map_or_else(String::new, |id| format!("invoke = {:?}\n", model.labels[id.index()]));
    let action = &model.actions[policy.action.index()].name;
    format!(
        "[[dns_policy]]\nname = {:?}\nrule = '{}'\naction = {action:?}\npriority = {}\nbind = {bind}\ngoto = {goto}\n{invoke}",
        policy.name, policy.rule_text, policy.priority
    )
}
