//! The arity table: which command takes which values, how many, in which range, and whether they have a meaning here
//! (spec/netscaler.md 2, 3, 4, 5, 6.1, 6.3).
//!
//! It is data: a keyword that NetScaler learns is a line here.

use super::kind::{Kind, Op};

/// What a value can be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    /// Anything.
    Text,
    /// The name of an object of one of these kinds.
    Name(&'static [Kind]),
    /// One of these words; case does not count.
    Word(&'static [&'static str]),
    /// A whole number in an inclusive range.
    Number(u64, u64),
    /// The same, with a sign.
    Degrees(i64),
    /// An address.
    Address,
    /// An address, or the name of a server.
    AddressOrServer,
    /// A netmask, as four octets: bits from the left.
    Mask,
    /// A domain name.
    Domain,
    /// A location in dotted notation.
    Location,
    /// An expression of a DNS policy.
    Rule,
    /// END, NEXT, USE_INVOCATION_RESULT or a priority.
    Goto,
    /// A number of seconds, or with a unit behind it: SEC, MSEC, MIN.
    Period,
    /// HTTP status codes: 200, 200-299.
    Codes,
    /// A URL.
    Url,
}

/// What becomes of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Answers depend on it.
    Effect,
    /// Nothing depends on it; it is kept and shown.
    Kept,
    /// It is left out, as are secrets.
    Dropped,
}

/// A positional value, or a keyword with its values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arg {
    pub(super) key: &'static str,
    pub(super) value: Value,
    /// How many values it has at least.
    pub(super) least: usize,
    /// And at most.
    pub(super) most: usize,
    pub(super) use_: Use,
    pub(super) default: Option<&'static str>,
}

impl Arg {
    const fn default(mut self, value: &'static str) -> Self {
        self.default = Some(value);
        self
    }
    const fn kept(mut self) -> Self {
        self.use_ = Use::Kept;
        self
    }
    const fn dropped(mut self) -> Self {
        self.use_ = Use::Dropped;
        self
    }
    const fn many(mut self, least: usize, most: usize) -> Self {
        self.least = least;
        self.most = most;
        self
    }
    /// A positional value that may be left out.
    const fn optional(mut self) -> Self {
        self.least = 0;
        self
    }
}

const fn arg(key: &'static str, value: Value) -> Arg {
    Arg { key, value, least: 1, most: 1, use_: Use::Effect, default: None }
}

const fn text(key: &'static str) -> Arg {
    arg(key, Value::Text).kept()
}

const fn number(key: &'static str, least: u64, most: u64) -> Arg {
    arg(key, Value::Number(least, most))
}

const FLAG: Value = Value::Word(&["ENABLED", "DISABLED"]);
const YES_NO: Value = Value::Word(&["YES", "NO"]);

const fn off(key: &'static str) -> Arg {
    arg(key, FLAG).default("DISABLED")
}

const fn on(key: &'static str) -> Arg {
    arg(key, FLAG).default("ENABLED")
}

/// What can be tied to an object.
pub(super) struct Binding {
    /// What is tied: a keyword, or the first positional value behind the name.
    pub(super) what: Arg,
    /// Positional values behind it.
    pub(super) positionals: &'static [Arg],
    /// Keywords beside it.
    pub(super) options: &'static [Arg],
    /// It is no keyword.
    pub(super) is_positional: bool,
}

/// The commands of one kind of object.
pub(super) struct Spec {
    pub(super) kind: Kind,
    /// As written: `gslb vserver`.
    pub(super) words: &'static str,
    /// Other spellings.
    pub(super) aliases: &'static [&'static str],
    pub(super) ops: &'static [Op],
    /// How many of the positional values are the name; 0: there is one such object.
    pub(super) ids: usize,
    pub(super) positionals: &'static [Arg],
    pub(super) options: &'static [Arg],
    pub(super) bindings: &'static [Binding],
    /// Keywords that are not listed are dropped without more ado.
    pub(super) is_open: bool,
}

