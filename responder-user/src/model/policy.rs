//! DNS actions, DNS policies and the rule language (spec/netscaler.md 2).

use std::net::IpAddr;

use ipnet::IpNet;

use super::{ActionId, Location};

/// One `[[dns_action]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct DnsAction {
    /// Unique name.
    pub name: String,
    /// What it does.
    pub kind: DnsActionKind,
}

/// What an action does.
#[derive(Clone, Debug, PartialEq)]
pub enum DnsActionKind {
    /// GslbPrefLoc: 1 to 8 locations, highest priority first (spec/netscaler.md 2.1).
    PreferredLocations(Vec<Location>),
    /// Parsed; does nothing in this version (view, drop, rewrite).
    Inert {
        /// The key that was given.
        key: String,
    },
}

/// One `[[dns_policy]]`, bound at the global request bind point.
#[derive(Clone, Debug, PartialEq)]
pub struct DnsPolicy {
    /// Unique name.
    pub name: String,
    /// When it applies.
    pub rule: Rule,
    /// The rule as typed.
    pub rule_text: String,
    /// What then happens.
    pub action: ActionId,
    /// Smaller is evaluated earlier; 1 to 65534, unique.
    pub priority: u32,
    /// What follows after a match (spec/netscaler.md 2.4).
    pub goto: Goto,
}

/// gotoPriorityExpression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Goto {
    /// Stop.
    #[default]
    End,
    /// Go on with the next higher priority.
    Next,
    /// Go on with that priority.
    Priority(u32),
}

/// A rule: a boolean function of the client's address (spec/netscaler.md 2.2).
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// `true` or `false`.
    Constant(bool),
    /// `CLIENT.IP.SRC.MATCHES_LOCATION("…")`
    MatchesLocation(Location),
    /// `CLIENT.IP.SRC.IN_SUBNET(…)` or `CLIENT.IPV6.SRC.IN_SUBNET(…)`; host bits are masked away.
    InSubnet(IpNet),
    /// `CLIENT.IP.SRC.EQ(…)`
    Equals(IpAddr),
    /// `!e`
    Not(Box<Rule>),
    /// `a && b`
    And(Box<Rule>, Box<Rule>),
    /// `a || b`
    Or(Box<Rule>, Box<Rule>),
}
