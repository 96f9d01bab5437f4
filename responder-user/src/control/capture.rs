//! `capture` and `stats --top`: single packets from the program's ring buffer to those who listen.
//!
//! ```text
//! program -> ring buffer -> thread (name, bounds) -> bounded feed -> connection -> responderctl: pcap, lines, top names
//! ```
//!
//! Every stage is bounded and drops rather than waits: what the ring buffer had no room for is counted by the program,
//! what a connection was too slow for by its feed, and both are said at the end.

pub mod frame;
pub mod top;

use std::{
    io,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, SystemTime},
};

use aya::maps::{MapData, RingBuf};
use ipnet::IpNet;
use nix::time::{ClockId, clock_gettime};
use responder_common::{
    counters::Counter,
    sample::{ANSWER, Filter, Head, QUERY, SNAP},
};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use super::{Refusal, events::rfc3339};
use crate::model::DnsName;

/// Samples that a connection may lag behind before it misses some.
pub const LAG: usize = 2048;

/// Between two looks into the ring buffer, which holds 1,489 frames.
const PAUSE: Duration = Duration::from_millis(1);

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Queries for this name alone.
    #[serde(default)]
    pub name: Option<String>,
    /// Of clients in this prefix alone.
    #[serde(default)]
    pub client: Option<IpNet>,
    /// One of so many.
    #[serde(default = "one")]
    pub every: u64,
    /// Answers and verdicts as well.
    #[serde(default)]
    pub answers: bool,
}

fn one() -> u64 {
    1
}

impl Wanted {
    /// What the program compares, and the whole name, which it does not.
    pub fn filter(&self) -> Result<(Filter, Option<DnsName>), Refusal> {
        if self.every == 0 {
            return Err(Refusal::new("--sample: 1/0 is no share; allowed is 1/1 and on"));
        }
        let mut filter = Filter { every: self.every, answers: self.answers.into(), ..Filter::ALL };
        let mut whole = None;
        if let Some(name) = &self.name {
            let name = DnsName::parse(name).map_err(|error| Refusal::new(format!("--name: {error}")))?;
            filter = filter.with_name(name.wire());
            whole = Some(name);
        }
        if let Some(prefix) = self.client {
            let (bits, address) = match prefix.network() {
                IpAddr::V4(address) => (96 + u32::from(prefix.prefix_len()), address.to_ipv6_mapped()),
                IpAddr::V6(address) => (prefix.prefix_len().into(), address),
            };
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0).to_be_bytes();
            filter.client = bytemuck::cast(address.octets());
            filter.client_mask = bytemuck::cast(mask);
        }
        Ok((filter, whole))
    }
}

/// One packet, or what became of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// RFC 3339, UTC, milliseconds.
    pub time: String,
    /// The same in nanoseconds since 1970.
    pub nanoseconds: u64,
    /// "query", "answer", or "verdict" without a frame.
    pub kind: String,
    /// Number of the query on its CPU: its answer has the same.
    pub number: u64,
    /// CPU.
    pub cpu: u32,
    /// Index of the interface.
    pub ifindex: u32,
    /// Counter of what became of the query; none in a query.
    #[serde(default)]
    pub verdict: Option<String>,
    /// Octets of the frame on the wire.
    pub length: u32,
    /// The frame in hexadecimal, at most 640 octets of it.
    pub frame: String,
}

impl Sample {
    /// The octets of the frame.
    pub fn octets(&self) -> Vec<u8> {
        let digits = self.frame.as_bytes();
        let digit = |at: usize| digits.get(at).and_then(|d| (*d as char).to_digit(16)).unwrap_or(0) as u8;
        (0..digits.len() / 2).map(|i| digit(2 * i) << 4 | digit(2 * i + 1)).collect()
    }
}

fn hex(octets: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    octets
        .iter()
        .flat_map(|o| [DIGITS[usize::from(o >> 4)] as char, DIGITS[usize::from(o & 15)] as char])
        .collect()
}

/// Hands out receivers of samples.
#[derive(Clone, Debug)]
pub struct SampleFeed(broadcast::Sender<Arc<Sample>>);

impl Default for SampleFeed {
    fn default() -> Self {
        Self(broadcast::Sender::new(LAG))
    }
}

impl SampleFeed {
    /// Everything that is told from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Sample>> {
        self.0.subscribe()
    }

    /// For tests of those who listen.
    pub fn send(&self, sample: Sample) {
        // Nobody listening is no fault.
        let _ = self.0.send(Arc::new(sample));
    }
}

