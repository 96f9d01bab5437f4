//! The configuration that frames meet: every kind of name that the table can hold, and classes of every prefix length.

use std::net::IpAddr;

use responder_user::{
    compile::name::StaticTypes,
    decide::{AddressState, Snapshot},
    model::{
        DnsName, Method, Model, RecordType, Rule, Vserver, VserverId, Zone,
        policy::{BindPoint, NameTest, TextOp},
        settings::XdpMode,
        zone::Soa,
    },
};

use super::frame::{OUR_V4, OUR_V6};
use crate::support::{add_preference, bound, domain, service, vserver};

/// Clients by the policy that they meet: a rule's prefix, the location that it prefers.
pub const CLASSES: [(&str, &str); 8] = [
    ("198.51.100.200/32", "Four.Host"),
    ("198.51.100.128/25", "Four.Half"),
    ("198.51.100.0/24", "Four.Net"),
    ("100.0.0.0/8", "Four.Wide"),
    ("2001:db8:1:1::1/128", "Six.Host"),
    ("2001:db8:1:1::/64", "Six.Net"),
    ("2001:db8:1::/48", "Six.Site"),
    ("2600::/12", "Six.Wide"),
];

/// Most addresses of a `m<n>` name.
pub const MOST_GIVEN: usize = 9;

/// Secrets of cookies in the lab: in force, and the one before.
pub const COOKIE_SECRETS: [[u64; 2]; 2] = [[0x0123_4567_89ab_cdef, 7], [0xfedc_ba98_7654_3210, 9]];

/// The server's identifier.
pub const NSID: &str = "ns1.lab";

/// TTL of every name.
pub const TTL: u32 = 5;

/// The second listening address and port, of each family.
pub const SECOND_V4: (&str, u16) = ("192.0.2.54", 5353);
/// The same for IPv6.
pub const SECOND_V6: (&str, u16) = ("2001:db8::54", 5353);

/// Host `i` of a pool: 10.0.<pool>.<i> and fd00:<pool>::<i>.
pub fn host_v4(pool: u8, i: u8) -> String {
    format!("10.0.{pool}.{i}")
}

/// The same for IPv6.
pub fn host_v6(pool: u8, i: u8) -> String {
    format!("fd00:{pool:x}::{i:x}")
}

/// What the zone data has at a name.
pub fn static_types(name: &DnsName) -> StaticTypes {
    let text = name.to_string();
    let is = |label: &str| text.starts_with(label);
    StaticTypes { a: is("zone-a."), aaaa: is("zone-aaaa."), other: is("mail.") }
}

/// A name of exactly so many octets: labels of 1 to 63 octets in front of nothing.
pub fn name_of(octets: usize) -> DnsName {
    let mut wire = Vec::new();
    let mut left = octets - 1;
    while left > 0 {
        // A rest of one octet would have no room for a label.
        let label = if left == 65 { 62 } else { left.min(64) - 1 };
        wire.push(label as u8);
        wire.extend((0..label).map(|i| b'a' + ((i + octets) % 26) as u8));
        left -= label + 1;
    }
    wire.push(0);
    DnsName::from_wire(&wire).unwrap_or_else(|| panic!("no name of {octets} octets"))
}

/// A name of `labels` labels of one octet.
pub fn name_of_labels(labels: usize) -> DnsName {
    let mut wire: Vec<u8> = (0..labels).flat_map(|i| [1, b'a' + (i % 26) as u8]).collect();
    wire.push(0);
    DnsName::from_wire(&wire).unwrap_or_else(|| panic!("no name of {labels} labels"))
}

/// Lengths that a name can have and that the table holds.
pub fn fast_lengths() -> impl Iterator<Item = usize> {
    std::iter::once(1).chain(3..=104)
}

/// Builds the model.
struct Builder {
    model: Model,
}

impl Builder {
    /// A pool of `hosts` services and a virtual server over them.
    fn pool(&mut self, name: &str, pool: u8, hosts: u8, types: &[RecordType]) -> &mut Vserver {
        let first = self.model.services.len() as u32;
        for i in 1..=hosts {
            let mut addresses = Vec::new();
            for rtype in types {
                addresses.push(if *rtype == RecordType::A { host_v4(pool, i) } else { host_v6(pool, i) });
            }
            let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
            self.model.services.push(service(&format!("{name}-{i}"), None, &addresses));
        }
        let services = (first..first + u32::from(hosts)).map(bound).collect();
        let mut pool = vserver(name, Method::RoundRobin, services);
        pool.types = types.to_vec();
        self.model.vservers.push(pool);
        self.model.vservers.last_mut().expect("just pushed")
    }

