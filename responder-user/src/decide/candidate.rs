//! Which services of a virtual server are usable for a type (spec/netscaler.md 3.2).

use std::net::IpAddr;

use responder_common::rendezvous;

use super::{
    pool::Record,
    reason::{Reason, Trace},
    snapshot::{AddressState, ServiceState, figure},
    state::{Facts, Path, States},
};
use crate::model::{
    Bound, Model, MonitorKind, RecordType, Service, ServiceId, VserverId,
    vserver::{DynamicWeight, SkipPersistency},
};

/// A usable service with what may be given.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The service.
    pub service: ServiceId,
    /// Weight of its binding, times the dynamic one (cumulativeWeight).
    pub weight: u32,
    /// Order of its binding.
    pub order: Option<u32>,
    /// Its addresses of the type, in the order of the file; at least one for A and AAAA.
    pub addresses: Vec<IpAddr>,
    /// Its records, for other types.
    pub records: Vec<Record>,
    /// The hash of its hashId or name.
    pub hash: u64,
}

impl Candidate {
    /// Who its nth address is for `source-ip-hash`.
    pub fn identity(&self, index: usize) -> u64 {
        let address = self.addresses.get(index).map_or(0, |a| rendezvous::of_text(a.to_string().as_bytes()));
        rendezvous::identity(self.hash, address)
    }
}

/// What one virtual server has to offer.
#[derive(Debug, PartialEq)]
pub(super) enum Offer {
    /// Some state that matters is not known yet.
    Undecided,
    /// Disabled, or no service usable.
    Down,
    /// Up, but load monitors withdraw every service, and clients are not to be served meanwhile.
    Overloaded,
    /// Some services are usable.
    Usable(Usable),
}

/// Usable services in the order of the file.
#[derive(Debug, PartialEq)]
pub(super) struct Usable {
    pub candidates: Vec<Candidate>,
    /// Services that load monitors withdraw, for the sessions that hold on to them.
    pub withdrawn: Vec<Candidate>,
    /// Why these, where it is not primary state, threshold and load.
    pub basis: Option<Reason>,
}

/// What a service contributes, and why.
struct Verdict {
    states: States,
    /// What may be given while the primary is up: addresses that are up.
    addresses: Vec<IpAddr>,
    /// Everything of the type.
    all: Vec<IpAddr>,
    records: Vec<Record>,
    /// It counts for the virtual server: enabled and of the type.
    counts: bool,
    /// At its own limit.
    limit: Option<&'static str>,
    /// A load monitor withdraws it.
    overloaded: bool,
    why: String,
}

impl Verdict {
    fn out(why: &str) -> Self {
        let down = AddressState::Down;
        Self {
            states: States { primary: down, effective: down, above: false },
            addresses: Vec::new(),
            all: Vec::new(),
            records: Vec::new(),
            counts: false,
            limit: None,
            overloaded: false,
            why: why.to_owned(),
        }
    }

    /// Primary UP, below its threshold and its limits; load monitors may still withdraw it.
    fn is_eligible(&self) -> bool {
        self.counts && self.states.primary == AddressState::Up && !self.states.above && self.limit.is_none()
    }

    /// Usable by its effective state.
    fn is_effective(&self) -> bool {
        self.counts && self.states.effective == AddressState::Up && self.limit.is_none()
    }
}

