//! A configuration that is asked and told things, without a daemon: `decide` with what the engine keeps around it, on a
//! clock that stands still until it is told to go on.

use std::{collections::HashMap, net::IpAddr, path::Path, time::Duration};

use super::{
    sessions::{self, Sessions},
    vectors::Question,
};
use responder_user::{
    config,
    control::{
        command::{ForceKind, SwitchKind},
        target::{self, Target},
        told,
    },
    decide::{
        self, Client, Decision, Outcome, Owners, Record, Session, Snapshot,
        memory::{self, Change},
    },
    model::{DnsName, Model, RecordType, VserverId},
};

/// Blocks that a client subnet with `ecs_validation` must not be in; those that vectors use.
fn is_set_aside(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => a.is_private() || a.is_loopback() || a.is_link_local(),
        IpAddr::V6(a) => a.is_unique_local() || a.is_loopback() || a.is_unicast_link_local(),
    }
}

/// See the module.
pub struct Stage {
    pub model: Model,
    pub owners: Owners,
    pub snapshot: Snapshot,
    pub sessions: Sessions,
    pub now: Duration,
    turns: HashMap<(String, RecordType), usize>,
}

/// A decision with what the client is given first.
pub struct Answer {
    pub decision: Decision,
    /// Service, address or alias; None for answers without records.
    pub first: Option<String>,
}

impl Stage {
    /// Reads a configuration; `[listen]` is added where it is missing.
    pub fn of(text: &str) -> Result<Self, String> {
        let listen =
            if text.contains("[listen]") { "" } else { "[listen]\naddresses = [\"192.0.2.53:53\"]\n" };
        let loaded = config::parse(&format!("{listen}{text}"), Path::new("responder.toml"))
            .map_err(|e| e.to_string())?;
        let (model, owners) = (loaded.model, Owners::default());
        let mut out = Self {
            snapshot: Snapshot::all_up(&model),
            owners,
            model,
            sessions: Sessions::default(),
            now: Duration::ZERO,
            turns: HashMap::new(),
        };
        out.owners = Owners::of(&out.model);
        out.settle();
        Ok(out)
    }

    /// What the engine does after every change.
    pub fn settle(&mut self) -> Vec<Change> {
        let all = (0..self.model.vservers.len() as u32).map(VserverId);
        memory::advance(&self.model, &mut self.snapshot, all)
    }

