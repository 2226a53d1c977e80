//! A split virtqueue, seen from the device: buffers that the guest makes available are taken, and given
//! back as used.
//!
//! Source: VIRTIO 1.2, section 2.7. Numbers in it are little-endian, as this machine's are.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering, fence};

use anyhow::{Context, Result, ensure};

use crate::memory::{Memory, Part};

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

const NO_INTERRUPT: u16 = 1;
const NO_NOTIFY: u16 = 1;

const DESCRIPTOR: usize = 16;
const USED: usize = 8;
/// Flags and index of either ring.
const HEADER: usize = 4;

/// The specification's.
const MOST_BUFFERS: u32 = 32768;

/// What the kernel takes in one call (IOV_MAX).
pub const MOST_PARTS: usize = 1024;

const TOO_LONG: &str =
    "a buffer has more parts than a frame can have, or its chain leads in a circle";

/// Where its VMM says that a ring is, by the VMM's own addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    pub descriptors: u64,
    pub available: u64,
    pub used: u64,
}

/// Which way buffers go: `Read` by the device, or `Written`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Written,
}

/// A ring that is served. It holds places in a [`Memory`], and must go before that does.
pub struct Ring {
    size: u16,
    descriptors: NonNull<u8>,
    available: Half,
    used: Half,
    event_idx: bool,
    /// Of the available ring, what is looked at next; it has a place in the used one too.
    next: u16,
    published: u16,
    /// What was published when the guest was notified last.
    notified: Option<u16>,
}

// SAFETY: what the places are in is mapped as long as the ring is there, and shared with others anyway.
unsafe impl Send for Ring {}

/// The available or the used ring.
struct Half(NonNull<u8>);

/// What a descriptor says, read once.
struct Descriptor {
    address: u64,
    bytes: u32,
    flags: u16,
    next: u16,
}

impl Ring {
    /// # Errors
    /// It is of no size that a ring can have, or not all in the guest's memory.
    pub fn new(
        memory: &Memory,
        addresses: &Addresses,
        size: u32,
        next: u16,
        event_idx: bool,
    ) -> Result<Self> {
        ensure!(
            size.is_power_of_two() && size <= MOST_BUFFERS,
            "a ring cannot have {size} buffers"
        );
        let count = size as usize;
        let find = |address, bytes, align: usize| {
            let place = memory.at_vmm(address, bytes);
            let place = place.context("a ring is not in the guest's memory")?;
            ensure!(place.addr().get().is_multiple_of(align), "a ring is not aligned");
            Ok(place)
        };
        let descriptors = find(addresses.descriptors, DESCRIPTOR * count, 16)?;
        let available = Half(find(addresses.available, HEADER + 2 * count + 2, 2)?);
        let used = Half(find(addresses.used, HEADER + USED * count + 2, 4)?);
        // What was used before this process had it: the guest has seen that.
        let published = used.short(2).load(Ordering::Relaxed);
        let (size, notified) = (size as u16, None);
        Ok(Ring { size, descriptors, available, used, event_idx, next, published, notified })
    }

    /// Where the next buffer is taken from.
    pub fn next(&self) -> u16 {
        self.next
    }

    /// How many buffers are there to be taken.
    pub fn waiting(&self) -> Result<u16> {
        let index = self.available.short(2).load(Ordering::Acquire);
        let waiting = index.wrapping_sub(self.next);
        ensure!(
            waiting <= self.size,
            "the guest says that {waiting} buffers wait in a ring of {}",
            self.size
        );
        Ok(waiting)
    }