impl Facts<'_> {
    /// Sorts the bound services into usable and not; the module documentation of `decide` has the rule for undecided.
    /// `path` ends in this virtual server, or is None.
    pub(super) fn offer(&self, vserver: VserverId, path: Option<&Path<'_>>, trace: &mut Trace) -> Offer {
        let configured = self.model.vserver(vserver);
        let name = &configured.name;
        if !self.snapshot.vserver(vserver).enabled {
            trace.note("vserver", || (format!("{name} is down"), "disabled".to_owned()));
            return Offer::Down;
        }
        let alone = Path::to(vserver, None);
        let here = path.unwrap_or(&alone);
        let verdicts: Vec<Verdict> =
            configured.services.iter().map(|bound| self.judge(bound.service, Some(here))).collect();
        for (bound, verdict) in configured.services.iter().zip(&verdicts) {
            note(self.model.service(bound.service), verdict, trace);
        }
        let is_undecided = verdicts.iter().any(|v| v.counts && v.states.primary == AddressState::Undecided);
        let offer = if is_undecided { Offer::Undecided } else { self.sort(vserver, &verdicts, here) };
        let bound = configured.services.len();
        trace.note("vserver", || match &offer {
            Offer::Undecided => (format!("{name} is undecided"), "waits for monitors".to_owned()),
            Offer::Down => (format!("{name} is down"), format!("0 of {bound} services usable")),
            Offer::Overloaded => (
                format!("{name} is overloaded"),
                "load monitors withdraw every service that is up".to_owned(),
            ),
            Offer::Usable(usable) => {
                let count = format!("{} of {bound} services usable", usable.candidates.len());
                let why = usable.basis.map_or_else(|| count.clone(), |basis| format!("{count}: {basis}"));
                (format!("{name} is up"), why)
            }
        });
        offer
    }

    /// True if a service is usable for the type by itself, and why, or why not.
    pub fn usable(&self, id: ServiceId) -> (bool, String) {
        let verdict = self.judge(id, None);
        (verdict.is_eligible() && !verdict.overloaded, verdict.why)
    }

    fn sort(&self, vserver: VserverId, verdicts: &[Verdict], path: &Path<'_>) -> Offer {
        let configured = self.model.vserver(vserver);
        let take = |wanted: &dyn Fn(&Verdict) -> bool| -> Vec<Candidate> {
            let pairs = configured.services.iter().zip(verdicts).filter(|(_, verdict)| wanted(verdict));
            pairs.map(|(bound, verdict)| self.candidate(vserver, bound, verdict, path)).collect()
        };
        let withdrawn = take(&|v| v.is_eligible() && v.overloaded);
        let candidates = take(&|v| v.is_eligible() && !v.overloaded);
        if !candidates.is_empty() {
            return Offer::Usable(Usable { candidates, withdrawn, basis: None });
        }
        if !withdrawn.is_empty() {
            if configured.skip_persistency == SkipPersistency::Rebalance {
                return Offer::Overloaded;
            }
            return Offer::Usable(Usable {
                candidates: withdrawn,
                withdrawn: Vec::new(),
                basis: Some(Reason::LoadSetAside),
            });
        }
        // The second pool of 4.4: all that are up are at their thresholds, or nobody is up and effective states count.
        let up = || verdicts.iter().filter(|v| v.counts && v.states.primary == AddressState::Up);
        let saturated = up().next().is_some() && up().all(|v| v.states.above);
        if !saturated && !configured.effective_state {
            return Offer::Down;
        }
        let basis = if saturated { Reason::AllAboveThreshold } else { Reason::NoPrimaryUp };
        let candidates = take(&Verdict::is_effective);
        if candidates.is_empty() {
            return Offer::Down;
        }
        Offer::Usable(Usable { candidates, withdrawn: Vec::new(), basis: Some(basis) })
    }

    fn candidate(&self, vserver: VserverId, bound: &Bound, verdict: &Verdict, path: &Path<'_>) -> Candidate {
        let service = self.model.service(bound.service);
        let hash = service.hash_id.map_or_else(
            || rendezvous::of_text(service.name.as_bytes()),
            |id| rendezvous::of_text(&id.to_be_bytes()),
        );
        // Who serves by its effective state alone has no address that a check calls up.
        let addresses = if verdict.addresses.is_empty() { &verdict.all } else { &verdict.addresses };
        Candidate {
            service: bound.service,
            weight: bound.weight.saturating_mul(self.dynamic_weight(vserver, bound.service, path)),
            order: bound.order,
            addresses: addresses.clone(),
            records: verdict.records.clone(),
            hash,
        }
    }

    /// What multiplies the configured weight: the active services behind a service, or the sum of their weights, as told
    /// or counted; 1 where nobody knows (spec/netscaler.md 3.3).
    fn dynamic_weight(&self, vserver: VserverId, id: ServiceId, path: &Path<'_>) -> u32 {
        let kind = self.model.vserver(vserver).dynamic_weight;
        let name = match kind {
            DynamicWeight::Disabled => return 1,
            DynamicWeight::ServiceCount => figure::SERVICES,
            DynamicWeight::ServiceWeight => figure::WEIGHTS,
        };
        let told = self.snapshot.service(id).figure(name).map(|value| value as u32);
        let counted = || {
            let behind = self.model.service(id).behind?;
            let mut sum = 0_u32;
            for bound in &self.model.vserver(behind).services {
                let verdict = self.judge(bound.service, Some(path));
                if verdict.is_eligible() && !verdict.overloaded {
                    sum = sum.saturating_add(if kind == DynamicWeight::ServiceCount {
                        1
                    } else {
                        bound.weight
                    });
                }
            }
            Some(sum)
        };
        told.or_else(counted).unwrap_or(1).max(1)
    }

    fn judge(&self, id: ServiceId, path: Option<&Path<'_>>) -> Verdict {
        let (service, state) = (self.model.service(id), self.snapshot.service(id));
        let fits = |a: &IpAddr| self.rtype.fits(*a);
        let all: Vec<IpAddr> = service.addresses.iter().copied().filter(fits).collect();
        let records = records(service, self.rtype);
        if all.is_empty() && records.is_empty() {
            return Verdict::out(if self.rtype.is_address() {
                "no address of the type"
            } else {
                "no record of the type"
            });
        }
        if !state.admin {
            return Verdict::out("disabled");
        }
        let states = self.states_on(id, path);
        let addresses = match state.forced {
            Some(true) => all.clone(),
            Some(false) => Vec::new(),
            None => {
                let up =
                    service.addresses.iter().zip(&state.addresses).filter(|(_, s)| **s == AddressState::Up);
                up.map(|(a, _)| *a).filter(fits).collect()
            }
        };
        let limit = at_limit(service, state);
        let overload = self.overload(service, state);
        let why = why(state, states, limit, overload.as_deref(), service.behind.is_some());
        Verdict { states, addresses, all, records, counts: true, limit, overloaded: overload.is_some(), why }
    }

    /// The first figure that makes a load monitor withdraw the service (spec/netscaler.md 5.2).
    fn overload(&self, service: &Service, state: &ServiceState) -> Option<String> {
        let monitors = service.monitors.iter().map(|(id, _)| self.model.monitor(*id)).filter(|m| m.enabled);
        for monitor in monitors {
            let MonitorKind::Load { metrics } = &monitor.kind else { continue };
            for metric in metrics.iter().filter(|metric| metric.threshold > 0) {
                if let Some(value) =
                    state.figure(&metric.name).filter(|value| *value >= metric.threshold as f64)
                {
                    let (name, threshold) = (&metric.name, metric.threshold);
                    return Some(format!("{}: {name} {value} is at or above {threshold}", monitor.name));
                }
            }
        }
        None
    }
}

