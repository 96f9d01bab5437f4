//! A second reader: hickory-proto. Its reading of a query is held against that of [`super::message`], and so against
//! the product's.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hickory_proto::op::{Message, MessageType, OpCode};

use super::message::Question;

/// What the second reader makes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Second {
    /// It reads the same query.
    Agrees,
    /// It refuses the data of an option, where the product ignores options that it does not know.
    RefusesOptions,
    /// There is nothing to compare: the message is not of the one shape.
    NotCompared,
}

/// Reads a message by hickory-proto. Err: it panics, or cannot read it.
pub fn message(octets: &[u8]) -> Result<Message, String> {
    match catch_unwind(AssertUnwindSafe(|| Message::from_vec(octets))) {
        Ok(Ok(message)) => Ok(message),
        Ok(Err(error)) => Err(format!("hickory-proto cannot read it: {error}")),
        Err(_) => Err("hickory-proto panics on it".to_owned()),
    }
}

/// Compares a query as it was read with what hickory-proto reads. Err: they differ.
pub fn compare(dns: &[u8], read: Option<&Question>) -> Result<Second, String> {
    let Some(question) = read else { return Ok(Second::NotCompared) };
    let second = match message(dns) {
        Ok(message) => message,
        Err(error) => {
            let has_options = question.opt.is_some() && dns.len() > question.end + 11;
            return if has_options { Ok(Second::RefusesOptions) } else { Err(error) };
        }
    };
    let head = &second.metadata;
    let flag = |at: usize, bit: u8| dns[at] & bit != 0;
    let is_head_same = head.id.to_be_bytes() == dns[..2]
        && head.message_type == MessageType::Query
        && head.op_code == OpCode::Query
        && head.recursion_desired == flag(2, 1)
        && head.checking_disabled == flag(3, 0x10);
    let others = second.answers.len() + second.authorities.len() + second.additionals.len();
    let [query] = &second.queries[..] else {
        return Err(format!("hickory-proto reads {} questions", second.queries.len()));
    };
    let mut name = Vec::new();
    for label in query.name() {
        name.push(label.len() as u8);
        name.extend(label.to_ascii_lowercase());
    }
    name.push(0);
    let opt = second.edns.as_ref().map(|edns| {
        let ttl = u32::from(edns.rcode_high()) << 24 | u32::from(edns.version()) << 16;
        (edns.max_payload(), ttl | if edns.flags().dnssec_ok { 0x8000 } else { 0 })
    });
    // What it does not keep: a payload below 512, and flags beside DO.
    let wanted = question.opt.map(|(payload, ttl)| (payload.max(512), ttl & 0xffff_8000));
    let opt = opt.map(|(payload, ttl)| (payload.max(512), ttl));
    let is_question_same = name == question.name
        && u16::from(query.query_type()) == question.qtype
        && u16::from(query.query_class()) == 1;
    if is_head_same && is_question_same && others == 0 && opt == wanted {
        return Ok(Second::Agrees);
    }
    Err(format!(
        "hickory-proto reads {query} with OPT {opt:02x?} and {others} records, wanted {question:02x?}"
    ))
}
