//! Builds models in a few words, for the tests of `decide` and `compile`.
#![allow(dead_code, reason = "every test binary uses its own part")]

pub mod random;
pub mod sessions;
pub mod stage;
pub mod vectors;
pub mod written;

use std::{net::IpAddr, sync::Arc, time::Duration};

use responder_user::{
    decide::{Decision, Member, Outcome, Owner, Snapshot, decide},
    model::{
        ActionId, Bound, DnsAction, DnsActionKind, DnsName, DnsPolicy, Domain, Location, Method, Model,
        Monitor, MonitorId, MonitorKind, RecordType, Rule, Service, ServiceId, Vserver, VserverId,
        location::LocationRange,
        policy::{BindPoint, Goto, TextOp},
    },
};

/// The client of the source documents' example.
pub const ZMB_CLIENT: &str = "10.53.0.2";

/// The services of the source documents' example, in their order.
pub const EIGHT: [(&str, &str); 8] = [
    ("in", "Asia.IN"),
    ("jpn", "Asia.JPN"),
    ("hk", "Asia.HK"),
    ("uk", "Europe.UK"),
    ("ru", "Europe.RU"),
    ("eg", "Europe.EG"),
    ("sd", "Africa.SD"),
    ("zmb", "Africa.ZMB"),
];

pub fn address(text: &str) -> IpAddr {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is not an address"))
}

pub fn location(text: &str) -> Location {
    Location::parse(text).unwrap_or_else(|e| panic!("{e}"))
}

pub fn service(name: &str, place: Option<&str>, addresses: &[&str]) -> Service {
    Service {
        name: name.to_owned(),
        addresses: addresses.iter().map(|a| address(a)).collect(),
        port: 80,
        location: place.map(location),
        enabled: true,
        ..Service::default()
    }
}

pub fn bound(service: u32) -> Bound {
    Bound { service: ServiceId(service), weight: 1, order: None }
}

pub fn vserver(name: &str, method: Method, services: Vec<Bound>) -> Vserver {
    Vserver {
        name: name.to_owned(),
        service_type: "HTTP".to_owned(),
        types: vec![RecordType::A, RecordType::Aaaa],
        method,
        services,
        ..Vserver::default()
    }
}

pub fn range(first: &str, last: &str, place: &str) -> LocationRange {
    LocationRange { first: address(first), last: address(last), location: location(place), coordinates: None }
}

pub fn monitor(name: &str) -> Monitor {
    Monitor {
        name: name.to_owned(),
        kind: MonitorKind::Tcp,
        interval: Duration::from_secs(5),
        timeout: Duration::from_secs(2),
        rise: 1,
        fall: 3,
        port: None,
        enabled: true,
    }
}

pub fn domain(name: &str, vserver: u32, backup_ip: &[&str]) -> Domain {
    Domain {
        name: DnsName::parse(name).unwrap(),
        vserver: VserverId(vserver),
        ttl: 5,
        backup_ip: backup_ip.iter().map(|a| address(a)).collect::<Vec<_>>().into(),
    }
}

/// Adds a policy with its own list of preferred locations; keeps policies in evaluation order.
pub fn add_preference(model: &mut Model, name: &str, priority: u32, rule: Rule, list: &[&str]) {
    let action = ActionId(model.actions.len() as u32);
    let list = list.iter().map(|l| location(l)).collect();
    model
        .actions
        .push(DnsAction { name: format!("{name}-list"), kind: DnsActionKind::PreferredLocations(list) });
    let rule_text = written(&rule);
    let (name, goto, bind) = (name.to_owned(), Goto::End, BindPoint::Request);
    model.policies.push(DnsPolicy { name, rule, rule_text, action, bind, priority, goto, invoke: None });
    model.policies.sort_by_key(|p| (p.bind, p.priority));
}

