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

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: &[u8] = b"\x03WwW\x07example\x03com\0\0\x01\0\x01";

    fn rules() -> Rules {
        Rules { sites: vec![Ipv4Addr::new(10, 77, 0, 1), Ipv4Addr::new(10, 77, 0, 2)], ttl: 5 }
    }

    fn query() -> Vec<u8> {
        [b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0", QUESTION].concat()
    }

    /// An answer with a record for each last octet of an address.
    fn answer(last_octets: &[u8]) -> Vec<u8> {
        let head = [0x12, 0x34, 0x85, 0, 0, 1, 0, last_octets.len() as u8, 0, 0, 0, 0];
        let record = |last: &u8| [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 10, 77, 0, *last];
        [&head, QUESTION, &last_octets.iter().flat_map(record).collect::<Vec<u8>>()].concat()
    }

    #[test]
    fn the_sites_of_a_right_answer_are_known() {
        assert_eq!(rules().sites_of(&query(), &answer(&[2])), Ok([1].into_iter().collect()));
        assert_eq!(rules().sites_of(&query(), &answer(&[2, 1])), Ok([0, 1].into_iter().collect()));
    }

    #[test]
    fn each_fault_is_found() {
        let fault = |at: usize, octet: u8| {
            let mut faulty = answer(&[2]);
            faulty[at] = octet;
            rules().sites_of(&query(), &faulty).expect_err("a fault")
        };
        assert_eq!(fault(0, 0x13), "another id");
        assert_eq!(fault(2, 0x05), "QR is not set");
        assert_eq!(fault(2, 0x81), "AA is not set");
        assert_eq!(fault(2, 0x87), "TC is set");
        assert_eq!(fault(2, 0x84), "RD is not that of the query");
        assert_eq!(fault(3, 0x80), "RA is set");
        assert_eq!(fault(3, 0x03), "the rcode is not NOERROR");
        assert_eq!(fault(13, b'w'), "another question than that of the query");
        assert_eq!(
            fault(12 + QUESTION.len() + 9, 6),
            "another TTL or owner: WwW.example.com. 6 IN A 10.77.0.2"
        );
        assert_eq!(fault(12 + QUESTION.len() + 15, 9), "10.77.0.9 is none of our services");
        assert_eq!(rules().sites_of(&query(), &answer(&[2, 2])), Err("10.77.0.2 twice".to_owned()));
        let short = &answer(&[2])[..40];
        assert!(rules().sites_of(&query(), short).is_err_and(|e| e.starts_with("not well-formed")));
    }
}
