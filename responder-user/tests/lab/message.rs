//! What a DNS message asks, read by the RFCs once more: it shares no code with the product. The fuzz targets read by it
//! too.

/// Octets of the longest name that the program compares.
pub const FAST: usize = 104;

/// A query of the one shape that is answered from the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The name in lower case.
    pub name: Vec<u8>,
    /// The type.
    pub qtype: u16,
    /// Octets of header and question.
    pub end: usize,
    /// Payload size and TTL field of OPT.
    pub opt: Option<(u16, u32)>,
}

impl Question {
    /// True if a label has a zero octet in it: the program, which reads names up to the first one, leaves it to a worker.
    pub fn has_zero(&self) -> bool {
        self.name.iter().position(|octet| *octet == 0) != Some(self.name.len() - 1)
    }
}

fn n16(octets: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(*octets.get(at)?) << 8 | usize::from(*octets.get(at + 1)?))
}

/// Reads a message; None if it is not of the one shape, or its name has more than `longest` octets.
pub fn question(dns: &[u8], longest: usize) -> Option<Question> {
    let is_query = dns.get(2)? & 0xf8 == 0;
    let counts = [n16(dns, 4)?, n16(dns, 6)?, n16(dns, 8)?, n16(dns, 10)?];
    let mut at = 12;
    loop {
        match usize::from(*dns.get(at)?) {
            0 => break,
            label @ 1..=63 => at += label + 1,
            _ => return None,
        }
    }
    let name = dns.get(12..=at)?.to_ascii_lowercase();
    let (qtype, class) = (n16(dns, at + 1)? as u16, n16(dns, at + 3)?);
    let end = at + 5;
    let is_data = qtype != 0 && qtype != 41 && !(249..=255).contains(&qtype);
    if !is_query || counts[..3] != [1, 0, 0] || name.len() > longest || class != 1 || !is_data {
        return None;
    }
    let opt = match counts[3] {
        0 => None,
        1 => Some(read_opt(dns.get(end..)?)?),
        _ => return None,
    };
    (opt.is_some() || end == dns.len()).then_some(Question { name, qtype, end, opt })
}

/// An OPT record that is all of these octets.
fn read_opt(record: &[u8]) -> Option<(u16, u32)> {
    let head: &[u8; 11] = record.first_chunk()?;
    let mut options = &record[11..];
    let is_opt = head[..3] == [0, 0, 41] && head[6] == 0;
    if !is_opt || n16(head, 9)? != options.len() {
        return None;
    }
    let mut count = 0;
    while !options.is_empty() {
        options = options.get(4 + n16(options, 2)?..)?;
        count += 1;
    }
    let ttl = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    (count <= 8).then_some((n16(head, 3)? as u16, ttl))
}
