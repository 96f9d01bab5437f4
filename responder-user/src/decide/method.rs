//! The load-balancing method inside a tier (spec/netscaler.md 3.3).

use super::{
    candidate::Candidate,
    client::Client,
    proximity::{self, Groups, NoDecision},
    reason::{Reason, Trace},
};
use crate::model::{Method, Model, Vserver};

/// A tier put in order by a method.
pub(super) struct Ranked<'c> {
    /// The first group shares the load; the others come after it.
    pub groups: Groups<'c>,
    /// The method that made the groups.
    pub method: Method,
    /// Why that method.
    pub reason: Reason,
}

/// Orders one tier: by the configured method, else by the backup method, else round robin over the whole tier.
///
/// `by_list`: the tier comes from a list of preferred locations, which overrides static proximity and rtt (2.5,
/// point 11).
pub(super) fn rank<'c>(
    model: &Model,
    vserver: &Vserver,
    client: &Client<'_>,
    tier: &[&'c Candidate],
    by_list: bool,
    trace: &mut Trace,
) -> Ranked<'c> {
    // Why the configured method did not decide; what happens to its stand-ins shows in the steps.
    let mut first_cause = None;
    let tries = [Some(vserver.method), vserver.backup_method, Some(Method::RoundRobin)];
    for method in tries.into_iter().flatten() {
        let cause = match attempt(model, client, method, tier, by_list, trace) {
            Ok(groups) => {
                let reason = first_cause.unwrap_or(Reason::Configured);
                return Ranked { groups, method, reason };
            }
            Err(cause) => cause,
        };
        trace.note("method", || (format!("{method} does not decide"), cause.to_string()));
        first_cause = first_cause.or(Some(cause));
    }
    unreachable!("round robin always decides")
}

fn attempt<'c>(
    model: &Model,
    client: &Client<'_>,
    method: Method,
    tier: &[&'c Candidate],
    by_list: bool,
    trace: &mut Trace,
) -> Result<Groups<'c>, Reason> {
    match method {
        Method::RoundRobin => {
            trace.note("method", || {
                (method.to_string(), format!("weighted rotation over {} services", tier.len()))
            });
            Ok(vec![tier.to_vec()])
        }
        Method::StaticProximity | Method::Rtt if by_list => Err(Reason::PreferredLocations(method)),
        Method::StaticProximity => {
            let (measure, groups) = proximity::rank(model, client, tier).map_err(|none| match none {
                NoDecision::ClientNotLocated => Reason::ClientNotLocated,
                NoDecision::NoServiceMatches => Reason::NoServiceMatches,
            })?;
            trace.note("method", || {
                let nearest = format!("{} of {} services are nearest", groups[0].len(), tier.len());
                (method.to_string(), format!("{nearest} by {measure}"))
            });
            Ok(groups)
        }
        Method::Rtt => Err(Reason::NoRoundTripTimes),
        Method::SourceIpHash => Err(Reason::NoHashing),
        Method::LeastConnection
        | Method::LeastResponseTime
        | Method::LeastBandwidth
        | Method::LeastPackets
        | Method::CustomLoad => Err(Reason::NoLoadFigures(method)),
    }
}
