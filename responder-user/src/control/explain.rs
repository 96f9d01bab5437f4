//! `explain NAME TYPE`: the whole path to one answer, in the engine's own reasons.
//!
//! The decision is made anew from the snapshot that the published answers were made from; nothing is guessed from
//! maps. What the decision does not cover (other types, names that are not bound) is asked of the worker's reply
//! function, which is pure.

mod lane;
mod wire;

use std::net::IpAddr;

use ipnet::IpNet;
use responder_common::{class, client::Client, counters::Counter};
use serde_json::{Value, json};

use super::{
    Refusal, View,
    command::Question,
    show::{
        service::complaint,
        vserver::{addresses, give, outcome, records},
    },
};
use crate::{
    compile::{
        answer::{Column, Sticks, column},
        class::{
            ClassMatch,
            subnet::{Decider, PlaceOf},
        },
        session::keeps,
    },
    decide::{self, Outcome, OwnerId, Pick, Step},
    model::{DnsName, Domain, RecordType, ServiceId, Zone, zone::Soa},
};
use lane::Lane;
use wire::Reading;

/// From a query and its source address to the octets of a reply; None: no reply.
pub type Reply<'a> = dyn Fn(&[u8], IpAddr) -> Option<Vec<u8>> + 'a;

/// From a query and its source address to the counter that the XDP program would raise; None: not known.
pub type Verdict<'a> = dyn Fn(&[u8], IpAddr) -> Option<Counter> + 'a;

/// From an owner, a client and the client subnet that stands for it to the client's session; None: it has none.
pub type Sticky<'a> = dyn Fn(OwnerId, IpAddr, Option<IpNet>) -> Option<decide::Session> + 'a;

/// What the packet lanes would do with a query. The default knows nothing, and `explain` says less.
#[derive(Clone, Copy, Default)]
pub struct Lanes<'a> {
    /// The worker's reply to a query over UDP. Pure: it counts nothing and moves no rotation.
    pub reply: Option<&'a Reply<'a>>,
    /// The counter that the XDP program would raise for a query, read from the published maps.
    pub verdict: Option<&'a Verdict<'a>>,
    /// The session of a client, as both lanes find it.
    pub session: Option<&'a Sticky<'a>>,
}

/// A question, read.
struct Asked<'a> {
    view: &'a View<'a>,
    name: DnsName,
    rtype: u16,
    client: IpAddr,
    /// The client subnet that stands for the client where places are looked at.
    subnet: Option<IpNet>,
    /// The worker was asked, and says nothing.
    is_silent: bool,
    class: u16,
    query: Vec<u8>,
    reply: Option<Vec<u8>>,
    verdict: Option<Counter>,
    /// The client subnet of the query, whether or not it counts.
    ecs: Option<IpNet>,
    sticky: Option<&'a Sticky<'a>>,
}

/// What is found out, key by key.
#[derive(Debug, Default)]
struct Found {
    policy: Option<String>,
    owner: Option<String>,
    link: Option<String>,
    tier: Option<String>,
    method: Option<String>,
    reason: String,
    rcode: Option<String>,
    give: Option<&'static str>,
    outcome: Option<&'static str>,
    addresses: Vec<IpAddr>,
    records: Vec<String>,
    view: Option<String>,
    /// Why only a worker can give the answer.
    beside: Option<&'static str>,
    ttl: Option<u32>,
    undecided: bool,
    steps: Vec<Value>,
}

impl Found {
    fn step(&mut self, step: &str, outcome: impl Into<String>, reason: impl Into<String>) {
        self.steps.push(json!({"step": step, "outcome": outcome.into(), "reason": reason.into()}));
    }
}