    /// A name for the virtual server that was made last.
    fn name(&mut self, name: &str) {
        let last = self.model.vservers.len() as u32 - 1;
        self.model.domains.push(domain(name, last, &[]));
    }

    fn zone(&mut self, apex: &str, change: impl FnOnce(&mut Soa)) {
        let apex = DnsName::parse(apex).expect("a name");
        let mut soa = Soa::default_for(&apex);
        change(&mut soa);
        self.model.zones.push(Zone { apex, file: None, soa, ns: Vec::new(), ns_addresses: Vec::new() });
    }
}

fn settings(model: &mut Model) {
    let address = |(ip, port): (&str, u16)| std::net::SocketAddr::new(ip.parse().expect("an address"), port);
    let listening = [(OUR_V4, 53), (OUR_V6, 53), SECOND_V4, SECOND_V6];
    model.settings.listen = listening.into_iter().map(address).collect();
    model.settings.xdp.interfaces = vec!["lo".to_owned()];
    model.settings.xdp.mode = XdpMode::Generic;
    model.settings.state_dir = env!("CARGO_TARGET_TMPDIR").into();
    NSID.clone_into(&mut model.settings.nsid);
    // Rows are about what is written; what is left out is the business of the rows about limits.
    model.settings.limits.max_amplification = 0.0;
}

/// The whole model.
pub fn model() -> Model {
    const BOTH: [RecordType; 2] = [RecordType::A, RecordType::Aaaa];
    let mut b = Builder { model: Model::default() };
    settings(&mut b.model);
    b.zone("example.com", |_| {});
    b.zone("other.org", |soa| {
        soa.mname = DnsName::parse("ns.elsewhere.net").expect("a name");
        soa.serial = Some(2_026_113_001);
        (soa.refresh, soa.retry, soa.expire, soa.minimum, soa.ttl) = (7200, 900, 1_209_600, 300, 60);
    });
    b.zone("edge.test", |soa| soa.mname = name_of(32));
    b.zone("far.test", |soa| soa.mname = name_of(33));
    b.pool("one", 1, 1, &BOTH);
    for name in ["one.example.com", "example.com", "www.other.org", "other.org", "a.edge.test", "a.far.test"]
    {
        b.name(name);
    }
    for name in [
        "own.net",
        "mail.example.com",
        "odd.\\001\\.x\\255.example.com",
        "nil.\\000x.example.com",
        "weird.example.com",
    ] {
        b.name(name);
    }
    b.pool("only-v4", 2, 1, &[RecordType::A]);
    b.name("v4.example.com");
    b.name("zone-aaaa.example.com");
    b.pool("only-v6", 3, 1, &[RecordType::Aaaa]);
    b.name("v6.example.com");
    b.name("zone-a.example.com");
    for n in 1..=MOST_GIVEN as u8 {
        b.pool(&format!("m{n}"), 10 + n, n, &BOTH).multiple_ip_response = true;
        b.name(&format!("m{n}.example.com"));
    }
    let weighted = b.pool("weights", 30, 3, &BOTH);
    for (bound, weight) in weighted.services.iter_mut().zip([5, 2, 1]) {
        bound.weight = weight;
    }
    b.name("weights.example.com");
    b.pool("empty", 31, 2, &BOTH).empty_down_response = true;
    b.name("empty.example.com");
    b.pool("down", 32, 2, &BOTH);
    b.name("down.example.com");
    b.pool("undecided", 33, 2, &BOTH);
    b.name("undecided.example.com");
    classes(&mut b, &BOTH);
    near(&mut b);
    b.pool("lengths", 40, 1, &BOTH);
    for octets in fast_lengths().chain([105, 106, 255]) {
        b.name(&name_of(octets).to_string());
    }
    b.name(&name_of_labels(51).to_string());
    b.name(&name_of_labels(127).to_string());
    b.model
}

/// The same without policies: one class, small maps, quickly loaded.
pub fn classless() -> Model {
    Model { policies: Vec::new(), actions: Vec::new(), ..model() }
}

