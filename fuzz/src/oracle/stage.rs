//! A table and zones in memory, with every kind of answer that needs no kernel.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
    sync::{Arc, OnceLock},
};

use responder_common::{
    cookie::Secrets,
    edns::Nsid,
    layout::{NAME_OTHER_TYPES, REFERENCE_NONE, SET_EXTRAS_OPTIONAL},
};
use responder_user::{
    model::{self, DnsName, Domain, Model, RecordType, VserverId, zone::Soa},
    worker::{
        Names, Zones,
        testing::{Addresses, MemoryWorld},
    },
};

/// What is asked.
pub struct Stage {
    /// The table.
    pub world: MemoryWorld,
    /// What stands beside it.
    pub names: Names,
}

/// The client of IPv4.
pub const CLIENT_V4: ([u8; 4], u16) = ([203, 0, 113, 9], 40_000);

fn name(text: &str) -> DnsName {
    DnsName::parse(text).expect("a name")
}

/// The one stage of the process. Only rotation changes.
pub fn stage() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(build)
}

/// A client by number.
pub fn client(v6: bool) -> SocketAddr {
    if v6 {
        SocketAddr::from((Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 9), CLIENT_V4.1))
    } else {
        SocketAddr::from(CLIENT_V4)
    }
}

fn build() -> Stage {
    let com = name("example.com");
    let bare = name("bare.test");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(ZONE);
    let zone = |apex: &DnsName, file| model::Zone {
        apex: apex.clone(),
        file,
        soa: Soa::default_for(apex),
        ns: vec![name("ns1.bare.test"), name("ns.example.org")],
        ns_addresses: Vec::new(),
    };
    let domains =
        ["one.example.com", "many.example.com", "only4.example.com", "deep.down.example.com", "own.test"];
    let domain = |text: &&str| Domain {
        name: name(text),
        vserver: VserverId(0),
        ttl: 5,
        backup_ip: Arc::from(Vec::new()),
    };
    let vserver = model::Vserver {
        name: "v".into(),
        types: vec![RecordType::A, RecordType::Aaaa],
        ..model::Vserver::default()
    };
    let model = Model {
        zones: vec![zone(&com, Some(file)), zone(&bare, None)],
        vservers: vec![vserver],
        domains: domains.iter().map(domain).collect(),
        ..Model::default()
    };
    let zones = Zones::load(&model).unwrap_or_else(|problems| panic!("{problems:?}"));

    let mut world = MemoryWorld::default();
    world.cookies =
        Some(Secrets { current: [0x0123_4567_89ab_cdef, 7], previous: [0xfedc_ba98_7654_3210, 9] });
    world.now = 1_800_000_000;
    let control = world.control_mut();
    control.nsid = Nsid { len: 8, ..Nsid::default() };
    control.nsid.words[0] = u64::from_le_bytes(*b"ns1.fuzz");
    let soa_of_com = zones.zone(&com).expect("the zone").soa().clone();
    let soa = world.add_soa(&soa_of_com, &com);
    let v4: Vec<[u8; 4]> = (1..=8).map(|i| Ipv4Addr::new(192, 0, 2, i).octets()).collect();
    let v6: Vec<Ipv6Addr> = (1..=8).map(|i| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, i)).collect();
    for (text, count, has_v6) in
        [("one.example.com", 1, true), ("many.example.com", 8, true), ("only4.example.com", 1, false)]
    {
        let mut references = [REFERENCE_NONE; 2];
        let set = world.add_set(&Addresses::V4(&v4[..count]));
        references[0] = world.add_references(&[set]);
        if has_v6 {
            let set = world.add_set(&Addresses::V6(&v6[..count]));
            world.set_mut(set).flags |= SET_EXTRAS_OPTIONAL;
            references[1] = world.add_references(&[set]);
        }
        let mut entry = MemoryWorld::entry_of(&name(text), &com, soa, 5, references);
        if zones.has_other_types(&name(text)) {
            entry.flags |= NAME_OTHER_TYPES;
        }
        world.add_entry(&name(text), entry);
    }
    world.add_name("deep.down.example.com", "example.com", 5, &v4[..2], &[]);
    world.add_name("own.test", "own.test", 5, &v4[..1], &v6[..1]);
    Stage { world, names: Names { zones: Arc::new(zones), ..Names::default() } }
}

/// A zone with aliases, empty non-terminals and a set that does not fit into a datagram.
const ZONE: &str = "../fuzz/stage.zone";