/// The answer to `explain`.
pub fn explain(view: &View<'_>, question: &Question, lanes: Lanes<'_>) -> Result<Value, Refusal> {
    let refuse = |e: &dyn std::fmt::Display| Refusal::new(e.to_string());
    let name = DnsName::parse(&question.name).map_err(|e| refuse(&e))?;
    let rtype = wire::type_number(&question.rtype).ok_or_else(|| {
        Refusal::new(format!("\"{}\" is no record type; A, AAAA, … or TYPE123", question.rtype))
    })?;
    let ecs = question.ecs.as_deref().map(subnet).transpose()?;
    let client = question.client.unwrap_or_else(|| view.classes.client(view.model, 0).address);
    let query = wire::query(&name, rtype, ecs);
    let reply = lanes.reply.and_then(|reply| reply(&query, client));
    let mut asked = Asked {
        view,
        rtype,
        client,
        subnet: None,
        class: view.classes.class_of(client),
        is_silent: lanes.reply.is_some() && reply.is_none(),
        reply,
        verdict: lanes.verdict.and_then(|verdict| verdict(&query, client)),
        name,
        query,
        ecs,
        sticky: lanes.session,
    };
    let mut found = Found::default();
    let weighed = ecs.map(|net| (net, asked.weigh(net)));
    if let Some((net, Ok(counting))) = weighed {
        asked.subnet = Some(net);
        asked.class = counting.class;
    }
    asked.note_client(question, weighed, &mut found);
    match asked.binding() {
        Some(domain) => asked.bound(domain, &mut found),
        None => asked.not_bound(&mut found),
    }
    let lane = asked.lane(&found);
    found.step("source", lane.words(), lane.reason.clone());
    Ok(asked.value(question, &found, &lane))
}

fn subnet(text: &str) -> Result<IpNet, Refusal> {
    let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
    let net = text.parse::<IpNet>().ok().or_else(address);
    net.map(|n| n.trunc())
        .ok_or_else(|| Refusal::new(format!("--ecs: \"{text}\" is neither a prefix nor an address")))
}

fn client_of(address: IpAddr) -> Client {
    match address {
        IpAddr::V4(address) => Client::V4(address.to_bits()),
        IpAddr::V6(address) => Client::V6(address.octets()),
    }
}