const ALL: &[Op] = &[
    Op::Add,
    Op::Set,
    Op::Unset,
    Op::Bind,
    Op::Unbind,
    Op::Rm,
    Op::Rename,
    Op::Show,
    Op::Stat,
    Op::Enable,
    Op::Disable,
];
const OBJECT: &[Op] = &[Op::Add, Op::Set, Op::Unset, Op::Rm, Op::Rename, Op::Show, Op::Stat];
const BOUND: &[Op] =
    &[Op::Add, Op::Set, Op::Unset, Op::Bind, Op::Unbind, Op::Rm, Op::Rename, Op::Show, Op::Stat];
const MADE: &[Op] = &[Op::Add, Op::Rm, Op::Show];
const RECORD: &[Op] = &[Op::Add, Op::Set, Op::Unset, Op::Rm, Op::Show];
const SINGLE: &[Op] = &[Op::Set, Op::Unset, Op::Show];

const NONE: Spec = Spec {
    kind: Kind::Server,
    words: "",
    aliases: &[],
    ops: OBJECT,
    ids: 1,
    positionals: &[],
    options: &[],
    bindings: &[],
    is_open: false,
};

/// Service types of spec/netscaler.md 3.1.
const TYPES: Value = Value::Word(&[
    "HTTP",
    "FTP",
    "TCP",
    "UDP",
    "SSL",
    "SSL_BRIDGE",
    "SSL_TCP",
    "NNTP",
    "ANY",
    "SIP_UDP",
    "SIP_TCP",
    "SIP_SSL",
    "RADIUS",
    "RDP",
    "RTSP",
    "MYSQL",
    "MSSQL",
    "ORACLE",
]);

const METHODS: Value = Value::Word(&[
    "ROUNDROBIN",
    "LEASTCONNECTION",
    "LEASTRESPONSETIME",
    "SOURCEIPHASH",
    "LEASTBANDWIDTH",
    "LEASTPACKETS",
    "STATICPROXIMITY",
    "RTT",
    "CUSTOMLOAD",
    "API",
]);

const FORMATS: Value = Value::Word(&[
    "netscaler",
    "ip-country",
    "ip-country-isp",
    "ip-country-region-city",
    "ip-country-region-city-isp",
    "geoip-country",
    "geoip-region",
    "geoip-city",
    "geoip-country-org",
    "geoip-country-isp",
    "geoip-city-isp-org",
]);

const MONITORS: Value = Value::Word(&[
    "PING",
    "TCP",
    "HTTP",
    "TCP-ECV",
    "HTTP-ECV",
    "UDP-ECV",
    "DNS",
    "DNS-TCP",
    "FTP",
    "FTP-EXTENDED",
    "LDNS-PING",
    "LDNS-TCP",
    "LDNS-DNS",
    "RADIUS",
    "RADIUS_ACCOUNTING",
    "USER",
    "HTTP-INLINE",
    "SIP-UDP",
    "SIP-TCP",
    "LOAD",
    "SMTP",
    "SNMP",
    "NNTP",
    "MYSQL",
    "MYSQL-ECV",
    "MSSQL-ECV",
    "ORACLE-ECV",
    "LDAP",
    "POP3",
    "CITRIX-XML-SERVICE",
    "CITRIX-WEB-INTERFACE",
    "CITRIX-WI-EXTENDED",
    "CITRIX-AG",
    "CITRIX-AAC-LOGINPAGE",
    "CITRIX-AAC-LAS",
    "CITRIX-XD-DDC",
    "CITRIX-XNC-ECV",
    "CITRIX-XDM",
    "CITRIX-STA-SERVICE",
    "CITRIX-STA-SERVICE-NHOP",
    "ND6",
    "ARP",
    "RTSP",
    "DIAMETER",
    "STOREFRONT",
    "APPC",
    "SMPP",
    "SECURE_HTTP",
    "MQTT",
    "MQTT-TLS",
    "HTTP2",
    // Ours.
    "GRPC",
    "POSTGRESQL",
    "PUSH",
    "RESPONDER",
]);

