//! The load-balancing method inside a tier (spec/netscaler.md 3.3).

use super::{
    candidate::Candidate,
    client::Client,
    pool::Pick,
    proximity::{self, Groups, NoDecision},
    reason::{Reason, Trace},
    snapshot::figure,
    state::Facts,
};
use crate::model::{Method, MonitorKind, Vserver};

/// A tier put in order by a method.
pub(super) struct Ranked<'c> {
    /// The first group shares the load; the others come after it.
    pub groups: Groups<'c>,
    /// Who of the first group comes first.
    pub pick: Pick,
    /// The method that made the groups.
    pub method: Method,
    /// Why that method.
    pub reason: Reason,
}

/// What ranks a tier.
#[derive(Clone, Copy)]
pub(super) struct Ranking<'a> {
    pub facts: &'a Facts<'a>,
    pub vserver: &'a Vserver,
    pub client: &'a Client<'a>,
    /// The tier comes from a list of preferred locations, which overrides static proximity and rtt (2.5, point 11).
    pub by_list: bool,
}

impl Ranking<'_> {
    /// Orders one tier: by the configured method, else by the backup method, else round robin over the whole tier.
    pub(super) fn rank<'c>(&self, tier: &[&'c Candidate], trace: &mut Trace) -> Ranked<'c> {
        // Why the configured method did not decide; what happens to its stand-ins shows in the steps.
        let mut first_cause = None;
        for method in [Some(self.vserver.method), self.vserver.backup_method].into_iter().flatten() {
            let cause = match self.attempt(method, tier, trace) {
                Ok((groups, pick)) => {
                    let reason = first_cause.unwrap_or(Reason::Configured);
                    return Ranked { groups, pick, method, reason };
                }
                Err(cause) => cause,
            };
            trace.note("method", || (format!("{method} does not decide"), cause.to_string()));
            first_cause = first_cause.or(Some(cause));
        }
        let (groups, pick) = rotation(tier, trace);
        Ranked { groups, pick, method: Method::RoundRobin, reason: first_cause.unwrap_or(Reason::Configured) }
    }

    fn attempt<'c>(
        &self,
        method: Method,
        tier: &[&'c Candidate],
        trace: &mut Trace,
    ) -> Result<(Groups<'c>, Pick), Reason> {
        match method {
            Method::RoundRobin => Ok(rotation(tier, trace)),
            Method::StaticProximity | Method::Rtt if self.by_list => Err(Reason::PreferredLocations(method)),
            Method::StaticProximity => {
                let ranked = proximity::rank(self.facts.model, self.client, tier);
                let (measure, groups) = ranked.map_err(|none| match none {
                    NoDecision::ClientNotLocated => Reason::ClientNotLocated,
                    NoDecision::NoServiceMatches => Reason::NoServiceMatches,
                })?;
                trace.note("method", || {
                    let nearest = format!("{} of {} services are nearest", groups[0].len(), tier.len());
                    (method.to_string(), format!("{nearest} by {measure}"))
                });
                Ok((groups, Pick::Turn))
            }
            Method::Rtt => Err(Reason::NoRoundTripTimes),
            Method::Api => Err(Reason::NoCallout),
            Method::SourceIpHash => {
                let (mask, mask6) = self.vserver.hash_mask;
                trace.note("method", || {
                    let prefix = if self.client.address.is_ipv4() { mask } else { mask6 };
                    let services = tier.len();
                    (method.to_string(), format!("the client's /{prefix} chooses among {services} services"))
                });
                Ok((vec![tier.to_vec()], Pick::Hash { mask, mask6 }))
            }
            Method::LeastConnection
            | Method::LeastResponseTime
            | Method::LeastBandwidth
            | Method::LeastPackets
            | Method::CustomLoad => self.least(method, tier, trace),
        }
    }

    /// The services with the smallest figure; all must have one.
    fn least<'c>(
        &self,
        method: Method,
        tier: &[&'c Candidate],
        trace: &mut Trace,
    ) -> Result<(Groups<'c>, Pick), Reason> {
        let mut keyed: Vec<(f64, &Candidate)> = Vec::with_capacity(tier.len());
        for candidate in tier {
            let load = self.load(method, candidate).ok_or(Reason::NoLoadFigures(method))?;
            keyed.push((load, candidate));
        }
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
        trace.note("method", || {
            let name = |c: &Candidate| self.facts.model.service(c.service).name.as_str();
            let list: Vec<String> = keyed.iter().map(|(load, c)| format!("{} {load}", name(c))).collect();
            (method.to_string(), format!("smallest first: {}", list.join(", ")))
        });
        let groups = keyed.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq());
        Ok((groups.map(|group| group.iter().map(|(_, c)| *c).collect()).collect(), Pick::Turn))
    }

    /// What the method compares.
    fn load(&self, method: Method, candidate: &Candidate) -> Option<f64> {
        let state = self.facts.snapshot.service(candidate.service);
        let per_weight = |value: f64| value / f64::from(candidate.weight.max(1));
        match method {
            Method::LeastConnection => state.figure(figure::CONNECTIONS).map(per_weight),
            Method::LeastResponseTime => {
                let time = state.figure(figure::RESPONSE_TIME)?;
                Some(per_weight(state.figure(figure::CONNECTIONS)? * time))
            }
            Method::LeastBandwidth => state.figure(figure::BANDWIDTH).map(per_weight),
            Method::LeastPackets => state.figure(figure::PACKETS).map(per_weight),
            Method::CustomLoad => {
                // A service with no active transactions is preferred (3.3).
                let load = self.custom_load(candidate)?;
                Some(if state.figure(figure::CONNECTIONS) == Some(0.0) { -1.0 } else { per_weight(load) })
            }
            _ => None,
        }
    }

    /// Σ weight · value / threshold over Σ weight (spec/netscaler.md 5.2); None if a figure is missing, or none counts.
    fn custom_load(&self, candidate: &Candidate) -> Option<f64> {
        let model = self.facts.model;
        let (service, state) =
            (model.service(candidate.service), self.facts.snapshot.service(candidate.service));
        let (mut sum, mut weights) = (0.0, 0.0);
        for monitor in service.monitors.iter().map(|(id, _)| model.monitor(*id)).filter(|m| m.enabled) {
            let MonitorKind::Load { metrics } = &monitor.kind else { continue };
            for metric in metrics.iter().filter(|metric| metric.threshold > 0) {
                let weight = f64::from(metric.weight);
                sum += weight * state.figure(&metric.name)? / metric.threshold as f64;
                weights += weight;
            }
        }
        (weights > 0.0).then(|| sum / weights)
    }
}

fn rotation<'c>(tier: &[&'c Candidate], trace: &mut Trace) -> (Groups<'c>, Pick) {
    trace.note("method", || {
        (Method::RoundRobin.to_string(), format!("weighted rotation over {} services", tier.len()))
    });
    (vec![tier.to_vec()], Pick::Turn)
}
