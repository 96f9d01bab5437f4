//! Counts and checks what comes back to the load generator, and drops it.

#![no_std]
#![no_main]
#![allow(missing_docs, reason = "the xdp attribute makes a second item without the comment")]

use aya_ebpf::{
    bindings::xdp_action,
    macros::{map, xdp},
    maps::{Array, PerCpuArray},
    programs::XdpContext,
};
use responder_common::{
    load::{
        CLIENT_COOKIE, DIGITS_AT, DNS_AT, Load, OPT_LEN, QUESTION_TAIL, REPLIES, REPLY_COOKIE,
        REPLY_COOKIE_LEN, Reply, UDP_AT, digits, ttl,
    },
    wire::Source,
};
use responder_ebpf::packet::{Frame, Message, Scratch};

/// Declared to the kernel.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
pub static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

/// What was sent.
#[map]
pub static LOAD: Array<Load> = Array::with_max_entries(1, 0);

/// How many replies of each kind.
#[map]
pub static COUNTS: PerCpuArray<[u64; REPLIES]> = PerCpuArray::with_max_entries(1, 0);

/// Ethertype and first octet of an IPv4 header without options; in memory order, as all of these.
const IPV4: u32 = 0x45_0008;
const UDP: u8 = 17;
const DNS_PORT: u16 = 53_u16.to_be();
/// Flags of an answer (QR, AA, RD, NOERROR), one question, one record.
const ANSWER: u64 = 0x0100_0100_0085;
/// Flags of a query (RD), one question, no record.
const QUERY: u64 = 0x0100_0001;
/// Owner pointer, type A, class IN.
const RECORD: u64 = 0x0100_0100_0cc0;
/// Length of an IPv4 address.
const LENGTH: u16 = 4_u16.to_be();
/// An OPT with payload size 1232.
const OPT: u64 = 0xd0_0429_0000;
/// Octets of an A record whose owner is a pointer.
const A_LEN: usize = 16;

/// Entry point.
#[xdp]
pub fn count(ctx: XdpContext) -> u32 {
    if let (Some(load), Some(counts)) = (LOAD.get_ptr(0), COUNTS.get_ptr_mut(0)) {
        // SAFETY: both maps have one element of this type, and user space does not write them while frames come.
        let (load, counts) = unsafe { (&*load, &mut *counts) };
        let reply = check(&Frame::of(&ctx), load).unwrap_or(Reply::WrongHeader);
        counts[reply as usize & (REPLIES - 1)] += 1;
    }
    xdp_action::XDP_DROP
}

/// None: the frame is too short.
#[inline(always)]
fn check(frame: &Frame, load: &Load) -> Option<Reply> {
    let is_ipv4 = frame.get::<u32>(12)? & 0xff_ffff == IPV4;
    if !is_ipv4 || frame.get::<u8>(23)? != UDP || frame.get::<u16>(UDP_AT)? != DNS_PORT {
        return Some(Reply::Other);
    }
    let port = u16::from_be(frame.get::<u16>(UDP_AT + 2)?);
    let head = frame.get::<u64>(DNS_AT)?;
    let number = u32::from(u16::from_be(head as u16)) | (u32::from(port & 0xff) << 16);
    let (word, count) = digits(number);
    let count = (count & 7) as usize;
    let message = frame.message(DIGITS_AT, 0, Scratch::none());
    if !is_question(frame, &message, load, word, count)? {
        return Some(Reply::WrongQuestion);
    }
    if head >> 16 == QUERY {
        return Some(Reply::Reflected);
    }
    let has_opt = load.tail_len > QUESTION_TAIL as u64;
    let has_cookie = load.tail_len > (QUESTION_TAIL + OPT_LEN) as u64;
    let cookie_len = if has_cookie { REPLY_COOKIE_LEN } else { 0 };
    let end = count + QUESTION_TAIL + A_LEN + if has_opt { OPT_LEN + cookie_len } else { 0 };
    let total = u16::from_be(frame.get::<u16>(16)?) as usize;
    let udp_len = u16::from_be(frame.get::<u16>(UDP_AT + 4)?) as usize;
    let counts = u64::from(frame.get::<u32>(DNS_AT + 8)?);
    if head >> 16 != ANSWER
        || counts != u64::from(has_opt) << 24
        || total != DIGITS_AT - 14 + end
        || udp_len != DIGITS_AT - UDP_AT + end
        || frame.len() != DIGITS_AT + end
    {
        return Some(Reply::WrongHeader);
    }
    if !is_record(&message, load, count + QUESTION_TAIL, number)? {
        return Some(Reply::WrongRecord);
    }
    let opt_at = count + QUESTION_TAIL + A_LEN;
    if has_opt && !is_opt(&message, opt_at, cookie_len)? {
        return Some(Reply::WrongOpt);
    }
    if has_cookie && !is_cookie(&message, opt_at + OPT_LEN)? {
        return Some(Reply::WrongOpt);
    }
    Some(Reply::Right)
}

/// Octet for octet the question that was asked.
#[inline(always)]
fn is_question(frame: &Frame, message: &Message, load: &Load, word: u64, count: usize) -> Option<bool> {
    let label = u64::from(frame.get::<u32>(DNS_AT + 12)?) | (u64::from(frame.get::<u8>(DNS_AT + 16)?) << 32);
    let mut difference = label ^ (4 + count as u64) ^ (u64::from_le_bytes(*b"\0host\0\0\0"));
    difference |= (message.u64_at(0)? ^ word) << (((8 - count as u32) * 8) & 63);
    difference |= message.u64_at(count)? ^ load.tail[0];
    difference |= message.u64_at(count + 8)? ^ load.tail[1];
    difference |= u64::from(message.u32_at(count + 16)? ^ load.tail[2] as u32);
    difference |= u64::from(message.u16_at(count + 20)? ^ (load.tail[2] >> 32) as u16);
    Some(difference == 0)
}

/// An address of the pool, with the TTL of the name.
#[inline(always)]
fn is_record(message: &Message, load: &Load, at: usize, number: u32) -> Option<bool> {
    let head = message.u64_at(at)? & 0xffff_ffff_ffff;
    let seconds = u32::from_be(message.u32_at(at + 6)?);
    let length = message.u16_at(at + 10)?;
    let address = u64::from(u32::from_be(message.u32_at(at + 12)?));
    let is_of_pool = address.wrapping_sub(load.pool_first) < load.pool_len;
    Some(head == RECORD && seconds == ttl(number) && length == LENGTH && is_of_pool)
}

#[inline(always)]
fn is_opt(message: &Message, at: usize, options: usize) -> Option<bool> {
    let len = message.u8_at(at + 10)? as usize;
    Some(message.u64_at(at)? == OPT && message.u16_at(at + 8)? == 0 && len == options)
}

/// Our client cookie, and a server cookie of version 1 behind it.
#[inline(always)]
fn is_cookie(message: &Message, at: usize) -> Option<bool> {
    let head = message.u32_at(at)? == REPLY_COOKIE;
    Some(head && message.u64_at(at + 4)? == CLIENT_COOKIE && message.u32_at(at + 12)? == 1)
}