const MOST: u64 = 0x7fff_ffff;
const MAX32: u64 = 0xffff_ffff;
const TTL: Arg = number("TTL", 1, MOST);

const fn spec(kind: Kind, words: &'static str) -> Spec {
    Spec { kind, words, ..NONE }
}

const POLICY_NAME: Arg = arg("policyName", Value::Name(&[Kind::DnsPolicy]));
const GOTO: Arg = arg("gotoPriorityExpression", Value::Goto).default("END");
const INVOKE: Arg = arg("invoke", Value::Text).many(2, 2);

/// Every kind, in the order in which a configuration is written.
static SPECS: [Spec; 31] = [
    Spec {
        ops: MADE,
        positionals: &[
            text("name"),
            arg("IPAddress", Value::AddressOrServer),
            arg("serviceType", Value::Word(&["ADNS", "ADNS_TCP"])),
            number("port", 1, 65_535),
        ],
        is_open: true,
        ..spec(Kind::Adns, "service")
    },
    Spec {
        ops: ALL,
        positionals: &[text("name"), text("IPAddress")],
        options: &[
            on("state").kept(),
            text("comment"),
            text("ipv6Address"),
            text("domainResolveRetry"),
            text("td"),
        ],
        is_open: true,
        ..spec(Kind::Server, "server")
    },
    Spec {
        ops: SINGLE,
        ids: 0,
        options: &[
            arg("context", Value::Word(&["geographic", "custom"])).default("geographic"),
            text("q1label"),
            text("q2label"),
            text("q3label"),
            text("q4label"),
            text("q5label"),
            text("q6label"),
            arg("matchWildcardtoany", Value::Word(&["YES", "NO", "Expression"])).default("NO"),
        ],
        ..spec(Kind::LocationParameter, "locationParameter")
    },
    Spec {
        ops: MADE,
        ids: 0,
        positionals: &[arg("Locationfile", Value::Text).optional()],
        options: &[arg("format", FORMATS).default("netscaler"), text("src")],
        ..spec(Kind::LocationFile, "locationFile")
    },
    Spec {
        ops: MADE,
        ids: 0,
        positionals: &[arg("Locationfile", Value::Text).optional()],
        options: &[
            arg("format", Value::Word(&["netscaler6", "geoip-country6"])).default("netscaler6"),
            text("src"),
        ],
        ..spec(Kind::LocationFile6, "locationFile6")
    },
    Spec {
        ops: MADE,
        ids: 2,
        positionals: &[
            arg("IPfrom", Value::Address),
            arg("IPto", Value::Address),
            arg("preferredLocation", Value::Location).optional(),
        ],
        options: &[arg("longitude", Value::Degrees(180)), arg("latitude", Value::Degrees(90))],
        ..spec(Kind::Location, "location")
    },
    Spec { ops: &[Op::Clear], ids: 0, ..spec(Kind::LocationData, "locationData") },
    Spec {
        ops: RECORD,
        positionals: &[arg("domain", Value::Domain)],
        options: &[
            arg("originServer", Value::Domain),
            arg("contact", Value::Text),
            number("serial", 0, MAX32),
            number("refresh", 0, MOST).default("3600"),
            number("retry", 0, MOST).default("600"),
            number("expire", 0, MOST).default("86400"),
            number("minimum", 0, MOST).default("5"),
            number("TTL", 0, MOST).default("5"),
        ],
        ..spec(Kind::SoaRec, "dns soaRec")
    },
    record(
        Kind::NsRec,
        "dns nsRec",
        &[arg("domain", Value::Domain), arg("nameServer", Value::Domain)],
        RECORD_TTL,
    ),
    Spec {
        aliases: &["dns addRec"],
        ..record(
            Kind::ARec,
            "dns aRec",
            &[arg("hostName", Value::Domain), arg("IPAddress", Value::Address).many(1, 64)],
            RECORD_TTL,
        )
    },
    record(
        Kind::AaaaRec,
        "dns aaaaRec",
        &[arg("hostName", Value::Domain), arg("IPv6Address", Value::Address).many(1, 64)],
        RECORD_TTL,
    ),
    Spec {
        ids: 1,
        ..record(
            Kind::CnameRec,
            "dns cnameRec",
            &[arg("aliasName", Value::Domain), arg("canonicalName", Value::Domain).optional()],
            RECORD_TTL,
        )
    },
    record(
        Kind::MxRec,
        "dns mxRec",
        &[arg("domain", Value::Domain), arg("mx", Value::Domain)],
        &[number("pref", 0, 65_535), number("TTL", 0, MOST)],
    ),
    record(
        Kind::TxtRec,
        "dns txtRec",
        &[arg("domain", Value::Domain), arg("String", Value::Text).many(1, 6)],
        RECORD_TTL,
    ),
    record(
        Kind::SrvRec,
        "dns srvRec",
        &[arg("domain", Value::Domain), arg("target", Value::Domain)],
        &[
            number("priority", 0, 65_535),
            number("weight", 0, 65_535),
            number("port", 0, 65_535),
            number("TTL", 0, MOST),
        ],
    ),
    record(
        Kind::PtrRec,
        "dns ptrRec",
        &[arg("reverseDomain", Value::Domain), arg("domain", Value::Domain).many(1, 64)],
        RECORD_TTL,
    ),
    Spec { ops: SINGLE, ids: 0, is_open: true, ..spec(Kind::DnsParameter, "dns parameter") },
    Spec { positionals: &[text("dnsProfileName")], is_open: true, ..spec(Kind::DnsProfile, "dns profile") },
    Spec { ops: MADE, positionals: &[text("viewName")], ..spec(Kind::DnsView, "dns view") },
    Spec {
        ops: BOUND,
        positionals: &[text("metricTable")],
        bindings: &[Binding {
            what: text("metric"),
            positionals: &[text("SnmpOID")],
            options: &[],
            is_positional: true,
        }],
        ..spec(Kind::MetricTable, "lb metricTable")
    },
    Spec {
        ops: ALL,
        positionals: &[text("monitorName"), arg("type", MONITORS)],
        options: MONITOR,
        bindings: &[Binding {
            what: text("metric"),
            positionals: &[],
            options: &[number("metricThreshold", 0, MAX32), number("metricWeight", 1, 100).default("1")],
            is_positional: false,
        }],
        ..spec(Kind::Monitor, "lb monitor")
    },
    Spec {
        ops: ALL,
        positionals: &[
            text("name"),
            text("serviceType"),
            text("IPAddress").optional(),
            text("port").optional(),
        ],
        options: &[
            text("persistenceType").default("NONE"),
            arg("skippersistency", Value::Word(&["Bypass", "ReLb", "None"])).default("None"),
            number("timeout", 0, 1440).default("2").kept(),
            text("lbMethod").default("LEASTCONNECTION"),
            text("persistMask"),
            text("backupVServer"),
            on("state").kept(),
            text("soMethod").default("NONE"),
            text("soThreshold"),
            text("redirectURL"),
            text("comment"),
        ],
        bindings: &[Binding {
            what: text("serviceName"),
            positionals: &[],
            options: &[text("weight")],
            is_positional: true,
        }],
        is_open: true,
        ..spec(Kind::LbVserver, "lb vserver")
    },
    Spec {
        ops: SINGLE,
        ids: 0,
        options: &[
            number("ldnsEntryTimeout", 30, 65_534).default("180").kept(),
            number("RTTTolerance", 1, 100).default("5").kept(),
            arg("ldnsMask", Value::Mask).kept(),
            number("v6ldnsmasklen", 1, 128).default("128").kept(),
            arg("ldnsProbeOrder", Value::Word(&["PING", "DNS", "TCP"])).many(1, 3).kept(),
            off("dropLdnsReq").kept(),
            number("GSLBSvcStateDelayTime", 0, 3600).default("0").kept(),
            number("svcStateLearningTime", 0, 3600).default("0").kept(),
            off("AutomaticConfigSync").kept(),
            number("MEPKeepAliveTimeout", 1, 3600).default("10").kept(),
            number("GSLBSyncInterval", 1, 3600).default("10").kept(),
            arg("GSLBSyncMode", Value::Word(&["IncrementalSync", "FullSync"]))
                .default("IncrementalSync")
                .kept(),
            arg("undefAction", Value::Word(&["NOLBACTION", "RESET", "DROP"])).default("NOLBACTION").kept(),
        ],
        is_open: true,
        ..spec(Kind::GslbParameter, "gslb parameter")
    },
    Spec {
        positionals: &[
            text("siteName"),
            arg("siteType", Value::Word(&["REMOTE", "LOCAL"])).optional().kept(),
            arg("siteIPAddress", Value::Address).kept(),
        ],
        options: &[
            arg("publicIP", Value::Address).kept(),
            on("metricExchange").kept(),
            on("nwMetricExchange").kept(),
            on("sessionExchange").kept(),
            arg("triggerMonitor", Value::Word(&["ALWAYS", "MEPDOWN", "MEPDOWN_SVCDOWN"]))
                .default("ALWAYS")
                .kept(),
            arg("parentSite", Value::Name(&[Kind::Site])).kept(),
            arg("backupParentlist", Value::Text).many(1, 10).kept(),
            text("clip").many(1, 2),
            text("naptrReplacementSuffix"),
            text("sitePassword").dropped(),
            text("encrypted").many(0, 0).dropped(),
            text("encryptmethod").dropped(),
            text("kek").many(0, 0).dropped(),
            text("suffix").dropped(),
        ],
        ..spec(Kind::Site, "gslb site")
    },
    Spec {
        ops: ALL,
        positionals: SERVICE_POSITIONALS,
        options: SERVICE,
        bindings: SERVICE_BINDINGS,
        ..spec(Kind::Service, "gslb service")
    },
    Spec {
        ops: ALL,
        positionals: &[text("name"), arg("serviceType", TYPES)],
        options: VSERVER,
        bindings: VSERVER_BINDINGS,
        ..spec(Kind::Vserver, "gslb vserver")
    },
    Spec {
        ops: &[Op::Show, Op::Stat],
        positionals: &[text("name")],
        options: &[text("dnsRecordType")],
        ..spec(Kind::GslbDomain, "gslb domain")
    },
    Spec {
        positionals: &[
            text("actionName"),
            arg(
                "actionType",
                Value::Word(&["ViewName", "GslbPrefLoc", "noop", "Drop", "Cache_Bypass", "Rewrite_Response"]),
            ),
        ],
        options: &[
            arg("IPAddress", Value::Address).many(1, 64),
            number("TTL", 0, MOST).default("3600"),
            arg("viewName", Value::Name(&[Kind::DnsView])),
            arg("preferredLocList", Value::Location).many(1, 8),
            text("dnsProfileName"),
        ],
        ..spec(Kind::DnsAction, "dns action")
    },
    Spec {
        positionals: &[
            text("name"),
            arg("rule", Value::Rule),
            arg("actionName", Value::Name(&[Kind::DnsAction])).optional(),
        ],
        options: &[
            arg("rule", Value::Rule),
            arg("actionName", Value::Name(&[Kind::DnsAction])),
            arg("viewName", Value::Name(&[Kind::DnsView])),
            arg("preferredLocation", Value::Location),
            arg("preferredLocList", Value::Location).many(1, 8),
            arg("drop", YES_NO).default("NO"),
            arg("cacheBypass", YES_NO).default("NO"),
            text("logAction"),
            text("description"),
        ],
        ..spec(Kind::DnsPolicy, "dns policy")
    },
    Spec {
        ops: &[Op::Add, Op::Set, Op::Bind, Op::Unbind, Op::Rm, Op::Rename, Op::Show],
        positionals: &[text("labelName"), text("transform")],
        bindings: &[Binding {
            what: POLICY_NAME,
            positionals: &[number("priority", 1, 65_534), GOTO.optional()],
            options: &[GOTO, INVOKE],
            is_positional: true,
        }],
        ..spec(Kind::PolicyLabel, "dns policylabel")
    },
    Spec {
        ops: &[Op::Bind, Op::Unbind, Op::Show],
        ids: 0,
        bindings: &[Binding {
            what: POLICY_NAME,
            positionals: &[number("priority", 1, 65_534)],
            options: &[
                GOTO,
                arg("type", Value::Word(&["REQ_OVERRIDE", "REQ_DEFAULT", "RES_OVERRIDE", "RES_DEFAULT"]))
                    .default("REQ_DEFAULT"),
                INVOKE,
            ],
            is_positional: true,
        }],
        ..spec(Kind::DnsGlobal, "dns global")
    },
];

