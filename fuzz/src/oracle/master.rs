//! A master file: the records of a zone, or problems with their places.

use std::path::{Path, PathBuf};

use responder_common::limits::MAX_TTL;
use responder_user::{model::DnsName, worker::master};

use super::{read, second};

/// Reads a file as the zone example.com, with a zone of ours below it.
pub fn check(octets: &[u8]) {
    // $INCLUDE would read files of the machine.
    if octets.to_ascii_uppercase().windows(8).any(|word| word == b"$INCLUDE") {
        return;
    }
    let apex = DnsName::parse("example.com").expect("a name");
    let child = DnsName::parse("child.example.com").expect("a name");
    let path = PathBuf::from("fuzz.zone");
    match master::parse(octets, &path, &apex, &[&child]) {
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a problem");
            let lines = octets.split(|octet| *octet == b'\n').count();
            for problem in problems {
                assert_eq!(problem.path, Path::new("fuzz.zone"));
                assert!((1..=lines).contains(&(problem.line as usize)) && problem.column >= 1, "{problem}");
                assert!(!problem.message.trim().is_empty(), "{problem:?}");
            }
        }
        Ok(contents) => {
            for (owner, sets) in &contents.names {
                let owner = DnsName::from_wire(owner).unwrap_or_else(|| panic!("no name: {owner:02x?}"));
                assert!(owner.is_under(&apex) && !owner.is_under(&child), "{owner} is not of this zone");
                assert!(sets.iter().all(|set| !set.records.is_empty() && set.ttl <= MAX_TTL));
                for set in sets {
                    set.records.iter().for_each(|data| readable(&owner, set.rtype, data));
                }
            }
        }
    }
}

/// A record of this data is one that others read.
fn readable(owner: &DnsName, rtype: u16, data: &[u8]) {
    let mut message = vec![0, 1, 0x84, 0, 0, 1, 0, 1, 0, 0, 0, 0];
    message.extend(owner.wire());
    message.extend(rtype.to_be_bytes());
    message.extend([0, 1, 0xc0, 12]);
    message.extend(rtype.to_be_bytes());
    message.extend([0, 1, 0, 0, 0, 5]);
    message.extend(u16::try_from(data.len()).expect("data of one record").to_be_bytes());
    message.extend(data);
    if let Err(error) = read::reply(&message).and_then(|_| second::message(&message)) {
        panic!("{owner} {rtype}: {error}: {data:02x?}");
    }
}