    /// Follows the chain of the buffer that is so many behind the next one, and adds its parts; returns the
    /// number under which it is given back.
    ///
    /// # Errors
    /// It leads to where it must not.
    pub fn follow(
        &self,
        behind: u16,
        memory: &Memory,
        access: Access,
        parts: &mut Vec<Part>,
    ) -> Result<u16> {
        let entry = usize::from(self.next.wrapping_add(behind) & (self.size - 1));
        let head = self.available.short(HEADER + 2 * entry).load(Ordering::Relaxed);
        let mut table = (self.descriptors, u32::from(self.size));
        let (mut index, mut steps, mut is_indirect) = (head, 0, false);
        loop {
            ensure!(u32::from(index) < table.1, "a buffer's chain leaves its table");
            steps += 1;
            ensure!(steps <= MOST_PARTS, "{TOO_LONG}");
            let descriptor = read(table.0, index);
            if descriptor.flags & INDIRECT != 0 {
                ensure!(
                    !is_indirect && descriptor.flags & NEXT == 0,
                    "a table of descriptors leads to another one"
                );
                table = table_of(&descriptor, memory)?;
                (index, is_indirect) = (0, true);
                continue;
            }
            ensure!(
                (descriptor.flags & WRITE != 0) == (access == Access::Written),
                "a buffer is for the other way"
            );
            ensure!(
                memory.parts(descriptor.address, descriptor.bytes as usize, parts),
                "a buffer of {} bytes at {:#x} is not in the guest's memory",
                descriptor.bytes,
                descriptor.address
            );
            ensure!(parts.len() <= MOST_PARTS, "{TOO_LONG}");
            if descriptor.flags & NEXT == 0 {
                return Ok(head);
            }
            index = descriptor.next;
        }
    }

    /// Writes down that a buffer was used, for [`Ring::publish`] to show: the first, or so many behind it.
    pub fn put(&mut self, behind: u16, head: u16, bytes: u32) {
        let entry = usize::from(self.published.wrapping_add(behind) & (self.size - 1));
        let place = HEADER + USED * entry;
        self.used.long(place).store(u32::from(head), Ordering::Relaxed);
        self.used.long(place + 4).store(bytes, Ordering::Relaxed);
    }

    /// Shows so many used buffers to the guest, all at once, and goes on behind them.
    pub fn publish(&mut self, count: u16) {
        self.next = self.next.wrapping_add(count);
        self.published = self.published.wrapping_add(count);
        self.used.short(2).store(self.published, Ordering::Release);
    }

    /// Whether the guest wants a notification of what was published since the last one.
    pub fn wants_notification(&mut self) -> bool {
        // What was published must be seen by whoever asks for no notification.
        fence(Ordering::SeqCst);
        if !self.event_idx {
            let flags = self.available.short(0).load(Ordering::Relaxed);
            return flags & NO_INTERRUPT == 0;
        }
        let place = HEADER + 2 * usize::from(self.size);
        let event = self.available.short(place).load(Ordering::Relaxed);
        match self.notified.replace(self.published) {
            None => true,
            Some(notified) => is_passed(event, self.published, notified),
        }
    }

