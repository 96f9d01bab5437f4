//! Ethernet, two VLAN tags at most, IPv4 or IPv6, UDP: is this a query to us, and where is its message?
//!
//! Lengths come from IP and UDP, never from the frame, which may be padded (design section 4).

use responder_common::{client::Client, counters::Counter, layout::Control};

use crate::packet::{Frame, Scratch};

/// Ethertypes and header values in memory order.
const IPV4: u16 = 0x0800_u16.to_be();
const IPV6: u16 = 0x86dd_u16.to_be();
const VLAN: u16 = 0x8100_u16.to_be();
const QINQ: u16 = 0x88a8_u16.to_be();
const UDP: u8 = 17;
/// Everything of the fragment word but "do not fragment".
const FRAGMENT: u16 = 0xbfff_u16.to_be();
const DNS_PORT: u16 = 53_u16.to_be();

/// Ports that are known to answer anything with something (CVE-2024-2169): their packets are never queries.
const SERVICE_PORTS: [u16; 14] = [7, 13, 17, 19, 37, 69, 111, 123, 137, 138, 161, 389, 520, 1900];

/// Where everything is.
#[derive(Clone, Copy)]
pub struct Headers {
    /// Offset of the IP header.
    pub ip_at: usize,
    /// Offset of the UDP header, eight octets before the DNS message.
    pub udp_at: usize,
    /// Octets of the DNS message.
    pub dns_len: usize,
    /// 1 for IPv6. A number, and not a case of `source`, so that paths of both families can meet.
    pub is_ipv6: usize,
    /// Source address in memory order; IPv4 in the lower half of the first word.
    pub source: [u64; 2],
}

impl Headers {
    /// Of no packet.
    pub const NONE: Self = Self { ip_at: 0, udp_at: 0, dns_len: 0, is_ipv6: 0, source: [0; 2] };

    /// Offset of the DNS message.
    #[inline(always)]
    pub fn dns_at(&self) -> usize {
        self.udp_at + 8
    }

    /// Who asks.
    #[inline(always)]
    pub fn client(&self) -> Client {
        if self.is_ipv6 == 0 {
            return Client::V4(u32::from_be(self.source[0] as u32));
        }
        let mut address = [0; 16];
        address[..8].copy_from_slice(&self.source[0].to_ne_bytes());
        address[8..].copy_from_slice(&self.source[1].to_ne_bytes());
        Client::V6(address)
    }

    /// The same headers, of which the checker of paths knows no more than their bounds.
    #[inline(always)]
    pub fn forget(self, scratch: Scratch) -> Self {
        Self {
            ip_at: scratch.forget(self.ip_at) & 0x1f,
            udp_at: scratch.forget(self.udp_at) & 0x7f,
            dns_len: scratch.forget(self.dns_len) & 0xffff,
            is_ipv6: scratch.forget(self.is_ipv6) & 1,
            source: self.source,
        }
    }
}

/// Reads the headers. Err: why the packet is not for us.
#[inline(always)]
pub fn parse(frame: &Frame, control: &Control, ifindex: u32, scratch: Scratch) -> Result<Headers, Counter> {
    let ethernet = frame.window::<14>(0).ok_or(Counter::PassShort)?;
    let mac = ethernet.get::<u64>(0) & 0xffff_ffff_ffff;
    let mut ethertype = ethernet.get::<u16>(12);
    let mut ip_at = 14;
    if ethertype == VLAN || ethertype == QINQ {
        ethertype = frame.get::<u16>(16).ok_or(Counter::PassShort)?;
        ip_at = 18;
        if ethertype == VLAN || ethertype == QINQ {
            ethertype = frame.get::<u16>(20).ok_or(Counter::PassShort)?;
            if ethertype == VLAN || ethertype == QINQ {
                return Err(Counter::PassVlan);
            }
            ip_at = 22;
        }
        // One way through the headers of tagged frames for the checker of paths.
        ip_at = scratch.forget(ip_at) & 0x1f;
    }
    let (headers, port) = match ethertype {
        IPV4 => ipv4(frame, control, ip_at)?,
        IPV6 => ipv6(frame, control, ip_at)?,
        _ => return Err(Counter::PassNotIp),
    };
    if !is_our_mac(control, mac, ifindex) {
        return Err(Counter::PassMac);
    }
    // Last, for it is the one that drops: what is not for us is never dropped.
    source_port(port)?;
    Ok(headers)
}

