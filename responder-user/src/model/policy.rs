//! DNS actions, DNS policies and the rule language (spec/netscaler.md 2).

use std::net::IpAddr;

use ipnet::IpNet;

use super::{ActionId, DnsName, LabelId, Location, ViewId, VserverId};

/// One `[[dns_action]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct DnsAction {
    /// Unique name.
    pub name: String,
    /// What it does.
    pub kind: DnsActionKind,
}

/// TTL of a rewritten answer where none is given (spec/netscaler.md 2.1).
pub const REWRITE_TTL: u32 = 3600;

/// What an action does.
#[derive(Clone, Debug, PartialEq)]
pub enum DnsActionKind {
    /// GslbPrefLoc: 1 to 8 locations, highest priority first (spec/netscaler.md 2.1).
    PreferredLocations(Vec<Location>),
    /// ViewName: services answer with their addresses in this view.
    View(ViewId),
    /// No reply.
    Drop,
    /// Rewrite_Response: these addresses are answered instead.
    Rewrite {
        /// Of both families.
        addresses: Vec<IpAddr>,
        /// Seconds.
        ttl: u32,
    },
    /// Cache_Bypass: without meaning for a name that we own.
    CacheBypass,
    /// Nothing.
    Noop,
}

impl DnsActionKind {
    /// The word of the configuration.
    pub fn name(&self) -> &'static str {
        match self {
            Self::PreferredLocations(_) => "preferred-locations",
            Self::View(_) => "view",
            Self::Drop => "drop",
            Self::Rewrite { .. } => "rewrite",
            Self::CacheBypass => "cache-bypass",
            Self::Noop => "noop",
        }
    }

    /// False if it can change no answer.
    pub fn has_effect(&self) -> bool {
        !matches!(self, Self::CacheBypass | Self::Noop)
    }
}

/// One binding of a `[[dns_policy]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct DnsPolicy {
    /// Name; a policy that is bound at several points stands there several times.
    pub name: String,
    /// When it applies.
    pub rule: Rule,
    /// The rule as typed.
    pub rule_text: String,
    /// What then happens.
    pub action: ActionId,
    /// Where it is bound.
    pub bind: BindPoint,
    /// Smaller is evaluated earlier; unique at its bind point. 1 to 65534, of a virtual server to 2147483647.
    pub priority: u32,
    /// What follows after a match (spec/netscaler.md 2.4).
    pub goto: Goto,
    /// Evaluated after a match, before `goto`.
    pub invoke: Option<LabelId>,
}

/// Where a policy is bound (spec/netscaler.md 2.3), in the order of evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BindPoint {
    /// REQ_OVERRIDE
    RequestOverride,
    /// The requests of one virtual server.
    Vserver(VserverId),
    /// REQ_DEFAULT
    #[default]
    Request,
    /// RES_OVERRIDE
    ResponseOverride,
    /// The responses of one virtual server.
    VserverResponse(VserverId),
    /// RES_DEFAULT
    Response,
    /// A label, which other policies invoke.
    Label(LabelId),
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
    /// END inside the invoked label stops everything, anything else acts as NEXT.
    UseInvocationResult,
}

impl std::fmt::Display for Goto {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::End => f.write_str("END"),
            Self::Next => f.write_str("NEXT"),
            Self::Priority(n) => write!(f, "{n}"),
            Self::UseInvocationResult => f.write_str("USE_INVOCATION_RESULT"),
        }
    }
}

/// A rule: a boolean function of the client's address, the name, the type and, for responses, the response code
/// (spec/netscaler.md 2.2).
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
    /// `CLIENT.IP.DST.IN_SUBNET(…)` and `.EQ(…)`: the address that was asked. Validation makes a constant of it.
    Destination(IpNet),
    /// `DNS.REQ.QUESTION.DOMAIN.EQ("…")` and the like.
    Name {
        /// What is asked of the name.
        test: NameTest,
        /// Index into [`super::Model::name_tests`], set by validation.
        id: u32,
        /// `DNS.RES.…`: has no value in a request.
        of_response: bool,
    },
    /// `DNS.REQ.QUESTION.TYPE.EQ(A)`; NE is its negation.
    Type {
        /// Number on the wire.
        code: u16,
        /// `DNS.RES.…`: has no value in a request.
        of_response: bool,
    },
    /// `DNS.RES.HEADER.RCODE.EQ(NOERROR)`: has no value in a request.
    ResponseCode(u16),
    /// `!e`
    Not(Box<Rule>),
    /// `a && b`
    And(Box<Rule>, Box<Rule>),
    /// `a || b`
    Or(Box<Rule>, Box<Rule>),
}

/// What a rule asks of a domain name. The text is lower-case and without its trailing dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NameTest {
    /// How the texts are compared; NE is the negation of EQ.
    pub op: TextOp,
    /// What the name is compared with.
    pub text: String,
}

/// Comparisons of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextOp {
    /// `EQ`
    Equals,
    /// `CONTAINS`
    Contains,
    /// `STARTSWITH`
    StartsWith,
    /// `ENDSWITH`
    EndsWith,
}

impl NameTest {
    /// Case does not count, nor does one trailing dot where the text stands for the end of a name (spec/netscaler.md 2.2).
    pub fn new(op: TextOp, text: &str) -> Self {
        let mut text = text.to_ascii_lowercase();
        if matches!(op, TextOp::Equals | TextOp::EndsWith) && text.len() > 1 && text.ends_with('.') {
            text.pop();
        }
        Self { op, text }
    }

    /// True if a name passes.
    pub fn passes(&self, name: &DnsName) -> bool {
        let name = name.to_string();
        match self.op {
            TextOp::Equals => name == self.text,
            TextOp::Contains => name.contains(&self.text),
            TextOp::StartsWith => name.starts_with(&self.text),
            TextOp::EndsWith => name.ends_with(&self.text),
        }
    }
}

impl Rule {
    /// Calls `visit` for this rule and every part of it, inner parts last.
    pub fn visit(&self, visit: &mut impl FnMut(&Self)) {
        visit(self);
        match self {
            Self::Not(inner) => inner.visit(visit),
            Self::And(a, b) | Self::Or(a, b) => {
                a.visit(visit);
                b.visit(visit);
            }
            _ => {}
        }
    }

    /// Likewise, to change it.
    pub fn visit_mut(&mut self, visit: &mut impl FnMut(&mut Self)) {
        visit(self);
        match self {
            Self::Not(inner) => inner.visit_mut(visit),
            Self::And(a, b) | Self::Or(a, b) => {
                a.visit_mut(visit);
                b.visit_mut(visit);
            }
            _ => {}
        }
    }
}
