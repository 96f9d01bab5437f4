//! The commands, as they stand in the lines of the control socket.

use std::{path::PathBuf, sync::Arc};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::events::{Event, EventKind};

/// Longest line of a request, newline included.
pub const MAX_REQUEST: usize = 64 * 1024;

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Command {
    /// State, interfaces, rates and problems.
    Status,
    /// Objects of one kind.
    Show {
        /// Which kind.
        kind: ShowKind,
        /// One object; None: all.
        name: Option<String>,
    },
    /// The whole path to one answer.
    Explain(Question),
    /// Puts an object back into service.
    Enable {
        /// Its kind.
        kind: SwitchKind,
        /// Its name.
        name: String,
    },
    /// Takes an object out of service.
    Disable {
        /// Its kind.
        kind: SwitchKind,
        /// Its name.
        name: String,
    },
    /// Overrides the checks.
    Force {
        /// Kind of the object.
        kind: ForceKind,
        /// `NAME`, or `MONITOR@SERVICE`.
        name: String,
        /// What counts from now on.
        state: ForceState,
    },
    /// Changes an object of the running configuration.
    Set {
        /// Its kind.
        kind: ConfigKind,
        /// Its name; None for a `[table]`.
        #[serde(default)]
        name: Option<String>,
        /// `key=value`, `key+=element`, `key-=element`; `key=` alone is the default.
        changes: Vec<String>,
    },
    /// Adds an object to the running configuration.
    Add {
        /// Its kind.
        kind: ConfigKind,
        /// Its name.
        name: String,
        /// As for `set`.
        #[serde(default)]
        changes: Vec<String>,
    },
    /// Takes an object out of the running configuration.
    Remove {
        /// Its kind.
        kind: ConfigKind,
        /// Its name.
        name: String,
    },
    /// What differs between the file and the running configuration.
    Diff,
    /// Writes the running configuration to the file.
    Save {
        /// Even if somebody changed the file meanwhile.
        #[serde(default)]
        force: bool,
    },
    /// Reads the configuration file again.
    Reload,
    /// A command of NetScaler.
    Ns {
        /// As typed there.
        line: String,
    },
    /// What happened.
    Events {
        /// Go on with what happens.
        #[serde(default)]
        follow: bool,
        /// This kind alone.
        #[serde(default)]
        kind: Option<EventKind>,
        /// At most so many past events, the newest ones.
        #[serde(default)]
        last: Option<usize>,
    },
    /// All counters.
    Stats,
    /// Times runs of the program for so many seconds; None: only what was found so far.
    Latency {
        /// 1 to 3600.
        #[serde(default)]
        seconds: Option<u64>,
    },
    /// Tells of single packets until the client says anything.
    Capture(super::capture::Wanted),
    /// The end of that. The server sends it when its client is gone.
    CaptureEnd,
    /// Load figures of a service.
    Load {
        /// Which service.
        service: String,
        /// `name=value`; `name=` alone forgets the figure.
        figures: Vec<String>,
    },
    /// Sessions of clients.
    Session {
        /// What is done with them.
        action: SessionAction,
        /// Those of this virtual server alone.
        #[serde(default)]
        vserver: Option<String>,
        /// Those of clients in this prefix alone.
        #[serde(default)]
        client: Option<ipnet::IpNet>,
    },
    /// States of what a service stands for.
    Report {
        /// Which service.
        service: String,
        /// `primary=up|down|auto`, `effective=up|down|auto`, `threshold=above|below|auto`.
        states: Vec<String>,
    },
}

/// What `explain` is asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Domain name in presentation format.
    pub name: String,
    /// Type: a mnemonic or `TYPE123`.
    #[serde(rename = "type")]
    pub rtype: String,
    /// Source address; None: one that no policy and no location mentions.
    #[serde(default)]
    pub client: Option<std::net::IpAddr>,
    /// Client subnet of the query (RFC 7871): prefix or address.
    #[serde(default)]
    pub ecs: Option<String>,
    /// With the octets of query and reply.
    #[serde(default)]
    pub verbose: bool,
}

/// What can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ShowKind {
    /// GSLB virtual servers.
    Vserver,
    /// GSLB services.
    Service,
    /// Names bound to virtual servers.
    Domain,
    /// Records (none in this version).
    Record,
    /// Health checks.
    Monitor,
    /// Scenarios (none in this version).
    Scenario,
    /// Custom ranges of locations.
    Location,
    /// DNS policies.
    Policy,
    /// DNS actions.
    Action,
    /// Sessions of clients.
    Session,
}

