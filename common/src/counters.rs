//! Every counter of the packet path, named once: the index into the per-CPU array, and the name that `stats`,
//! metrics and tests use.

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal),* $(,)?) => {
        /// What happened to a packet. Each packet that the program sees raises exactly one counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum Counter {
            $($(#[doc = $doc])* $variant),*
        }

        impl Counter {
            /// All of them, in the order of their indices.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The stable name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

counters! {
    /// Answered in XDP: one or more A records.
    AnswerA = "xdp_answer_a",
    /// Answered in XDP: one or more AAAA records.
    AnswerAaaa = "xdp_answer_aaaa",
    /// Answered in XDP: NOERROR without records, with the SOA.
    AnswerNodata = "xdp_answer_nodata",
    /// Answered in XDP: TC without records, because the whole reply would be too long against the query.
    AnswerTruncated = "xdp_answer_truncated",
    /// Answered in XDP: TC without records, every nth query of a client network over its limit.
    AnswerSlip = "xdp_answer_slip",
    /// Dropped: a query of a client network over its limit.
    DropLimited = "xdp_drop_limited",
    /// Answered in XDP: NXDOMAIN, with the SOA.
    AnswerNxdomain = "xdp_answer_nxdomain",
    /// Dropped: a response from a well-known UDP service port.
    DropServicePort = "xdp_drop_service_port",
    /// Dropped: a policy or a saturated virtual server says so.
    DropDecision = "xdp_drop_decision",
    /// Dropped: the frame that was made for the reply had no room for it, which cannot be. A fault of ours; raise an
    /// alarm.
    DropBroken = "xdp_drop_broken",
    /// Passed: the frame ends inside a header.
    PassShort = "xdp_pass_short",
    /// Passed: neither IPv4 nor IPv6.
    PassNotIp = "xdp_pass_not_ip",
    /// Passed: more than two VLAN tags.
    PassVlan = "xdp_pass_vlan",
    /// Passed: the destination MAC is not this interface's.
    PassMac = "xdp_pass_mac",
    /// Passed: IPv4 with options.
    PassIpOptions = "xdp_pass_ip_options",
    /// Passed: a fragment.
    PassFragment = "xdp_pass_fragment",
    /// Passed: not UDP, IPv6 extension headers among it.
    PassNotUdp = "xdp_pass_not_udp",
    /// Passed: lengths of IP, UDP and frame disagree.
    PassLength = "xdp_pass_length",
    /// Passed: not to a listening address and port.
    PassNotListening = "xdp_pass_not_listening",
    /// Passed: a source address that no reply may go to.
    PassSource = "xdp_pass_source",
    /// Passed: from UDP port 53 or 0.
    PassSourcePort = "xdp_pass_source_port",
    /// Passed: the daemon has been silent for longer than `xdp.max_stale`.
    PassStale = "xdp_pass_stale",
    /// Passed: shorter than a header.
    PassNoHeader = "xdp_pass_no_header",
    /// Passed: shorter than a header and a question.
    PassRunt = "xdp_pass_runt",
    /// Passed: QR=1.
    PassResponse = "xdp_pass_response",
    /// Passed: an opcode other than QUERY.
    PassOpcode = "xdp_pass_opcode",
    /// Passed: not one question, or records where a query has none.
    PassCounts = "xdp_pass_counts",
    /// Passed: a label that is a pointer or reserved or has a zero octet in it, or a name that does not end.
    PassName = "xdp_pass_name",
    /// Passed: a name longer than the program compares.
    PassLongName = "xdp_pass_long_name",
    /// Passed: a class other than IN.
    PassClass = "xdp_pass_class",
    /// Passed: a type that is no data (OPT, TKEY, TSIG, 251 to 255).
    PassMetaType = "xdp_pass_meta_type",
    /// Passed: octets behind the message.
    PassTrailing = "xdp_pass_trailing",
    /// Passed: an additional record that is not a well-formed OPT.
    PassOpt = "xdp_pass_opt",
    /// Passed: an EDNS version other than 0.
    PassVersion = "xdp_pass_version",
    /// Passed: more options than the program walks.
    PassManyOptions = "xdp_pass_many_options",
    /// Passed: a cookie of a length that there is not.
    PassCookie = "xdp_pass_cookie",
    /// Passed: a malformed ECS option for a name that looks at it.
    PassSubnet = "xdp_pass_subnet",
    /// Passed: policies look at the source and proximity at ECS.
    PassSubnetPolicy = "xdp_pass_subnet_policy",
    /// Passed: the name is not in the table.
    PassUnknownName = "xdp_pass_unknown_name",
    /// Passed: the name is in the table, but a worker answers this type.
    PassOtherType = "xdp_pass_other_type",
    /// Passed: no answer has been decided yet.
    PassUndecided = "xdp_pass_undecided",
    /// Passed: more addresses or a longer SOA than the program writes.
    PassLarge = "xdp_pass_large",
    /// Passed: the way back to the client does not lead through the interface that the query came in by.
    PassRoute = "xdp_pass_route",
    /// Passed: the kernel refused to change the length of the frame.
    PassTailroom = "xdp_pass_tailroom",
    /// Passed: a map did not have what another map refers to. A fault of ours; raise an alarm.
    PassBroken = "xdp_pass_broken",
}

/// A counter as its index, for programs that must not be told apart by which one it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub usize);

impl From<Counter> for Slot {
    #[inline(always)]
    fn from(counter: Counter) -> Self {
        Self(counter.slot())
    }
}

impl Slot {
    /// As [`Counter::is_drop`].
    #[inline(always)]
    pub const fn is_drop(self) -> bool {
        self.0 == Counter::DropLimited.slot()
            || self.0 == Counter::DropServicePort.slot()
            || self.0 == Counter::DropDecision.slot()
            || self.0 == Counter::DropBroken.slot()
    }
}

/// Types that are counted by name; the others are counted together.
pub const NAMED_TYPES: [(u16, &str); 15] = [
    (1, "a"),
    (2, "ns"),
    (5, "cname"),
    (6, "soa"),
    (12, "ptr"),
    (15, "mx"),
    (16, "txt"),
    (28, "aaaa"),
    (33, "srv"),
    (35, "naptr"),
    (43, "ds"),
    (48, "dnskey"),
    (64, "svcb"),
    (65, "https"),
    (99, "spf"),
];

/// Places for types of queries.
pub const TYPES: usize = 128;

/// Places of the histogram of run times.
pub const LATENCIES: usize = 32;

/// Where a type is counted: small numbers by themselves, all others together.
#[inline(always)]
pub const fn type_place(qtype: u16) -> usize {
    if qtype < TYPES as u16 - 1 { qtype as usize } else { TYPES - 1 }
}

/// Places in the per-CPU array; more than there are counters, so that new ones do not change the layout.
pub const SLOTS: usize = 64;

const _: () = assert!(Counter::ALL.len() <= SLOTS);

impl Counter {
    /// The index into the per-CPU array.
    #[inline(always)]
    pub const fn slot(self) -> usize {
        self as usize
    }

    /// True for packets that left as an answer of the program.
    pub const fn is_answer(self) -> bool {
        matches!(
            self,
            Self::AnswerA
                | Self::AnswerAaaa
                | Self::AnswerNodata
                | Self::AnswerNxdomain
                | Self::AnswerTruncated
                | Self::AnswerSlip
        )
    }

    /// The response code of the answer that the program gave; None: it gave none.
    pub const fn rcode(self) -> Option<u16> {
        match self {
            Self::AnswerNxdomain => Some(crate::wire::rcode::NXDOMAIN),
            _ if self.is_answer() => Some(crate::wire::rcode::NOERROR),
            _ => None,
        }
    }

    /// True for packets that were passed for their DNS header.
    #[inline(always)]
    pub const fn is_of_header(self) -> bool {
        matches!(self, Self::PassNoHeader | Self::PassResponse | Self::PassOpcode | Self::PassCounts)
    }

    /// True for packets that were dropped.
    pub const fn is_drop(self) -> bool {
        matches!(self, Self::DropLimited | Self::DropServicePort | Self::DropBroken)
    }
}
