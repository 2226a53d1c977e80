//! The header of 16 bytes of every datagram and of every TCP connection: its flow and its number.
//!
//! Two little-endian words. The first is the same for all of one flow, so that a receiver checks it
//! with one comparison: magic (32 bits), flow (16), stream (16; chosen by the sender, to distinguish late
//! datagrams of an earlier stream). The second: kind (8 bits), sequence number (56).

/// "hts1", read as a little-endian number.
const MAGIC: u32 = 0x3173_7468;

pub const HEADER: usize = 16;

const SEQUENCE_BITS: u32 = 56;
const SEQUENCE_MASK: u64 = (1 << SEQUENCE_BITS) - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Sent while the stream settles; neither end counts it.
    Settling = 1,
    Counted = 2,
    /// The stream has ended; the sequence number is how many were sent and counted.
    End = 3,
}

/// The first word of a flow's headers.
pub fn owner(flow: u16, stream: u16) -> u64 {
    u64::from(MAGIC) | u64::from(flow) << 32 | u64::from(stream) << 48
}

/// Whether a first word is of this flow, of whatever stream.
pub fn is_of_flow(word: u64, flow: u16) -> bool {
    word & 0xffff_ffff_ffff == owner(flow, 0)
}

/// The second word.
pub fn mark(kind: Kind, sequence: u64) -> u64 {
    (kind as u64) << SEQUENCE_BITS | sequence & SEQUENCE_MASK
}

/// Kind and sequence number of a second word; `None` when the word has no kind.
pub fn read_mark(word: u64) -> Option<(Kind, u64)> {
    let kind = match word >> SEQUENCE_BITS {
        1 => Kind::Settling,
        2 => Kind::Counted,
        3 => Kind::End,
        _ => return None,
    };
    Some((kind, word & SEQUENCE_MASK))
}

/// Both words of a header; `None` when there are too few bytes.
pub fn words(bytes: &[u8]) -> Option<(u64, u64)> {
    let (first, rest) = bytes.split_first_chunk::<8>()?;
    let (second, _) = rest.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*first), u64::from_le_bytes(*second)))
}

pub fn write(bytes: &mut [u8], owner: u64, mark: u64) {
    bytes[..8].copy_from_slice(&owner.to_le_bytes());
    bytes[8..HEADER].copy_from_slice(&mark.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let mut bytes = [0u8; 20];
        write(&mut bytes, owner(7, 9), mark(Kind::Counted, 123_456_789_012));
        let (first, second) = words(&bytes).unwrap();
        assert_eq!(first, owner(7, 9));
        assert!(is_of_flow(first, 7));
        assert!(!is_of_flow(first, 8));
        assert_eq!(read_mark(second), Some((Kind::Counted, 123_456_789_012)));
    }

    #[test]
    fn what_is_no_header_is_refused() {
        assert_eq!(words(&[0; 15]), None);
        assert_eq!(words(&[]), None);
        for word in [0, 4 << SEQUENCE_BITS, u64::MAX] {
            assert_eq!(read_mark(word), None);
        }
        for word in [0, u64::MAX, owner(7, 0) ^ 1] {
            assert!(!is_of_flow(word, 7));
        }
    }
}