const RECORD_TTL: &[Arg] = &[number("TTL", 0, MOST)];

/// Records are told apart by their owner and what they say.
const fn record(
    kind: Kind,
    words: &'static str,
    positionals: &'static [Arg],
    options: &'static [Arg],
) -> Spec {
    Spec { kind, words, ops: RECORD, ids: 2, positionals, options, ..NONE }
}

const MONITOR: &[Arg] = &[
    arg("interval", Value::Period).many(1, 2).default("5"),
    arg("resptimeout", Value::Period).many(1, 2).default("2"),
    number("retries", 1, 127).default("3"),
    number("failureRetries", 0, 32).default("0"),
    number("successRetries", 1, 32).default("1"),
    number("alertRetries", 0, 32).default("0").kept(),
    arg("downTime", Value::Period).many(1, 2).default("30").kept(),
    arg("deviation", Value::Period).many(1, 2).default("0").kept(),
    arg("resptimeoutThresh", Value::Text).kept(),
    on("state"),
    arg("destIP", Value::Address),
    number("destPort", 1, 65_535),
    arg("secure", YES_NO).default("NO"),
    arg("reverse", YES_NO).default("NO").kept(),
    arg("transparent", YES_NO).default("NO").kept(),
    arg("ipTunnel", YES_NO).default("NO").kept(),
    text("LRTM"),
    text("tos"),
    text("tosId"),
    text("action"),
    arg("httpRequest", Value::Text),
    arg("respCode", Value::Codes).many(1, 64).default("200"),
    arg("customHeaders", Value::Text),
    arg("send", Value::Text),
    arg("recv", Value::Text),
    text("rtspRequest"),
    text("query"),
    text("queryType"),
    text("IPAddress").many(1, 64),
    text("scriptName"),
    text("scriptArgs"),
    text("dispatcherIP"),
    text("dispatcherPort"),
    text("userName"),
    text("password").dropped(),
    text("secondaryPassword").dropped(),
    text("encrypted").many(0, 0).dropped(),
    text("encryptmethod").dropped(),
    text("kek").many(0, 0).dropped(),
    text("suffix").dropped(),
    text("radKey").dropped(),
    text("radNASid"),
    text("radNASip"),
    text("hostName"),
    text("fileName"),
    text("baseDN"),
    text("bindDN"),
    text("filter"),
    text("attribute"),
    text("group"),
    text("database"),
    text("sqlQuery"),
    text("evalRule"),
    text("snmpOID"),
    text("snmpCommunity").dropped(),
    text("snmpThreshold"),
    text("snmpVersion"),
    arg("metricTable", Value::Name(&[Kind::MetricTable])),
    text("maxForwards"),
    text("sipMethod"),
    text("sipURI"),
    text("sipregURI"),
    text("application"),
    text("sitePath"),
    text("logonpointName"),
    text("lasVersion"),
    text("validateCred"),
    text("domain"),
    text("storename"),
    text("storefrontacctservice"),
    text("storefrontcheckbackendservices"),
    text("netProfile"),
    text("sslProfile"),
    text("trofsCode"),
    text("trofsString"),
];

