//! `session list` and `session clear`: who comes back to which service (spec/netscaler.md 3.4, 4.3).

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv6Addr},
};

use ipnet::IpNet;
use responder_common::session::{Key, Session};
use serde_json::{Value, json};

use super::{Refusal, show::LIST_LIMIT, target};
use crate::{
    compile::{
        Compiled,
        session::{Keeping, Scope, number},
    },
    decide::{Facts, Snapshot},
    model::{Model, RecordType, ServiceId},
};

/// Reads sessions in the words of a configuration.
pub struct Reading<'a> {
    model: &'a Model,
    snapshot: &'a Snapshot,
    /// Clock of sessions, nanoseconds.
    now: u64,
    rules: HashMap<u64, &'a Keeping>,
    services: HashMap<u64, ServiceId>,
    links: HashMap<u64, &'a str>,
}

/// A session in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// Which sessions are the same.
    pub scope: &'a Scope,
    /// Whose it is.
    pub client: IpNet,
    /// The virtual server that gave the service, where that matters.
    pub link: Option<&'a str>,
    /// The service.
    pub service: ServiceId,
    /// The client is at a backup.
    pub is_backup: bool,
    /// Seconds that it goes on without a query; 0: it is held for as long as spillover lasts.
    pub expires_in: u64,
}

impl<'a> Reading<'a> {
    /// `now` is the clock of sessions.
    pub fn of(compiled: &'a Compiled, snapshot: &'a Snapshot, now: u64) -> Self {
        let model = &*compiled.model;
        let ids = (0..model.services.len() as u32).map(ServiceId);
        Self {
            model,
            snapshot,
            now,
            rules: compiled.keeping.iter().flatten().map(|keeping| (keeping.rule.scope, keeping)).collect(),
            services: ids.map(|id| (number(&model.service(id).name), id)).collect(),
            links: model.vservers.iter().map(|v| (number(&v.name), &*v.name)).collect(),
        }
    }

    /// A session in words. None: the configuration has no such session any more.
    pub fn row(&self, key: &Key, session: &Session) -> Option<Row<'a>> {
        let keeping = self.rules.get(&key.scope)?;
        let service = *self.services.get(&session.choice.service)?;
        let link = self.links.get(&session.choice.link).copied();
        Some(Row {
            scope: &keeping.scope,
            client: client(key, keeping),
            link,
            service,
            is_backup: link.is_some() && session.choice.link != keeping.rule.primary,
            expires_in: session.until.saturating_sub(self.now) / 1_000_000_000,
        })
    }

    /// The answer to `session list`, ordered by scope and client.
    pub fn list(&self, all: &[(Key, Session)]) -> Result<Value, Refusal> {
        if all.len() > LIST_LIMIT {
            return Err(Refusal::new(format!(
                "{} sessions are more than one list holds ({LIST_LIMIT}); --vserver and --client narrow it down",
                all.len()
            )));
        }
        let mut rows: BTreeMap<(&Scope, IpNet), Row<'_>> = BTreeMap::new();
        for (key, session) in all {
            rows.extend(self.row(key, session).map(|row| ((row.scope, row.client), row)));
        }
        Ok(rows.into_values().map(|row| self.value(&row)).collect())
    }

    fn value(&self, row: &Row<'_>) -> Value {
        let (id, vserver, domain) = match row.scope {
            Scope::Id(id) => (Some(*id), None, None),
            Scope::Vserver(vserver) => (None, Some(vserver), None),
            Scope::Domain(vserver, domain) => (None, Some(vserver), Some(domain)),
        };
        let allows = |rtype| {
            Facts { model: self.model, snapshot: self.snapshot, rtype }.states(row.service).allows_redirect()
        };
        json!({
            "client": row.client,
            "service": self.model.service(row.service).name,
            "persistence_id": id,
            "vserver": vserver,
            "domain": domain,
            "link": row.link,
            "kind": if row.is_backup { "backup" } else { "persistence" },
            "expires_in_seconds": row.expires_in,
            "cookie_redirect": RecordType::ALL.into_iter().any(allows),
        })
    }

    /// The sessions of a virtual server, of clients inside a prefix, or of both.
    pub fn chosen(
        &self,
        all: Vec<(Key, Session)>,
        vserver: Option<&str>,
        clients: Option<IpNet>,
    ) -> Result<Vec<(Key, Session)>, Refusal> {
        let scopes: Option<Vec<u64>> = match vserver {
            None => None,
            Some(name) => {
                let wanted = target::vserver(self.model, name)?;
                let name = number(&self.model.vserver(wanted).name);
                Some(self.rules.values().filter(|k| k.rule.primary == name).map(|k| k.rule.scope).collect())
            }
        };
        let is_wanted = |(key, _): &(Key, Session)| {
            scopes.as_ref().is_none_or(|scopes| scopes.contains(&key.scope))
                && clients.is_none_or(|clients| {
                    let whose = match self.rules.get(&key.scope) {
                        Some(keeping) => client(key, keeping),
                        None => IpNet::from(address(key)),
                    };
                    clients.contains(&whose) || whose.contains(&clients)
                })
        };
        Ok(all.into_iter().filter(is_wanted).collect())
    }
}

fn address(key: &Key) -> IpAddr {
    let octets: [u8; 16] = bytemuck::cast(key.client);
    IpAddr::from(Ipv6Addr::from(octets)).to_canonical()
}

/// Whose session it is. With ECS it may be a longer prefix than the mask says; its bits tell.
fn client(key: &Key, keeping: &Keeping) -> IpNet {
    let address = address(key);
    let bits = match address {
        IpAddr::V4(a) => keeping.rule.mask.max(32 - a.to_bits().trailing_zeros().min(32) as u8),
        IpAddr::V6(a) => keeping.rule.mask6.max(128 - a.to_bits().trailing_zeros().min(128) as u8),
    };
    IpNet::new(address, bits).unwrap_or_else(|_| IpNet::from(address))
}
