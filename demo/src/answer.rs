//! Is an answer right in itself: does it belong to its query, is it well-formed, is it made of our services?

use std::net::Ipv4Addr;

use hickory_proto::{
    op::{Message, MessageType, ResponseCode},
    rr::RData,
};

use super::pool::Pool;

/// Length of a DNS header.
const HEADER: usize = 12;

/// What is common to all right answers.
pub struct Rules {
    /// Addresses of the sites, by number.
    pub sites: Vec<Ipv4Addr>,
    /// TTL of every record.
    pub ttl: u32,
}

impl Rules {
    /// The sites whose addresses the answer holds; an error says what is wrong with it.
    pub fn sites_of(&self, query: &[u8], answer: &[u8]) -> Result<Pool, String> {
        let question = question(query).ok_or("the query has no question")?;
        if answer.get(HEADER..HEADER + question.len()) != Some(question) {
            return Err("another question than that of the query".to_owned());
        }
        // hickory-proto shares no code with the responder: a second opinion.
        let message = Message::from_vec(answer).map_err(|error| format!("not well-formed: {error}"))?;
        let asked =
            Message::from_vec(query).map_err(|error| format!("the query is not well-formed: {error}"))?;
        let head = &message.metadata;
        let faults = [
            (head.id != asked.metadata.id, "another id"),
            (head.message_type != MessageType::Response, "QR is not set"),
            (head.response_code != ResponseCode::NoError, "the rcode is not NOERROR"),
            (!head.authoritative, "AA is not set"),
            (head.truncation, "TC is set"),
            (head.recursion_available, "RA is set"),
            (head.recursion_desired != asked.metadata.recursion_desired, "RD is not that of the query"),
            (message.queries.len() != 1, "not one question"),
            (!message.authorities.is_empty(), "records in the authority section"),
            (
                message.edns.is_some() != asked.edns.is_some(),
                "OPT where the query has none, or none where it has",
            ),
        ];
        if let Some((_, fault)) = faults.iter().find(|(is_fault, _)| *is_fault) {
            return Err((*fault).to_owned());
        }
        self.sites_in(&message)
    }

    fn sites_in(&self, message: &Message) -> Result<Pool, String> {
        let mut pool = Pool::default();
        for record in &message.answers {
            let RData::A(address) = record.data else {
                return Err(format!("a record that is not A: {record}"));
            };
            let site = self.sites.iter().position(|site| *site == address.0);
            let site = site.ok_or_else(|| format!("{address} is none of our services"))?;
            if record.ttl != self.ttl || message.queries[0].name != record.name {
                return Err(format!("another TTL or owner: {record}"));
            }
            if !pool.add(site) {
                return Err(format!("{address} twice"));
            }
        }
        Ok(pool)
    }
}

/// The question section: one name without pointers, type and class.
fn question(message: &[u8]) -> Option<&[u8]> {
    let mut at = HEADER;
    loop {
        match usize::from(*message.get(at)?) {
            0 => return message.get(HEADER..at + 5),
            length => at += 1 + length,
        }
    }
}
