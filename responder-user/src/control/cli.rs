//! The command line of `responderctl`.

use std::{ffi::OsString, net::IpAddr, path::PathBuf};

use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use ipnet::IpNet;

use super::{
    Command, EventKind,
    capture::Wanted,
    command::{ConfigKind, ForceKind, ForceState, Question, SessionAction, ShowKind, SwitchKind},
    edit, render,
};

const SET_HELP: &str = "\
Changes: KEY=VALUE sets, KEY= goes back to the default, KEY+=ELEMENT and KEY-=ELEMENT change a list. Keys are those of
the file; parts of a table stand behind a dot: spillover.threshold=1000. A value is TOML; what is none is a string.
A change is validated as a file is: all of it or nothing. A restart or `reload` without `save` goes back to the file.

  responderctl set vserver www method=round-robin services-=hk
  responderctl set domain www.example.com ttl=30
  responderctl set limits responses_per_second=200
  responderctl set location 192.0.2.0/24 location=Asia.HK
  responderctl add service ru address=198.51.100.9 port=443 'monitors=[\"web\"]'";

const NS_HELP: &str = "\
Prints what NetScaler prints, then ` Done`, or `ERROR: ...` on standard error. With --output json the keys are NITRO's.
A change is in force when the command returns, and in the file after 'save ns config'.

  responderctl ns 'show gslb vserver www'
  responderctl ns 'bind gslb vserver www -serviceName hk -weight 3'
  responderctl ns 'show ns runningConfig'
  responderctl ns --file changes.conf";

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people: tables in a terminal, one record a line with tabs between its fields when piped.
    #[default]
    Text,
    /// For programs: stable keys.
    Json,
}

/// Shows and steers a running responderd.
#[derive(Debug, Parser)]
#[command(
    name = "responderctl",
    version,
    after_help = "Exit codes: 0 done, 1 refused or failed, 2 wrong usage.\n\
                  When piped, a list is one record a line, its fields separated by tabs, without a header:\n\
                  `responderctl show --help` names them. JSON keys are never renamed.",
    disable_help_subcommand = true
)]
pub struct Cli {
    /// Control socket of the daemon
    #[arg(long, global = true, value_name = "PATH", default_value = "/run/responder/control.sock")]
    pub socket: PathBuf,
    /// How results are printed
    #[arg(long, global = true, value_enum, default_value_t)]
    pub output: Output,
    /// What to do.
    #[command(subcommand)]
    pub action: Action,
}

impl Cli {
    /// Reads a command line. `--output` is how results are printed, and behind `import` where they go.
    pub fn of(args: impl IntoIterator<Item = OsString>) -> Self {
        let mut is_import = false;
        let mut args: Vec<OsString> = args.into_iter().collect();
        for i in 0..args.len() {
            let next = args.get(i + 1).cloned();
            let Some(word) = args[i].to_str() else { continue };
            let value = word.strip_prefix("--output=").map(str::to_owned);
            let is_style = |value: &str| ["text", "json"].contains(&value);
            if word == "import" {
                is_import = true;
            } else if is_import
                && word == "--output"
                && !next.is_some_and(|n| n.to_str().is_some_and(is_style))
            {
                args[i] = "--to".into();
            } else if let Some(value) = value.filter(|value| is_import && !is_style(value)) {
                args[i] = format!("--to={value}").into();
            }
        }
        Self::parse_from(args)
    }
}