fn note(service: &Service, verdict: &Verdict, trace: &mut Trace) {
    trace.note("service", || {
        let place = service.location.as_ref().map_or_else(|| "no location".to_owned(), ToString::to_string);
        let given: Vec<String> = match (&verdict.addresses[..], &verdict.records[..]) {
            (addresses, []) => addresses.iter().map(ToString::to_string).collect(),
            (_, records) => records.iter().map(ToString::to_string).collect(),
        };
        let is_in = verdict.is_eligible() && !verdict.overloaded;
        let outcome = if is_in {
            format!("{} ({place}) is in: {}", service.name, given.join(" "))
        } else {
            format!("{} ({place}) is out", service.name)
        };
        let total = verdict.all.len();
        let why = if !is_in || given.len() >= total {
            verdict.why.clone()
        } else {
            format!("{}, {} of {total} addresses", verdict.why, given.len())
        };
        (outcome, why)
    });
}

/// What a service gives for types that are no address.
fn records(service: &Service, rtype: RecordType) -> Vec<Record> {
    match rtype {
        RecordType::A | RecordType::Aaaa => Vec::new(),
        RecordType::Cname => service.cname.clone().map(Record::Cname).into_iter().collect(),
        RecordType::Naptr => service.naptr.clone().map(Record::Naptr).into_iter().collect(),
    }
}

/// maxClient and maxBandwidth: at the limit a service is skipped until it drops under it.
fn at_limit(service: &Service, state: &ServiceState) -> Option<&'static str> {
    let reaches = |name, limit: u32| limit > 0 && state.figure(name).is_some_and(|v| v >= f64::from(limit));
    if reaches(figure::CONNECTIONS, service.max_connections) {
        return Some("at its max_connections");
    }
    reaches(figure::BANDWIDTH, service.max_bandwidth).then_some("at its max_bandwidth")
}

fn why(
    state: &ServiceState,
    states: States,
    limit: Option<&str>,
    overload: Option<&str>,
    stands_for: bool,
) -> String {
    let told = state.report.primary_up.is_some() || stands_for;
    match (state.forced, states.primary) {
        (Some(false), _) => "forced down".to_owned(),
        (_, AddressState::Undecided) => "monitors have not decided yet".to_owned(),
        (_, AddressState::Down) if states.effective == AddressState::Up => {
            "primary is down, effective state is up".to_owned()
        }
        (_, AddressState::Down) if told => "primary is down".to_owned(),
        (_, AddressState::Down) => "down".to_owned(),
        (_, AddressState::Up) if states.above => {
            let word = if states.effective == AddressState::Up { "up" } else { "down" };
            format!("threshold is reached, effective state is {word}")
        }
        (_, AddressState::Up) if limit.is_some() => limit.unwrap_or_default().to_owned(),
        (_, AddressState::Up) if overload.is_some() => overload.unwrap_or_default().to_owned(),
        (Some(true), _) => "forced up".to_owned(),
        (None, AddressState::Up) => "up".to_owned(),
    }
}

/// True if some bound service has something to give for the type, whatever its state.
pub fn has_address(model: &Model, vserver: VserverId, rtype: RecordType) -> bool {
    let gives = |service: &Service| {
        service.addresses.iter().any(|a| rtype.fits(*a)) || !records(service, rtype).is_empty()
    };
    model.vserver(vserver).services.iter().any(|b| gives(model.service(b.service)))
}

/// All that is bound, whatever its state.
pub(super) fn all_records(model: &Model, vserver: VserverId, rtype: RecordType) -> Vec<(Record, ServiceId)> {
    let bound = model.vserver(vserver).services.iter();
    bound
        .flat_map(|b| records(model.service(b.service), rtype).into_iter().map(|record| (record, b.service)))
        .collect()
}
