//! The options of an OPT record, read and answered (RFC 6891 6.1.2, 7871, 7873, 9018, 5001).
//!
//! The first octet of the input says who asks (bit 1 IPv6), the rest are the options.

use responder_common::{
    counters::Counter,
    limits::{FAST_NAME_WORDS, MAX_OPTIONS},
    name::HashKey,
    parse::{self, Query},
};
use responder_user::worker::{
    Outcome, Transport,
    answer::{self, Origin},
    testing::query_of,
};

use super::{
    read,
    stage::{client, stage},
};

const NSID: u16 = 3;
const SUBNET: u16 = 8;
const COOKIE: u16 = 10;

/// One option: code and data.
type Found<'o> = (u16, &'o [u8]);

/// Reads and answers a query with these options.
pub fn check(octets: &[u8]) {
    let Some((who, options)) = octets.split_first() else { return };
    // One datagram; longer lists can only come by TCP.
    let options = &options[..options.len().min(4000)];
    let mut query = query_of(b"\x03one\x07example\x03com\0", 1, Some((1232, true)));
    let at = query.len() - 2;
    query[at..].copy_from_slice(&(options.len() as u16).to_be_bytes());
    query.extend(options);
    let key = HashKey { seed: 1, multiplier: 3 };
    let parsed = parse::parse::<[u8], FAST_NAME_WORDS>(&query, key);
    let list = list(options);
    match (&list, &parsed) {
        (Some(list), Ok(query)) => {
            assert!(list.len() <= MAX_OPTIONS, "more options than are walked");
            compare(list, query);
        }
        (Some(list), Err(counter)) => {
            assert!(list.len() > MAX_OPTIONS, "{counter:?}: {list:02x?}");
            assert_eq!(*counter, Counter::PassManyOptions);
        }
        (None, Err(Counter::PassOpt | Counter::PassManyOptions)) => {}
        (None, other) => panic!("{other:02x?} of options that do not add up"),
    }
    answered(&query, list.as_deref(), who & 2 != 0);
}

/// The options; None where their lengths do not add up.
fn list(mut octets: &[u8]) -> Option<Vec<Found<'_>>> {
    let mut out = Vec::new();
    while !octets.is_empty() {
        let (head, rest) = octets.split_at_checked(4)?;
        let (data, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([head[2], head[3]])))?;
        out.push((u16::from_be_bytes([head[0], head[1]]), data));
        octets = rest;
    }
    Some(out)
}

/// The data of the first option of a kind: the others do not count.
fn first<'o>(list: &[Found<'o>], code: u16) -> Option<&'o [u8]> {
    list.iter().find(|(found, _)| *found == code).map(|(_, data)| *data)
}

/// Family, prefix length and address of a well-formed ECS option of a query (RFC 7871 6). Err: it is not.
fn subnet(data: &[u8]) -> Result<(u16, u8, &[u8]), ()> {
    let (head, address) = data.split_at_checked(4).ok_or(())?;
    let (family, bits, scope) = (u16::from_be_bytes([head[0], head[1]]), head[2], head[3]);
    let most = match family {
        0 => 0,
        1 => 32,
        2 => 128,
        _ => return Err(()),
    };
    let spare = (8 - bits % 8) % 8;
    let is_cut = address.last().is_none_or(|last| last.trailing_zeros() >= u32::from(spare));
    if scope != 0 || bits > most || address.len() != usize::from(bits.div_ceil(8)) || !is_cut {
        return Err(());
    }
    Ok((family, bits, address))
}

/// A cookie has 8 octets, or 16 to 40 (RFC 7873 4).
fn is_cookie(data: &[u8]) -> bool {
    data.len() == 8 || (16..=40).contains(&data.len())
}

fn compare(list: &[Found<'_>], query: &Query<FAST_NAME_WORDS>) {
    let (edns, options) = (query.edns, query.options);
    assert_eq!(edns.wants_nsid(), first(list, NSID).is_some(), "NSID");
    let cookie = first(list, COOKIE);
    assert_eq!(edns.has_cookie(), cookie.is_some_and(is_cookie), "a cookie");
    assert_eq!(edns.has_bad_cookie(), cookie.is_some_and(|data| !is_cookie(data)), "a bad cookie");
    assert_eq!(edns.has_server_cookie(), cookie.is_some_and(|data| data.len() == 24), "a server cookie");
    if let Some(data) = cookie.filter(|data| is_cookie(data)) {
        let words: Vec<u8> = options.cookie.iter().flat_map(|word| word.to_le_bytes()).collect();
        let kept = if data.len() == 24 { 24 } else { 8 };
        assert_eq!(words[..kept], data[..kept], "the octets of the cookie");
    }
    let ecs = first(list, SUBNET).map(subnet);
    assert_eq!(edns.has_subnet(), matches!(ecs, Some(Ok(_))), "ECS");
    assert_eq!(edns.has_bad_subnet(), ecs == Some(Err(())), "bad ECS");
    if let Some(Ok((family, bits, address))) = ecs {
        assert_eq!((options.family(), options.source_len()), (family, u32::from(bits)));
        let words: Vec<u8> = options.subnet[1..].iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(words[..address.len()], *address, "the address");
        assert!(words[address.len()..].iter().all(|octet| *octet == 0), "zeros behind the prefix");
        assert_eq!(options.address_len(), address.len());
    }
}

/// The reply, option by option. `asked` None: FORMERR.
fn answered(query: &[u8], asked: Option<&[Found<'_>]>, is_v6: bool) {
    let stage = stage();
    let mut out = [0xaa; 1232];
    let outcome = answer::reply(query, Transport::Udp, client(is_v6), &stage.world, &stage.names, &mut out);
    let Outcome::Reply { len, rcode, origin, .. } = outcome else { panic!("{outcome:?}") };
    let reply = &out[..len];
    let read = read::reply(reply).unwrap_or_else(|error| panic!("{error}: {reply:02x?}"));
    let cookie = asked.and_then(|list| first(list, COOKIE));
    let is_sound = asked.is_some() && cookie.is_none_or(is_cookie);
    assert_eq!(
        (rcode, origin == Origin::Table),
        if is_sound { (0, true) } else { (1, false) },
        "{reply:02x?}"
    );
    let (Some(asked), Some(opt)) = (asked, read.opt) else { return };
    let told = list(&opt.options).expect("options that add up");
    let codes: Vec<u16> = told.iter().map(|(code, _)| *code).collect();
    let mut once = codes.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), codes.len(), "each option once: {codes:?}");
    for (code, data) in told {
        let of = first(asked, code).unwrap_or_else(|| panic!("option {code} was not asked for"));
        match code {
            NSID => assert_eq!(data, b"ns1.fuzz"),
            COOKIE => assert!(data.len() == 24 && data[..8] == of[..8], "the client's cookie and a server's"),
            SUBNET => {
                // The name does not look at it: the same, with a scope of 0 (RFC 7871 7.2.1).
                let mut same = data.to_vec();
                same[3] = 0;
                assert_eq!(same, of, "ECS as asked");
                assert_eq!(data[3], 0, "the scope");
            }
            _ => panic!("option {code} in a reply"),
        }
    }
    if is_sound {
        assert_eq!(codes.contains(&COOKIE), cookie.is_some(), "a cookie for a cookie");
        assert_eq!(codes.contains(&NSID), first(asked, NSID).is_some(), "the identifier");
    }
}