/// The thread that empties the ring buffer while somebody listens.
#[derive(Debug)]
pub struct Drain {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drain {
    /// Starts it. What stands in the buffer from before is thrown away.
    pub fn start(mut ring: RingBuf<MapData>, name: Option<DnsName>, feed: SampleFeed) -> io::Result<Self> {
        while ring.next().is_some() {}
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = stop.clone();
        let thread = std::thread::Builder::new().name("samples".to_owned()).spawn(move || {
            let mut reader = Reader { name, feed, left_out: None };
            while !is_over.load(Ordering::Relaxed) {
                let offset = clock_offset();
                // A turn is bounded, so that the end is seen under any load.
                for _ in 0..10_000 {
                    let Some(record) = ring.next() else { break };
                    reader.take(&record, offset);
                }
                std::thread::sleep(PAUSE);
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of samples had ended by a fault of ours");
        }
    }
}

/// Wall time less monotonic time, nanoseconds.
fn clock_offset() -> u64 {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let monotonic = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    (wall.as_nanos() as u64).wrapping_sub(monotonic.as_nanos() as u64)
}

struct Reader {
    /// The program compares 16 octets of it.
    name: Option<DnsName>,
    feed: SampleFeed,
    /// CPU and number of a query for another name: what became of it is left out as well.
    left_out: Option<(u32, u64)>,
}

impl Reader {
    fn take(&mut self, record: &[u8], offset: u64) {
        let Some((head, frame)) = record.split_at_checked(size_of::<Head>()) else { return };
        let head: Head = bytemuck::pod_read_unaligned(head);
        let captured = (head.captured as usize).min(SNAP);
        let frame = if head.kind == QUERY || head.kind == ANSWER {
            frame.get(..captured).unwrap_or_default()
        } else {
            &[]
        };
        if head.kind == QUERY
            && let Some(name) = &self.name
            && frame::read(frame).is_none_or(|seen| seen.name != *name)
        {
            self.left_out = Some((head.cpu, head.number));
            return;
        }
        if self.left_out == Some((head.cpu, head.number)) {
            return;
        }
        let nanoseconds = head.time.wrapping_add(offset);
        let verdict = Counter::ALL.get(head.slot as usize).filter(|_| head.kind != QUERY);
        self.feed.send(Sample {
            time: rfc3339(SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds)),
            nanoseconds,
            kind: match head.kind {
                QUERY => "query",
                ANSWER => "answer",
                _ => "verdict",
            }
            .to_owned(),
            number: head.number,
            cpu: head.cpu,
            ifindex: head.ifindex,
            verdict: verdict.map(|counter| counter.name().to_owned()),
            length: head.len,
            frame: hex(frame),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_says_what_was_asked_for() {
        let all = Wanted { name: None, client: None, every: 1, answers: true };
        assert_eq!(all.filter().unwrap(), (Filter::ALL, None));
        let wanted = Wanted {
            name: Some("WWW.Example.com".to_owned()),
            client: Some("192.0.2.0/24".parse().unwrap()),
            every: 10,
            answers: false,
        };
        let (filter, name) = wanted.filter().unwrap();
        assert_eq!((filter.every, filter.answers), (10, 0));
        assert_eq!(name, Some(DnsName::parse("www.example.com").unwrap()));
        assert_eq!(bytemuck::cast::<_, [u8; 16]>(filter.name), *b"\x03www\x07example\x03com");
        assert_eq!(bytemuck::cast::<_, [u8; 16]>(filter.name_mask), [0xff; 16]);
        let client: [u8; 16] = bytemuck::cast(filter.client);
        assert_eq!(client, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 0]);
        let mask: [u8; 16] = bytemuck::cast(filter.client_mask);
        assert_eq!(mask[14..], [0xff, 0], "a /24 of IPv4 is a /120");
        let short = Wanted { name: Some("a.b".to_owned()), ..wanted.clone() }.filter().unwrap().0;
        assert_eq!(bytemuck::cast::<_, [u8; 16]>(short.name_mask)[..6], [0xff, 0xff, 0xff, 0xff, 0xff, 0]);
        let everybody =
            Wanted { client: Some("::/0".parse().unwrap()), ..wanted.clone() }.filter().unwrap().0;
        assert_eq!(everybody.client_mask, [0, 0]);
        assert!(Wanted { every: 0, ..wanted.clone() }.filter().is_err());
        assert!(Wanted { name: Some("a..b".to_owned()), ..wanted }.filter().is_err());
    }

    #[test]
    fn octets_go_through_text() {
        let all: Vec<u8> = (0..=255).collect();
        let sample = Sample {
            time: String::new(),
            nanoseconds: 0,
            kind: "query".to_owned(),
            number: 1,
            cpu: 0,
            ifindex: 1,
            verdict: None,
            length: 256,
            frame: hex(&all),
        };
        assert_eq!(sample.octets(), all);
    }

    #[test]
    fn records_of_any_shape_do_not_panic() {
        let feed = SampleFeed::default();
        let mut heard = feed.subscribe();
        let mut reader = Reader { name: Some(DnsName::parse("a.b").unwrap()), feed, left_out: None };
        for len in 0..800 {
            for octet in [0, 1, 2, 3, 0xff] {
                reader.take(&vec![octet; len], u64::MAX);
            }
        }
        while heard.try_recv().is_ok() {}
    }
}
