//! From the octets of a file to what they say, whatever has become of them.

use super::{
    Record, State,
    frame::{self, Found, HEADER, Header},
};

/// What a replay met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Records that count.
    pub records: u64,
    /// Where the file ends in a record that was never finished.
    pub torn: Option<u64>,
    /// Where damaged parts begin, the first few of them.
    pub damaged: Vec<u64>,
    /// The version of the file, where it is another than ours: nothing of it was read.
    pub other_version: Option<u32>,
    /// It is no journal at all.
    pub is_foreign: bool,
}

impl Findings {
    /// True if the file can go on as it is.
    pub fn is_clean(&self) -> bool {
        self.torn.is_none() && self.is_whole()
    }

    /// True if nothing that was once written is lost.
    pub fn is_whole(&self) -> bool {
        self.damaged.is_empty() && self.other_version.is_none() && !self.is_foreign
    }
}

/// What a file says.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// What its records add up to.
    pub state: State,
    /// What was met.
    pub findings: Findings,
    /// The number of the last record.
    pub number: u64,
}

/// Damaged parts that are listed.
const LISTED: usize = 16;

/// Reads a whole file. Of a file that is cut anywhere the records that are whole count; damaged records count as if they
/// did not exist, and then no observation counts ([`Record::is_observation`]): the lost record may have said otherwise.
pub fn replay(octets: &[u8]) -> Replay {
    let mut out = Replay::default();
    if octets.is_empty() {
        return out;
    }
    let mut at = HEADER;
    match frame::read_header(octets) {
        Header::Right => {}
        Header::Torn => {
            out.findings.torn = Some(0);
            return out;
        }
        Header::Version(version) => {
            out.findings.other_version = Some(version);
            return out;
        }
        // The mark of each frame says the version, too.
        Header::Wrong => {
            let Some(first) = frame::next_whole(octets, 0) else {
                out.findings.is_foreign = true;
                return out;
            };
            out.findings.damaged.push(0);
            at = first;
        }
    }
    out.read(octets, at);
    if !out.findings.damaged.is_empty() {
        out.state.forget_observations();
    }
    out
}

impl Replay {
    fn read(&mut self, octets: &[u8], mut at: usize) {
        // Not where it is known that some are missing.
        let mut is_followed = false;
        while at < octets.len() {
            match frame::take(&octets[at..]) {
                Found::Frame { number, body, length } => {
                    if is_followed && number != self.number + 1 {
                        self.damage(at);
                    }
                    is_followed = true;
                    self.number = self.number.max(number);
                    match Record::decode(body) {
                        Some(record) => {
                            self.state.apply(record);
                            self.findings.records += 1;
                        }
                        None => self.damage(at),
                    }
                    at += length;
                }
                Found::Torn => {
                    self.findings.torn = Some(at as u64);
                    return;
                }
                Found::Damaged => {
                    self.damage(at);
                    is_followed = false;
                    match frame::next_whole(octets, at + 1) {
                        Some(next) => at = next,
                        None => return,
                    }
                }
            }
        }
    }

