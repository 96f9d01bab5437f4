//! Server cookies (RFC 7873, RFC 9018): SipHash-2-4 over the client cookie, the head of the server cookie and the
//! client's address.
//!
//! ```text
//! 0-7    client cookie
//! 8      version 1     9-11  reserved     12-15  seconds of UTC
//! 16-23  hash
//! ```

use crate::client::Client;

/// Version 1, nothing reserved: the first octets of a server cookie of ours, in memory order.
const HEAD: u64 = 1;

/// A cookie is good for so long (RFC 9018 4.3), seconds.
pub const GOOD_FOR: u32 = 3600;
/// It goes back unchanged for so long, seconds.
pub const FRESH_FOR: u32 = 1800;
/// Clocks of servers that share secrets may differ by so much, seconds.
pub const AHEAD: u32 = 300;

/// The secrets: the first makes cookies, both check them, so that a change of secret invalidates none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secrets {
    /// In force.
    pub current: [u64; 2],
    /// The one before.
    pub previous: [u64; 2],
}

/// What a cookie turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The client has shown that it owns its address.
    pub is_valid: bool,
    /// The server cookie of the reply: the one that came, or a new one.
    pub server: [u64; 2],
}

/// The hash of a cookie, as its last eight octets in memory order. `head` is what stands between the client cookie and
/// the hash.
#[inline(always)]
pub fn hash(secret: [u64; 2], client_cookie: u64, head: u64, client: &Client) -> u64 {
    let (address, is_v6) = client.words();
    let mut state = State::of(secret);
    state.take(client_cookie);
    state.take(head);
    if is_v6 {
        state.take(address[0]);
        state.take(address[1]);
        state.take(32 << 56);
    } else {
        state.take(address[0] | (20 << 56));
    }
    state.finish()
}

/// Checks the server cookie of a query, and makes the one of the reply. `server` is None where the query has only a client
/// cookie, or a server cookie that is not of our length. `now` is in seconds of UTC.
#[inline(always)]
pub fn check(
    secrets: &Secrets,
    client_cookie: u64,
    server: Option<[u64; 2]>,
    client: &Client,
    now: u32,
) -> Checked {
    let mut is_valid = false;
    let mut out = [HEAD | (u64::from(now.to_be()) << 32), 0];
    if let Some(server) = server {
        // Serial numbers (RFC 1982): an age below 0 is a time ahead of ours.
        let age = now.wrapping_sub(u32::from_be((server[0] >> 32) as u32));
        let is_timely = age <= GOOD_FOR || age >= 0_u32.wrapping_sub(AHEAD);
        if server[0] & 0xff == HEAD && is_timely {
            let is_current = hash(secrets.current, client_cookie, server[0], client) == server[1];
            is_valid = is_current || hash(secrets.previous, client_cookie, server[0], client) == server[1];
            if is_current && age <= FRESH_FOR {
                return Checked { is_valid, server };
            }
        }
    }
    out[1] = hash(secrets.current, client_cookie, out[0], client);
    Checked { is_valid, server: out }
}

/// SipHash-2-4 (Aumasson, Bernstein 2012) over whole words.
struct State([u64; 4]);

impl State {
    #[inline(always)]
    fn of(key: [u64; 2]) -> Self {
        Self([
            key[0] ^ 0x736f_6d65_7073_6575,
            key[1] ^ 0x646f_7261_6e64_6f6d,
            key[0] ^ 0x6c79_6765_6e65_7261,
            key[1] ^ 0x7465_6462_7974_6573,
        ])
    }

    #[inline(always)]
    fn round(&mut self) {
        let [a, b, c, d] = &mut self.0;
        *a = a.wrapping_add(*b);
        *c = c.wrapping_add(*d);
        *b = b.rotate_left(13) ^ *a;
        *d = d.rotate_left(16) ^ *c;
        *a = a.rotate_left(32);
        *c = c.wrapping_add(*b);
        *a = a.wrapping_add(*d);
        *b = b.rotate_left(17) ^ *c;
        *d = d.rotate_left(21) ^ *a;
        *c = c.rotate_left(32);
    }

    #[inline(always)]
    fn take(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.round();
        self.0[0] ^= word;
    }

    #[inline(always)]
    fn finish(mut self) -> u64 {
        self.0[2] ^= 0xff;
        for _ in 0..4 {
            self.round();
        }
        self.0[0] ^ self.0[1] ^ self.0[2] ^ self.0[3]
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use core::net::{IpAddr, Ipv4Addr};
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn client(text: &str) -> Client {
        match text.parse().unwrap() {
            IpAddr::V4(a) => Client::V4(a.to_bits()),
            IpAddr::V6(a) => Client::V6(a.octets()),
        }
    }

    fn words<const N: usize>(hex: &str) -> [u64; N] {
        let octets: Vec<u8> =
            (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[i * 2..i * 2 + 2], 16).unwrap()).collect();
        core::array::from_fn(|i| u64::from_le_bytes(octets[i * 8..i * 8 + 8].try_into().unwrap()))
    }

