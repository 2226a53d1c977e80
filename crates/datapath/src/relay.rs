//! Moves frames past a guest's card: between a packet socket, which has what others send to an address beside
//! the card's own, and two rings in memory that the guest shares with its machine, one each way.
//!
//! **The guest writes what is in that memory.** A ring that says what cannot be ends the relay, with a
//! sentence. A frame leaves only from the guest's own address, to one receiver, of our EtherType and no longer
//! than was agreed: any other is refused and counted.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::counters::{Count, Counters};
use crate::frame_ring::{LONGEST, Reader, Writer};
use crate::memory::Mapped;

pub type Mac = [u8; 6];

/// IEEE Std 802: Local Experimental EtherType 1.
const ETHER_TYPE: [u8; 2] = 0x88B5_u16.to_be_bytes();
/// Two addresses and the type.
const HEADER: usize = 14;

/// What a relay works with.
pub struct Parts {
    /// The memory's file: its first half is for frames to the guest, its second for those from it.
    pub memory: OwnedFd,
    pub bytes: usize,
    /// On the guest's bridge; it gets the frames for the guest and no others.
    pub socket: OwnedFd,
    /// Page for [`crate::counters`].
    pub counters: OwnedFd,
    /// The guest's, beside its card's.
    pub address: Mac,
    /// Longest frame, in bytes with its header.
    pub longest: usize,
}

pub struct Relay {
    socket: OwnedFd,
    to_guest: Writer<Mapped>,
    from_guest: Reader<Mapped>,
    counters: Counters,
    address: Mac,
    longest: usize,
    /// The last frame to the guest, and the last one from it.
    inward: Vec<u8>,
    outward: Vec<u8>,
}

impl Relay {
    /// Begins both rings afresh. The guest begins to write after it sees that the machine has.
    pub fn new(parts: Parts) -> Result<Self> {
        let Parts { memory, bytes, socket, counters, address, longest } = parts;
        ensure!(
            (HEADER..=LONGEST).contains(&longest),
            "the longest frame has {longest} bytes: it must be from {HEADER} to {LONGEST}"
        );
        let half = bytes / 2;
        let from_guest = Reader::before(Mapped::new(&memory, half as u64, half)?)?;
        let to_guest = Writer::new(Mapped::new(&memory, 0, half)?)?;
        let counters = Counters::new(&counters)?;
        let (inward, outward) = (vec![0; longest], Vec::with_capacity(longest));
        Ok(Relay { socket, to_guest, from_guest, counters, address, longest, inward, outward })
    }

    /// Moves at most so many frames each way; returns how many there were.
    ///
    /// # Errors
    /// The guest says of its rings what cannot be, or the interface is gone.
    pub fn turn(&mut self, most: u16) -> Result<u32> {
        Ok(self.receive(most)? + self.send(most)?)
    }

