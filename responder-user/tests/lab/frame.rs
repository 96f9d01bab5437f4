//! Frames in a few words: `query("www.example.com", A).opt(1232).from("203.0.113.9")`.

use std::net::IpAddr;

use responder_user::model::DnsName;

use super::OUR_MAC;

/// MAC address of whoever asks.
pub const THEIR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Where the responder listens.
pub const OUR_V4: &str = "192.0.2.53";
/// The same for IPv6.
pub const OUR_V6: &str = "2001:db8::53";
/// A client that no policy mentions.
pub const CLIENT_V4: &str = "203.0.113.9";
/// The same for IPv6.
pub const CLIENT_V6: &str = "2001:db8:ffff::9";

/// Types by number.
pub const A: u16 = 1;
/// IPv6 address.
pub const AAAA: u16 = 28;

/// One change of octets.
type Edit = Box<dyn Fn(&mut Vec<u8>)>;

/// A DNS query in its frame, layer by layer. `edit_…` functions change a layer after it was built, before it is
/// packed into the next one.
pub struct Query {
    /// Id of the DNS header.
    pub id: u16,
    /// Flags of the DNS header.
    pub flags: u16,
    /// QDCOUNT, ANCOUNT, NSCOUNT and what is added to ARCOUNT.
    pub counts: [u16; 4],
    /// The question's name on the wire.
    pub name: Vec<u8>,
    /// The question's type.
    pub qtype: u16,
    /// The question's class.
    pub qclass: u16,
    /// Records behind the question.
    pub records: Vec<u8>,
    /// Who asks.
    pub source: IpAddr,
    /// Who is asked.
    pub destination: IpAddr,
    /// Ports of both.
    pub ports: (u16, u16),
    /// VLAN tags: protocol and tag.
    pub tags: Vec<(u16, u16)>,
    /// Time to live.
    pub ttl: u8,
    /// Whatever stands in the UDP checksum field.
    pub checksum: u16,
    /// Octets that the frame has at least.
    pub at_least: usize,
    /// What the padding is made of.
    pub padding: u8,
    edits: [Vec<Edit>; 4],
}

/// A question for a name as text.
pub fn query(name: &str, qtype: u16) -> Query {
    // Not folded: the text's case stands in the question.
    let folded = DnsName::parse(name).unwrap_or_else(|error| panic!("{error}"));
    let mut wire = folded.wire().to_vec();
    if !name.contains('\\') {
        let text: Vec<u8> = name.bytes().filter(|b| *b != b'.').collect();
        let mut at = 0;
        let mut from = 0;
        while wire[at] != 0 {
            let length = usize::from(wire[at]);
            wire[at + 1..=at + length].copy_from_slice(&text[from..from + length]);
            at += length + 1;
            from += length;
        }
    }
    wire_query(wire, qtype)
}

/// A question for a name on the wire.
pub fn wire_query(name: Vec<u8>, qtype: u16) -> Query {
    let address = |text: &str| text.parse().expect("an address");
    Query {
        id: 0x1234,
        flags: 0x0100,
        counts: [1, 0, 0, 0],
        name,
        qtype,
        qclass: 1,
        records: Vec::new(),
        source: address(CLIENT_V4),
        destination: address(OUR_V4),
        ports: (40_000, 53),
        tags: Vec::new(),
        ttl: 57,
        checksum: 0,
        at_least: 0,
        padding: 0,
        edits: Default::default(),
    }
}

impl Query {
    /// IPv6 from the usual client.
    pub fn v6(mut self) -> Self {
        self.source = CLIENT_V6.parse().expect("an address");
        self.destination = OUR_V6.parse().expect("an address");
        self
    }

    /// From another client; its family decides.
    pub fn from(mut self, source: &str) -> Self {
        let source: IpAddr = source.parse().expect("an address");
        if source.is_ipv6() != self.destination.is_ipv6() {
            let own = if source.is_ipv6() { OUR_V6 } else { OUR_V4 };
            self.destination = own.parse().expect("an address");
        }
        self.source = source;
        self
    }

    /// To another address.
    pub fn to(mut self, destination: &str) -> Self {
        self.destination = destination.parse().expect("an address");
        self
    }

    /// From another port.
    pub fn source_port(mut self, port: u16) -> Self {
        self.ports.0 = port;
        self
    }

    /// To another port.
    pub fn port(mut self, port: u16) -> Self {
        self.ports.1 = port;
        self
    }

    /// With one more VLAN tag, outermost first.
    pub fn tag(mut self, protocol: u16, tag: u16) -> Self {
        self.tags.push((protocol, tag));
        self
    }

    /// Another id.
    pub fn id(mut self, id: u16) -> Self {
        self.id = id;
        self
    }

    /// Another class.
    pub fn class(mut self, class: u16) -> Self {
        self.qclass = class;
        self
    }

    /// Other flags.
    pub fn flags(mut self, flags: u16) -> Self {
        self.flags = flags;
        self
    }

    /// Another QDCOUNT.
    pub fn questions(mut self, count: u16) -> Self {
        self.counts[0] = count;
        self
    }

