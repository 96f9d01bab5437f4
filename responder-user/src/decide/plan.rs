//! Whose answers there are: owners, the names that they serve, and what a change of state touches (design section 4).

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use super::{
    chain::{Owner, links},
    policy::name_bits,
};
use crate::model::{Domain, Model, RecordType, ServiceId, VserverId};

/// Index into [`Owners::list`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(pub u32);

impl OwnerId {
    /// The index into the list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One type of one domain: who answers it, for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The type.
    pub rtype: RecordType,
    /// Who answers.
    pub owner: OwnerId,
    /// TTL of the answers in seconds.
    pub ttl: u32,
}

/// The distinct owners of a model. A million names behind one virtual server have one owner.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Owners {
    /// By virtual server, then by backup addresses: the order of the names has no influence.
    pub list: Vec<Owner>,
    /// For every domain of the model its owner.
    of_domain: Vec<OwnerId>,
    /// For every virtual server the owners whose chain it is a link of.
    by_vserver: Vec<Vec<OwnerId>>,
    /// For every service the owners that can come to answer with it.
    by_service: Vec<Vec<OwnerId>>,
    dependents: Dependents,
}

impl Owners {
    /// Collects the owners of all domains.
    pub fn of(model: &Model) -> Self {
        // Without tests of names, which are few, every name has the same bits: none.
        let bits: Vec<Arc<[u64]>> = if model.name_tests.is_empty() {
            Vec::new()
        } else {
            model.domains.iter().map(|d| name_bits(&model.name_tests, &d.name).into()).collect()
        };
        let none: Arc<[u64]> = Arc::from([]);
        let bits_of = |i: usize| bits.get(i).unwrap_or(&none);
        // Sessions with a backup are kept for each domain: each has an owner of its own.
        let own = |i: usize, domain: &Domain| {
            model.vserver(domain.vserver).backup_session_timeout.map(|_| i as u32)
        };
        let key = |i: usize, domain: &Domain| -> Key<'_> {
            (domain.vserver, &*model.domains[i].backup_ip, &**bits_of(i), own(i, domain))
        };
        let mut ids: BTreeMap<Key<'_>, OwnerId> = BTreeMap::new();
        // Lists are shared: most domains are told apart from the one before by two words alone.
        let mut last: Option<(&Domain, &Arc<[u64]>)> = None;
        for (i, domain) in model.domains.iter().enumerate() {
            let is_own = model.vserver(domain.vserver).backup_session_timeout.is_some();
            if is_own
                || !last.is_some_and(|(before, names)| same_owner(before, domain) && names == bits_of(i))
            {
                ids.entry(key(i, domain)).or_insert(OwnerId(0));
            }
            last = Some((domain, bits_of(i)));
        }
        let mut list = Vec::with_capacity(ids.len());
        for (i, ((vserver, backup_ip, names, domain), id)) in ids.iter_mut().enumerate() {
            *id = OwnerId(i as u32);
            list.push(Owner {
                vserver: *vserver,
                backup_ip: Arc::from(*backup_ip),
                names: Arc::from(*names),
                domain: *domain,
            });
        }
        let of = |(i, d): (usize, &Domain)| ids[&key(i, d)];
        let of_domain = model.domains.iter().enumerate().map(of).collect();
        let dependents = Dependents::of(model);
        let (by_vserver, by_service) = reverse(model, &list, &dependents);
        Self { list, of_domain, by_vserver, by_service, dependents }
    }

    /// The virtual servers whose state a change of this service can change.
    pub fn vservers_affected_by(&self, service: ServiceId) -> &[VserverId] {
        self.dependents.of_service.get(service.index()).map_or(&[], Vec::as_slice)
    }

    /// This virtual server, and those whose state depends on its.
    pub fn vservers_affected_by_vserver(&self, vserver: VserverId) -> &[VserverId] {
        self.dependents.of_vserver.get(vserver.index()).map_or(&[], Vec::as_slice)
    }

    /// An owner by id.
    pub fn owner(&self, id: OwnerId) -> &Owner {
        &self.list[id.index()]
    }

    /// The owner of a domain, by its index in [`Model::domains`].
    pub fn of_domain(&self, index: usize) -> OwnerId {
        self.of_domain[index]
    }

    /// The types that a domain answers, each with its owner. A dual-stack name may have two domains (3.9).
    pub fn served<'m>(&self, model: &'m Model, index: usize) -> impl Iterator<Item = Served> + use<'m> {
        let (owner, domain) = (self.of_domain(index), &model.domains[index]);
        let types = &model.vserver(domain.vserver).types;
        types.iter().map(move |rtype| Served { rtype: *rtype, owner, ttl: domain.ttl })
    }

    /// The owners whose answers a change of this service can change, in ascending order.
    pub fn owners_affected_by(&self, service: ServiceId) -> &[OwnerId] {
        self.by_service.get(service.index()).map_or(&[], Vec::as_slice)
    }

    /// The owners whose answers a change of this virtual server can change, in ascending order.
    pub fn owners_affected_by_vserver(&self, vserver: VserverId) -> &[OwnerId] {
        self.by_vserver.get(vserver.index()).map_or(&[], Vec::as_slice)
    }
}