/// A rule as an operator writes it.
pub fn written(rule: &Rule) -> String {
    match rule {
        Rule::Constant(value) => value.to_string(),
        Rule::MatchesLocation(pattern) => {
            format!("CLIENT.IP.SRC.MATCHES_LOCATION({:?})", pattern.to_string())
        }
        Rule::InSubnet(net) if net.addr().is_ipv6() => format!("CLIENT.IPV6.SRC.IN_SUBNET({net})"),
        Rule::InSubnet(net) => format!("CLIENT.IP.SRC.IN_SUBNET({net})"),
        Rule::Equals(address) if address.is_ipv6() => format!("CLIENT.IPV6.SRC.EQ({address})"),
        Rule::Equals(address) => format!("CLIENT.IP.SRC.EQ({address})"),
        Rule::Destination(net) => format!("CLIENT.IP.DST.IN_SUBNET({net})"),
        Rule::Name { test, of_response, .. } => {
            let subject = if *of_response { "DNS.RES" } else { "DNS.REQ" };
            let op = match test.op {
                TextOp::Equals => "EQ",
                TextOp::Contains => "CONTAINS",
                TextOp::StartsWith => "STARTSWITH",
                TextOp::EndsWith => "ENDSWITH",
            };
            format!("{subject}.QUESTION.DOMAIN.{op}({:?})", test.text)
        }
        Rule::Type { code, of_response } => {
            let subject = if *of_response { "DNS.RES" } else { "DNS.REQ" };
            format!("{subject}.QUESTION.TYPE.EQ({})", if *code == 1 { "A" } else { "AAAA" })
        }
        Rule::ResponseCode(code) => {
            format!("DNS.RES.HEADER.RCODE.EQ({})", if *code == 0 { "NOERROR" } else { "REFUSED" })
        }
        Rule::Not(inner) => format!("!({})", written(inner)),
        Rule::And(a, b) => format!("({} && {})", written(a), written(b)),
        Rule::Or(a, b) => format!("({} || {})", written(a), written(b)),
    }
}

/// Services at the given places with addresses 198.51.100.1 and so on, one virtual server over all of them.
pub fn model_of(services: &[(&str, &str)], method: Method) -> Model {
    let mut model = Model::default();
    for (i, (name, place)) in services.iter().enumerate() {
        let own = format!("198.51.100.{}", i + 1);
        let place = (!place.is_empty()).then_some(*place);
        model.services.push(service(name, place, &[&own]));
    }
    let all = (0..services.len() as u32).map(bound).collect();
    model.vservers.push(vserver("www", method, all));
    model.domains.push(domain("www.example.com", 0, &[]));
    model.monitors.push(monitor("tcp"));
    model
}

/// The example of the source documents: eight services, and Asia.HK, Europe.UK preferred for clients at `*.ZMB.*.*`.
pub fn eight_sites() -> Model {
    let mut model = model_of(&EIGHT, Method::StaticProximity);
    model.locations.custom.push(range("10.53.0.0", "10.53.0.255", "*.ZMB.*.*"));
    let rule = Rule::MatchesLocation(location("*.ZMB.*.*"));
    add_preference(&mut model, "dnsPolPrefLoc", 10, rule, &["Asia.HK", "Europe.UK"]);
    model
}

/// The first virtual server without backup addresses.
pub fn owner() -> Owner {
    Owner { vserver: VserverId(0), backup_ip: Arc::from([]), names: Arc::from([]), domain: None }
}

pub fn ids(model: &Model, names: &[&str]) -> Vec<ServiceId> {
    names.iter().map(|n| model.service_named(n).unwrap_or_else(|| panic!("no service {n}"))).collect()
}

/// Names of members; addresses of those without a service.
pub fn names(model: &Model, members: &[Member]) -> Vec<String> {
    let name = |m: &Member| m.service.map_or(m.address.to_string(), |s| model.service(s).name.clone());
    members.iter().map(name).collect()
}

/// The names that share the load, separated by spaces; `-` for an answer without records.
pub fn rotation(model: &Model, decision: &Decision) -> String {
    match &decision.outcome {
        Outcome::Undecided => "undecided".to_owned(),
        Outcome::Empty => "-".to_owned(),
        Outcome::Answer(pool) => names(model, &pool.rotate).join(" "),
        other => format!("{other:?}"),
    }
}

/// Decides for the first virtual server, type A, with some services down.
pub fn ask(model: &Model, down: &[&str], client: &str) -> Decision {
    let snapshot = Snapshot::with_down(model, &ids(model, down));
    decide(model, &snapshot, &owner(), RecordType::A, address(client))
}

/// Ids of monitors for a service that is checked.
pub fn checked() -> Vec<(MonitorId, u32)> {
    vec![(MonitorId(0), 1)]
}