const SERVICE_POSITIONALS: &[Arg] = &[
    text("serviceName"),
    arg("IPAddress", Value::AddressOrServer).optional(),
    arg("serviceType", TYPES).optional(),
    // `*` is any port.
    arg("port", Value::Text).optional(),
];

const SERVICE: &[Arg] = &[
    arg("cnameEntry", Value::Domain),
    arg("publicIP", Value::Address),
    number("publicPort", 0, 65_535),
    number("maxClient", 0, 4_294_967_294).default("0"),
    arg("healthMonitor", YES_NO).default("YES"),
    arg("siteName", Value::Name(&[Kind::Site])),
    on("state"),
    text("cip").many(1, 2).default("DISABLED"),
    arg("sitePersistence", Value::Word(&["ConnectionProxy", "HTTPRedirect", "NONE"])).default("NONE").kept(),
    number("cookieTimeout", 0, 1440).default("0").kept(),
    text("sitePrefix"),
    number("cltTimeout", 0, 31_536_000).kept(),
    number("svrTimeout", 0, 31_536_000).kept(),
    number("maxBandwidth", 0, MAX32).default("0"),
    on("downStateFlush").kept(),
    number("maxAAAUsers", 0, 65_535).default("0").kept(),
    number("monThreshold", 0, 65_535).default("0"),
    number("hashId", 1, MAX32),
    text("comment"),
    on("appflowLog").kept(),
    arg("naptrReplacement", Value::Domain),
    number("naptrDomainTTL", 1, MOST).kept(),
    number("naptrOrder", 0, 65_535).default("0"),
    arg("naptrServices", Value::Text),
    number("naptrPreference", 0, 65_535).default("0"),
    // Of the positional values, for `set`.
    arg("IPAddress", Value::AddressOrServer),
    arg("serviceType", TYPES).kept(),
    arg("port", Value::Text),
];

