//! The contents of a frame after its header: the session (32 bits, big-endian), a stream's header
//! (`stream/datagram.rs`), and the time of sending (64 bits, little-endian, the sender's monotonic clock).

use crate::net::frames::Filter;
use crate::net::frames::layout::ETHERNET;
use crate::workload::stream::datagram::{self, Kind};

const SESSION_AT: usize = ETHERNET;
pub const HEADER_AT: usize = SESSION_AT + 4;
const MARK_AT: usize = HEADER_AT + 8;
const TIME_AT: usize = HEADER_AT + datagram::HEADER;
#[cfg(test)]
const END: usize = TIME_AT + 8;

/// Writes the part that all frames of one stream have in common.
pub fn begin(frame: &mut [u8], session: u32, stream: u16) {
    frame[SESSION_AT..HEADER_AT].copy_from_slice(&session.to_be_bytes());
    datagram::write(&mut frame[HEADER_AT..], datagram::owner(0, stream), 0);
}

/// Writes the part that differs from frame to frame.
#[inline]
pub fn number(frame: &mut [u8], kind: Kind, number: u64, now: u64) {
    frame[MARK_AT..TIME_AT].copy_from_slice(&datagram::mark(kind, number).to_le_bytes());
    frame[TIME_AT..TIME_AT + 8].copy_from_slice(&now.to_le_bytes());
}

/// Lets the frames of one session pass.
pub fn of_session(session: u32) -> Filter {
    // The first four bytes of a stream's header are the same in all streams.
    let magic = (datagram::owner(0, 0) as u32).swap_bytes();
    Filter::new(&[(SESSION_AT, session), (HEADER_AT, magic)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::frames::layout::{SHORTEST, blank};

    #[test]
    fn a_frame_is_of_its_session_and_says_which_it_is() {
        let mut frame = blank(SHORTEST as usize, [2; 6], [4; 6]);
        assert!(END <= frame.len());
        begin(&mut frame, 7, 3);
        number(&mut frame, Kind::Counted, 9, 11);
        assert!(of_session(7).lets_pass(&frame));
        assert!(!of_session(8).lets_pass(&frame));
        let (owner, mark) = datagram::words(&frame[HEADER_AT..]).unwrap();
        assert_eq!(owner, datagram::owner(0, 3));
        assert_eq!(datagram::read_mark(mark), Some((Kind::Counted, 9)));
        frame[HEADER_AT] ^= 1;
        assert!(!of_session(7).lets_pass(&frame));
    }
}