impl Asked<'_> {
    fn note_client(
        &self,
        question: &Question,
        ecs: Option<(IpNet, Result<ClassMatch, &'static str>)>,
        found: &mut Found,
    ) {
        let place = |address: IpAddr| {
            let place = self.view.model.locations.find(address);
            place.map_or_else(|| "not located".to_owned(), |r| format!("located at {}", r.location))
        };
        let at = place(self.client);
        let who = match question.client {
            Some(client) => format!("client {client} is {at}"),
            None => format!("no --client: taken for one that no policy and no location names, {at}"),
        };
        found.step("class", format!("client class {}", self.class), who);
        match ecs {
            Some((net, Ok(counting))) => {
                let scope = counting.prefix_len;
                let who = format!("{}; policies look at {}; scope {scope}", place(net.addr()), self.client);
                found.step("ecs", format!("{net} counts"), who);
            }
            Some((net, Err(why))) => found.step("ecs", format!("{net} is ignored"), why),
            None => {}
        }
    }

    /// Whether the place of a client subnet counts, with its class and scope; if not, why (spec/netscaler.md 1.7).
    fn weigh(&self, net: IpNet) -> Result<ClassMatch, &'static str> {
        let (model, classes) = (self.view.model, self.view.classes);
        let domain = self.binding().ok_or("no virtual server has the name")?;
        let decider = Decider::of(model, classes, &self.owner(domain));
        let decider = decider.ok_or("no virtual server uses the client subnet")?;
        self.decided_type(domain).ok_or("only addresses depend on it")?;
        if net.prefix_len() == 0 {
            return Err("it names nobody");
        }
        if model.vserver(domain.vserver).ecs_validation && class::set_aside(&client_of(net.addr())).is_some()
        {
            return Err("ecs_validation sets it aside: it is not of the Internet");
        }
        match decider.weigh(classes, self.client, net.addr()) {
            (found, PlaceOf::Subnet) => Ok(found),
            (_, PlaceOf::Nobody) if decider == Decider::Source => {
                if keeps(model, domain.vserver) {
                    return Err(
                        "the answer does not depend on where a client is, but its session is the subnet's",
                    );
                }
                Err("the answer does not depend on where a client is: scope 0")
            }
            (_, PlaceOf::Nobody) => Err("a policy decides for the source: scope 0"),
            (_, PlaceOf::Source) => {
                Err("no client there is one of the policies that fire for the source: the source decides")
            }
        }
    }

    /// The session of the client, where the virtual server keeps some.
    fn session(&self, domain: &Domain) -> Option<decide::Session> {
        let model = self.view.model;
        let index = model.domains.iter().position(|other| std::ptr::eq(other, domain))?;
        let vserver = model.vserver(domain.vserver);
        let counts = |net: &IpNet| {
            let aside = vserver.ecs_validation && class::set_aside(&client_of(net.addr())).is_some();
            vserver.ecs && net.prefix_len() > 0 && !aside
        };
        self.sticky?(self.view.owners.of_domain(index), self.client, self.ecs.filter(counts))
    }

    fn owner(&self, domain: &Domain) -> decide::Owner {
        decide::Owner {
            vserver: domain.vserver,
            backup_ip: std::sync::Arc::clone(&domain.backup_ip),
            names: decide::policy::name_bits(&self.view.model.name_tests, &domain.name).into(),
            domain: None,
        }
    }

    /// Who is decided for: the client; with a subnet that counts, the client at its place, or where policies ask for places a
    /// member of the class that answers.
    fn decided_for(&self, domain: &Domain) -> decide::Client<'_> {
        let (model, classes) = (self.view.model, self.view.classes);
        let located = decide::Client::locate(model, self.client);
        let Some(net) = self.subnet else { return located };
        match Decider::of(model, classes, &self.owner(domain)) {
            Some(Decider::Both(_)) => classes.client(model, self.class),
            _ => decide::Client { place: model.locations.find(net.addr()), ..located },
        }
    }

    /// The binding that answers: the one whose virtual server has the type, else any.
    fn binding(&self) -> Option<&Domain> {
        let model = self.view.model;
        let all = self.view.names.find(model, &self.name);
        let types = |i: &usize| &model.vserver(model.domains[*i].vserver).types;
        let serves = all.iter().find(|i| types(i).iter().any(|t| t.code() == self.rtype));
        serves.or(all.first()).map(|i| &model.domains[*i])
    }

    fn zone(&self) -> Option<&Zone> {
        self.view.model.zone_of(&self.name)
    }

    /// The name is an apex: of a configured zone, or of its own for want of one.
    fn is_apex(&self) -> bool {
        self.zone().is_none_or(|z| z.apex == self.name)
    }

    fn type_name(&self) -> String {
        wire::type_name(self.rtype)
    }

    fn bound(&self, domain: &Domain, found: &mut Found) {
        let model = self.view.model;
        let owner = &model.vserver(domain.vserver).name;
        found.owner = Some(owner.clone());
        let zone = self.zone().map_or_else(
            || "in no configured zone: its own apex".to_owned(),
            |zone| format!("zone {}", zone.apex),
        );
        found.step("name", format!("{} is bound to vserver {owner}", self.name), zone);
        match self.decided_type(domain) {
            Some(rtype) => self.decided(domain, rtype, found),
            None => self.other_type(found),
        }
    }

    /// The type of the decision that a query comes to: an alias answers all types but those of its apex.
    fn decided_type(&self, domain: &Domain) -> Option<RecordType> {
        let types = &self.view.model.vserver(domain.vserver).types;
        let is_apex_type = self.is_apex() && matches!(self.rtype, 2 | 6);
        if types.contains(&RecordType::Cname) && !wire::is_meta(self.rtype) && !is_apex_type {
            return Some(RecordType::Cname);
        }
        let naptr = types.contains(&RecordType::Naptr);
        let all =
            RecordType::ALL.into_iter().filter(|t| t.is_address() || (*t == RecordType::Naptr && naptr));
        all.into_iter().find(|t| t.code() == self.rtype)
    }

    fn decided(&self, domain: &Domain, rtype: RecordType, found: &mut Found) {
        let model = self.view.model;
        let (owner, client) = (self.owner(domain), self.decided_for(domain));
        let session = self.session(domain);
        let asked = decide::Question { owner: &owner, rtype, client: &client, session };
        let decision = decide::answer(model, self.view.snapshot, &asked);
        for step in &decision.steps {
            found.step(step.step, step.outcome.clone(), self.detailed(step));
        }
        found.give = give(&decision.outcome);
        found.outcome = Some(outcome(&decision.outcome));
        found.records = records(&decision.outcome);
        found.view = decision.view.map(|v| model.views[v.index()].clone());
        if let Column::Deferred(_) = column(&decision, rtype, &Sticks::default()) {
            found.beside = Some(beside(&decision.outcome));
        }
        found.policy = decision.policy.map(|p| model.policies[p.index()].name.clone());
        found.link = Some(model.vserver(decision.link).name.clone());
        found.tier = Some(decision.tier.to_string());
        found.method = Some(decision.method.name().to_owned());
        found.reason = decision.reason.to_string();
        found.addresses = addresses(&decision.outcome);
        if let Outcome::Answer(pool) = &decision.outcome
            && pool.pick != Pick::Turn
        {
            let given = pool.given(self.client, 0);
            found.addresses = given.iter().map(|member| member.address).collect();
            let first = given.first().and_then(|m| m.service).map_or("", |id| &model.service(id).name);
            found.step(
                "pick",
                format!("{first} for {}", self.client),
                "highest score for the client's prefix",
            );
        }
        found.undecided = decision.outcome == Outcome::Undecided;
        let rcode = match decision.outcome {
            Outcome::Undecided => Some("SERVFAIL"),
            Outcome::Empty | Outcome::Answer(_) | Outcome::Records(_) => Some("NOERROR"),
            Outcome::Refused => Some("REFUSED"),
            Outcome::Drop | Outcome::NotOurs => None,
        };
        found.rcode = rcode.map(str::to_owned);
        found.ttl = match decision.outcome {
            Outcome::Empty => Some(self.negative_ttl()),
            Outcome::Answer(_) | Outcome::Records(_) => Some(decision.ttl.unwrap_or(domain.ttl)),
            Outcome::Undecided | Outcome::Drop | Outcome::Refused | Outcome::NotOurs => None,
        };
    }

    /// The reason of a step. A service that is down says what its check says.
    fn detailed(&self, step: &Step) -> String {
        let services = &self.view.model.services;
        let complaint = || {
            let index = services.iter().position(|s| step.outcome.starts_with(&format!("{} (", s.name)))?;
            complaint(self.view, ServiceId(index as u32))
        };
        match (step.step, step.reason.as_str()) {
            ("service", "down") => complaint().map_or_else(|| step.reason.clone(), |c| format!("down: {c}")),
            _ => step.reason.clone(),
        }
    }

    /// TTL of the SOA in a negative answer (RFC 2308 3).
    fn negative_ttl(&self) -> u32 {
        let soa = self.zone().map_or_else(|| Soa::default_for(&self.name), |z| z.soa.clone());
        soa.ttl.min(soa.minimum)
    }

    /// Anything but addresses, of a name that is bound.
    fn other_type(&self, found: &mut Found) {
        let apex = self.is_apex();
        "this type is not one that virtual servers decide".clone_into(&mut found.reason);
        if self.is_silent {
            found.outcome = Some(outcome(&Outcome::Drop));
            "a policy drops the request, whatever its type".clone_into(&mut found.reason);
            found.step("answer", "no reply", "policies look at types that the name lacks, too");
        } else if let Some(reading) = self.reading() {
            take(&reading, found);
        } else if !apex {
            found.rcode = Some("NOERROR".to_owned());
            found.ttl = Some(self.negative_ttl());
            found.step("answer", "no records", "the name has addresses alone");
        } else {
            found.step("answer", "from the worker", "the name is the apex of its zone");
        }
    }

    fn not_bound(&self, found: &mut Found) {
        let zone = self.zone();
        let parent = self.bound_parent();
        let (outcome, why) = match (zone, &parent) {
            (Some(zone), _) if zone.apex == self.name => {
                (format!("{} is the apex of a zone", self.name), "configured".to_owned())
            }
            (Some(zone), _) => {
                (format!("{} is bound to no vserver", self.name), format!("in zone {}", zone.apex))
            }
            (None, Some(parent)) => (
                format!("{} is bound to no vserver", self.name),
                format!("below {parent}, which is its own apex"),
            ),
            (None, None) => {
                (format!("{} is not ours", self.name), "no zone and no domain of ours holds it".to_owned())
            }
        };
        found.step("name", outcome, why);
        let ours = zone.is_some() || parent.is_some();
        if let Some(reading) = self.reading() {
            take(&reading, found);
            found.reason = match (reading.rcode.as_str(), ours) {
                ("REFUSED", false) => "no zone of ours holds the name".to_owned(),
                ("NXDOMAIN", _) => "the zone has no such name".to_owned(),
                ("NOERROR", _) if reading.records.is_empty() => {
                    format!("the name exists and has no {} record", self.type_name())
                }
                ("NOERROR", _) => "the zone has the record".to_owned(),
                (rcode, _) => format!("the worker answers {rcode}"),
            };
        } else if !ours {
            found.rcode = Some("REFUSED".to_owned());
            "no zone of ours holds the name".clone_into(&mut found.reason);
        } else if zone.is_none() {
            found.rcode = Some("NXDOMAIN".to_owned());
            "the zone has no such name".clone_into(&mut found.reason);
        } else {
            "the worker answers from the zone".clone_into(&mut found.reason);
        }
    }

    /// The nearest name above that is bound.
    fn bound_parent(&self) -> Option<DnsName> {
        let mut above = self.name.parent();
        while let Some(name) = above {
            if !self.view.names.find(self.view.model, &name).is_empty() {
                return Some(name);
            }
            above = name.parent();
        }
        None
    }

    fn reading(&self) -> Option<Reading> {
        wire::read(self.reply.as_deref()?)
    }

    fn lane(&self, found: &Found) -> Lane {
        if !self.view.xdp() {
            return Lane::worker("XDP is off");
        }
        if let Some(why) = found.beside {
            return Lane::worker(why);
        }
        if let Some(verdict) = self.verdict {
            return Lane::of(verdict);
        }
        let case = lane::Case {
            name: &self.name,
            rtype: self.rtype,
            zone: self.zone(),
            apex: self.is_apex(),
            bound: found.owner.is_some(),
            undecided: found.undecided,
            addresses: self.given(found),
        };
        case.lane()
    }

    /// Addresses of one reply, where the reply is at hand.
    fn given(&self, found: &Found) -> usize {
        self.reading().map_or(found.addresses.len(), |reading| reading.addresses.len())
    }

    fn value(&self, question: &Question, found: &Found, lane: &Lane) -> Value {
        let mut out = json!({
            "name": self.name.to_string(),
            "type": self.type_name(),
            "client": self.client,
            "class": self.class,
            "source": lane.source,
            "source_reason": lane.reason,
            "policy": found.policy,
            "owner": found.owner,
            "link": found.link,
            "tier": found.tier,
            "method": found.method,
            "reason": found.reason,
            "rcode": found.rcode,
            "give": found.give,
            "outcome": found.outcome,
            "addresses": found.addresses,
            "records": found.records,
            "view": found.view,
            "ttl": found.ttl,
            "generation": self.view.generation,
            "steps": found.steps,
        });
        if question.verbose {
            let reply = self.reply.as_deref().map(wire::hex);
            out["wire"] = json!({"query": wire::hex(&self.query), "reply": reply});
        }
        out
    }
}

/// Why an answer is a worker's.
fn beside(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Drop => "the program of this version drops nothing by itself",
        Outcome::Refused => "the program gives no REFUSED",
        Outcome::Records(_) => "the program writes addresses alone",
        Outcome::Answer(pool) if pool.pick != Pick::Turn => "the program of this version does not hash",
        Outcome::Answer(_) | Outcome::Empty => {
            "the answer has a TTL of its own, or is of no type of the program"
        }
        Outcome::NotOurs | Outcome::Undecided => "the program knows no answer",
    }
}

/// Writes down what the worker's reply says.
fn take(reading: &Reading, found: &mut Found) {
    let outcome = match reading.records.as_slice() {
        [] if reading.rcode == "NOERROR" => "no records".to_owned(),
        [] => reading.rcode.clone(),
        records => records.join("; "),
    };
    found.step("answer", outcome, "reply of the worker");
    found.rcode = Some(reading.rcode.clone());
    found.addresses.clone_from(&reading.addresses);
    found.ttl = reading.ttl;
}
