//! The account of a stream's numbered messages that arrived, be they datagrams or frames.

use std::time::Duration;

use super::datagram::{self, Kind};
use super::sequence::Sequence;

/// The end is announced several times, because an announcement may be lost too.
pub const END_MARKS: u32 = 8;
pub const BETWEEN_END_MARKS: Duration = Duration::from_millis(5);

/// Which datagrams are the flow's, and which of them count.
pub struct Account {
    flow: u16,
    /// Where a message has its header.
    header_at: usize,
    /// First word of the stream's headers, once one has come.
    owner: Option<u64>,
    pub sequence: Sequence,
    only_end: bool,
    /// Whether a message came that the sender does not count.
    pub settled: bool,
    pub ended: bool,
    pub end_marks: u32,
    /// Every datagram of the stream, whether it counts or not.
    pub all: u64,
    pub all_bytes: u64,
    pub foreign: u64,
}

impl Account {
    pub fn new(flow: u16, header_at: usize) -> Self {
        let sequence = Sequence::new();
        Account {
            flow,
            header_at,
            owner: None,
            only_end: false,
            sequence,
            settled: false,
            ended: false,
            end_marks: 0,
            all: 0,
            all_bytes: 0,
            foreign: 0,
        }
    }

    /// Bytes and number of the datagrams that count and had not come before.
    pub fn take<'a>(&mut self, datagrams: impl Iterator<Item = &'a [u8]>) -> (u64, u64) {
        let (mut bytes, mut packets) = (0, 0);
        for datagram in datagrams {
            let counts = self.counts(datagram);
            bytes += if counts { datagram.len() as u64 } else { 0 };
            packets += u64::from(counts);
        }
        (bytes, packets)
    }

    /// The same, and reports their numbers.
    pub fn take_noting<'a>(
        &mut self,
        datagrams: impl Iterator<Item = &'a [u8]>,
        mut note: impl FnMut(u64),
    ) -> (u64, u64) {
        let header_at = self.header_at;
        let number = |datagram: &[u8]| {
            let (_, mark) = datagram.get(header_at..).and_then(datagram::words)?;
            datagram::read_mark(mark).map(|(_, number)| number)
        };
        let (mut bytes, mut packets) = (0, 0);
        for datagram in datagrams {
            if self.counts(datagram) {
                bytes += datagram.len() as u64;
                packets += 1;
                number(datagram).into_iter().for_each(&mut note);
            }
        }
        (bytes, packets)
    }

    #[inline]
    pub fn counts(&mut self, datagram: &[u8]) -> bool {
        let header = datagram.get(self.header_at..).and_then(datagram::words);
        let Some((owner, mark)) = header else { return self.refuse() };
        let Some((kind, number)) = datagram::read_mark(mark) else { return self.refuse() };
        if self.owner != Some(owner) && !self.adopt(owner, kind) {
            return self.refuse();
        }
        self.all += 1;
        self.all_bytes += datagram.len() as u64;
        match kind {
            Kind::Counted => self.sequence.note(number),
            Kind::Settling => {
                self.settled = true;
                false
            }
            Kind::End => {
                self.sequence.ended(number);
                self.ended = true;
                self.end_marks += 1;
                false
            }
        }
    }

    /// The first stream that comes is counted. A stream of which only the end came may be this one, wholly
    /// lost, or an earlier one: it gives way to another.
    #[cold]
    fn adopt(&mut self, owner: u64, kind: Kind) -> bool {
        let gives_way = self.owner.is_none() || (self.only_end && kind != Kind::End);
        if !gives_way || !datagram::is_of_flow(owner, self.flow) {
            return false;
        }
        let only_end = kind == Kind::End;
        let new = Self::new(self.flow, self.header_at);
        *self = Account { owner: Some(owner), only_end, foreign: self.foreign, ..new };
        true
    }

    #[cold]
    fn refuse(&mut self) -> bool {
        self.foreign += 1;
        false
    }

    /// Whether nothing more will come. A missing message may still be under way: it may wait in the queue
    /// of a CPU that its sender has left, where the mark of the end overtakes it.
    pub fn is_complete(&self) -> bool {
        self.end_marks == END_MARKS && self.sequence.lost() == 0
    }

    pub fn came(&self) -> bool {
        self.owner.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reports_the_end_may_overtake_what_is_missing() {
        let mut account = Account::new(0, 4);
        let mut come = |kind, number| {
            let mut frame = [0; 4 + datagram::HEADER];
            datagram::write(&mut frame[4..], datagram::owner(0, 1), datagram::mark(kind, number));
            account.counts(&frame);
            account.is_complete()
        };
        come(Kind::Counted, 0);
        for _ in 0..END_MARKS {
            assert!(!come(Kind::End, 2));
        }
        assert!(come(Kind::Counted, 1));
    }
}