    /// Has the guest notify when it makes a buffer available behind so many that were looked at and not used
    /// yet; true where it did so meanwhile.
    pub fn ask_for_kicks(&mut self, staged: u16) -> Result<bool> {
        if self.event_idx {
            let place = HEADER + USED * usize::from(self.size);
            // The guest notifies once its index passes this one: of one that it has passed there is no notification.
            let event = self.next.wrapping_add(staged);
            self.used.short(place).store(event, Ordering::Relaxed);
        } else {
            self.used.short(0).store(0, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
        Ok(self.waiting()? > staged)
    }

    /// Spares the guest the exit: it is looked after anyway. With VIRTIO_F_EVENT_IDX that is so once it
    /// has notified.
    pub fn forbid_kicks(&mut self) {
        if !self.event_idx {
            self.used.short(0).store(NO_NOTIFY, Ordering::Relaxed);
        }
    }
}

impl Half {
    fn short(&self, at: usize) -> &AtomicU16 {
        // SAFETY: `Ring::new` has found all of it in memory that stays mapped, at a multiple of two, and
        // every `at` is one within.
        unsafe { self.0.add(at).cast::<AtomicU16>().as_ref() }
    }

    fn long(&self, at: usize) -> &AtomicU32 {
        // SAFETY: as `short`; the used ring is at a multiple of four, and so is every `at` in it.
        unsafe { self.0.add(at).cast::<AtomicU32>().as_ref() }
    }
}

/// A table of descriptors that a descriptor leads to, and how many it has.
fn table_of(descriptor: &Descriptor, memory: &Memory) -> Result<(NonNull<u8>, u32)> {
    let bytes = descriptor.bytes as usize;
    ensure!(
        bytes > 0 && bytes.is_multiple_of(DESCRIPTOR),
        "a table of descriptors has {bytes} bytes"
    );
    let table = memory.at(descriptor.address, bytes);
    let table = table.context("a table of descriptors is not in the guest's memory")?;
    Ok((table, descriptor.bytes / DESCRIPTOR as u32))
}

/// The caller has seen to it that the table has so many. It may stand at any byte.
fn read(table: NonNull<u8>, index: u16) -> Descriptor {
    // SAFETY: within the table, all of which is mapped; bytes need no alignment. The guest may write
    // there at the same time, and then what is read is checked as any other.
    let bytes: [u8; DESCRIPTOR] = unsafe {
        table
            .add(DESCRIPTOR * usize::from(index))
            .cast::<[u8; DESCRIPTOR]>()
            .as_ptr()
            .read_volatile()
    };
    let number = |from: usize, count: usize| {
        let bytes = bytes.iter().skip(from).take(count);
        bytes.rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
    };
    Descriptor {
        address: number(0, 8),
        bytes: number(8, 4) as u32,
        flags: number(12, 2) as u16,
        next: number(14, 2) as u16,
    }
}

/// Whether an index that went from `old` to `new` has gone past `event` (VIRTIO 1.2, 2.7.10).
pub(crate) fn is_passed(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::memory::MemoryRegion;
    use crate::memory::tests::file;

    pub const SIZE: u16 = 8;
    pub const BYTES: u64 = 0x10000;
    const AVAILABLE: u64 = 0x1000;
    pub const USED_RING: u64 = 0x2000;

    /// The guest's side: whatever it likes, wherever it likes.
    pub struct Guest {
        pub memory: Memory,
        made: u16,
    }

    impl Guest {
        pub fn new() -> Self {
            let lent = MemoryRegion { guest: 0, size: BYTES, vmm: 0, offset: 0 };
            Guest { memory: Memory::new(&[lent], &[file(BYTES)]).unwrap(), made: 0 }
        }

        pub fn write(&self, at: u64, bytes: &[u8]) {
            let place = self.memory.at(at, bytes.len()).unwrap();
            // SAFETY: as many bytes were found there.
            unsafe { place.as_ptr().copy_from(bytes.as_ptr(), bytes.len()) };
        }

        pub fn read(&self, at: u64, count: usize) -> Vec<u8> {
            let place = self.memory.at(at, count).unwrap();
            // SAFETY: as many bytes were found there.
            (0..count).map(|index| unsafe { place.add(index).read() }).collect()
        }

        pub fn short(&self, at: u64) -> u16 {
            u16::from_le_bytes(self.read(at, 2).try_into().unwrap())
        }

        pub fn describe(&self, table: u64, index: u16, (address, bytes, flags, next): Described) {
            let mut all = address.to_le_bytes().to_vec();
            all.extend(bytes.to_le_bytes());
            all.extend(flags.to_le_bytes());
            all.extend(next.to_le_bytes());
            self.write(table + 16 * u64::from(index), &all);
        }

        pub fn make_available(&mut self, head: u16) {
            self.write(AVAILABLE + 4 + 2 * u64::from(self.made % SIZE), &head.to_le_bytes());
            self.made = self.made.wrapping_add(1);
            self.write(AVAILABLE + 2, &self.made.to_le_bytes());
        }

        pub fn ring(&self, event_idx: bool) -> Ring {
            let addresses = Addresses { descriptors: 0, available: AVAILABLE, used: USED_RING };
            Ring::new(&self.memory, &addresses, u32::from(SIZE), self.made, event_idx).unwrap()
        }
    }

    pub type Described = (u64, u32, u16, u16);

    fn follow(guest: &Guest, access: Access) -> Result<Vec<usize>, String> {
        let mut parts = Vec::new();
        let followed = guest.ring(false);
        let ring = Ring { next: guest.made.wrapping_sub(1), ..followed };
        ring.follow(0, &guest.memory, access, &mut parts).map_err(|error| error.to_string())?;
        Ok(parts.iter().map(|part| part.iov_len).collect())
    }

    #[test]
    fn chains_are_followed_also_through_a_table() {
        let mut guest = Guest::new();
        guest.describe(0, 1, (0x3000, 12, NEXT, 5));
        guest.describe(0, 5, (0x4000, 100, 0, 1));
        guest.make_available(1);
        assert_eq!(follow(&guest, Access::Read), Ok(vec![12, 100]));
        assert!(follow(&guest, Access::Written).unwrap_err().contains("the other way"));
        guest.describe(0, 2, (0x5003, 32, INDIRECT, 0));
        guest.describe(0x5003, 0, (0x3000, 7, NEXT | WRITE, 1));
        guest.describe(0x5003, 1, (0x3000, 8, WRITE, 0));
        guest.make_available(2);
        assert_eq!(follow(&guest, Access::Written), Ok(vec![7, 8]));
    }

    #[test]
    fn a_chain_that_leads_nowhere_is_refused() {
        let cases: [(Described, &str); 8] = [
            ((0x3000, 1, NEXT, 0), "in a circle"),
            ((0x3000, 1, NEXT, 8), "leaves its table"),
            ((0xffff, 2, 0, 0), "not in the guest's memory"),
            ((u64::MAX, u32::MAX, 0, 0), "not in the guest's memory"),
            ((0x3000, 15, INDIRECT, 0), "has 15 bytes"),
            ((0x3000, 0, INDIRECT, 0), "has 0 bytes"),
            ((0xfff8, 16, INDIRECT, 0), "table of descriptors is not in"),
            ((0x3000, 16, INDIRECT | NEXT, 0), "leads to another one"),
        ];
        for (described, what) in cases {
            let mut guest = Guest::new();
            guest.describe(0, 0, described);
            guest.make_available(0);
            let error = follow(&guest, Access::Read).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
        let mut guest = Guest::new();
        guest.describe(0, 0, (0x3000, 16, INDIRECT, 0));
        guest.describe(0x3000, 0, (0x3000, 16, INDIRECT, 0));
        guest.make_available(0);
        assert!(follow(&guest, Access::Read).unwrap_err().contains("leads to another one"));
        guest.make_available(SIZE);
        assert!(follow(&guest, Access::Read).unwrap_err().contains("leaves its table"));
    }

    #[test]
    fn more_buffers_than_the_ring_has_are_none() {
        let guest = Guest::new();
        let ring = guest.ring(false);
        guest.write(AVAILABLE + 2, &SIZE.to_le_bytes());
        assert_eq!(ring.waiting().unwrap(), SIZE);
        guest.write(AVAILABLE + 2, &(SIZE + 1).to_le_bytes());
        assert!(ring.waiting().unwrap_err().to_string().contains("9 buffers wait in a ring of 8"));
    }

    #[test]
    fn used_buffers_are_seen_together_over_the_end_of_the_numbers() {
        let mut guest = Guest::new();
        guest.made = u16::MAX;
        guest.write(USED_RING + 2, &u16::MAX.to_le_bytes());
        let mut ring = guest.ring(false);
        for head in [3, 4] {
            guest.make_available(head);
        }
        assert_eq!(ring.waiting().unwrap(), 2);
        ring.put(0, 3, 100);
        ring.put(1, 4, 50);
        assert_eq!(guest.short(USED_RING + 2), u16::MAX, "not before both are there");
        ring.publish(2);
        assert_eq!((guest.short(USED_RING + 2), ring.waiting().unwrap(), ring.next()), (1, 0, 1));
        assert_eq!(guest.read(USED_RING + 4 + 8 * 7, 8), [3, 0, 0, 0, 100, 0, 0, 0]);
        assert_eq!(guest.read(USED_RING + 4, 8), [4, 0, 0, 0, 50, 0, 0, 0]);
    }

    #[test]
    fn a_guest_is_reported_and_reports_only_when_asked() {
        let mut guest = Guest::new();
        let mut ring = guest.ring(false);
        assert!(ring.wants_notification());
        guest.write(AVAILABLE, &NO_INTERRUPT.to_le_bytes());
        assert!(!ring.wants_notification());
        ring.forbid_kicks();
        assert_eq!(guest.short(USED_RING), NO_NOTIFY);
        assert!(!ring.ask_for_kicks(0).unwrap());
        assert_eq!(guest.short(USED_RING), 0);
        guest.make_available(0);
        assert!(ring.ask_for_kicks(0).unwrap(), "it came meanwhile");

        let guest = Guest::new();
        let mut ring = guest.ring(true);
        assert!(ring.wants_notification(), "nobody knows when it was notified last");
        let event = AVAILABLE + 4 + 2 * u64::from(SIZE);
        guest.write(event, &1u16.to_le_bytes());
        ring.publish(1);
        assert!(!ring.wants_notification());
        ring.publish(1);
        assert!(ring.wants_notification());
        ring.ask_for_kicks(0).unwrap_err();
        assert_eq!(guest.short(USED_RING + 4 + 8 * u64::from(SIZE)), 2);
    }

    #[test]
    fn rings_are_where_rings_can_be() {
        let guest = Guest::new();
        let made = |descriptors, available, used, size| {
            let addresses = Addresses { descriptors, available, used };
            Ring::new(&guest.memory, &addresses, size, 0, true).map(|_| ())
        };
        assert!(made(0, 0x1000, 0x2000, 8).is_ok());
        for (descriptors, available, used, size) in [
            (0, 0x1000, 0x2000, 0),
            (0, 0x1000, 0x2000, 7),
            (0, 0x1000, 0x2000, 65536),
            (8, 0x1000, 0x2000, 8),
            (0, 0x1001, 0x2000, 8),
            (0, 0x1000, 0x2002, 8),
            (BYTES - 64, 0x1000, 0x2000, 8),
            (0, u64::MAX - 1, 0x2000, 8),
            (0, 0x1000, BYTES - 16, 8),
        ] {
            assert!(made(descriptors, available, used, size).is_err(), "{descriptors} {size}");
        }
    }

    fn anything() -> impl Strategy<Value = Described> {
        let address = prop_oneof![0..BYTES + 64, any::<u64>()];
        let bytes = prop_oneof![0u32..256, (0u32..8).prop_map(|n| 16 * n), any::<u32>()];
        (address, bytes, prop_oneof![0u16..8, any::<u16>()], prop_oneof![0..SIZE, any::<u16>()])
    }

    proptest! {
        /// Whatever stands in the table and in the rings: no panic, an end, and no part that is not all
        /// in the guest's memory.
        #[test]
        fn no_guest_leads_out_of_its_memory(
            table in prop::collection::vec(anything(), 2 * usize::from(SIZE)),
            heads in prop::collection::vec(prop_oneof![0..SIZE, any::<u16>()], 1..8),
            event_idx: bool,
        ) {
            let mut guest = Guest::new();
            let mut ring = guest.ring(event_idx);
            for (index, described) in table.iter().enumerate() {
                // Half of them where a table that one leads to may be.
                let at = if index < usize::from(SIZE) { 0 } else { 0x3000 };
                guest.describe(at, index as u16 % SIZE, *described);
            }
            heads.iter().for_each(|head| guest.make_available(*head));
            let first = guest.memory.at(0, 1).unwrap().addr().get();
            let end = first + usize::try_from(BYTES).unwrap();
            for behind in 0..ring.waiting().unwrap() {
                for access in [Access::Read, Access::Written] {
                    let mut parts = Vec::new();
                    if let Ok(head) = ring.follow(behind, &guest.memory, access, &mut parts) {
                        ring.put(behind, head, 1);
                    }
                    prop_assert!(parts.len() <= MOST_PARTS);
                    for part in parts {
                        let from = part.iov_base.addr();
                        prop_assert!(from >= first && from + part.iov_len <= end);
                    }
                }
            }
            ring.publish(ring.waiting().unwrap());
            ring.wants_notification();
            ring.ask_for_kicks(0).unwrap();
        }
    }
}