    fn secrets(current: &str, previous: &str) -> Secrets {
        Secrets { current: words(current), previous: words(previous) }
    }

    const OLD: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf";
    const NEW: &str = "445536bcd2513298075a5d379663c962";

    /// RFC 9018 appendix A.1 to A.4: secret, cookie of the query, client, time, cookie of the reply.
    #[test]
    fn the_examples_of_rfc_9018_come_out() {
        let first = "2464c4abcf10c957010000005cf79f111f8130c3eee29480";
        let renewed = "2464c4abcf10c957010000005cf7a871d4a564a1442aca77";
        let other = "fc93fc62807ddb86010000005cf7a9acf73a7810aca2381e";
        let six = "22681ab97d52c298010000005cf7c609a6bb79d16625507a";
        for (secret, query, address, now, reply) in [
            (OLD, "2464c4abcf10c957", "198.51.100.100", 1_559_731_985, first),
            (OLD, first, "198.51.100.100", 1_559_734_385, renewed),
            (OLD, "fc93fc62807ddb86", "203.0.113.203", 1_559_734_700, other),
            (NEW, "22681ab97d52c298", "2001:db8:220:1:59de:d0f4:8769:82b8", 1_559_741_961, six),
        ] {
            let server = (query.len() > 16).then(|| words(&query[16..]));
            let [cookie] = words(&query[..16]);
            let got = check(&secrets(secret, OLD), cookie, server, &client(address), now);
            assert_eq!(got.server, words::<2>(&reply[16..]), "{reply}");
            assert_eq!(got.is_valid, server.is_some());
        }
    }

    #[test]
    fn reserved_octets_are_hashed_and_the_secret_before_is_good() {
        // RFC 9018 A.3 and A.4 as they were asked: reserved octets set, and made with the old secret.
        let odd = "fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5";
        let [cookie] = words(&odd[..16]);
        let at = client("203.0.113.203");
        let got = check(&secrets(OLD, OLD), cookie, Some(words(&odd[16..])), &at, 0x5cf7_8f71);
        assert_eq!(got, Checked { is_valid: true, server: words(&odd[16..]) });
        let six = "22681ab97d52c298010000005cf7c57926556bd0934c72f8";
        let [cookie] = words(&six[..16]);
        let at = client("2001:db8:220:1:59de:d0f4:8769:82b8");
        let got = check(
            &secrets(NEW, "dd3bdf9344b678b185a6f5cb60fca715"),
            cookie,
            Some(words(&six[16..])),
            &at,
            1_559_741_961,
        );
        assert!(got.is_valid);
        assert_eq!(got.server, words::<2>("010000005cf7c609a6bb79d16625507a"));
    }

    #[test]
    fn time_decides_as_rfc_9018_says() {
        let (secrets, at) = (secrets(NEW, OLD), Client::V4(Ipv4Addr::new(192, 0, 2, 1).to_bits()));
        for made in [1_800_000_000_u32, 5, u32::MAX - 5] {
            let made_cookie = check(&secrets, 7, None, &at, made).server;
            for (later, is_valid, is_kept) in [
                (0, true, true),
                (1800, true, true),
                (1801, true, false),
                (3600, true, false),
                (3601, false, false),
                (-300, true, false),
                (-301, false, false),
            ] {
                let got = check(&secrets, 7, Some(made_cookie), &at, made.wrapping_add_signed(later));
                assert_eq!((got.is_valid, got.server == made_cookie), (is_valid, is_kept), "{made} {later}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_other_cookie_address_or_secret_is_valid(
            cookie in any::<u64>(), other in any::<u64>(), bit in 0_u32..128, address in any::<u32>(), v6 in any::<[u8; 16]>()
        ) {
            let secrets = secrets(NEW, OLD);
            for at in [Client::V4(address), Client::V6(v6)] {
                let server = check(&secrets, cookie, None, &at, 1000).server;
                prop_assert!(check(&secrets, cookie, Some(server), &at, 1000).is_valid);
                let mut bent = server;
                bent[(bit / 64) as usize] ^= 1 << (bit % 64);
                prop_assert!(!check(&secrets, cookie, Some(bent), &at, 1000).is_valid);
                prop_assert!(cookie == other || !check(&secrets, other, Some(server), &at, 1000).is_valid);
                prop_assert!(!check(&secrets, cookie, Some(server), &Client::V4(!address), 1000).is_valid);
                let foreign = Secrets { current: [1, 2], previous: [3, 4] };
                prop_assert!(!check(&foreign, cookie, Some(server), &at, 1000).is_valid);
            }
        }
    }
}
