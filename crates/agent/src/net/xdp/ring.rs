//! The rings of an AF_XDP socket: one side puts entries in and moves the producer's index, the other takes them
//! out and moves the consumer's. Indices only grow; an entry's place is the index modulo the ring's size.
//!
//! The kernel is the other side. Its indices are checked all the same: a wrong index would be a wrong
//! address in this process.
//!
//! Source: Linux, Documentation/networking/af_xdp.rst, and net/xdp/xsk_queue.h for the order of accesses.

use anyhow::{Result, ensure};
use rustix::net::xdp::{XdpRingFlags, XdpRingOffset};

use crate::net::frames::memory::Shared;

/// Bytes of an entry: an address; or `struct xdp_desc`, address, length and options.
const ADDRESS: usize = 8;
const DESCRIPTOR: usize = 16;

/// The common part of both kinds.
struct Ring {
    memory: Shared,
    /// Where its parts stand in the memory.
    offsets: XdpRingOffset,
    /// Entries; a power of two.
    size: u32,
    /// Bytes of one.
    entry: usize,
}

impl Ring {
    /// `map` maps so many bytes of the socket's ring.
    fn new(
        offsets: &XdpRingOffset,
        size: u32,
        entry: usize,
        map: impl FnOnce(usize) -> Result<Shared>,
    ) -> Result<Self> {
        ensure!(size.is_power_of_two(), "a ring cannot have {size} entries");
        let bytes = offsets.desc.saturating_add(u64::from(size) * entry as u64);
        let is_index = |at: u64| at.is_multiple_of(4) && at.saturating_add(4) <= bytes;
        let mut indices = [offsets.producer, offsets.consumer].into_iter().chain(offsets.flags);
        ensure!(
            indices.all(is_index) && bytes < isize::MAX as u64,
            "the kernel describes a ring that is not in its own memory"
        );
        Ok(Ring { memory: map(usize::try_from(bytes)?)?, offsets: *offsets, size, entry })
    }

    /// How far the producer is ahead.
    fn between(&self, producer: u32, consumer: u32) -> Result<u32> {
        let count = producer.wrapping_sub(consumer);
        ensure!(
            count <= self.size,
            "the kernel says that {count} entries are in a ring of {}",
            self.size
        );
        Ok(count)
    }

    /// Where the entry with this index stands.
    fn at(&self, index: u32) -> usize {
        self.offsets.desc as usize + (index & (self.size - 1)) as usize * self.entry
    }
}

/// Received frames: the kernel produces, this side consumes.
pub struct Received {
    ring: Ring,
    next: u32,
}

impl Received {
    pub fn new(
        offsets: &XdpRingOffset,
        size: u32,
        map: impl FnOnce(usize) -> Result<Shared>,
    ) -> Result<Self> {
        let ring = Ring::new(offsets, size, DESCRIPTOR, map)?;
        let next = ring.memory.load(ring.offsets.consumer as usize);
        Ok(Received { ring, next })
    }

    /// How many frames wait.
    pub fn waiting(&self) -> Result<u32> {
        let produced = self.ring.memory.load(self.ring.offsets.producer as usize);
        self.ring.between(produced, self.next)
    }

    /// Address in the frames' memory and length of the frame that is so many behind the next one. The
    /// caller knows that the frame exists, and checks both.
    pub fn at(&self, behind: u32) -> (u64, u32) {
        let at = self.ring.at(self.next.wrapping_add(behind));
        let entry = self.ring.memory.bytes(at, DESCRIPTOR);
        (number(entry, 0, 8), number(entry, 8, 4) as u32)
    }

    /// Gives the places of so many frames back.
    pub fn release(&mut self, count: u32) {
        self.next = self.next.wrapping_add(count);
        self.ring.memory.store(self.ring.offsets.consumer as usize, self.next);
    }
}