const SERVICE_BINDINGS: &[Binding] = &[
    Binding {
        what: arg("monitorName", Value::Name(&[Kind::Monitor])),
        positionals: &[],
        options: &[on("monState"), number("weight", 1, 100).default("1")],
        is_positional: false,
    },
    Binding {
        what: arg("viewName", Value::Name(&[Kind::DnsView])),
        positionals: &[arg("viewIP", Value::Address)],
        options: &[],
        is_positional: false,
    },
];

const VSERVER: &[Arg] = &[
    arg("ipType", Value::Word(&["IPV4", "IPV6"])).default("IPV4"),
    arg("dnsRecordType", Value::Word(&["A", "AAAA", "CNAME", "NAPTR"])).default("A"),
    arg("lbMethod", METHODS).default("LEASTCONNECTION"),
    arg("backupLBMethod", METHODS),
    arg("netmask", Value::Mask).default("255.255.255.255"),
    number("v6netmasklen", 1, 128).default("128"),
    number("tolerance", 0, 100).default("0").kept(),
    arg("persistenceType", Value::Word(&["SOURCEIP", "NONE"])).default("NONE"),
    number("persistenceId", 0, 65_535),
    arg("persistMask", Value::Mask).default("255.255.255.255"),
    number("v6persistmasklen", 1, 128).default("128"),
    number("timeout", 2, 1440).default("2"),
    off("EDR"),
    off("ECS"),
    off("ecsAddrValidation"),
    off("MIR"),
    off("disablePrimaryOnDown"),
    arg("dynamicWeight", Value::Word(&["SERVICECOUNT", "SERVICEWEIGHT", "DISABLED"])).default("DISABLED"),
    arg("considerEffectiveState", Value::Word(&["NONE", "STATE_ONLY"])).default("NONE"),
    number("backupSessionTimeout", 0, 1440).default("0"),
    on("state"),
    arg("soMethod", Value::Word(&["CONNECTION", "DYNAMICCONNECTION", "BANDWIDTH", "HEALTH", "NONE"]))
        .default("NONE"),
    number("soThreshold", 1, 4_294_967_287),
    off("soPersistence"),
    number("soPersistenceTimeOut", 2, 1440).default("2"),
    arg("soBackupAction", Value::Word(&["DROP", "ACCEPT", "REDIRECT", "EMPTY", "REFUSED"])).default("DROP"),
    arg("redirectURL", Value::Url),
    arg("skippersistency", Value::Word(&["Bypass", "ReLb", "None"])).default("None"),
    arg("backupVServer", Value::Name(&[Kind::Vserver])),
    text("rule").default("none"),
    arg("toggleOrder", Value::Word(&["ASCENDING", "DESCENDING"])).default("ASCENDING"),
    number("orderThreshold", 0, 100).default("0"),
    on("appflowLog").kept(),
    text("comment"),
    // Of the positional values, for `set`.
    arg("serviceType", TYPES),
];

