//! The kinds of object that commands are about.

/// A kind of object: `gslb vserver`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `service` of type ADNS or ADNS_TCP: an address to listen on.
    Adns,
    /// `server`
    Server,
    /// `locationParameter`
    LocationParameter,
    /// `locationFile`
    LocationFile,
    /// `locationFile6`
    LocationFile6,
    /// `location`
    Location,
    /// `locationData`: everything that has to do with locations; `clear` alone.
    LocationData,
    /// `dns soaRec`
    SoaRec,
    /// `dns nsRec`
    NsRec,
    /// `dns aRec`
    ARec,
    /// `dns aaaaRec`
    AaaaRec,
    /// `dns cnameRec`
    CnameRec,
    /// `dns mxRec`
    MxRec,
    /// `dns txtRec`
    TxtRec,
    /// `dns srvRec`
    SrvRec,
    /// `dns ptrRec`
    PtrRec,
    /// `dns parameter`
    DnsParameter,
    /// `dns profile`
    DnsProfile,
    /// `dns view`
    DnsView,
    /// `lb metricTable`
    MetricTable,
    /// `lb monitor`
    Monitor,
    /// `lb vserver`
    LbVserver,
    /// `gslb parameter`
    GslbParameter,
    /// `gslb site`
    Site,
    /// `gslb service`
    Service,
    /// `gslb vserver`
    Vserver,
    /// `gslb domain`: `show` and `stat` alone.
    GslbDomain,
    /// `dns action`
    DnsAction,
    /// `dns policy`
    DnsPolicy,
    /// `dns policylabel`
    PolicyLabel,
    /// `dns global`
    DnsGlobal,
}

impl Kind {
    /// The words of a command.
    pub fn words(self) -> &'static str {
        super::table::spec_of(self).words
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.words())
    }
}

/// The first word of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Makes an object.
    Add,
    /// Changes one.
    Set,
    /// Takes options back to their defaults.
    Unset,
    /// Ties an object to another.
    Bind,
    /// Takes that back.
    Unbind,
    /// Takes an object away.
    Rm,
    /// Into service.
    Enable,
    /// Out of service.
    Disable,
    /// Another name.
    Rename,
    /// Prints the configuration of objects, with their state.
    Show,
    /// Prints counters.
    Stat,
    /// `clear locationData`; everything else has no meaning here.
    Clear,
}

/// First words, in the order in which an abbreviation finds them.
pub(super) const OPS: [(&str, Op); 13] = [
    ("add", Op::Add),
    ("set", Op::Set),
    ("unset", Op::Unset),
    ("bind", Op::Bind),
    ("unbind", Op::Unbind),
    ("rm", Op::Rm),
    ("remove", Op::Rm),
    ("enable", Op::Enable),
    ("disable", Op::Disable),
    ("rename", Op::Rename),
    ("show", Op::Show),
    ("stat", Op::Stat),
    ("clear", Op::Clear),
];

/// First words of commands that never have a meaning here.
pub(super) const OTHER_OPS: [&str; 20] = [
    "link", "unlink", "apply", "save", "sync", "import", "export", "update", "switch", "create", "convert",
    "force", "kill", "reboot", "shutdown", "ping", "flush", "install", "join", "reset",
];

impl Op {
    /// The word.
    pub fn word(self) -> &'static str {
        OPS.iter().find(|(_, op)| *op == self).map_or("", |(word, _)| word)
    }
}