    /// What becomes readable with a frame for the guest.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn receive(&mut self, most: u16) -> Result<u32> {
        for count in 0..u32::from(most) {
            let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
            let length = match recv(&self.socket, &mut self.inward[..], flags) {
                Ok((_, length)) => length,
                Err(Errno::AGAIN | Errno::INTR) => return Ok(count),
                Err(error) => return Err(error).context("receiving a guest's frames"),
            };
            let Some(frame) = self.inward.get(..length) else {
                self.counters.add(Count::Refused, 1);
                continue;
            };
            if self.to_guest.put(frame)? {
                self.counters.add(Count::FramesIn, 1);
                self.counters.add(Count::BytesIn, length as u64);
            } else {
                self.counters.add(Count::Full, 1);
            }
        }
        Ok(u32::from(most))
    }

    fn send(&mut self, most: u16) -> Result<u32> {
        for count in 0..u32::from(most) {
            if !self.from_guest.take(&mut self.outward)? {
                return Ok(count);
            }
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            if self.may_leave() && send(&self.socket, &self.outward, flags).is_ok() {
                self.counters.add(Count::FramesOut, 1);
                self.counters.add(Count::BytesOut, self.outward.len() as u64);
            } else {
                self.counters.add(Count::Refused, 1);
            }
        }
        Ok(u32::from(most))
    }

    fn may_leave(&self) -> bool {
        let frame = &self.outward;
        frame.len() <= self.longest
            && frame.get(12..HEADER) == Some(&ETHER_TYPE[..])
            && frame.get(6..12) == Some(&self.address[..])
            && frame.first().is_some_and(|first| first & 1 == 0)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::net::UnixDatagram;

    use proptest::prelude::*;

    use super::*;
    use crate::counters;
    use crate::frame_ring::Words;
    use crate::memory::tests::file;

    const BYTES: usize = 1 << 20;
    const MINE: Mac = [2, 0, 0, 0, 0, 7];

    struct Ends {
        relay: Relay,
        wire: UnixDatagram,
        counters: File,
        memory: OwnedFd,
    }

    fn ends() -> Ends {
        let (socket, wire) = UnixDatagram::pair().unwrap();
        wire.set_nonblocking(true).unwrap();
        let (memory, page) = (file(BYTES as u64), counters::page().unwrap());
        let parts = Parts {
            memory: memory.try_clone().unwrap(),
            bytes: BYTES,
            socket: socket.into(),
            counters: page.try_clone().unwrap(),
            address: MINE,
            longest: 100,
        };
        Ends { relay: Relay::new(parts).unwrap(), wire, counters: page.into(), memory }
    }

    impl Ends {
        fn half(&self, which: u64) -> Mapped {
            Mapped::new(&self.memory, which * BYTES as u64 / 2, BYTES / 2).unwrap()
        }

        fn count(&self, which: Count) -> u64 {
            counters::read(&self.counters).unwrap()[which as usize]
        }
    }

    fn frame(to: u8, from: Mac, length: usize) -> Vec<u8> {
        let mut frame = vec![to; length];
        frame[6..12].copy_from_slice(&from);
        frame[12..14].copy_from_slice(&ETHER_TYPE);
        frame
    }

    #[test]
    fn frames_go_both_ways_and_are_counted() {
        let mut ends = ends();
        let mut reader = Reader::new(ends.half(0)).unwrap();
        let mut writer = Writer::new(ends.half(1)).unwrap();
        let mine = frame(4, MINE, 60);
        writer.put(&mine).unwrap();
        ends.wire.send(&frame(2, [8; 6], 100)).unwrap();
        assert_eq!(ends.relay.turn(8).unwrap(), 2);
        assert_eq!(ends.relay.turn(8).unwrap(), 0);
        let mut taken = vec![0; 200];
        assert_eq!(ends.wire.recv(&mut taken).unwrap(), 60);
        assert_eq!(taken[..60], mine);
        assert!(reader.take(&mut taken).unwrap());
        assert_eq!(taken, frame(2, [8; 6], 100));
        let counts =
            [Count::FramesIn, Count::BytesIn, Count::FramesOut, Count::BytesOut, Count::Refused];
        assert_eq!(counts.map(|which| ends.count(which)), [1, 100, 1, 60, 0]);
    }

    #[test]
    fn a_turn_ends_though_there_is_more() {
        let mut ends = ends();
        let mut writer = Writer::new(ends.half(1)).unwrap();
        for _ in 0..5 {
            writer.put(&frame(4, MINE, 60)).unwrap();
        }
        let turns = [3, 3, 3].map(|most| ends.relay.turn(most).unwrap());
        assert_eq!(turns, [3, 2, 0]);
    }

    #[test]
    fn what_a_guest_may_not_send_stays() {
        let mut ends = ends();
        let mut writer = Writer::new(ends.half(1)).unwrap();
        let mut other_type = frame(4, MINE, 60);
        other_type[12] = 8;
        for strange in [
            frame(4, [9; 6], 60),
            frame(5, MINE, 60),
            frame(4, MINE, 101),
            other_type,
            vec![],
            vec![4; 13],
        ] {
            writer.put(&strange).unwrap();
        }
        ends.wire.send(&frame(2, [8; 6], 101)).unwrap();
        ends.relay.turn(100).unwrap();
        assert_eq!(ends.count(Count::Refused), 7);
        assert!(ends.wire.recv(&mut [0; 200]).is_err());
    }

    #[test]
    fn a_guest_that_lies_of_its_ring_ends_the_relay_with_a_sentence() {
        let mut ends = ends();
        // Where the position of what was written stands.
        ends.half(1).words()[8].store(u64::MAX / 2, std::sync::atomic::Ordering::Relaxed);
        let error = ends.relay.turn(8).unwrap_err().to_string();
        assert!(error.contains("words apart"), "{error}");
    }

    proptest! {
        #[test]
        fn whatever_a_guest_writes_a_turn_ends_and_no_frame_of_others_leaves(
            scribbles in prop::collection::vec((0..BYTES / 8, any::<u64>()), 1..40),
        ) {
            let mut ends = ends();
            let mut writer = Writer::new(ends.half(1)).unwrap();
            writer.put(&frame(4, MINE, 60)).unwrap();
            let all = Mapped::new(&ends.memory, 0, BYTES).unwrap();
            for (at, value) in scribbles {
                all.words()[at % 600].store(value, std::sync::atomic::Ordering::Relaxed);
                all.words()[at].store(value, std::sync::atomic::Ordering::Relaxed);
                all.words()[BYTES / 16 + at % 600].store(value % 64, std::sync::atomic::Ordering::Relaxed);
                let _ = ends.relay.turn(8);
                let mut taken = [0; 200];
                while let Ok(length) = ends.wire.recv(&mut taken) {
                    prop_assert!(length <= 100 && taken[6..12] == MINE);
                }
            }
        }
    }
}
