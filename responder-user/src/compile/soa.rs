//! Starts of authority in pieces that can be written under any name of their zone.

use bytemuck::Zeroable;
use responder_common::layout::{self, SOA_FIXED_SERIAL, SOA_MNAME_IN_ZONE, SOA_RNAME_IN_ZONE};

use crate::model::{DnsName, zone::Soa};

/// Slot of the default SOA of names that are their own apex: `ns1` and `hostmaster` below whatever the apex is.
pub const OWN_APEX: u32 = 0;

/// Slot of the same for names so long that no label fits below them.
pub const OWN_APEX_LONG: u32 = 1;

/// Slot of the first configured zone.
pub const FIRST_ZONE: u32 = 2;

/// The longest name that still has room for `hostmaster` below it.
pub const LONGEST_WITH_ROOM: usize = 255 - 11;

/// The pieces of a zone's SOA.
pub fn soa(apex: &DnsName, soa: &Soa) -> layout::Soa {
    let mut out = layout::Soa {
        negative_ttl: soa.ttl.min(soa.minimum),
        ttl: soa.ttl,
        serial: soa.serial.unwrap_or(0),
        timers: [soa.refresh, soa.retry, soa.expire, soa.minimum],
        ..layout::Soa::zeroed()
    };
    if soa.serial.is_some() {
        out.flags |= SOA_FIXED_SERIAL;
    }
    let mut place = |name: &DnsName, bit: u8, words: &mut [u64]| {
        let mut labels = name.wire();
        // The root as an apex would be a pointer of two octets for a name of one.
        if apex.wire().len() > 1 && name.is_under(apex) {
            labels = &labels[..labels.len() - apex.wire().len()];
            out.flags |= bit;
        }
        bytemuck::cast_slice_mut::<u64, u8>(words)[..labels.len()].copy_from_slice(labels);
        labels.len() as u8
    };
    let (mut mname, mut rname) = (out.mname, out.rname);
    let mname_len = place(&soa.mname, SOA_MNAME_IN_ZONE, &mut mname);
    let rname_len = place(&soa.rname, SOA_RNAME_IN_ZONE, &mut rname);
    layout::Soa { mname, rname, mname_len, rname_len, ..out }
}

/// The SOA of a name that is its own apex (spec/config.md 2): the same pieces for every such name.
pub fn own_apex(has_room: bool) -> layout::Soa {
    let apex = DnsName::parse("apex").unwrap_or_else(|_| DnsName::root());
    let mut default = Soa::default_for(&apex);
    if !has_room {
        default.mname = apex.clone();
        default.rname = apex.clone();
    }
    soa(&apex, &default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_the_zone_end_in_the_apex() {
        let apex = DnsName::parse("example.com").unwrap();
        let out = soa(&apex, &Soa::default_for(&apex));
        assert_eq!((out.mname_len, out.rname_len), (4, 11));
        assert_eq!(out.flags, SOA_MNAME_IN_ZONE | SOA_RNAME_IN_ZONE);
        assert_eq!(&bytemuck::cast_slice::<u64, u8>(&out.mname)[..5], b"\x03ns1\x00");
        let elsewhere = Soa {
            mname: DnsName::parse("ns.other.net").unwrap(),
            serial: Some(7),
            ..Soa::default_for(&apex)
        };
        let out = soa(&apex, &elsewhere);
        assert_eq!((out.mname_len, out.flags), (14, SOA_RNAME_IN_ZONE | SOA_FIXED_SERIAL));
        assert_eq!(own_apex(false).mname_len, 0);
    }
}
