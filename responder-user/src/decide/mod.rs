//! From a model and what is known to a decision with its reasons.
//!
//! [`decide`] is pure: no I/O, no clock, no randomness, no global state. Everything that answers, explains,
//! previews or replays calls it. The stages in the order in which data moves (spec/netscaler.md 0):
//!
//! | stage | question | section |
//! |---|---|---|
//! | [`snapshot`] | what is known of every service, in one epoch | 3.2 |
//! | [`client`] | who asks, and from where | 1.3 |
//! | [`policy`] | which policies fire, and what they bring | 2.2 to 2.4 |
//! | [`state`] | primary state, effective state, threshold flag | 4.4 |
//! | [`candidate`] | which services of a virtual server are usable for this type | 3.2, 5.2 |
//! | [`spillover`] | is a virtual server over its threshold | 4 |
//! | [`memory`] | what is remembered from one snapshot to the next: latches | 3.6 |
//! | [`session`] | what a client was given before, and when that holds | 3.4, 4.3 |
//! | [`proximity`] | how near is a service to the client | 1.6 |
//! | [`preferred`] | into which tier does a list put a service | 2.5 |
//! | [`pool`] | which addresses with which weights | 3.5 |
//! | [`method`] | which services of a tier share the load, which come after | 3.3 |
//! | `inside` | what one virtual server answers | 2.6, 3.8 |
//! | [`chain`] | which virtual server answers, and what when none can | 3.6, 3.7, 4.5 |
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
mod inside;
pub mod memory;
pub mod method;
pub mod plan;
pub mod policy;
pub mod pool;
pub mod preferred;
pub mod proximity;
pub mod reason;
pub mod session;
pub mod snapshot;
pub mod spillover;
pub mod state;

use std::net::IpAddr;

pub use chain::Owner;
pub use client::Client;
pub use plan::{OwnerId, Owners};
pub use pool::{Give, Member, Pick, Pool, Record};
pub use reason::{Hit, Reason, Step, Tier};
pub use session::Session;
pub use snapshot::{AddressState, Figure, Memory, Report, ServiceState, Snapshot, VserverState};
pub use spillover::Level;
pub use state::{Facts, States};

use crate::model::{ActionId, Method, Model, PolicyId, RecordType, ViewId, VserverId};

/// What is answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Health has not spoken yet: the worker answers SERVFAIL (design section 5).
    Undecided,
    /// NOERROR without records.
    Empty,
    /// Addresses.
    Answer(Pool),
    /// Records that are no addresses.
    Records(Pool<Record>),
    /// No reply at all.
    Drop,
    /// REFUSED.
    Refused,
    /// As if no virtual server owned the name: zone data, else the resolver.
    NotOurs,
}

/// What [`decide`] found, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What is answered.
    pub outcome: Outcome,
    /// The policy that changed the answer most: by dropping, rewriting, preferring locations or choosing a view.
    pub policy: Option<PolicyId>,
    /// Its action.
    pub action: Option<ActionId>,
    /// The view whose addresses are answered.
    pub view: Option<ViewId>,
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
    /// TTL in seconds where it is not that of the domain.
    pub ttl: Option<u32>,
    /// What became of the client's session.
    pub session: session::Use,
    /// The whole path, for `explain`.
    pub steps: Vec<Step>,
}

/// What is asked of whom, by whom.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Whose answer.
    pub owner: &'a Owner,
    /// Of which type.
    pub rtype: RecordType,
    /// Who asks, or any other address of its class.
    pub client: &'a Client<'a>,
    /// What the client was given before.
    pub session: Option<Session>,
}

/// Decides what an owner answers to a client that asks for a type; `client` is any address of its class, and has no
/// session.
///
/// `snapshot` must belong to `model`.
pub fn decide(
    model: &Model,
    snapshot: &Snapshot,
    owner: &Owner,
    rtype: RecordType,
    client: IpAddr,
) -> Decision {
    let client = Client::locate(model, client);
    answer(model, snapshot, &Question { owner, rtype, client: &client, session: None })
}

/// As [`decide`], for a client that may have a session.
pub fn answer(model: &Model, snapshot: &Snapshot, question: &Question<'_>) -> Decision {
    let mut trace = reason::Trace::recording();
    let facts = Facts { model, snapshot, rtype: question.rtype };
    let mut decision = chain::decide(facts, question, &mut trace);
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
    answer_without_steps(model, snapshot, &Question { owner, rtype, client, session: None })
}

/// Likewise, for a client that may have a session.
pub fn answer_without_steps(model: &Model, snapshot: &Snapshot, question: &Question<'_>) -> Decision {
    let facts = Facts { model, snapshot, rtype: question.rtype };
    chain::decide(facts, question, &mut reason::Trace::silent())
}
