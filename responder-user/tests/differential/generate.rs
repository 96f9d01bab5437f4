//! Frames of every shape: good ones, nearly good ones, broken ones, noise.

use crate::lab::{
    frame::{A, AAAA, Query, wire_query},
    random::Random,
};

/// How many kinds of frames there are.
pub const SHAPES: usize = 10;

/// Clients of every class, and near the borders between them.
const CLIENTS_V4: [&str; 18] = [
    "203.0.113.9",
    "198.51.100.200",
    "198.51.100.199",
    "198.51.100.201",
    "198.51.100.128",
    "198.51.100.127",
    "198.51.100.0",
    "198.51.99.255",
    "198.51.101.0",
    "100.0.0.0",
    "192.0.2.127",
    "192.0.2.128",
    "192.0.2.192",
    "100.64.0.0",
    "100.255.255.255",
    "101.0.0.0",
    "1.1.1.1",
    "223.255.255.255",
];
/// The same for IPv6.
const CLIENTS_V6: [&str; 15] = [
    "2001:db8:a000::",
    "2001:db8:b000::1",
    "2001:db8:b001::",
    "2001:db8:ffff::9",
    "2001:db8:1:1::1",
    "2001:db8:1:1::",
    "2001:db8:1:1::2",
    "2001:db8:1::1",
    "2001:db8:1:2::",
    "2001:db8:0:ffff::",
    "2001:db8:2::",
    "2600::",
    "260f:ffff::1",
    "2610::",
    "fe80::1",
];

/// Owners of something like OPT: mostly the root.
const OWNERS: [&[u8]; 5] = [&[0], &[0], &[0], &[0xc0, 12], b"\x01a\0"];

/// Makes frames.
pub struct Generator<'a> {
    /// Where chance comes from.
    pub random: Random,
    /// Names of the table.
    pub names: &'a [Vec<u8>],
}

