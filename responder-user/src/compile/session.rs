//! Owners that keep sessions: their rules, and what each choice of a rule is to a decision (spec/netscaler.md 3.4, 4.3).
//!
//! Names are numbered by a hash that is the same in every world and on every node, so that sessions outlive reloads.

use std::{
    collections::{BTreeSet, HashMap},
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

use bytemuck::Zeroable;
use ipnet::IpNet;
use responder_common::{
    client::Client,
    edns::Options,
    lookup::Ask,
    session::{Choice, Key, MAX_CHOICES, Rule, Session as Kept},
};

use crate::{
    decide::{Owner, Owners, Session, Snapshot, chain::links, session::hold},
    model::{Model, RecordType, ServiceId, VserverId},
};

/// A link that is none of the chain: of a session that another virtual server with the same persistenceId began.
const ELSEWHERE: VserverId = VserverId(u32::MAX);

/// A rule with the meaning of its choices.
#[derive(Clone, Debug, PartialEq)]
pub struct Keeping {
    /// For program and workers.
    pub rule: Box<Rule>,
    /// What each choice is, in the order of the rule.
    pub choices: Vec<Session>,
    /// What the rule's scope means.
    pub scope: Scope,
}

/// Which sessions are the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Those of all virtual servers with this persistenceId.
    Id(u16),
    /// Those of this virtual server.
    Vserver(String),
    /// Those of this virtual server for this domain.
    Domain(String, String),
}

/// More services in a chain than a session can tell apart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "vserver {vserver:?}: keeps sessions, and its chain has {choices} services; at most {MAX_CHOICES} can be told apart"
)]
pub struct SessionError {
    /// The virtual server of the owner.
    pub vserver: String,
    /// Services, counted once for every virtual server of the chain where that matters.
    pub choices: usize,
}

impl Scope {
    /// The number that stands in rules and keys.
    pub fn number(&self) -> u64 {
        match self {
            // Names have the highest bit.
            Self::Id(id) => u64::from(*id) + 1,
            Self::Vserver(vserver) => number(vserver) | 1 << 63,
            Self::Domain(vserver, domain) => number(&format!("{vserver}/{domain}")) | 1 << 63,
        }
    }
}

/// The number of a name, letter by letter as the configuration tells names apart; never 0. FNV-1a with its bits mixed once more.
pub fn number(name: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for octet in name.bytes() {
        hash = (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 32)).wrapping_mul(0x9fb2_1c65_1e98_df25);
    (hash ^ (hash >> 29)).max(1)
}

/// True if a virtual server keeps sessions of its clients.
pub fn keeps(model: &Model, vserver: VserverId) -> bool {
    let vserver = model.vserver(vserver);
    vserver.persistence.is_some()
        || vserver.backup_session_timeout.is_some()
        || vserver.spillover.as_ref().is_some_and(|spillover| spillover.persistence)
}

/// The rules of all owners, by owner.
pub fn rules(model: &Model, owners: &Owners) -> Result<Vec<Option<Keeping>>, SessionError> {
    owners.list.iter().map(|owner| Keeping::of(model, owner)).collect()
}

impl Keeping {
    /// The rule of an owner; None if it keeps no sessions.
    pub fn of(model: &Model, owner: &Owner) -> Result<Option<Self>, SessionError> {
        if !keeps(model, owner.vserver) {
            return Ok(None);
        }
        let primary = model.vserver(owner.vserver);
        let choices = choices(model, owner.vserver);
        if choices.len() > MAX_CHOICES {
            return Err(SessionError { vserver: primary.name.clone(), choices: choices.len() });
        }
        let spilled = primary.spillover.as_ref().filter(|s| s.persistence).map(|s| s.timeout);
        let idle = [primary.persistence.map(|p| p.timeout), spilled, primary.backup_session_timeout];
        let scope = scope(model, owner);
        let mut rule = Box::new(Rule {
            scope: scope.number(),
            timeout: nanoseconds(idle.into_iter().flatten().max()),
            backup_timeout: nanoseconds(primary.backup_session_timeout),
            primary: number(&primary.name),
            count: choices.len() as u32,
            mask: primary.persistence.map_or(32, |p| p.mask),
            mask6: primary.persistence.map_or(128, |p| p.mask6),
            ..Rule::zeroed()
        });
        for (to, session) in rule.choices.iter_mut().zip(&choices) {
            let link = if session.link == ELSEWHERE { 0 } else { number(&model.vserver(session.link).name) };
            *to = Choice { service: number(&model.service(session.service).name), link };
        }
        Ok(Some(Self { rule, choices, scope }))
    }