impl ShowKind {
    /// The word that is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vserver => "vserver",
            Self::Service => "service",
            Self::Domain => "domain",
            Self::Record => "record",
            Self::Monitor => "monitor",
            Self::Scenario => "scenario",
            Self::Location => "location",
            Self::Policy => "policy",
            Self::Action => "action",
            Self::Session => "session",
        }
    }
}

/// The tables of a configuration, as `set`, `add` and `rm` name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ConfigKind {
    /// `[[vserver]]`
    Vserver,
    /// `[[service]]`
    Service,
    /// `[[domain]]`; a name of several virtual servers: NAME@VSERVER
    Domain,
    /// `[[domain_list]]`, by its file
    DomainList,
    /// `[[monitor]]`
    Monitor,
    /// `[[dns_policy]]`
    Policy,
    /// `[[dns_action]]`
    Action,
    /// `[location]`, or with a RANGE one of its custom ranges
    Location,
    /// `[[zone]]`
    Zone,
    /// `[[record]]`; of several types: NAME@TYPE
    Record,
    /// `[[scenario]]`
    Scenario,
    /// `[server]`
    Server,
    /// `[listen]`
    Listen,
    /// `[xdp]`
    Xdp,
    /// `[limits]`
    Limits,
    /// `[observer]`
    Observer,
    /// `[resolver]`
    Resolver,
    /// `[metrics]`
    Metrics,
}

/// What can be enabled and disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum SwitchKind {
    /// A virtual server: while disabled it counts as down.
    Vserver,
    /// A service: while disabled it is given to nobody.
    Service,
    /// A monitor: while disabled it is not run and counts for nothing.
    Monitor,
}

/// What is done with sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum SessionAction {
    /// Shows them.
    List,
    /// Ends them: these clients are decided anew.
    Clear,
}

/// What can be forced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ForceKind {
    /// A service, whatever its monitors say.
    Service,
    /// A monitor, whatever it finds: at every service that it checks, or at one (MONITOR@SERVICE).
    Monitor,
}

/// What `force` sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ForceState {
    /// Counts as up.
    Up,
    /// Counts as down.
    Down,
    /// The checks decide again.
    Auto,
}

impl From<ForceState> for crate::health::Force {
    fn from(state: ForceState) -> Self {
        match state {
            ForceState::Up => Self::Up,
            ForceState::Down => Self::Down,
            ForceState::Auto => Self::Auto,
        }
    }
}

/// What a command that changes something returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// One line for the operator.
    pub message: String,
    /// False: it was so already.
    pub changed: bool,
    /// The generation of the answers after it.
    pub generation: u64,
    /// What will surprise; each one line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What `check` found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    /// The file.
    pub file: PathBuf,
    /// `FILE:LINE:COLUMN: …` each; any error refuses the file.
    pub errors: Vec<String>,
    /// Likewise; warnings alone refuse nothing.
    pub warnings: Vec<String>,
}

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// One clear line.
    pub message: String,
    /// Further lines, for example every problem of a configuration file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

impl Refusal {
    /// A refusal of one line.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), details: Vec::new() }
    }
}

/// One line of the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// Carried out; what it returns.
    Ok(Value),
    /// Not carried out.
    Error(Refusal),
    /// An event, to a follower.
    Event(Event),
    /// A packet, to whoever captures.
    Sample(Arc<super::capture::Sample>),
    /// So many events or samples did not reach this follower, because it read too slowly.
    Missed(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(command: &Command) -> String {
        serde_json::to_string(command).unwrap()
    }

    #[test]
    fn the_lines_of_the_protocol_stay() {
        let show = Command::Show { kind: ShowKind::Service, name: Some("hk".to_owned()) };
        assert_eq!(line(&Command::Status), r#"{"command":"status"}"#);
        assert_eq!(line(&show), r#"{"command":"show","kind":"service","name":"hk"}"#);
        let force =
            Command::Force { kind: ForceKind::Monitor, name: "web@hk".to_owned(), state: ForceState::Down };
        assert_eq!(line(&force), r#"{"command":"force","kind":"monitor","name":"web@hk","state":"down"}"#);
        let typed = r#"{"command":"explain","name":"www.example.com","type":"A"}"#;
        let Command::Explain(question) = serde_json::from_str(typed).unwrap() else { panic!("no explain") };
        assert_eq!((question.rtype.as_str(), question.client, question.verbose), ("A", None, false));
        let typed = r#"{"command":"events"}"#;
        let expected = Command::Events { follow: false, kind: None, last: None };
        assert_eq!(serde_json::from_str::<Command>(typed).unwrap(), expected);
    }
}