/// The subcommands.
#[derive(Clone, Debug, Subcommand)]
pub enum Action {
    /// Whether it is well: interfaces, rates, problems
    Status,
    /// Objects of a kind, or one of them
    #[command(after_long_help = render::columns_help())]
    Show {
        /// Kind of object
        #[arg(value_enum)]
        kind: ShowKind,
        /// Its name; a domain also as *.NAME, a location also as an address
        name: Option<String>,
    },
    /// The whole path to the answer for a name, step by step
    Explain {
        /// Domain name
        name: String,
        /// Record type, or TYPE123
        #[arg(value_name = "TYPE", default_value = "A")]
        rtype: String,
        /// Source address of the query; without it, a client that no policy and no location names
        #[arg(long, value_name = "IP")]
        client: Option<IpAddr>,
        /// Client subnet that the query carries
        #[arg(long, value_name = "PREFIX")]
        ecs: Option<String>,
        /// Also the octets of query and reply, in hexadecimal
        #[arg(short, long)]
        verbose: bool,
    },
    /// Put a vserver, service or monitor back into service
    Enable {
        /// Kind of object
        #[arg(value_enum)]
        kind: SwitchKind,
        /// Its name
        name: String,
    },
    /// Take a vserver, service or monitor out of service
    Disable {
        /// Kind of object
        #[arg(value_enum)]
        kind: SwitchKind,
        /// Its name
        name: String,
    },
    /// Let a service or monitor count as up or down, whatever the checks say
    Force {
        /// Kind of object
        #[arg(value_enum)]
        kind: ForceKind,
        /// Its name; a monitor at one service alone: MONITOR@SERVICE
        name: String,
        /// What counts from now on; auto: the checks again
        #[arg(value_enum)]
        state: ForceState,
    },
    /// Tell load figures of a service; they count for server.load_hold
    Load {
        /// Name of the service
        service: String,
        /// connections, bandwidth (kbit/s), packets, response_time (ms), services, weights, or a metric of a load monitor
        /// by its name (cpu=80); NAME= alone forgets the figure
        #[arg(required = true, value_name = "NAME=VALUE")]
        figures: Vec<String>,
    },
    /// Tell states of the vserver that a service stands for
    Report {
        /// Name of the service
        service: String,
        /// primary=up|down|auto, effective=up|down|auto, threshold=above|below|auto
        #[arg(required = true, value_name = "KEY=STATE")]
        states: Vec<String>,
    },
    /// Change the running configuration; the file stays until `save`
    #[command(after_long_help = SET_HELP)]
    Set {
        /// Table of the configuration
        #[arg(value_enum)]
        kind: ConfigKind,
        /// Name of the object, then the changes; a table such as limits has no name
        #[arg(required = true, value_name = "NAME KEY=VALUE")]
        words: Vec<String>,
    },
    /// Add an object to the running configuration
    #[command(after_long_help = SET_HELP)]
    Add {
        /// Table of the configuration
        #[arg(value_enum)]
        kind: ConfigKind,
        /// Name of the object
        name: String,
        /// What it is to be
        #[arg(value_name = "KEY=VALUE")]
        changes: Vec<String>,
    },
    /// Take an object out of the running configuration
    Rm {
        /// Table of the configuration
        #[arg(value_enum)]
        kind: ConfigKind,
        /// Name of the object
        name: String,
    },
    /// What of the running configuration differs from the file
    Diff,
    /// Write the running configuration to the file
    Save {
        /// Even if somebody changed the file since it was read
        #[arg(long)]
        force: bool,
    },
    /// Run a command of NetScaler as it is typed there
    #[command(after_long_help = NS_HELP)]
    Ns {
        /// The whole command as one word: 'show gslb vserver www'
        #[arg(required_unless_present = "file", allow_hyphen_values = true)]
        command: Option<String>,
        /// A file with a command a line; goes on after an error
        #[arg(long, value_name = "F", conflicts_with = "command")]
        file: Option<PathBuf>,
    },
    /// Sessions: clients that come back to the service that they were given
    Session {
        /// Show them, or end them
        #[arg(value_enum)]
        action: SessionAction,
        /// Those of this vserver alone
        #[arg(long, value_name = "NAME")]
        vserver: Option<String>,
        /// Of clients in this prefix alone
        #[arg(long, value_name = "PREFIX", value_parser = prefix)]
        client: Option<IpNet>,
    },
    /// Read the configuration file again; a file with errors changes nothing
    Reload,
    /// Validate a configuration file; changes nothing
    Check {
        /// The file
        file: PathBuf,
    },
    /// A NetScaler configuration to a responder.toml; a notice for each line that has no meaning here
    Import {
        /// The saved configuration
        #[arg(value_name = "ns.conf")]
        file: PathBuf,
        /// Where the configuration goes, and beside it master files of zones; else to standard output. Behind the command
        /// `--output FILE` says the same
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// What happened, oldest first
    Events {
        /// Go on with what happens, until interrupted
        #[arg(short, long)]
        follow: bool,
        /// This kind alone
        #[arg(long, value_enum)]
        kind: Option<EventKind>,
        /// So many past events; 100 if not given, 10 with --follow
        #[arg(short = 'n', long, value_name = "N")]
        last: Option<usize>,
    },
    /// Counters since the start
    Stats {
        /// Rates per second, every second, until interrupted
        #[arg(short, long)]
        watch: bool,
        /// The names that are asked for most, from a sample of the queries to the XDP program
        #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "20", conflicts_with = "watch")]
        top: Option<usize>,
        /// How long runs of the XDP program take: a histogram
        #[arg(long, conflicts_with_all = ["watch", "top"])]
        latency: bool,
        /// How long --top and --latency look
        #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
        seconds: u64,
        /// Of the queries, for --top
        #[arg(long, value_name = "1/N", default_value = "1/16", value_parser = share)]
        sample: u64,
    },
    /// Packets of the XDP program, which tcpdump does not see: queries to us, and its answers
    Capture {
        /// To a file that tcpdump and tshark read; else one line each
        #[arg(long, value_name = "FILE.pcap")]
        write: Option<PathBuf>,
        /// Queries for this name alone
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// Of clients in this prefix alone
        #[arg(long, value_name = "PREFIX", value_parser = prefix)]
        client: Option<IpNet>,
        /// One of so many queries
        #[arg(long, value_name = "1/N", default_value = "1/1", value_parser = share)]
        sample: u64,
        /// Ends after so many queries
        #[arg(long, value_name = "N")]
        count: Option<u64>,
        /// Ends after so many seconds
        #[arg(long, value_name = "S")]
        seconds: Option<u64>,
    },
    /// Print completions for a shell
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
}

impl Action {
    /// What goes to the daemon; None for what does not.
    pub fn command(&self) -> Option<Command> {
        Some(match self.clone() {
            Self::Status => Command::Status,
            Self::Show { kind, name } => Command::Show { kind, name },
            Self::Explain { name, rtype, client, ecs, verbose } => {
                Command::Explain(Question { name, rtype, client, ecs, verbose })
            }
            Self::Enable { kind, name } => Command::Enable { kind, name },
            Self::Disable { kind, name } => Command::Disable { kind, name },
            Self::Force { kind, name, state } => Command::Force { kind, name, state },
            Self::Load { service, figures } => Command::Load { service, figures },
            Self::Report { service, states } => Command::Report { service, states },
            Self::Set { kind, words } => {
                let (name, changes) = edit::words(kind, &words);
                Command::Set { kind, name, changes }
            }
            Self::Add { kind, name, changes } => Command::Add { kind, name, changes },
            Self::Rm { kind, name } => Command::Remove { kind, name },
            Self::Diff => Command::Diff,
            Self::Save { force } => Command::Save { force },
            Self::Ns { command, .. } => Command::Ns { line: command.unwrap_or_default() },
            Self::Session { action, vserver, client } => Command::Session { action, vserver, client },
            Self::Reload => Command::Reload,
            Self::Events { follow, kind, last } => {
                let last = last.or((!follow).then_some(100));
                Command::Events { follow, kind, last }
            }
            Self::Stats { top: Some(_), sample, .. } => {
                Command::Capture(Wanted { name: None, client: None, every: sample, answers: false })
            }
            Self::Stats { latency: true, seconds, .. } => Command::Latency { seconds: Some(seconds) },
            Self::Stats { .. } => Command::Stats,
            Self::Capture { name, client, sample, .. } => {
                Command::Capture(Wanted { name, client, every: sample, answers: true })
            }
            Self::Check { .. } | Self::Import { .. } | Self::Completions { .. } => return None,
        })
    }
}

/// One in so many: `1/16`, or `16`.
fn share(text: &str) -> Result<u64, String> {
    let number = text.strip_prefix("1/").unwrap_or(text);
    match number.parse() {
        Ok(every @ 1..) => Ok(every),
        _ => Err("allowed is 1/N, with N from 1".to_owned()),
    }
}

/// A prefix, or one address.
fn prefix(text: &str) -> Result<IpNet, String> {
    let alone = text.parse::<IpAddr>().map(IpNet::from);
    text.parse().or(alone).map_err(|_| "allowed is a prefix, such as 10.0.0.0/8".to_owned())
}