fn number(bytes: &[u8], from: usize, count: usize) -> u64 {
    let bytes = bytes.iter().skip(from).take(count);
    bytes.rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

/// Buffers for the kernel's frames: this side produces, the kernel consumes.
pub struct Fill {
    ring: Ring,
    next: u32,
}

impl Fill {
    pub fn new(
        offsets: &XdpRingOffset,
        size: u32,
        map: impl FnOnce(usize) -> Result<Shared>,
    ) -> Result<Self> {
        let ring = Ring::new(offsets, size, ADDRESS, map)?;
        let next = ring.memory.load(ring.offsets.producer as usize);
        Ok(Fill { ring, next })
    }

    /// Puts in an address that [`Fill::publish`] will show: the first, or so many behind it.
    pub fn put(&mut self, behind: u32, address: u64) -> Result<()> {
        let consumed = self.ring.memory.load(self.ring.offsets.consumer as usize);
        let taken = self.ring.between(self.next, consumed)?;
        ensure!(taken + behind < self.ring.size, "there is no room in the ring of free buffers");
        let at = self.ring.at(self.next.wrapping_add(behind));
        self.ring.memory.bytes_mut(at, ADDRESS).copy_from_slice(&address.to_ne_bytes());
        Ok(())
    }

    pub fn publish(&mut self, count: u32) {
        self.next = self.next.wrapping_add(count);
        self.ring.memory.store(self.ring.offsets.producer as usize, self.next);
    }

    /// Whether the driver has found it empty, and looks again only when asked to.
    pub fn needs_wakeup(&self) -> bool {
        let flags = self.ring.offsets.flags.map_or(0, |at| self.ring.memory.load(at as usize));
        XdpRingFlags::from_bits_retain(flags).contains(XdpRingFlags::XDP_RING_NEED_WAKEUP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u32 = 4;
    const FLAGS: usize = 68;
    const ENTRIES: usize = 128;
    const OFFSETS: XdpRingOffset = XdpRingOffset {
        producer: 0,
        consumer: 64,
        desc: ENTRIES as u64,
        flags: Some(FLAGS as u64),
    };

    /// The kernel's side, and that both indices begin here.
    fn made(first: u32) -> impl FnOnce(usize) -> Result<Shared> {
        move |bytes| {
            let memory = Shared::own(bytes)?;
            memory.store(0, first);
            memory.store(64, first);
            Ok(memory)
        }
    }

    fn describe(received: &mut Received, index: u32, address: u64, bytes: u32) {
        let at = ENTRIES + 16 * (index % SIZE) as usize;
        let entry = received.ring.memory.bytes_mut(at, 16);
        entry[..8].copy_from_slice(&address.to_ne_bytes());
        entry[8..12].copy_from_slice(&bytes.to_ne_bytes());
    }

    #[test]
    fn frames_are_taken_in_order_over_the_end_of_the_numbers() {
        let first = u32::MAX - 1;
        let mut received = Received::new(&OFFSETS, SIZE, made(first)).unwrap();
        assert_eq!(received.waiting().unwrap(), 0);
        for behind in 0..3 {
            let index = first.wrapping_add(behind);
            describe(&mut received, index, u64::from(behind) << 12, 60 + behind);
        }
        received.ring.memory.store(0, first.wrapping_add(3));
        assert_eq!(received.waiting().unwrap(), 3);
        assert_eq!(received.at(2), (2 << 12, 62));
        received.release(2);
        assert_eq!(received.ring.memory.load(64), 0);
        assert_eq!((received.waiting().unwrap(), received.at(0)), (1, (2 << 12, 62)));
    }

    #[test]
    fn an_index_that_cannot_be_is_refused() {
        let received = Received::new(&OFFSETS, SIZE, made(7)).unwrap();
        for wrong in [6, 7 + SIZE + 1, u32::MAX] {
            received.ring.memory.store(0, wrong);
            let error = received.waiting().unwrap_err().to_string();
            assert!(error.contains("entries are in a ring of 4"), "{error}");
        }
        let mut fill = Fill::new(&OFFSETS, SIZE, made(7)).unwrap();
        fill.ring.memory.store(64, 8);
        assert!(fill.put(0, 0).unwrap_err().to_string().contains("in a ring of 4"));
    }

    #[test]
    fn buffers_are_shown_together_and_no_more_than_there_is_room_for() {
        let mut fill = Fill::new(&OFFSETS, SIZE, made(u32::MAX)).unwrap();
        (0..SIZE).for_each(|n| fill.put(n, 0x1000 * u64::from(n)).unwrap());
        assert!(fill.put(SIZE, 0).unwrap_err().to_string().contains("no room"));
        assert_eq!(fill.ring.memory.load(0), u32::MAX);
        fill.publish(SIZE);
        assert_eq!(fill.ring.memory.load(0), SIZE - 1);
        assert!(fill.put(0, 0).is_err());
        fill.ring.memory.store(64, 0);
        fill.put(0, 5).unwrap();
        assert_eq!(fill.ring.memory.bytes(ENTRIES + 8 * 3, 8), 5_u64.to_ne_bytes());
    }

    #[test]
    fn a_driver_that_sleeps_is_seen() {
        let fill = Fill::new(&OFFSETS, SIZE, made(0)).unwrap();
        assert!(!fill.needs_wakeup());
        fill.ring.memory.store(FLAGS, 1);
        assert!(fill.needs_wakeup());
        let old = XdpRingOffset { flags: None, ..OFFSETS };
        assert!(!Fill::new(&old, SIZE, made(1)).unwrap().needs_wakeup());
    }

    #[test]
    fn rings_are_where_rings_can_be() {
        let refused = |offsets: XdpRingOffset, size| Fill::new(&offsets, size, made(0)).is_err();
        assert!(!refused(OFFSETS, SIZE));
        for size in [0, 3] {
            assert!(refused(OFFSETS, size), "{size}");
        }
        for offsets in [
            XdpRingOffset { producer: 4096, ..OFFSETS },
            XdpRingOffset { consumer: u64::MAX - 3, ..OFFSETS },
            XdpRingOffset { consumer: 2, ..OFFSETS },
            XdpRingOffset { desc: u64::MAX - 7, ..OFFSETS },
            XdpRingOffset { flags: Some(158), ..OFFSETS },
        ] {
            assert!(refused(offsets, SIZE), "{offsets:?}");
        }
    }
}
