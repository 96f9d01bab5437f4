//! From a model and what health knows to a decision with its reasons.
//!
//! [`decide`] is pure: no I/O, no clock, no randomness, no global state. Everything that answers, explains,
//! previews or replays calls it. The stages in the order in which data moves (spec/netscaler.md 0):
//!
//! | stage | question | section |
//! |---|---|---|
//! | [`snapshot`] | what is known of every service, in one epoch | 3.2 |
//! | [`client`] | who asks, and from where | 1.3 |
//! | [`policy`] | does a policy bring a list of preferred locations | 2.2, 2.4 |
//! | [`candidate`] | which services of a virtual server are usable for this type | 3.2 |
//! | [`proximity`] | how near is a service to the client | 1.6 |
//! | [`preferred`] | into which tier does a list put a service | 2.5 |
//! | [`method`] | which services of a tier share the load, which come after | 3.3 |
//! | [`pool`] | which addresses with which weights | 3.5 |
//! | [`chain`] | which virtual server answers, and what when none can | 3.6, 3.7 |
//! | [`plan`] | whose answers there are, and which of them a service touches | design 4 |
//!
//! # When a decision is undecided
//!
//! A virtual server is undecided for a type while any address of that type, of any bound service that is enabled and
//! not forced, still waits for its monitors. An operator who starts the responder thus never sees a name answered
//! from half a picture, for example from a distant site because the near one had not been checked yet. Addresses
//! whose result cannot matter do not hold a name back: those of disabled or forced services, of another family, and
//! those of backup virtual servers that the chain does not reach. Nothing waits for ever: when the warm-up is over
//! the engine turns what is still undecided into down (design section 5). An address that joins a running
//! configuration should enter the snapshot as down for the same reason: its name has answers already.

pub mod candidate;
pub mod chain;
pub mod client;
pub mod method;
pub mod plan;
pub mod policy;
pub mod pool;
pub mod preferred;
pub mod proximity;
pub mod reason;
pub mod snapshot;

use std::net::IpAddr;

pub use chain::Owner;
pub use client::Client;
pub use plan::{OwnerId, Owners};
pub use pool::{Give, Member, Pool};
pub use reason::{Reason, Step, Tier};
pub use snapshot::{AddressState, ServiceState, Snapshot, VserverState};

use crate::model::{ActionId, Method, Model, PolicyId, RecordType, VserverId};

/// What is answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Health has not spoken yet: the worker answers SERVFAIL (design section 5).
    Undecided,
    /// NOERROR without records.
    Empty,
    /// Addresses.
    Answer(Pool),
}

/// What [`decide`] found, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What is answered.
    pub outcome: Outcome,
    /// The policy whose preferred locations apply.
    pub policy: Option<PolicyId>,
    /// Its action.
    pub action: Option<ActionId>,
    /// The virtual server that decided: the owner's, or a link of its backup chain.
    pub link: VserverId,
    /// The order of the services in the pool, where orders are configured (spec/netscaler.md 3.8).
    pub order: Option<u32>,
    /// Which tier of the preferred locations the pool comes from.
    pub tier: Tier,
    /// The method that made the pool, which need not be the configured one: see `reason`.
    pub method: Method,
    /// Why this answer, or why not by the configured method.
    pub reason: Reason,
    /// The whole path, for `explain`.
    pub steps: Vec<Step>,
}

/// Decides what an owner answers to a client that asks for a type; `client` is any address of its class.
///
/// `snapshot` must belong to `model`.
pub fn decide(
    model: &Model,
    snapshot: &Snapshot,
    owner: &Owner,
    rtype: RecordType,
    client: IpAddr,
) -> Decision {
    let mut trace = reason::Trace::recording();
    let client = Client::locate(model, client);
    let mut decision = chain::decide(model, snapshot, owner, rtype, &client, &mut trace);
    decision.steps = trace.into_steps();
    decision
}

/// The same decision with no steps written down, for a client that is located already: for the compiler, which
/// asks for every class.
pub fn decide_without_steps(
    model: &Model,
    snapshot: &Snapshot,
    owner: &Owner,
    rtype: RecordType,
    client: &Client<'_>,
) -> Decision {
    chain::decide(model, snapshot, owner, rtype, client, &mut reason::Trace::silent())
}
