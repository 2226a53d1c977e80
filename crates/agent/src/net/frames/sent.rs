//! The generator's ring (TPACKET_V2): the frames are in it from the beginning. Only the part that differs
//! is written before each one is sent, and one call hands over a burst.

use std::io;
use std::os::fd::AsRawFd;

use anyhow::{Context as _, Result, ensure};
use socket2::Socket;

use super::memory::Shared;
use super::socket;
use crate::net::Link;

/// Frames of the ring. The kernel gives one back when it belongs to nobody's socket any more, and a
/// guest's tap takes it from the socket before the guest has read it: so there are more of them than
/// the queues on the way hold (1,000 in a tap and 1,000 in a backlog).
const SLOTS: usize = 4096;

/// Bytes of a ring with frames that are long; it still has more than those queues hold.
const MOST_BYTES: usize = 32 << 20;

/// struct tpacket2_hdr, aligned; the frame follows it.
const HEADER: usize = 32;
const LENGTH_AT: usize = 4;

/// Disciplines that only let frames wait, which can be bypassed. A study sets the rate of a line by another
/// discipline, to which frames keep.
const PASSED_BY: &[&str] = &["noqueue", "pfifo_fast", "fq_codel", "mq"];

pub struct SendRing {
    memory: Shared,
    socket: Socket,
    slot: usize,
    slots: usize,
    frame: usize,
    /// The slot that is filled next, and the number of those before it that were not sent yet.
    next: usize,
    waiting: usize,
}

/// The frames of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gone {
    pub frames: u64,
    /// Frames that the interface had no room for.
    pub refused: u64,
}

impl SendRing {
    /// Each frame begins as this one.
    pub fn open(link: &Link, frame: &[u8]) -> Result<Self> {
        ensure!(link.up, "{0} is not up: `ip link set {0} up`", link.name);
        let socket = socket::open()?;
        let version = libc::tpacket_versions::TPACKET_V2 as i32;
        socket::set(&socket, libc::PACKET_VERSION, &version).context("no rings of frames here")?;
        if PASSED_BY.contains(&link.discipline.as_str()) {
            // Without the queue nothing is missing: it has no other sender here.
            let _ = socket::set(&socket, libc::PACKET_QDISC_BYPASS, &1i32);
        }
        let slot = (HEADER + frame.len()).next_power_of_two();
        let slots = SLOTS.min(MOST_BYTES / slot);
        let block = slot.max(rustix::param::page_size());
        let request = libc::tpacket_req {
            tp_block_size: block as u32,
            tp_block_nr: (slots * slot / block) as u32,
            tp_frame_size: slot as u32,
            tp_frame_nr: slots as u32,
        };
        socket::set(&socket, libc::PACKET_TX_RING, &request).context("no ring to send from")?;
        let mut memory = Shared::map(&socket, slots * slot)?;
        for number in 0..slots {
            memory.bytes_mut(number * slot + HEADER, frame.len()).copy_from_slice(frame);
        }
        socket::send_only(&socket, link)?;
        Ok(SendRing { memory, socket, slot, slots, frame: frame.len(), next: 0, waiting: 0 })
    }

    pub fn bytes(&self) -> usize {
        self.slot * self.slots
    }

    /// The next frame, to be changed and then sent by [`SendRing::send`]; false where the kernel still
    /// has it.
    #[inline]
    pub fn fill(&mut self, change: impl FnOnce(&mut [u8])) -> bool {
        let start = self.next * self.slot;
        if self.memory.load(start) != libc::TP_STATUS_AVAILABLE {
            return false;
        }
        change(self.memory.bytes_mut(start + HEADER, self.frame));
        let length = self.frame as u32;
        self.memory.bytes_mut(start + LENGTH_AT, 4).copy_from_slice(&length.to_ne_bytes());
        self.memory.store(start, libc::TP_STATUS_SEND_REQUEST);
        self.next = (self.next + 1) % self.slots;
        self.waiting += 1;
        true
    }

    /// Hands the filled slots over, as far as the kernel takes them now; the others have to be filled
    /// again.
    pub fn send(&mut self) -> io::Result<Gone> {
        // SAFETY: it is given no bytes: what it sends is in the ring.
        let sent =
            unsafe { libc::send(self.socket.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT) };
        let error = io::Error::last_os_error();
        let frames = self.gone();
        self.take_back();
        let refused = match error.raw_os_error() {
            _ if sent >= 0 => 0,
            Some(libc::EAGAIN | libc::EINTR) => 0,
            Some(libc::ENOBUFS) => 1,
            _ => return Err(socket::explained(error)),
        };
        Ok(Gone { frames, refused })
    }

    /// The number of slots that were sent. The call itself reports zero when one of them was refused.
    fn gone(&mut self) -> u64 {
        let before = self.waiting;
        while self.waiting > 0
            && self.memory.load(self.oldest() * self.slot) != libc::TP_STATUS_SEND_REQUEST
        {
            self.waiting -= 1;
        }
        (before - self.waiting) as u64
    }

    /// Filling goes on at the slot where the kernel stopped and will go on.
    fn take_back(&mut self) {
        let oldest = self.oldest();
        for number in 0..self.waiting {
            let slot = (oldest + number) % self.slots;
            self.memory.store(slot * self.slot, libc::TP_STATUS_AVAILABLE);
        }
        (self.next, self.waiting) = (oldest, 0);
    }

    /// The oldest slot that is filled and was not sent.
    fn oldest(&self) -> usize {
        (self.next + self.slots - self.waiting) % self.slots
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::made;
    use super::*;

    const SLOT: usize = 128;

    /// A ring of four slots without a kernel behind it.
    fn ring() -> SendRing {
        let memory = made::of(&[0; 4 * SLOT]);
        let socket = Socket::from(std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        SendRing { memory, socket, slot: SLOT, slots: 4, frame: 60, next: 0, waiting: 0 }
    }

    fn take(ring: &SendRing, slot: usize) {
        ring.memory.store(slot * SLOT, libc::TP_STATUS_AVAILABLE);
    }

    #[test]
    fn what_did_not_go_is_filled_again() {
        let mut ring = ring();
        for number in 0..4 {
            assert!(ring.fill(|frame| frame[59] = number));
        }
        assert!(!ring.fill(|_| panic!("the ring is full")));
        take(&ring, 0);
        take(&ring, 1);
        assert_eq!(ring.gone(), 2);
        ring.take_back();
        assert_eq!((ring.next, ring.waiting), (2, 0));
        assert_eq!(ring.memory.load(2 * SLOT), libc::TP_STATUS_AVAILABLE);
        assert!(ring.fill(|frame| assert_eq!(frame[59], 2)));
    }

    #[test]
    fn a_slot_that_the_kernel_has_is_waited_for() {
        let mut ring = ring();
        ring.memory.store(0, libc::TP_STATUS_SENDING);
        assert!(!ring.fill(|_| panic!("it is the kernel's")));
        assert_eq!(ring.gone(), 0);
    }
}
