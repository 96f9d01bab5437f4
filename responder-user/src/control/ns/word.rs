//! NetScaler's words for what the model has.

use crate::model::{
    DnsActionKind, Method, RecordType,
    policy::BindPoint,
    vserver::{DynamicWeight, SkipPersistency, SpilloverAction, SpilloverMethod},
};

/// `ENABLED` or `DISABLED`
pub fn enabled(is_enabled: bool) -> &'static str {
    if is_enabled { "ENABLED" } else { "DISABLED" }
}

/// The state of an object from the words of `show`: UP, DOWN, UNKNOWN, OFS.
pub fn state(word: &str) -> &'static str {
    match word {
        "up" => "UP",
        "down" => "DOWN",
        "disabled" => "OFS",
        _ => "UNKNOWN",
    }
}

/// The code of a state (spec/netscaler.md 7.2).
pub fn state_code(word: &str) -> u32 {
    match word {
        "up" => 7,
        "down" => 1,
        "disabled" => 4,
        _ => 2,
    }
}

/// lbMethod
pub fn method(method: Method) -> &'static str {
    match method {
        Method::RoundRobin => "ROUNDROBIN",
        Method::LeastConnection => "LEASTCONNECTION",
        Method::LeastResponseTime => "LEASTRESPONSETIME",
        Method::LeastBandwidth => "LEASTBANDWIDTH",
        Method::LeastPackets => "LEASTPACKETS",
        Method::SourceIpHash => "SOURCEIPHASH",
        Method::StaticProximity => "STATICPROXIMITY",
        Method::Rtt => "RTT",
        Method::CustomLoad => "CUSTOMLOAD",
        Method::Api => "API",
    }
}

/// As `Current Method` prints it.
pub fn method_title(method: Method) -> &'static str {
    match method {
        Method::RoundRobin => "Round Robin",
        Method::LeastConnection => "Least Connection",
        Method::LeastResponseTime => "Least Response Time",
        Method::LeastBandwidth => "Least Bandwidth",
        Method::LeastPackets => "Least Packets",
        Method::SourceIpHash => "Source IP Hash",
        Method::StaticProximity => "Static Proximity",
        Method::Rtt => "Round Trip Time",
        Method::CustomLoad => "Custom Load",
        Method::Api => "API",
    }
}

/// soMethod
pub fn spillover(method: SpilloverMethod) -> &'static str {
    match method {
        SpilloverMethod::Connection => "CONNECTION",
        SpilloverMethod::DynamicConnection => "DYNAMICCONNECTION",
        SpilloverMethod::Bandwidth => "BANDWIDTH",
        SpilloverMethod::Health => "HEALTH",
    }
}

/// soBackupAction; two of the actions are not NetScaler's.
pub fn action(action: SpilloverAction) -> &'static str {
    match action {
        SpilloverAction::Drop => "DROP",
        SpilloverAction::Redirect => "REDIRECT",
        SpilloverAction::Accept => "ACCEPT",
        SpilloverAction::Empty => "EMPTY",
        SpilloverAction::Refused => "REFUSED",
    }
}

/// dynamicWeight
pub fn dynamic_weight(weight: DynamicWeight) -> &'static str {
    match weight {
        DynamicWeight::Disabled => "DISABLED",
        DynamicWeight::ServiceCount => "SERVICECOUNT",
        DynamicWeight::ServiceWeight => "SERVICEWEIGHT",
    }
}

/// skippersistency
pub fn skip_persistency(skip: SkipPersistency) -> &'static str {
    match skip {
        SkipPersistency::None => "None",
        SkipPersistency::Rebalance => "ReLb",
        SkipPersistency::Bypass => "Bypass",
    }
}

/// actionType
pub fn action_type(kind: &DnsActionKind) -> &'static str {
    match kind {
        DnsActionKind::PreferredLocations(_) => "GslbPrefLoc",
        DnsActionKind::View(_) => "ViewName",
        DnsActionKind::Drop => "Drop",
        DnsActionKind::Rewrite { .. } => "Rewrite_Response",
        DnsActionKind::CacheBypass => "Cache_Bypass",
        DnsActionKind::Noop => "noop",
    }
}

/// The type of a global bind point, or of a binding to a virtual server.
pub fn bind_point(point: BindPoint) -> &'static str {
    match point {
        BindPoint::RequestOverride => "REQ_OVERRIDE",
        BindPoint::Request => "REQ_DEFAULT",
        BindPoint::ResponseOverride => "RES_OVERRIDE",
        BindPoint::Response => "RES_DEFAULT",
        BindPoint::Vserver(_) => "REQUEST",
        BindPoint::VserverResponse(_) => "RESPONSE",
        BindPoint::Label(_) => "POLICYLABEL",
    }
}

/// dnsRecordType
pub fn record_type(rtype: Option<&RecordType>) -> &'static str {
    rtype.map_or("A", |rtype| rtype.name())
}