    fn damage(&mut self, at: usize) {
        if self.findings.damaged.len() < LISTED {
            self.findings.damaged.push(at as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::journal::{Figure, Kind, Scope, Session, SessionKind, Stamp, TypeMemory};

    fn name() -> impl Strategy<Value = String> {
        // Few names, so that records meet; some that look like parts of a file.
        prop_oneof!["[a-c]", Just("responder-jrnl\n\0".to_owned()), "\\PC{0,12}"]
    }

    fn stamp() -> impl Strategy<Value = Stamp> {
        any::<(u64, u64, u64)>().prop_map(|(boot, uptime, wall)| Stamp { boot, uptime, wall })
    }

    fn figure() -> impl Strategy<Value = Figure> {
        (name(), 0.0..1e12, stamp()).prop_map(|(name, value, at)| Figure { name, value, at })
    }

    fn memory() -> impl Strategy<Value = TypeMemory> {
        (any::<u16>(), any::<[bool; 3]>(), any::<u64>()).prop_map(
            |(rtype, [was_up, latched, spilled], spill_ended)| TypeMemory {
                rtype,
                was_up,
                latched,
                spilled,
                spill_ended,
            },
        )
    }

    fn scope() -> impl Strategy<Value = Scope> {
        prop_oneof![
            (0_u16..3).prop_map(Scope::Id),
            name().prop_map(Scope::Vserver),
            (name(), name()).prop_map(|(vserver, domain)| Scope::Domain(vserver, domain)),
        ]
    }

    fn client() -> impl Strategy<Value = ipnet::IpNet> {
        (any::<IpAddr>(), 0_u8..=32)
            .prop_map(|(address, bits)| ipnet::IpNet::new(address, bits).unwrap().trunc())
    }

    fn session() -> impl Strategy<Value = Session> {
        let link = proptest::option::of(name());
        (scope(), client(), link, name(), any::<bool>(), any::<(u64, u64)>(), stamp()).prop_map(
            |(scope, client, link, service, is_spilled, (expires, since), at)| {
                let kind = if is_spilled { SessionKind::Spillover } else { SessionKind::SourceIp };
                Session { scope, client, link, service, kind, expires, since, at }
            },
        )
    }

    /// Any record.
    fn record() -> impl Strategy<Value = Record> {
        let kind = prop_oneof![Just(Kind::Service), Just(Kind::Vserver), Just(Kind::Monitor)];
        let states = any::<[Option<bool>; 3]>();
        prop_oneof![
            any::<(u64, u64)>().prop_map(|(generation, boot)| Record::Plan { generation, boot }),
            (kind, name(), any::<bool>()).prop_map(|(kind, name, enabled)| Record::Enabled {
                kind,
                name,
                enabled
            }),
            (name(), proptest::option::of(name()), any::<Option<bool>>())
                .prop_map(|(service, monitor, up)| Record::Forced { service, monitor, up }),
            (name(), vec(figure(), 0..4)).prop_map(|(service, figures)| Record::Load { service, figures }),
            (name(), states, stamp()).prop_map(|(service, [primary_up, effective_up, above], at)| {
                Record::Report { service, primary_up, effective_up, above, at }
            }),
            (name(), any::<u64>(), vec(memory(), 0..4)).prop_map(|(vserver, boot, types)| Record::Memory {
                vserver,
                boot,
                types
            }),
            (name(), any::<IpAddr>(), any::<Option<bool>>())
                .prop_map(|(service, address, up)| Record::Address { service, address, up }),
            (name(), any::<IpAddr>(), name(), any::<u32>(), any::<Option<bool>>()).prop_map(
                |(service, address, monitor, question, up)| Record::Check {
                    service,
                    address,
                    monitor,
                    question,
                    up
                }
            ),
            session().prop_map(Record::Session),
            (scope(), client()).prop_map(|(scope, client)| Record::SessionEnd { scope, client }),
        ]
    }

    /// The file, and where each record ends.
    fn file(records: &[Record]) -> (Vec<u8>, Vec<usize>) {
        let mut out = frame::header().to_vec();
        let mut ends = Vec::new();
        for (i, record) in records.iter().enumerate() {
            frame::put(&mut out, 40 + i as u64, &record.encode().unwrap());
            ends.push(out.len());
        }
        (out, ends)
    }

    fn state_of<'a>(records: impl IntoIterator<Item = &'a Record>) -> State {
        let mut state = State::default();
        records.into_iter().for_each(|record| state.apply(record.clone()));
        state
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(records in vec(record(), 0..20)) {
            let (octets, _) = file(&records);
            let read = replay(&octets);
            prop_assert_eq!(&read.state, &state_of(&records));
            prop_assert!(read.findings.is_clean());
            prop_assert_eq!(read.findings.records, records.len() as u64);
            prop_assert_eq!(read.number, if records.is_empty() { 0 } else { 39 + records.len() as u64 });
            for record in &records {
                let again = Record::decode(&record.encode().unwrap());
                prop_assert_eq!(again.as_ref(), Some(record));
            }
        }

        #[test]
        fn a_file_cut_anywhere_says_what_its_whole_records_say(records in vec(record(), 1..12), cut in any::<prop::sample::Index>()) {
            let (octets, ends) = file(&records);
            let cut = cut.index(octets.len());
            let whole = ends.iter().filter(|end| **end <= cut).count();
            let read = replay(&octets[..cut]);
            prop_assert_eq!(&read.state, &state_of(&records[..whole]));
            prop_assert!(read.findings.damaged.is_empty() && read.findings.is_whole());
            let is_between = cut == 0 || cut == HEADER || ends.contains(&cut);
            prop_assert_eq!(read.findings.torn.is_some(), !is_between);
        }

        /// What lies in the damaged part is as if it had never been written; everything else stands, observations apart.
        #[test]
        fn octets_changed_anywhere_take_their_records_alone(
            records in vec(record(), 1..12),
            at in any::<prop::sample::Index>(),
            change in vec(1_u8.., 1..4),
        ) {
            let (mut octets, ends) = file(&records);
            let at = at.index(octets.len());
            let end = (at + change.len()).min(octets.len());
            octets[at..end].iter_mut().zip(&change).for_each(|(octet, change)| *octet ^= change);
            let read = replay(&octets);
            let starts = std::iter::once(HEADER).chain(ends.iter().copied());
            let kept: Vec<&Record> = starts.zip(&ends).zip(&records)
                .filter(|((start, finish), _)| at >= **finish || end <= *start)
                .map(|(_, record)| record)
                .collect();
            let mut expected = state_of(kept.iter().copied());
            expected.forget_observations();
            prop_assert!(!read.findings.is_whole());
            if !kept.is_empty() {
                prop_assert_eq!(&read.state, &expected);
            }
        }

        #[test]
        fn nothing_makes_it_panic(octets in vec(any::<u8>(), 0..400)) {
            let read = replay(&octets);
            prop_assert!(octets.is_empty() || !read.findings.is_clean());
        }
    }

    #[test]
    fn a_gap_in_the_numbers_is_damage() {
        let up = |name: &str| Record::Address {
            service: name.to_owned(),
            address: "192.0.2.1".parse().unwrap(),
            up: Some(true),
        };
        let mut octets = frame::header().to_vec();
        frame::put(&mut octets, 1, &up("a").encode().unwrap());
        let at = octets.len() as u64;
        frame::put(&mut octets, 3, &up("b").encode().unwrap());
        let read = replay(&octets);
        assert_eq!((read.findings.damaged, read.state.len()), (vec![at], 0));
    }

    #[test]
    fn other_files_are_not_read() {
        let mut newer = frame::header().to_vec();
        newer[16] = 2;
        let sum = crc32fast::hash(&newer[..20]);
        newer[20..24].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(replay(&newer).findings.other_version, Some(2));
        assert!(replay(b"# a file of somebody else, that was called so\n").findings.is_foreign);
        assert!(replay(b"x").findings.is_foreign);
    }
}