#[inline(always)]
fn is_our_mac(control: &Control, mac: u64, ifindex: u32) -> bool {
    for interface in &control.interfaces {
        if interface.mac == 0 {
            return false;
        }
        if interface.mac == mac && interface.ifindex == u64::from(ifindex) {
            return true;
        }
    }
    false
}

/// The headers, and the source port in memory order.
#[inline(always)]
fn ipv4(frame: &Frame, control: &Control, at: usize) -> Result<(Headers, u16), Counter> {
    let ip = frame.window::<20>(at).ok_or(Counter::PassShort)?;
    let head = ip.get::<u32>(0);
    let fragment = ip.get::<u16>(6);
    let protocol = ip.get::<u8>(9);
    let source = ip.get::<u32>(12);
    let destination = ip.get::<u32>(16);
    if head & 0xff != 0x45 {
        return Err(Counter::PassIpOptions);
    }
    if fragment & FRAGMENT != 0 {
        return Err(Counter::PassFragment);
    }
    if protocol != UDP {
        return Err(Counter::PassNotUdp);
    }
    let total = u16::from_be((head >> 16) as u16) as usize;
    let (ports, dns_len) = udp(frame, at, at + 20, total.wrapping_sub(20))?;
    if !listens4(control, (u64::from(destination) << 16) | u64::from(ports >> 16)) {
        return Err(Counter::PassNotListening);
    }
    let address = u32::from_be(source);
    let first = address >> 24;
    if first == 0 || first == 127 || first >= 224 {
        return Err(Counter::PassSource);
    }
    let source = [u64::from(source), 0];
    Ok((Headers { ip_at: at, udp_at: at + 20, dns_len, is_ipv6: 0, source }, ports as u16))
}

/// As [`ipv4`].
#[inline(always)]
fn ipv6(frame: &Frame, control: &Control, at: usize) -> Result<(Headers, u16), Counter> {
    let ip = frame.window::<40>(at).ok_or(Counter::PassShort)?;
    let head = ip.get::<u64>(0);
    let source = [ip.get::<u64>(8), ip.get::<u64>(16)];
    let destination = [ip.get::<u64>(24), ip.get::<u64>(32)];
    if head & 0xf0 != 0x60 {
        return Err(Counter::PassNotIp);
    }
    if (head >> 48) as u8 != UDP {
        return Err(Counter::PassNotUdp);
    }
    let payload = u16::from_be((head >> 32) as u16) as usize;
    let (ports, dns_len) = udp(frame, at, at + 40, payload)?;
    if !listens6(control, destination, u64::from(ports >> 16)) {
        return Err(Counter::PassNotListening);
    }
    // Multicast; unspecified and loopback (::/127); IPv4-mapped addresses are never on the wire.
    let is_multicast = source[0] & 0xff == 0xff;
    let low = u64::from_be(source[1]);
    if is_multicast || (source[0] == 0 && (low <= 1 || low >> 32 == 0xffff)) {
        return Err(Counter::PassSource);
    }
    Ok((Headers { ip_at: at, udp_at: at + 40, dns_len, is_ipv6: 1, source }, ports as u16))
}

/// Ports (source in the lower half) and length of the message.
#[inline(always)]
fn udp(frame: &Frame, ip_at: usize, at: usize, ip_payload: usize) -> Result<(u32, usize), Counter> {
    let udp = frame.window::<6>(at).ok_or(Counter::PassShort)?;
    let ports = udp.get::<u32>(0);
    let length = u16::from_be(udp.get::<u16>(4)) as usize;
    let header = at + 8 - ip_at;
    if length != ip_payload || length < 8 || ip_at + header + length - 8 > frame.len() {
        return Err(Counter::PassLength);
    }
    Ok((ports, length - 8))
}

#[inline(always)]
fn listens4(control: &Control, wanted: u64) -> bool {
    for listening in &control.listen4 {
        if *listening == wanted {
            return true;
        }
        if *listening == 0 {
            return false;
        }
    }
    false
}

#[inline(always)]
fn listens6(control: &Control, address: [u64; 2], port: u64) -> bool {
    for listening in &control.listen6 {
        if listening.port == 0 {
            return false;
        }
        if listening.port == port && listening.address == address {
            return true;
        }
    }
    false
}

/// Replies may come from port 53, and from ports that answer anything: never a packet against a packet.
#[inline(always)]
fn source_port(port: u16) -> Result<(), Counter> {
    if port == DNS_PORT || port == 0 {
        return Err(Counter::PassSourcePort);
    }
    let number = u16::from_be(port);
    if number <= 1900 && SERVICE_PORTS.contains(&number) {
        return Err(Counter::DropServicePort);
    }
    Ok(())
}