    /// Whose session it is: the client's, or that of a client subnet to which no mask applies.
    pub fn key(&self, client: IpAddr, subnet: Option<IpNet>) -> Key {
        let client_of = |address: IpAddr| match address.to_canonical() {
            IpAddr::V4(address) => Client::V4(address.to_bits()),
            IpAddr::V6(address) => Client::V6(address.octets()),
        };
        let mut options = Options::default();
        if let Some(net) = subnet {
            let family: u16 = if net.addr().is_ipv4() { 1 } else { 2 };
            options.subnet[0] = u64::from(family.to_be()) | (u64::from(net.prefix_len()) << 16);
            options.subnet[1..].copy_from_slice(&client_of(net.network()).words().0);
        }
        let ask = Ask {
            index: 0,
            is_classed: false,
            has_sessions: true,
            flags: 0,
            has_subnet: subnet.is_some(),
            client: client_of(client),
        };
        Key::of(&self.rule, &ask, &options).0
    }

    /// What a session is to a decision, if it has not ended. `now` is CLOCK_MONOTONIC in nanoseconds.
    pub fn read(&self, key: &Key, session: &Kept, holds: &Holds, now: u64) -> Option<Session> {
        if !session.is_of(key) || self.rule.is_over(session, now) || !holds.lives(key, session, now) {
            return None;
        }
        let choice = self.rule.find(session, |value| value);
        self.choices.get((choice as usize).checked_sub(1)?).copied()
    }

    /// The choice that stands for a service that a virtual server gave; 0: none.
    pub fn choice(&self, link: VserverId, service: ServiceId) -> u8 {
        let of = |wanted: VserverId| {
            self.choices.iter().position(|c| c.link == wanted && c.service == service).map(|at| at as u8 + 1)
        };
        of(link).or_else(|| of(ELSEWHERE)).unwrap_or(0)
    }
}

fn nanoseconds(time: Option<Duration>) -> u64 {
    time.map_or(0, |time| time.as_nanos() as u64)
}

fn scope(model: &Model, owner: &Owner) -> Scope {
    let vserver = model.vserver(owner.vserver);
    match (vserver.persistence.and_then(|p| p.id), owner.domain) {
        (Some(id), _) => Scope::Id(id),
        (None, Some(domain)) => {
            Scope::Domain(vserver.name.clone(), model.domains[domain as usize].name.to_string())
        }
        (None, None) => Scope::Vserver(vserver.name.clone()),
    }
}

/// Every session that makes a difference to the decisions of a virtual server.
///
/// Source-IP persistence looks at the service alone. Where clients stay on the side that took them, the virtual server
/// counts as well.
fn choices(model: &Model, vserver: VserverId) -> Vec<Session> {
    let links = links(model, vserver);
    let spills = |v: VserverId| model.vserver(v).spillover.as_ref().is_some_and(|s| s.persistence);
    let is_sided =
        model.vserver(vserver).backup_session_timeout.is_some() || links.iter().any(|link| spills(*link));
    let services = |link: &VserverId| model.vserver(*link).services.iter().map(|bound| bound.service);
    let mut out = Vec::new();
    if model.vserver(vserver).persistence.is_some() {
        let mut seen = BTreeSet::new();
        let all = links.iter().flat_map(services).filter(|service| seen.insert(*service));
        out.extend(all.map(|service| Session { link: ELSEWHERE, service }));
    }
    if is_sided {
        // Who is at the primary comes back there anyway, unless it turns clients away.
        let from = usize::from(!links.iter().any(|link| spills(*link)));
        let sided = links[from..].iter();
        out.extend(sided.flat_map(|link| services(link).map(|service| Session { link: *link, service })));
    }
    out
}

/// Until when sessions live that nobody uses: those of diverted clients wait for the end of spillover.
#[derive(Clone, Debug, Default)]
pub struct Holds(HashMap<u64, (Vec<u64>, u64)>);

impl Holds {
    /// As it is now.
    pub fn of(model: &Model, owners: &Owners, keeping: &[Option<Keeping>], snapshot: &Snapshot) -> Self {
        let mut out: HashMap<u64, (Vec<u64>, u64)> = HashMap::new();
        for (owner, keeping) in owners.list.iter().zip(keeping) {
            let Some(keeping) = keeping else { continue };
            let Some(last) = links(model, owner.vserver).last().copied() else { continue };
            let session = Session { link: last, service: ServiceId(0) };
            let held = RecordType::ALL.into_iter().map(|rtype| hold(model, snapshot, owner, rtype, session));
            let held = held.max().unwrap_or(0);
            let entry = out.entry(keeping.rule.scope).or_default();
            entry.0.push(keeping.rule.primary);
            entry.1 = entry.1.max(held);
        }
        Self(out)
    }