impl Generator<'_> {
    /// A frame, and which shape it is of.
    pub fn frame(&mut self) -> (usize, Vec<u8>) {
        // Half of them are good.
        let shape = if self.random.once_in(2) { 0 } else { self.random.below(SHAPES) };
        let query = self.query();
        let frame = match shape {
            0 => query.build(),
            1 => self.near_miss(query).build(),
            2 => self.random_name(query).build(),
            3 => self.message_bits(query).build(),
            4 => self.frame_bits(&query),
            5 => self.cut_message(query).build(),
            6 => self.cut_frame(&query),
            7 => self.inserted(query).build(),
            8 => self.odd_opt(query).build(),
            _ => self.noise(query).build(),
        };
        (shape, frame)
    }

    /// A good query: any name, type, client, OPT, tag, padding, checksum.
    fn query(&mut self) -> Query {
        let mut name = self.random.pick(self.names).clone();
        self.mix_case(&mut name);
        let qtype = match self.random.below(10) {
            0..=3 => A,
            4..=6 => AAAA,
            7 => *self.random.pick(&[2, 5, 6, 15, 16, 33, 64, 65, 255, 65535]),
            _ => self.random.next() as u16,
        };
        let mut query = wire_query(name, qtype).id(self.random.next() as u16);
        let client = if self.random.once_in(2) {
            self.random.pick(&CLIENTS_V4)
        } else {
            self.random.pick(&CLIENTS_V6)
        };
        query = query.from(client);
        if self.random.once_in(4) {
            let mut octets = [0; 16];
            self.random.fill(&mut octets);
            let address = if query.source.is_ipv4() {
                std::net::IpAddr::from([octets[0], octets[1], octets[2], octets[3]])
            } else {
                std::net::IpAddr::from(octets)
            };
            query = query.from(&address.to_string());
        }
        query = query.source_port(1 + (self.random.next() % 65_535) as u16);
        query = query.checksum(self.random.next() as u16).ttl(self.random.next() as u8);
        if self.random.once_in(3) {
            // Any flags that a query may have.
            query = query.flags(self.random.next() as u16 & 0x07ff);
        }
        if self.random.once_in(4) {
            let protocol = *self.random.pick(&[0x8100, 0x88a8]);
            query = query.tag(protocol, self.random.next() as u16);
            if self.random.once_in(3) {
                query = query.tag(0x8100, self.random.next() as u16);
            }
        }
        if self.random.once_in(2) {
            let payload = *self.random.pick(&[0, 511, 512, 1232, 4096, 65535]);
            let ttl = if self.random.once_in(2) { 0x8000 } else { self.random.next() as u32 & 0xff00_ffff };
            let options = self.options();
            query = query.opt_with(payload, ttl, &options);
        }
        if self.random.once_in(4) {
            query = query.padded(60 + self.random.below(900), self.random.next() as u8);
        }
        query
    }

    fn mix_case(&mut self, name: &mut [u8]) {
        let mut at = 0;
        while name[at] != 0 {
            let end = at + 1 + usize::from(name[at]);
            for octet in &mut name[at + 1..end] {
                if octet.is_ascii_lowercase() && self.random.once_in(2) {
                    *octet = octet.to_ascii_uppercase();
                }
            }
            at = end;
        }
    }

    /// Options that fill an OPT; seldom more than are walked.
    fn options(&mut self) -> Vec<u8> {
        let count = match self.random.below(8) {
            0..=3 => 0,
            4..=6 => self.random.below(9),
            _ => self.random.below(20),
        };
        let mut out = Vec::new();
        for _ in 0..count {
            let mut data = vec![0; self.random.below(40)];
            self.random.fill(&mut data);
            let mut code =
                if self.random.once_in(2) { self.random.next() as u16 } else { self.random.below(20) as u16 };
            match self.random.below(6) {
                0 => (code, data) = (8, self.subnet()),
                1 => (code, data) = (10, self.cookie()),
                2 => code = 3,
                _ => {}
            }
            out.extend(code.to_be_bytes());
            out.extend((data.len() as u16).to_be_bytes());
            out.extend(data);
        }
        out
    }

    /// The data of an ECS option: mostly well-formed, near the borders of ranges.
    fn subnet(&mut self) -> Vec<u8> {
        let client: std::net::IpAddr = if self.random.once_in(2) {
            self.random.pick(&CLIENTS_V4)
        } else {
            self.random.pick(&CLIENTS_V6)
        }
        .parse()
        .expect("an address");
        let (family, mut octets) = match client {
            std::net::IpAddr::V4(a) => (1, a.octets().to_vec()),
            std::net::IpAddr::V6(a) => (2, a.octets().to_vec()),
        };
        if self.random.once_in(4) {
            self.random.fill(&mut octets);
        }
        let bits = self.random.below(octets.len() * 8 + 1);
        octets.truncate(bits.div_ceil(8));
        if let (Some(last), left @ 1..) = (octets.last_mut(), bits % 8) {
            *last &= 0xff << (8 - left);
        }
        let mut data = vec![0, family, bits as u8, 0];
        data.extend(octets);
        if self.random.once_in(6) {
            let at = self.random.below(data.len());
            data[at] ^= 1 << self.random.below(8);
        }
        data
    }

    /// The data of a cookie of a length that there is; never one that is valid.
    fn cookie(&mut self) -> Vec<u8> {
        let mut data = vec![0; *self.random.pick(&[8, 24, 24, 16, 40])];
        self.random.fill(&mut data);
        data
    }

    /// A name that differs from one of the table in little.
    fn near_miss(&mut self, mut query: Query) -> Query {
        let len = query.name.len();
        match self.random.below(5) {
            0 => {
                let at = self.random.below(len);
                query.name[at] = query.name[at].wrapping_add(1);
            }
            1 => {
                // One label less, or the root.
                let first = usize::from(query.name[0]);
                query.name.drain(..if first == 0 { 0 } else { first + 1 });
            }
            2 => {
                let label = 1 + self.random.below(20);
                let mut longer = vec![label as u8];
                longer.extend(std::iter::repeat_n(b'x', label));
                longer.extend(&query.name);
                query.name = longer;
            }
            3 => {
                // Another octet in a label, length kept right.
                let grown = query.name[0] + 1;
                if grown <= 63 {
                    query.name[0] = grown;
                    query.name.insert(1, b'a' + self.random.below(26) as u8);
                }
            }
            _ => {
                // Two labels become one, with a dot or not.
                let first = usize::from(query.name[0]);
                let second = usize::from(query.name[(first + 1).min(len - 1)]);
                if first > 0 && second > 0 && first + second < 63 {
                    query.name[0] = (first + 1 + second) as u8;
                    query.name[first + 1] = *self.random.pick(b".a\0");
                }
            }
        }
        query
    }

    fn random_name(&mut self, mut query: Query) -> Query {
        let mut name = Vec::new();
        for _ in 0..self.random.below(8) {
            let longest = if self.random.once_in(4) { 63 } else { 8 };
            let mut label = vec![0; 1 + self.random.below(longest)];
            self.random.fill(&mut label);
            name.push(label.len() as u8);
            name.extend(label);
        }
        name.push(0);
        query.name = name;
        query
    }

    /// Some bits of the message.
    fn message_bits(&mut self, query: Query) -> Query {
        let flips: Vec<(usize, u32)> = (0..=self.random.below(4))
            .map(|_| (self.random.below(1 << 20), self.random.next() as u32 % 8))
            .collect();
        // Half of them in the header and the first labels, where most is decided.
        let near = self.random.once_in(2);
        query.edit_dns(move |dns| {
            for (at, bit) in &flips {
                let range = if near { dns.len().min(24) } else { dns.len() };
                dns[at % range] ^= 1 << bit;
            }
        })
    }

    /// Some bits of the frame.
    fn frame_bits(&mut self, query: &Query) -> Vec<u8> {
        let mut frame = query.build();
        let range = if self.random.once_in(2) { frame.len() } else { frame.len().min(62) };
        for _ in 0..=self.random.below(3) {
            frame[self.random.below(range)] ^= 1 << self.random.below(8);
        }
        frame
    }

    /// A message that ends too soon, in a frame that fits it or is padded.
    fn cut_message(&mut self, query: Query) -> Query {
        let len = self.random.below(query.dns().len() + 1);
        query.edit_dns(move |dns| dns.truncate(len))
    }

    /// A frame that ends too soon.
    fn cut_frame(&mut self, query: &Query) -> Vec<u8> {
        let mut frame = query.build();
        frame.truncate(14 + self.random.below(frame.len() - 13));
        frame
    }

    /// Octets put into the message, or behind it.
    fn inserted(&mut self, query: Query) -> Query {
        let mut octets = vec![0; 1 + self.random.below(20)];
        self.random.fill(&mut octets);
        let at = self.random.below(1 << 20);
        let behind = self.random.once_in(3);
        query.edit_dns(move |dns| {
            let at = if behind { dns.len() } else { at % (dns.len() + 1) };
            dns.splice(at..at, octets.iter().copied());
        })
    }

    /// Something like OPT.
    fn odd_opt(&mut self, mut query: Query) -> Query {
        query.records.clear();
        query.counts[3] = 0;
        let count = 1 + self.random.below(2);
        for _ in 0..count {
            let mut options = self.options();
            if self.random.once_in(2) {
                options.truncate(self.random.below(options.len() + 1));
            }
            let owner = *self.random.pick(&OWNERS);
            let rtype = *self.random.pick(&[41_u16, 41, 41, 1, 250, 0x2900]);
            let mut record = owner.to_vec();
            record.extend(rtype.to_be_bytes());
            record.extend((self.random.next() as u16).to_be_bytes());
            record.extend([self.random.next() as u8, *self.random.pick(&[0, 0, 0, 1, 255])]);
            record.extend((self.random.next() as u16).to_be_bytes());
            let claimed = match self.random.below(4) {
                0 => self.random.below(64),
                _ => options.len(),
            };
            record.extend((claimed as u16).to_be_bytes());
            record.extend(options);
            query = query.record(&record);
        }
        if self.random.once_in(4) {
            query = query.claims(3, self.random.below(3) as u16);
        }
        query
    }

    /// A message of chance, or of a good header and chance.
    fn noise(&mut self, query: Query) -> Query {
        let mut octets = vec![0; self.random.below(600)];
        self.random.fill(&mut octets);
        let keep = if self.random.once_in(2) { 12 } else { 0 };
        query.edit_dns(move |dns| {
            dns.truncate(keep);
            dns.extend(&octets);
        })
    }
}
