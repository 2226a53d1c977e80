//! The contents of a request and of its answer: a header of 16 bytes, then zeros.
//!
//! An answer is the request with another magic word. So two repliers that were made to talk to each other
//! (by a forged source address) fall silent at once, and an echo of the request is no answer.

use crate::net::frames::Filter;

pub const HEADER: usize = 16;

/// The largest UDP payload over IPv4; also the largest ICMP echo payload but for its header.
pub const MAX_DATAGRAM: usize = 65_507;

const REQUEST: [u8; 4] = *b"HTPq";
const ANSWER: [u8; 4] = *b"HTPa";

/// Writes a request of `message.len()` bytes; the session distinguishes this run's answers from another's.
pub fn write_request(message: &mut [u8], session: u32, number: u32) {
    let length = message.len() as u32;
    message[0..4].copy_from_slice(&REQUEST);
    message[4..8].copy_from_slice(&length.to_be_bytes());
    message[8..12].copy_from_slice(&session.to_be_bytes());
    message[12..16].copy_from_slice(&number.to_be_bytes());
}

/// The number of the request that this answers, if it answers one of this session.
pub fn answered(message: &[u8], session: u32) -> Option<u32> {
    number(message, ANSWER, session)
}

/// The same for ICMP, where the kernel sends the request back unchanged.
pub fn echoed(message: &[u8], session: u32) -> Option<u32> {
    number(message, REQUEST, session)
}

/// The length that a request claims, if this is the beginning of one.
pub fn requested_length(message: &[u8]) -> Option<usize> {
    let length = word(message, 4)? as usize;
    (message.starts_with(&REQUEST) && length >= HEADER).then_some(length)
}

/// A filter for frames with a request at this place.
pub fn of_requests(at: usize) -> Filter {
    Filter::new(&[(at, u32::from_be_bytes(REQUEST))])
}

/// The same for answers of one session.
pub fn of_answers(at: usize, session: u32) -> Filter {
    Filter::new(&[(at, u32::from_be_bytes(ANSWER)), (at + 8, session)])
}

/// Turns a request into its answer.
pub fn turn_into_answer(message: &mut [u8]) {
    message[0..4].copy_from_slice(&ANSWER);
}

fn number(message: &[u8], magic: [u8; 4], session: u32) -> Option<u32> {
    let whole = word(message, 4)? as usize == message.len();
    (whole && message.starts_with(&magic) && word(message, 8)? == session)
        .then(|| word(message, 12))
        .flatten()
}

fn word(message: &[u8], at: usize) -> Option<u32> {
    message.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(length: usize) -> Vec<u8> {
        let mut message = vec![0; length];
        write_request(&mut message, 7, 9);
        message
    }

    #[test]
    fn an_answer_names_its_request() {
        let mut message = request(64);
        assert_eq!(requested_length(&message), Some(64));
        assert_eq!(answered(&message, 7), None, "a request is no answer");
        turn_into_answer(&mut message);
        assert_eq!(answered(&message, 7), Some(9));
        assert_eq!(answered(&message, 8), None, "another session");
        assert_eq!(requested_length(&message), None, "an answer is not answered");
    }

    #[test]
    fn strange_bytes_are_nobodys() {
        for length in 0..HEADER {
            assert_eq!(answered(&vec![0xff; length], 0), None);
            assert_eq!(echoed(&request(HEADER)[..length], 7), None);
        }
        let mut short = request(64);
        turn_into_answer(&mut short);
        assert_eq!(answered(&short[..40], 7), None, "cut off");
        let mut tiny = request(HEADER);
        tiny[4..8].copy_from_slice(&3u32.to_be_bytes());
        assert_eq!(requested_length(&tiny), None, "shorter than its own header");
    }
}