    /// A command of responderctl, or `wait DURATION`.
    pub fn run(&mut self, command: &str) -> Result<Vec<Change>, String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let said = |refusal: responder_user::control::Refusal| refusal.message;
        let owned = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        match words[..] {
            ["wait", time] => {
                self.now += humantime::parse_duration(time).map_err(|e| e.to_string())?;
                if let Some(limit) = self.now.checked_sub(self.model.settings.load_hold) {
                    self.snapshot.expire_load(limit);
                }
                self.sessions.expire(self.now);
            }
            ["force", "service", name, state] => {
                let target = target::force(&self.model, ForceKind::Service, name).map_err(said)?;
                let Target::Service(id) = target else { return Err("no service".to_owned()) };
                self.snapshot.services[id.index()].forced = match state {
                    "up" => Some(true),
                    "down" => Some(false),
                    "auto" => None,
                    _ => return Err(format!("force {state}?")),
                };
            }
            [verb @ ("enable" | "disable"), kind, name] => {
                let kind = if kind == "service" { SwitchKind::Service } else { SwitchKind::Vserver };
                match target::switch(&self.model, kind, name).map_err(said)? {
                    Target::Service(id) => self.snapshot.services[id.index()].admin = verb == "enable",
                    Target::Vserver(id) => {
                        let state = &mut self.snapshot.vservers[id.index()];
                        state.enabled = verb == "enable";
                        if verb == "enable" {
                            state.clear_latch();
                        }
                    }
                    _ => return Err("no such kind".to_owned()),
                }
            }
            ["load", name, ref figures @ ..] => {
                let id = target::service(&self.model, name).map_err(said)?;
                let state = &mut self.snapshot.services[id.index()];
                told::take_load(state, &owned(figures), self.now).map_err(said)?;
            }
            ["report", name, ref states @ ..] => {
                let id = target::service(&self.model, name).map_err(said)?;
                told::take_report(&mut self.snapshot.services[id.index()], &owned(states)).map_err(said)?;
            }
            ["session", "clear"] => self.sessions.clear(),
            _ => return Err(format!("no such command: {command}")),
        }
        Ok(self.settle())
    }

    /// `NAME TYPE from ADDRESS`. A session is made, followed and prolonged as the virtual server says.
    pub fn ask(&mut self, question: &str) -> Result<Answer, String> {
        let Question { name, rtype, client, ecs } = Question::parse(question)?;
        let wanted = DnsName::parse(name).map_err(|e| e.to_string())?;
        let asked = RecordType::ALL.into_iter().find(|t| t.name() == rtype).ok_or("no such type")?;
        // An alias answers every type; else the binding that has the type, else any.
        let bound: Vec<usize> =
            (0..self.model.domains.len()).filter(|i| self.model.domains[*i].name == wanted).collect();
        let types = |i: &usize| &self.model.vserver(self.model.domains[*i].vserver).types;
        let serves =
            bound.iter().find(|i| types(i).contains(&asked) || types(i).contains(&RecordType::Cname));
        let index = *serves.or(bound.first()).ok_or("no such domain")?;
        let rtype = if types(&index).contains(&RecordType::Cname) { RecordType::Cname } else { asked };
        let owner = self.owners.owner(self.owners.of_domain(index)).clone();
        let vserver = self.model.vserver(owner.vserver).clone();
        let key = sessions::key(owner.vserver, &vserver, client);
        let session = key.and_then(|(key, _)| self.sessions.find(&key, self.now));
        let ecs = ecs.filter(|_| vserver.ecs && rtype.is_address());
        let ecs = ecs.filter(|net| !(vserver.ecs_validation && is_set_aside(net.addr())));
        let source = Client::locate(&self.model, client);
        let decide = |client: &Client<'_>| {
            let asked = decide::Question { owner: &owner, rtype, client, session };
            decide::answer(&self.model, &self.snapshot, &asked)
        };
        // Policies look at the source: where one decides, for the source or at the place of the subnet, the source does.
        let mut decision = decide(&source);
        if let Some(net) = ecs.filter(|_| decision.policy.is_none()) {
            let there = decide(&Client { place: Client::locate(&self.model, net.addr()).place, ..source });
            if there.policy.is_none() {
                decision = there;
            }
        }
        let turn = self.turns.entry((name.to_owned(), rtype)).or_default();
        *turn += 1;
        let turn = *turn - 1;
        let (first, service) = match &decision.outcome {
            Outcome::Answer(pool) => {
                let member = pool.given(client, turn % pool.rotate.len())[0].clone();
                (Some(self.named(member.service, member.address.to_string())), member.service)
            }
            Outcome::Records(pool) => {
                let member = pool.given(client, turn % pool.rotate.len())[0].clone();
                (Some(self.named(member.service, member.address.to_string())), member.service)
            }
            _ => (None, None),
        };
        if let Some((key, timeout)) = key {
            let given = service.map(|service| Session { link: decision.link, service });
            self.sessions.note(key, decision.session, given, self.now + timeout);
        }
        Ok(Answer { decision, first })
    }

    fn named(&self, service: Option<responder_user::model::ServiceId>, otherwise: String) -> String {
        service.map_or(otherwise, |id| self.model.service(id).name.clone())
    }

    /// Who shares the load, in the order of the file; `nothing`, `drop`, `refused`, `not-ours`, `undecided`.
    pub fn gives(&self, outcome: &Outcome) -> String {
        match outcome {
            Outcome::Answer(pool) => super::names(&self.model, &pool.rotate).join(" "),
            Outcome::Records(pool) => {
                let name = |m: &decide::Member<Record>| self.named(m.service, m.address.to_string());
                pool.rotate.iter().map(name).collect::<Vec<_>>().join(" ")
            }
            Outcome::Empty => "nothing".to_owned(),
            Outcome::Drop => "drop".to_owned(),
            Outcome::Refused => "refused".to_owned(),
            Outcome::NotOurs => "not-ours".to_owned(),
            Outcome::Undecided => "undecided".to_owned(),
        }
    }

    /// Who follows with multiple_ip_response.
    pub fn then(&self, outcome: &Outcome) -> String {
        match outcome {
            Outcome::Answer(pool) => super::names(&self.model, &pool.extras).join(" "),
            _ => String::new(),
        }
    }
}