const VSERVER_BINDINGS: &[Binding] = &[
    Binding {
        what: arg("serviceName", Value::Name(&[Kind::Service])),
        positionals: &[],
        options: &[number("weight", 1, 100).default("1"), number("order", 1, 8192)],
        is_positional: false,
    },
    Binding {
        what: arg("serviceGroupName", Value::Text),
        positionals: &[],
        options: &[number("order", 1, 8192)],
        is_positional: false,
    },
    Binding {
        what: arg("domainName", Value::Domain),
        positionals: &[],
        options: &[
            TTL.default("5"),
            arg("backupIP", Value::Address),
            text("cookieDomain"),
            number("cookieTimeout", 0, 1440).default("0").kept(),
            number("sitedomainTTL", 1, MOST).default("3600").kept(),
        ],
        is_positional: false,
    },
    Binding {
        what: POLICY_NAME,
        positionals: &[],
        options: &[
            number("priority", 1, MOST),
            GOTO,
            arg("type", Value::Word(&["REQUEST", "RESPONSE"])).default("REQUEST"),
        ],
        is_positional: false,
    },
];

/// The commands of a kind.
pub(super) fn spec_of(kind: Kind) -> &'static Spec {
    SPECS.iter().find(|spec| spec.kind == kind).unwrap_or(&NONE_SPEC)
}