    /// A wrong ANCOUNT, NSCOUNT or ARCOUNT: `section` is 1, 2 or 3.
    pub fn claims(mut self, section: usize, count: u16) -> Self {
        self.counts[section] = count;
        self
    }

    /// An OPT record without options.
    pub fn opt(self, payload: u16) -> Self {
        self.opt_with(payload, 0, &[])
    }

    /// An OPT record with a TTL field (extended code, version, flags) and options as they stand.
    pub fn opt_with(mut self, payload: u16, ttl: u32, options: &[u8]) -> Self {
        self.records.extend([0, 0, 41]);
        self.records.extend(payload.to_be_bytes());
        self.records.extend(ttl.to_be_bytes());
        self.records.extend((options.len() as u16).to_be_bytes());
        self.records.extend(options);
        self.counts[3] += 1;
        self
    }

    /// Any record behind the question.
    pub fn record(mut self, octets: &[u8]) -> Self {
        self.records.extend(octets);
        self.counts[3] += 1;
        self
    }

    /// Another time to live.
    pub fn ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }

    /// Something in the UDP checksum field.
    pub fn checksum(mut self, checksum: u16) -> Self {
        self.checksum = checksum;
        self
    }

    /// A frame of at least so many octets.
    pub fn padded(mut self, at_least: usize, padding: u8) -> Self {
        (self.at_least, self.padding) = (at_least, padding);
        self
    }

    /// Changes the DNS message.
    pub fn edit_dns(self, edit: impl Fn(&mut Vec<u8>) + 'static) -> Self {
        self.edit(0, edit)
    }

    /// Changes the UDP datagram.
    pub fn edit_udp(self, edit: impl Fn(&mut Vec<u8>) + 'static) -> Self {
        self.edit(1, edit)
    }

    /// Changes the IP packet.
    pub fn edit_ip(self, edit: impl Fn(&mut Vec<u8>) + 'static) -> Self {
        self.edit(2, edit)
    }

    /// Changes the frame.
    pub fn edit_frame(self, edit: impl Fn(&mut Vec<u8>) + 'static) -> Self {
        self.edit(3, edit)
    }

    /// The frame ends after so many octets.
    pub fn cut(self, len: usize) -> Self {
        self.edit_frame(move |frame| frame.truncate(len))
    }

    fn edit(mut self, layer: usize, edit: impl Fn(&mut Vec<u8>) + 'static) -> Self {
        self.edits[layer].push(Box::new(edit));
        self
    }

    fn apply(&self, layer: usize, mut octets: Vec<u8>) -> Vec<u8> {
        self.edits[layer].iter().for_each(|edit| edit(&mut octets));
        octets
    }

    /// The DNS message.
    pub fn dns(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        out.extend(self.id.to_be_bytes());
        out.extend(self.flags.to_be_bytes());
        out.extend(self.counts.iter().flat_map(|count| count.to_be_bytes()));
        out.extend(&self.name);
        out.extend(self.qtype.to_be_bytes());
        out.extend(self.qclass.to_be_bytes());
        out.extend(&self.records);
        self.apply(0, out)
    }

    /// The whole frame.
    pub fn build(&self) -> Vec<u8> {
        let dns = self.dns();
        let mut udp = Vec::with_capacity(dns.len() + 8);
        udp.extend(self.ports.0.to_be_bytes());
        udp.extend(self.ports.1.to_be_bytes());
        udp.extend((dns.len() as u16 + 8).to_be_bytes());
        udp.extend(self.checksum.to_be_bytes());
        udp.extend(dns);
        let udp = self.apply(1, udp);
        let packet = self.apply(2, ip(self, &udp));
        let mut frame = Vec::with_capacity(packet.len() + 22);
        frame.extend(OUR_MAC);
        frame.extend(THEIR_MAC);
        for (protocol, tag) in &self.tags {
            frame.extend(protocol.to_be_bytes());
            frame.extend(tag.to_be_bytes());
        }
        let ethertype: u16 = if self.source.is_ipv4() { 0x0800 } else { 0x86dd };
        frame.extend(ethertype.to_be_bytes());
        frame.extend(packet);
        if frame.len() < self.at_least {
            frame.resize(self.at_least, self.padding);
        }
        self.apply(3, frame)
    }
}

fn ip(query: &Query, udp: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(udp.len() + 40);
    match (query.source, query.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            out.extend([0x45, 0]);
            out.extend((udp.len() as u16 + 20).to_be_bytes());
            // Id, no fragment, and no checksum: nobody looks at it before the kernel's stack does.
            out.extend([0x42, 0x42, 0, 0, query.ttl, 17, 0, 0]);
            out.extend(source.octets());
            out.extend(destination.octets());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            out.extend([0x60, 0, 0, 0]);
            out.extend((udp.len() as u16).to_be_bytes());
            out.extend([17, query.ttl]);
            out.extend(source.octets());
            out.extend(destination.octets());
        }
        mixed => panic!("{mixed:?} are of two families"),
    }
    out.extend(udp);
    out
}