/// As [`classless`], with policies that do not look at the source of the names that look at ECS: of a name, of a type, of
/// another virtual server. The last one splits the clients into classes.
pub fn unconcerned() -> Model {
    let mut out = classless();
    out.name_tests = vec![NameTest::new(TextOp::Equals, "one.example.com")];
    let by_name = Rule::Name { test: out.name_tests[0].clone(), id: 0, of_response: false };
    let classes = out.vservers.iter().position(|v| v.name == "classes").expect("a virtual server") as u32;
    for (name, rule, bind) in [
        ("of-name", by_name, BindPoint::Request),
        (
            "of-type",
            Rule::Type { code: RecordType::Naptr.code(), of_response: false },
            BindPoint::RequestOverride,
        ),
        (
            "of-vserver",
            Rule::InSubnet("198.51.100.0/24".parse().expect("a prefix")),
            BindPoint::Vserver(VserverId(classes)),
        ),
    ] {
        let priority = out.policies.len() as u32 + 1;
        add_preference(&mut out, name, priority, rule, &["Four.Net"]);
        let policy = out.policies.iter_mut().find(|p| p.name == name).expect("just added");
        policy.bind = bind;
    }
    out.policies.sort_by_key(|p| (p.bind, p.priority));
    out
}

/// Services of which each is preferred by one policy; the first one is of no policy.
fn classes(b: &mut Builder, types: &[RecordType]) {
    let hosts = CLASSES.len() as u8 + 1;
    let first = b.model.services.len();
    b.pool("classes", 34, hosts, types);
    b.name("classes.example.com");
    for (i, (prefix, place)) in CLASSES.iter().enumerate() {
        b.model.services[first + 1 + i].location = Some(crate::support::location(place));
        let rule = Rule::InSubnet(prefix.parse().expect("a prefix"));
        add_preference(&mut b.model, place, 10 * (i as u32 + 1), rule, &[place]);
    }
}

/// Services at places, and virtual servers that look at ECS or not.
fn near(b: &mut Builder) {
    const A: [RecordType; 1] = [RecordType::A];
    for (first, last, place) in [
        ("192.0.2.0", "192.0.2.127", "Asia.HK"),
        ("192.0.2.128", "192.0.2.191", "Europe.UK"),
        ("100.64.0.0", "100.127.255.255", "Africa.ZMB"),
        ("2001:db8:a000::", "2001:db8:afff:ffff:ffff:ffff:ffff:ffff", "Asia.HK"),
        ("2001:db8:b000::", "2001:db8:b000:ffff:ffff:ffff:ffff:ffff", "Europe.UK"),
    ] {
        b.model.locations.custom.push(crate::support::range(first, last, place));
    }
    let first = b.model.services.len();
    b.pool("near", 35, 4, &A).method = Method::StaticProximity;
    let places = [None, Some("Europe.UK"), Some("Africa.ZMB"), Some("Asia.HK")];
    for (service, place) in b.model.services[first..].iter_mut().zip(places) {
        service.location = place.map(crate::support::location);
    }
    let near = b.model.vservers.last_mut().expect("just pushed");
    near.backup_method = Some(Method::RoundRobin);
    near.ecs = true;
    let near = near.clone();
    b.name("near.example.com");
    let mut off = near.clone();
    (off.name, off.ecs) = ("far-from".to_owned(), false);
    b.model.vservers.push(off);
    b.name("far-from.example.com");
    let mut checked = near.clone();
    (checked.name, checked.ecs_validation) = ("checked".to_owned(), true);
    b.model.vservers.push(checked);
    b.name("checked.example.com");
    let mut alone = near;
    (alone.name, alone.method, alone.backup_method) = ("alone".to_owned(), Method::RoundRobin, None);
    b.model.vservers.push(alone);
    b.name("alone.example.com");
}

/// What health knows: `empty` and `down` are down, `undecided` is not known yet, the others are up.
pub fn snapshot(model: &Model) -> Snapshot {
    let mut out = Snapshot::all_up(model);
    for (service, state) in model.services.iter().zip(&mut out.services) {
        let is = |pool: &str| service.name.starts_with(pool);
        if is("empty-") || is("down-") {
            state.addresses.fill(AddressState::Down);
        }
        if is("undecided-") {
            state.addresses.fill(AddressState::Undecided);
        }
    }
    out
}

/// An address as text in network order.
pub fn octets(address: &str) -> Vec<u8> {
    match address.parse().expect("an address") {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}
