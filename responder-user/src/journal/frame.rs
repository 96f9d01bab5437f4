//! Records as octets.
//!
//! ```text
//! file    = header frame*
//! header  = "responder-jrnl\n\0" version:u32 crc32(before):u32
//! frame   = mark:u32 length:u32 number:u64 crc32(before, of this frame):u32 body crc32(before, of this frame):u32
//! ```
//!
//! Numbers are little-endian. The body is a [`super::Record`], whose first octet is its kind. Frames are numbered without
//! gaps. The first checksum makes the length sure, so that a frame that was never finished differs from a damaged one.

/// Version of the form of the file.
pub const VERSION: u32 = 1;

/// Longest body.
pub const MAX_BODY: usize = 1 << 20;

/// Length of the header of the file.
pub const HEADER: usize = 24;

const MAGIC: &[u8; 16] = b"responder-jrnl\n\0";

/// Not part of any text.
const MARK: [u8; 4] = [0xf5, 0xc1, b'J', 0x01];

/// Octets before the body.
const HEAD: usize = 20;

/// Octets of a frame beside its body.
pub const AROUND: usize = HEAD + 4;

/// The header of a file.
pub fn header() -> [u8; HEADER] {
    let mut out = [0; HEADER];
    out[..16].copy_from_slice(MAGIC);
    out[16..20].copy_from_slice(&VERSION.to_le_bytes());
    let sum = crc32fast::hash(&out[..20]);
    out[20..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// What the beginning of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// A journal of this version.
    Right,
    /// A journal of another version.
    Version(u32),
    /// It ends within the header.
    Torn,
    /// Anything else.
    Wrong,
}

/// Reads the beginning of a file.
pub fn read_header(octets: &[u8]) -> Header {
    let Some(head) = octets.first_chunk::<HEADER>() else {
        return if header().starts_with(octets) { Header::Torn } else { Header::Wrong };
    };
    if head[..16] != *MAGIC || word(head, 20) != Some(crc32fast::hash(&head[..20])) {
        return Header::Wrong;
    }
    match word(head, 16) {
        Some(VERSION) => Header::Right,
        version => Header::Version(version.unwrap_or(0)),
    }
}

/// Appends a frame.
pub fn put(out: &mut Vec<u8>, number: u64, body: &[u8]) {
    let start = out.len();
    out.extend(MARK);
    out.extend((body.len() as u32).to_le_bytes());
    out.extend(number.to_le_bytes());
    let sum = crc32fast::hash(&out[start..]);
    out.extend(sum.to_le_bytes());
    out.extend(body);
    let sum = crc32fast::hash(&out[start..]);
    out.extend(sum.to_le_bytes());
}

/// What stands at a place of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// A whole frame.
    Frame {
        /// Its number.
        number: u64,
        /// Its body.
        body: &'a [u8],
        /// Its length, all in all.
        length: usize,
    },
    /// The beginning of a frame that the file ends in.
    Torn,
    /// Neither.
    Damaged,
}

/// Reads what stands at the beginning of these octets, which are the rest of the file.
pub fn take(octets: &[u8]) -> Found<'_> {
    let Some(head) = octets.first_chunk::<HEAD>() else {
        let marked = octets.len().min(MARK.len());
        return if octets[..marked] == MARK[..marked] { Found::Torn } else { Found::Damaged };
    };
    let (Some(length), Some(sum)) = (word(head, 4), word(head, 16)) else { return Found::Damaged };
    let length = length as usize;
    if head[..4] != MARK || length > MAX_BODY || sum != crc32fast::hash(&head[..16]) {
        return Found::Damaged;
    }
    let mut number = [0; 8];
    number.copy_from_slice(&head[8..16]);
    let end = HEAD + length;
    let Some(sum) = word(octets, end) else { return Found::Torn };
    if sum != crc32fast::hash(&octets[..end]) {
        return Found::Damaged;
    }
    Found::Frame { number: u64::from_le_bytes(number), body: &octets[HEAD..end], length: end + 4 }
}

/// The place of the next whole frame behind `from`.
pub fn next_whole(octets: &[u8], from: usize) -> Option<usize> {
    let candidates =
        octets.get(from..)?.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK);
    candidates.map(|(i, _)| from + i).find(|at| matches!(take(&octets[*at..]), Found::Frame { .. }))
}

fn word(octets: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*octets.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_whole_torn_or_damaged() {
        let mut octets = Vec::new();
        put(&mut octets, 5, b"body");
        let length = octets.len();
        assert_eq!(length, AROUND + 4);
        assert_eq!(take(&octets), Found::Frame { number: 5, body: b"body", length });
        for end in 1..length {
            assert_eq!(take(&octets[..end]), Found::Torn, "{end}");
        }
        for at in 0..length {
            let mut other = octets.clone();
            other[at] ^= 0x20;
            assert_eq!(take(&other), Found::Damaged, "{at}");
        }
    }

    #[test]
    fn the_next_frame_is_found_behind_what_is_damaged() {
        let mut octets = b"\xf5\xc1J\x01 not a frame".to_vec();
        let at = octets.len();
        put(&mut octets, 5, b"body");
        assert_eq!(next_whole(&octets, 0), Some(at));
        assert_eq!(next_whole(&octets, at + 1), None);
    }

    #[test]
    fn the_header_tells_versions_from_damage() {
        let right = header();
        assert_eq!(read_header(&right), Header::Right);
        for end in 0..HEADER {
            assert_eq!(read_header(&right[..end]), Header::Torn);
        }
        for at in 0..HEADER {
            let mut other = right;
            other[at] ^= 1;
            assert_eq!(read_header(&other), Header::Wrong, "{at}");
        }
        let mut newer = right;
        newer[16] = 9;
        let sum = crc32fast::hash(&newer[..20]);
        newer[20..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(read_header(&newer), Header::Version(9));
        assert_eq!(read_header(b"something else altogether, longer"), Header::Wrong);
    }
}
