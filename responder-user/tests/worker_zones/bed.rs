//! Zones with the answers of a worker, compiled as the engine does it, without a network.

use std::{io::Write, net::SocketAddr, sync::Arc};

use hickory_proto::{
    op::Message,
    rr::{RData, Record},
};
use responder_user::{
    compile::{Compiled, name::StaticTypes},
    decide::{OwnerId, Snapshot},
    model::{
        self, DnsName, Domain, Method, Model, RecordType, Service, Vserver, VserverId, settings::XdpMode,
        zone::Soa,
    },
    publish::writer::Writer,
    worker::{Beside, DeferredTable, Names, Transport, Zones, testing},
};

use crate::support;

pub fn name(text: &str) -> DnsName {
    DnsName::parse(text).unwrap()
}

/// A model with master files and GSLB names, which all have the address 192.0.2.80.
pub fn model(zones: &[(&str, &str)], gslb: &[&str]) -> (Model, Vec<tempfile::NamedTempFile>) {
    let mut files = Vec::new();
    let mut model = Model::default();
    for (apex, text) in zones {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let soa = Soa::default_for(&name(apex));
        model.zones.push(model::Zone {
            apex: name(apex),
            file: Some(file.path().into()),
            soa,
            ns: vec![],
            ns_addresses: vec![],
        });
        files.push(file);
    }
    model.services.push(Service {
        name: "web".to_owned(),
        addresses: vec!["192.0.2.80".parse().unwrap()],
        enabled: true,
        ..Service::default()
    });
    model.vservers.push(Vserver {
        name: "v".to_owned(),
        types: vec![RecordType::A],
        method: Method::RoundRobin,
        services: vec![support::bound(0)],
        ..Vserver::default()
    });
    let domain =
        |n: &&str| Domain { name: name(n), vserver: VserverId(0), ttl: 5, backup_ip: Arc::from(Vec::new()) };
    model.domains = gslb.iter().map(domain).collect();
    model.settings.xdp.mode = XdpMode::Off;
    model.settings.listen = vec!["127.0.0.1:53".parse().unwrap()];
    model.settings.limits.max_amplification = 0.0;
    model.settings.xdp.pin_path = "/nonexistent/responder-worker-zones".into();
    (model, files)
}

/// A worker with everything published.
pub struct Bed {
    pub compiled: Compiled,
    pub writer: Writer,
    pub names: Names,
}

impl Bed {
    pub fn new(zones: &[(&str, &str)], gslb: &[&str]) -> Self {
        let (model, _files) = model(zones, gslb);
        let zones = Arc::new(Zones::load(&model).unwrap_or_else(|problems| {
            panic!("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
        }));
        let statics = |name: &DnsName| StaticTypes {
            a: zones.has_type(name, 1),
            aaaa: zones.has_type(name, 28),
            other: zones.has_other_types(name),
        };
        let model = Arc::new(model);
        let existing = |zone: usize| zones.existing(&model.zones[zone].apex);
        let soa_of = |zone: usize| Some(zones.zone(&model.zones[zone].apex)?.soa().clone());
        let compiled = Compiled::of(model.clone(), &statics, &soa_of, &existing).unwrap();
        let (mut writer, _) = Writer::open(&model.settings, &compiled, Arc::new(|| ())).unwrap();
        let snapshot = Snapshot::all_up(&model);
        for owner in (0..compiled.owners.list.len() as u32).map(OwnerId) {
            let made = compiled.columns(&snapshot, owner, RecordType::A);
            let side = compiled.numbering.side(owner, RecordType::A).unwrap();
            writer.publish(side, &made.columns, 1).unwrap();
        }
        writer.world_mut().end_batch(1);
        let table = Arc::new(DeferredTable::new(compiled.numbering.count()));
        let beside = Beside::of(&compiled, table);
        let long = compiled.names.long.iter().map(|(name, entry)| (name.wire().into(), *entry)).collect();
        let names = Names { zones, beside, long: Arc::new(long), ..Names::default() };
        Self { compiled, writer, names }
    }

    pub fn ask(&self, query: &[u8], transport: Transport) -> Vec<u8> {
        let client: SocketAddr = "198.51.100.77:40000".parse().unwrap();
        testing::ask(query, transport, client, &self.writer.reader(1), &self.names).unwrap()
    }

    /// By TCP, so that nothing is left out.
    pub fn get(&self, name: &str, rtype: u16) -> Said {
        Said::of(&self.ask(&testing::query(name, rtype, Some((1232, false))), Transport::Tcp))
    }
}

/// What a reply says: records as text in lower case, sorted.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    pub rcode: u16,
    pub is_authoritative: bool,
    pub answers: Vec<String>,
    pub authorities: Vec<String>,
    pub additionals: Vec<String>,
}

impl Said {
    pub fn of(reply: &[u8]) -> Self {
        let message = Message::from_vec(reply).expect("a whole message");
        let text = |records: &[hickory_proto::rr::Record]| {
            let mut all: Vec<String> = records.iter().map(line).collect();
            all.sort();
            all
        };
        Self {
            rcode: message.metadata.response_code.into(),
            is_authoritative: message.metadata.authoritative,
            answers: text(&message.answers),
            authorities: text(&message.authorities),
            additionals: text(&message.additionals),
        }
    }
}

/// `hickory_proto` does not read DNAME.
fn line(record: &Record) -> String {
    if let RData::Unknown { rdata, .. } = &record.data
        && u16::from(record.record_type()) == 39
    {
        let target = DnsName::from_wire(&rdata.anything).expect("a name");
        return format!("{} {} in dname {target}.", record.name, record.ttl).to_lowercase();
    }
    record.to_string().to_lowercase()
}
