//! One line of the table: a rule, a frame, what must become of it.

use responder_common::counters::Counter;
use responder_user::model::DnsName;

use crate::lab::{
    Lab,
    frame::Query,
    read::{self, Opt, Record, Reply},
    run::Verdict,
    second,
    world::{TTL, octets},
};

/// A line of the table.
pub struct Row {
    /// Reads like a rule.
    pub rule: String,
    /// The frame.
    pub frame: Query,
    /// What must become of it.
    pub want: Want,
}

/// What must become of a frame.
pub enum Want {
    /// Passed as it came, with this counter.
    Pass(Counter),
    /// Dropped, with this counter.
    Drop(Counter),
    /// Answered with these addresses in this order.
    Addresses(Vec<String>),
    /// Answered with this SOA and no record.
    NoData(Soa),
    /// Answered with TC and no record, with this counter.
    Truncated(Counter),
}

/// An SOA record as it must be read from a reply.
pub struct Soa {
    apex: String,
    mname: String,
    rname: String,
    numbers: [u32; 5],
    ttl: u32,
}

/// A row.
pub fn row(rule: &str, frame: Query, want: Want) -> Row {
    Row { rule: rule.to_owned(), frame, want }
}

/// Passed with a counter.
pub fn pass(counter: Counter) -> Want {
    Want::Pass(counter)
}

/// Dropped with a counter.
pub fn drop(counter: Counter) -> Want {
    Want::Drop(counter)
}

/// Truncated with a counter.
pub fn truncated(counter: Counter) -> Want {
    Want::Truncated(counter)
}

/// Answered with addresses of one type.
pub fn answer<S: AsRef<str>>(addresses: &[S]) -> Want {
    Want::Addresses(addresses.iter().map(|a| a.as_ref().to_owned()).collect())
}

/// No data, with the default SOA of a zone; the serial is the generation of the first plan.
pub fn no_data(apex: &str) -> Want {
    let below = |label: &str| if apex == "." { label.to_owned() } else { format!("{label}.{apex}") };
    Want::NoData(Soa {
        apex: apex.to_owned(),
        mname: below("ns1"),
        rname: below("hostmaster"),
        numbers: [1, 3600, 600, 86400, 5],
        ttl: 5,
    })
}

impl Want {
    /// Another primary name server.
    pub fn mname(mut self, mname: &str) -> Self {
        mname.clone_into(&mut self.soa().mname);
        self
    }

    /// Other numbers: serial, refresh, retry, expire, minimum; and the TTL.
    pub fn numbers(mut self, numbers: [u32; 5], ttl: u32) -> Self {
        let soa = self.soa();
        (soa.numbers, soa.ttl) = (numbers, ttl);
        self
    }

    fn soa(&mut self) -> &mut Soa {
        match self {
            Self::NoData(soa) => soa,
            _ => panic!("only an answer without data has an SOA"),
        }
    }

    fn verdict(&self) -> Verdict {
        match self {
            Self::Pass(_) => Verdict::Pass,
            Self::Drop(_) => Verdict::Drop,
            Self::Addresses(_) | Self::NoData(_) | Self::Truncated(_) => Verdict::Tx,
        }
    }

    fn counter(&self, query: &Query) -> Counter {
        match self {
            Self::Pass(counter) | Self::Drop(counter) | Self::Truncated(counter) => *counter,
            Self::Addresses(_) if query.qtype == 28 => Counter::AnswerAaaa,
            Self::Addresses(_) => Counter::AnswerA,
            Self::NoData(_) => Counter::AnswerNodata,
        }
    }

    /// The reply that answers a query.
    pub fn reply(&self, query: &Query) -> Reply {
        let question = [&query.name[..], &query.qtype.to_be_bytes(), &query.qclass.to_be_bytes()].concat();
        let mut reply = Reply {
            id: query.id,
            // QR and AA; RD and CD as asked (RFC 1035 4.1.1, RFC 4035 3.2.2).
            flags: 0x8400 | (query.flags & 0x0110),
            question,
            answers: Vec::new(),
            authority: Vec::new(),
            opt: opt(&query.records),
        };
        match self {
            Self::Addresses(addresses) => {
                let record = |address: &String| Record {
                    owner: query.name.clone(),
                    rtype: query.qtype,
                    ttl: TTL,
                    data: octets(address),
                };
                reply.answers = addresses.iter().map(record).collect();
            }
            Self::NoData(soa) => reply.authority = vec![soa.record(query)],
            Self::Truncated(_) => reply.flags |= 0x0200,
            Self::Pass(_) | Self::Drop(_) => {}
        }
        reply
    }
}

impl Soa {
    fn record(&self, query: &Query) -> Record {
        // The apex is written as a pointer into the question, so it has the case of the question.
        let apex = wire(&self.apex);
        let tail = query.name[query.name.len() - apex.len()..].to_vec();
        let cased = |name: &str| {
            let mut name = wire(name);
            if name.ends_with(&apex) {
                name.truncate(name.len() - apex.len());
                name.extend(&tail);
            }
            name
        };
        let mut data = cased(&self.mname);
        data.extend(cased(&self.rname));
        data.extend(self.numbers.iter().flat_map(|number| number.to_be_bytes()));
        Record { owner: tail, rtype: 6, ttl: self.ttl, data }
    }
}

fn wire(name: &str) -> Vec<u8> {
    DnsName::parse(name).unwrap_or_else(|error| panic!("{error}")).wire().to_vec()
}

/// Our OPT: if and only if the query has one, and DO as asked (RFC 6891 6.1.1, RFC 3225).
fn opt(records: &[u8]) -> Option<Opt> {
    let dnssec_ok = u32::from(*records.get(7)? & 0x80) << 8;
    Some(Opt { payload: 1232, ttl: dnssec_ok, options: Vec::new() })
}

/// Runs a row. Err: what is wrong.
pub fn run(lab: &mut Lab, row: &Row) -> Result<(), String> {
    lab.rewind();
    let frame = row.frame.build();
    let before = lab.counters();
    let (verdict, out) = lab.runner().once(&frame);
    let risen = Lab::risen(&before, &lab.counters());
    let wanted = [(row.want.counter(&row.frame).name(), 1)];
    if verdict != row.want.verdict() || risen != wanted {
        let want = row.want.verdict();
        return Err(format!("{verdict:?} with {risen:?}, wanted {want:?} with {wanted:?}"));
    }
    if verdict != Verdict::Tx {
        return if out == frame { Ok(()) } else { Err(format!("the frame was changed: {out:02x?}")) };
    }
    check(&row.frame, &frame, &out, &row.want.reply(&row.frame)).map_err(|e| format!("{e}\n{out:02x?}"))
}

/// Compares a reply frame with what it must say.
pub fn check(query: &Query, frame: &[u8], out: &[u8], wanted: &Reply) -> Result<(), String> {
    read::check_frame(frame, out)?;
    let message = read::message(out)?;
    let reply = read::reply(message)?;
    if reply != *wanted {
        return Err(format!("{reply:02x?}\nwanted {wanted:02x?}"));
    }
    // The question stands octet for octet, and a second reader agrees that this is a message.
    let end = 12 + wanted.question.len();
    if message[12..end] != query.dns()[12..end] {
        return Err("the question is not the one that was asked".to_owned());
    }
    second::message(message).map(|_| ())
}