static NONE_SPEC: Spec = NONE;

/// Every kind, in the order in which a configuration is written.
pub(super) fn specs() -> &'static [Spec] {
    &SPECS
}

impl Spec {
    /// A keyword outside bindings, case ignored.
    pub(super) fn option(&self, word: &str) -> Option<&'static Arg> {
        self.options.iter().find(|arg| arg.key.eq_ignore_ascii_case(word))
    }

    /// A value of the object by its key, positional or not.
    pub(super) fn arg(&self, key: &str) -> Option<&'static Arg> {
        self.positionals.iter().chain(self.options).find(|arg| arg.key == key)
    }

    /// What can be tied to it, by keyword.
    pub(super) fn binding(&self, word: &str) -> Option<&'static Binding> {
        self.bindings.iter().find(|binding| binding.what.key.eq_ignore_ascii_case(word))
    }
}

impl Binding {
    /// A value beside it.
    pub(super) fn option(&self, word: &str) -> Option<&'static Arg> {
        self.options.iter().find(|arg| arg.key.eq_ignore_ascii_case(word))
    }

    /// A value by its key, positional or not.
    pub(super) fn arg(&self, key: &str) -> Option<&'static Arg> {
        self.positionals.iter().chain(self.options).find(|arg| arg.key == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_of_a_kind_stands_once() {
        for spec in specs() {
            let mut seen = std::collections::HashSet::new();
            for arg in spec.options {
                assert!(seen.insert(arg.key.to_ascii_lowercase()), "{} -{}", spec.words, arg.key);
            }
            for binding in spec.bindings.iter().filter(|b| !b.is_positional) {
                assert!(
                    seen.insert(binding.what.key.to_ascii_lowercase()),
                    "{} -{}",
                    spec.words,
                    binding.what.key
                );
            }
            assert_eq!(spec_of(spec.kind).words, spec.words);
        }
    }
}