fn same_owner(a: &Domain, b: &Domain) -> bool {
    a.vserver == b.vserver && Arc::ptr_eq(&a.backup_ip, &b.backup_ip)
}

/// What tells owners apart.
type Key<'m> = (VserverId, &'m [IpAddr], &'m [u64], Option<u32>);

/// Whose state depends on whose: a service that stands for a virtual server takes the states of it and of its backups.
#[derive(Clone, Debug, Default, PartialEq)]
struct Dependents {
    /// For every virtual server itself and all that depend on it, ascending.
    of_vserver: Vec<Vec<VserverId>>,
    /// For every service the virtual servers whose state it can change, ascending.
    of_service: Vec<Vec<VserverId>>,
}

impl Dependents {
    fn of(model: &Model) -> Self {
        let count = model.vservers.len();
        let ids = || (0..count as u32).map(VserverId);
        // One step: who binds a service that stands for a virtual server whose chain has this link.
        let mut steps: Vec<BTreeSet<VserverId>> = vec![BTreeSet::new(); count];
        for user in ids() {
            let services = model.vserver(user).services.iter().map(|b| model.service(b.service));
            for behind in services.filter_map(|service| service.behind) {
                for link in links(model, behind) {
                    steps[link.index()].insert(user);
                }
            }
        }
        let closure = |start: VserverId| {
            let mut out = BTreeSet::from([start]);
            let mut open = vec![start];
            while let Some(next) = open.pop() {
                open.extend(steps[next.index()].iter().copied().filter(|user| out.insert(*user)));
            }
            out
        };
        let of_vserver: Vec<BTreeSet<VserverId>> = ids().map(closure).collect();
        let mut of_service: Vec<BTreeSet<VserverId>> = vec![BTreeSet::new(); model.services.len()];
        for user in ids() {
            for bound in &model.vserver(user).services {
                of_service[bound.service.index()].extend(&of_vserver[user.index()]);
            }
        }
        let list =
            |sets: Vec<BTreeSet<VserverId>>| sets.into_iter().map(|set| set.into_iter().collect()).collect();
        Self { of_vserver: list(of_vserver), of_service: list(of_service) }
    }
}

type Reverse = (Vec<Vec<OwnerId>>, Vec<Vec<OwnerId>>);

fn reverse(model: &Model, list: &[Owner], dependents: &Dependents) -> Reverse {
    let mut in_chain: Vec<Vec<OwnerId>> = vec![Vec::new(); model.vservers.len()];
    for (i, owner) in list.iter().enumerate() {
        for link in links(model, owner.vserver) {
            in_chain[link.index()].push(OwnerId(i as u32));
        }
    }
    let owners = |vservers: &Vec<VserverId>| {
        // Most have one: no need to sort.
        if let [one] = vservers[..] {
            return in_chain[one.index()].clone();
        }
        let all: BTreeSet<OwnerId> =
            vservers.iter().flat_map(|v| in_chain[v.index()].iter().copied()).collect();
        all.into_iter().collect()
    };
    (dependents.of_vserver.iter().map(owners).collect(), dependents.of_service.iter().map(owners).collect())
}