    /// True if a session has not ended. `now` is CLOCK_MONOTONIC in nanoseconds.
    pub fn lives(&self, key: &Key, session: &Kept, now: u64) -> bool {
        let held = self.0.get(&key.scope).is_some_and(|(primaries, until)| {
            session.choice.link != 0 && !primaries.contains(&session.choice.link) && now < *until
        });
        now < session.until || held
    }
}

/// Names for the numbers of sessions.
#[derive(Clone, Debug, Default)]
pub struct Words {
    scopes: HashMap<u64, Kind>,
    services: HashMap<u64, String>,
    links: HashMap<u64, String>,
}

/// What is to be known of a scope.
#[derive(Clone, Debug)]
struct Kind {
    scope: Scope,
    /// Virtual servers with one persistenceId share a scope.
    primaries: Vec<u64>,
    mask: u8,
    mask6: u8,
}

/// A session in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Which sessions are the same.
    pub scope: Scope,
    /// Whose it is.
    pub client: IpNet,
    /// The virtual server that gave the service, where that matters.
    pub link: Option<String>,
    /// The service.
    pub service: String,
    /// The client is at a backup.
    pub is_backup: bool,
}

impl Words {
    /// Of a configuration.
    pub fn of(model: &Model, keeping: &[Option<Keeping>]) -> Self {
        let mut scopes: HashMap<u64, Kind> = HashMap::new();
        for keeping in keeping.iter().flatten() {
            let Rule { scope, primary, mask, mask6, .. } = *keeping.rule;
            let kind = || Kind { scope: keeping.scope.clone(), primaries: Vec::new(), mask, mask6 };
            scopes.entry(scope).or_insert_with(kind).primaries.push(primary);
        }
        let numbered = |name: &String| (number(name), name.clone());
        Self {
            scopes,
            services: model.services.iter().map(|service| numbered(&service.name)).collect(),
            links: model.vservers.iter().map(|vserver| numbered(&vserver.name)).collect(),
        }
    }

    /// A session in words. None: the configuration has no such session any more.
    pub fn name(&self, key: &Key, session: &Kept) -> Option<Named> {
        let kind = self.scopes.get(&key.scope)?;
        let link = self.links.get(&session.choice.link);
        Some(Named {
            scope: kind.scope.clone(),
            client: kind.client(key),
            link: link.cloned(),
            service: self.services.get(&session.choice.service)?.clone(),
            is_backup: link.is_some() && !kind.primaries.contains(&session.choice.link),
        })
    }

    /// The clients that a key stands for.
    pub fn client(&self, key: &Key) -> IpNet {
        self.scopes.get(&key.scope).map_or_else(|| address(key).into(), |kind| kind.client(key))
    }

    /// The numbers of the scopes of a virtual server.
    pub fn scopes_of(&self, vserver: &str) -> Vec<u64> {
        let primary = number(vserver);
        let has = |kind: &Kind| kind.primaries.contains(&primary);
        self.scopes.iter().filter(|(_, kind)| has(kind)).map(|(scope, _)| *scope).collect()
    }
}

impl Named {
    /// The key and the choice that have these names, in every world.
    pub fn numbers(&self) -> (Key, Choice) {
        let client = match self.client.network() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let key = Key { scope: self.scope.number(), client: bytemuck::cast(client.octets()) };
        let link = self.link.as_deref().map_or(0, number);
        (key, Choice { service: number(&self.service), link })
    }
}

fn address(key: &Key) -> IpAddr {
    let octets: [u8; 16] = bytemuck::cast(key.client);
    IpAddr::from(Ipv6Addr::from(octets)).to_canonical()
}

impl Kind {
    /// Whose session it is. With ECS it may be a longer prefix than the mask says; its bits tell.
    fn client(&self, key: &Key) -> IpNet {
        let address = address(key);
        let bits = match address {
            IpAddr::V4(a) => self.mask.max(32 - a.to_bits().trailing_zeros().min(32) as u8),
            IpAddr::V6(a) => self.mask6.max(128 - a.to_bits().trailing_zeros().min(128) as u8),
        };
        IpNet::new(address, bits).unwrap_or_else(|_| address.into())
    }
}
