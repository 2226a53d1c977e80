//! A guest's card: its rings, its TAP, and the settings that its VMM has sent.
//!
//! Frames are moved by `readv` and `writev` on the guest's own memory, so the kernel's copy is the only
//! one. Each begins with the header of virtio-net, which the TAP gives and takes as it is: checksums and
//! segments are the kernel's matter, as with QEMU's own back end.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use crate::counters::{Count, Counters};
use crate::memory::{Memory, Part};
use crate::protocol::{self, ANSWERS, MANY_QUEUES, Message, Said};
use crate::ring::{Access, Addresses, Ring};

/// Feature bits of virtio-net and of rings (VIRTIO 1.2, 5.1.3 and 6).
const CSUM: u64 = 1;
const GUEST_CSUM: u64 = 1 << 1;
const GUEST_TSO4: u64 = 1 << 7;
const GUEST_TSO6: u64 = 1 << 8;
const GUEST_ECN: u64 = 1 << 9;
const GUEST_UFO: u64 = 1 << 10;
const HOST_TSO4: u64 = 1 << 11;
const HOST_TSO6: u64 = 1 << 12;
const HOST_ECN: u64 = 1 << 13;
const HOST_UFO: u64 = 1 << 14;
const MERGEABLE: u64 = 1 << 15;
const MANY_PAIRS: u64 = 1 << 22;
const INDIRECT: u64 = 1 << 28;
const EVENT_IDX: u64 = 1 << 29;
const PROTOCOL: u64 = 1 << 30;
const VERSION_1: u64 = 1 << 32;

/// What a TAP is set to for a guest that takes frames as they are (linux/if_tun.h), by the guest's feature.
const TAP_OFFLOADS: [(u64, libc::c_ulong); 5] =
    [(GUEST_CSUM, 1), (GUEST_TSO4, 2), (GUEST_TSO6, 4), (GUEST_ECN, 8), (GUEST_UFO, 16)];

/// `_IOW('T', 208, unsigned int)` and `_IOW('T', 216, int)`.
pub const TUNSETOFFLOAD: libc::Ioctl = 0x4004_54d0;
pub const TUNSETVNETHDRSZ: libc::Ioctl = 0x4004_54d8;

const SHORT_HEADER: usize = 10;
const LONG_HEADER: usize = 12;
/// Where the long header says how many buffers a frame has.
const BUFFERS_AT: usize = 10;

/// Bytes of the longest frame, which offloads make, with its header: 65535 of IP and a tagged Ethernet
/// header.
const LONGEST: usize = LONG_HEADER + 65535 + 18;

/// A card that is served. It and all it holds go when its VMM has gone.
pub struct Card {
    socket: UnixStream,
    counters: Counters,
    /// The guest need never notify: its rings are polled.
    spares_kicks: bool,
    offered: u64,
    features: u64,
    answers: bool,
    memory: Memory,
    pairs: Vec<Pair>,
}

/// A pair of queues and its file of the TAP.
struct Pair {
    tap: OwnedFd,
    /// For the guest.
    inward: Queue,
    /// From the guest.
    outward: Queue,
    /// Buffers of `inward` that were looked at and not used yet.
    staged: Staged,
    parts: Vec<Part>,
    /// It had too few of them when that was looked at last.
    starved: bool,
}

/// What the VMM has said of a ring, and the ring where all of it was said.
#[derive(Default)]
struct Queue {
    size: u32,
    addresses: Option<Addresses>,
    next: u16,
    kick: Option<OwnedFd>,
    call: Option<OwnedFd>,
    enabled: bool,
    ring: Option<Ring>,
}

/// Buffers of a ring for frames to come: those behind its next one.
#[derive(Default)]
struct Staged {
    buffers: Vec<Buffer>,
    parts: Vec<Part>,
    room: usize,
}

struct Buffer {
    head: u16,
    parts: usize,
    room: usize,
}

// SAFETY: parts lead into the memory of the card that has them, which is mapped wherever it is served.
unsafe impl Send for Pair {}

impl Card {
    /// # Errors
    /// The TAP is none.
    pub fn new(
        socket: UnixStream,
        taps: Vec<OwnedFd>,
        counters: Counters,
        spares_kicks: bool,
    ) -> Result<Self> {
        let mut offered = VERSION_1 | PROTOCOL | INDIRECT | MERGEABLE | CSUM | GUEST_CSUM;
        offered |= GUEST_TSO4 | GUEST_TSO6 | GUEST_ECN | HOST_TSO4 | HOST_TSO6 | HOST_ECN;
        if !spares_kicks {
            offered |= EVENT_IDX;
        }
        if taps.len() > 1 {
            offered |= MANY_PAIRS;
        }
        for tap in &taps {
            fcntl_setfl(tap, fcntl_getfl(tap)? | OFlags::NONBLOCK)?;
        }
        if taps.iter().all(|tap| set_tap(tap, TUNSETOFFLOAD, 1 | 16).is_ok()) {
            offered |= GUEST_UFO | HOST_UFO;
        }
        let pairs = taps.into_iter().map(Pair::new).collect();
        let (features, answers, memory) = (0, false, Memory::default());
        Ok(Card { socket, counters, spares_kicks, offered, features, answers, memory, pairs })
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Hears what its VMM says; false where that has closed the connection.
    ///
    /// # Errors
    /// It cannot be done: the card is of no use any more.
    pub fn hear(&mut self) -> Result<bool> {
        let Some(message) = protocol::receive(&mut self.socket)? else { return Ok(false) };
        match self.obey(&message)? {
            Some(answer) => message.answer(&mut self.socket, &answer)?,
            None => message.acknowledge(&mut self.socket, self.answers)?,
        }
        Ok(true)
    }

    fn obey(&mut self, message: &Message) -> Result<Option<Vec<u8>>> {
        let number = |number: u64| Ok(Some(number.to_ne_bytes().to_vec()));
        match &message.said {
            Said::GetFeatures => return number(self.offered),
            Said::GetProtocolFeatures => return number(MANY_QUEUES | ANSWERS),
            Said::GetQueueCount => return number(self.pairs.len() as u64),
            Said::SetFeatures(features) => self.set_features(*features)?,
            Said::SetProtocolFeatures(features) => self.answers = features & ANSWERS != 0,
            Said::Owner | Said::Complain => {}
            Said::Memory(lent, files) => self.lend(Memory::new(lent, files)?)?,
            Said::Size { ring, count } => self.queue(*ring)?.size = *count,
            Said::Begin { ring, next } => self.queue(*ring)?.next = *next,
            Said::At { ring, addresses } => {
                self.stop(*ring)?;
                self.queue(*ring)?.addresses = Some(*addresses);
                self.start(*ring)?;
            }
            Said::Kick { ring, file } => {
                self.stop(*ring)?;
                self.queue(*ring)?.kick = file.as_ref().map(OwnedFd::try_clone).transpose()?;
                self.start(*ring)?;
            }
            Said::Call { ring, file } => {
                self.queue(*ring)?.call = file.as_ref().map(OwnedFd::try_clone).transpose()?;
            }
            Said::Enable { ring, on } => {
                self.stop(*ring)?;
                self.queue(*ring)?.enabled = *on;
                self.start(*ring)?;
            }
            Said::Stop { ring } => {
                self.stop(*ring)?;
                let queue = self.queue(*ring)?;
                queue.kick = None;
                let state = [*ring as u32, u32::from(queue.next)];
                return Ok(Some(state.into_iter().flat_map(u32::to_ne_bytes).collect()));
            }
        }
        Ok(None)
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        ensure!(features & !self.offered == 0, "its VMM took features that were not offered");
        self.features = features;
        let notified = TAP_OFFLOADS.iter().filter(|(feature, _)| features & feature != 0);
        let offloads = notified.fold(0, |all, (_, offload)| all | offload);
        let header = self.header() as libc::c_int;
        for pair in &self.pairs {
            set_tap(&pair.tap, TUNSETOFFLOAD, offloads).context("the TAP's offloads")?;
            set_tap(&pair.tap, TUNSETVNETHDRSZ, (&raw const header).addr() as libc::c_ulong)
                .context("the TAP's header")?;
        }
        Ok(())
    }

    fn header(&self) -> usize {
        if self.features & (VERSION_1 | MERGEABLE) == 0 { SHORT_HEADER } else { LONG_HEADER }
    }

    /// New memory: rings are found in it anew.
    fn lend(&mut self, memory: Memory) -> Result<()> {
        let all = 0..2 * self.pairs.len();
        all.clone().try_for_each(|ring| self.stop(ring))?;
        self.memory = memory;
        all.into_iter().try_for_each(|ring| self.start(ring))
    }

    fn queue(&mut self, ring: usize) -> Result<&mut Queue> {
        let pair = self.pairs.get_mut(ring / 2);
        let pair = pair.ok_or_else(|| anyhow!("its VMM spoke of a ring {ring} that it has not"))?;
        Ok(if ring.is_multiple_of(2) { &mut pair.inward } else { &mut pair.outward })
    }

    fn stop(&mut self, ring: usize) -> Result<()> {
        let queue = self.queue(ring)?;
        if let Some(ring) = queue.ring.take() {
            queue.next = ring.next();
        }
        if let Some(pair) = self.pairs.get_mut(ring / 2) {
            pair.staged = Staged::default();
            pair.parts.clear();
        }
        Ok(())
    }

    /// Begins to serve a ring, if all was said of it.
    fn start(&mut self, number: usize) -> Result<()> {
        let (event_idx, always) = (self.features & EVENT_IDX != 0, self.features & PROTOCOL == 0);
        let spares_kicks = self.spares_kicks;
        let Queue { size, addresses, next, enabled, .. } = *self.queue(number)?;
        let (true, Some(addresses)) = (enabled || always, addresses) else { return Ok(()) };
        if self.queue(number)?.kick.is_none() {
            return Ok(());
        }
        let mut ring = Ring::new(&self.memory, &addresses, size, next, event_idx)?;
        if spares_kicks {
            ring.forbid_kicks();
        }
        self.queue(number)?.ring = Some(ring);
        Ok(())
    }

    /// Moves at most so many frames of each queue each way, and returns how many were there.
    ///
    /// # Errors
    /// The guest leads to where nobody may go, or the TAP is gone.
    pub fn turn(&mut self, most: u16) -> Result<u32> {
        let mut moved = 0;
        let mergeable = self.features & MERGEABLE != 0;
        let header = self.header();
        for pair in &mut self.pairs {
            moved += pair.send(&self.memory, &self.counters, most, header)?;
            moved += pair.receive(&self.memory, &self.counters, most, header, mergeable)?;
        }
        self.counters.add(Count::Polls, 1);
        self.counters.add(Count::EmptyPolls, u64::from(moved == 0));
        Ok(moved)
    }

    /// Whether a ring of its is served: its guest has a driver for it.
    pub fn is_driven(&self) -> bool {
        let mut queues = self.pairs.iter().flat_map(|pair| [&pair.inward, &pair.outward]);
        queues.any(|queue| queue.ring.is_some())
    }

    /// Has the guest notify when there is work again; true where there is already.
    pub fn arm(&mut self) -> Result<bool> {
        self.pairs.iter_mut().try_fold(false, |ready, pair| Ok(pair.arm()? || ready))
    }

    /// What says that there is work: the guest's kicks, and frames in the TAP where there is room for them.
    pub fn calls_for_work(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.pairs.iter().flat_map(|pair| {
            let outward = pair.outward.ring.as_ref().and(pair.outward.kick.as_ref());
            let inward = pair.inward.ring.as_ref().and(pair.inward.kick.as_ref());
            let inward = if pair.starved { inward } else { inward.and(Some(&pair.tap)) };
            [outward, inward].into_iter().flatten().map(AsFd::as_fd)
        })
    }

    /// Takes notice of kicks.
    pub fn take_kicks(&mut self) {
        let queues = self.pairs.iter().flat_map(|pair| [&pair.inward, &pair.outward]);
        for kick in queues.flat_map(|queue| &queue.kick) {
            let mut count = [0; 8];
            if rustix::io::read(kick, &mut count).is_ok() {
                self.counters.add(Count::Kicks, 1);
            }
        }
    }
}

impl Pair {
    fn new(tap: OwnedFd) -> Self {
        let (inward, outward, staged) = Default::default();
        Pair { tap, inward, outward, staged, parts: Vec::new(), starved: false }
    }

    /// Asks for a kick where there is nothing to send, and where there is too little room for what comes.
    fn arm(&mut self) -> Result<bool> {
        let mut ready = false;
        if let Some(ring) = &mut self.outward.ring {
            ready |= ring.ask_for_kicks(0)?;
        }
        if let (true, Some(ring)) = (self.starved, &mut self.inward.ring) {
            ready |= ring.ask_for_kicks(self.staged.buffers.len() as u16)?;
        }
        Ok(ready)
    }

    /// Frames of the guest.
    fn send(
        &mut self,
        memory: &Memory,
        counters: &Counters,
        most: u16,
        header: usize,
    ) -> Result<u32> {
        let Some(ring) = &mut self.outward.ring else { return Ok(0) };
        let count = ring.waiting()?.min(most);
        for index in 0..count {
            self.parts.clear();
            let head = ring.follow(index, memory, Access::Read, &mut self.parts)?;
            ring.put(index, head, 0);
            // What the kernel does not take (a TAP that is down, a header of nonsense) is lost, as on a
            // wire without an other end.
            match write(&self.tap, &self.parts) {
                Ok(bytes) => {
                    counters.add(Count::FramesOut, 1);
                    counters.add(Count::BytesOut, bytes.saturating_sub(header) as u64);
                }
                Err(_) => counters.add(Count::Refused, 1),
            }
        }
        if count > 0 {
            ring.publish(count);
            self.outward.notify(counters)?;
        }
        Ok(u32::from(count))
    }

    /// Frames for the guest.
    fn receive(
        &mut self,
        memory: &Memory,
        counters: &Counters,
        most: u16,
        header: usize,
        mergeable: bool,
    ) -> Result<u32> {
        let Some(ring) = &mut self.inward.ring else { return Ok(0) };
        let mut moved = 0;
        self.starved = false;
        while moved < u32::from(most) {
            let needed = if mergeable { LONGEST } else { 1 };
            if !self.staged.stage(ring, memory, needed)? {
                self.starved = true;
                counters.add(Count::Full, 1);
                break;
            }
            let parts = if mergeable { self.staged.parts.as_slice() } else { self.staged.first() };
            let bytes = match read(&self.tap, parts) {
                Ok(bytes) => bytes,
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(error) => return Err(error).context("the TAP is gone"),
            };
            ensure!(bytes >= header, "the guest gave no room for a frame's header");
            let buffers = self.staged.used_by(bytes, mergeable);
            if header == LONG_HEADER {
                write_into(parts, BUFFERS_AT, (buffers as u16).to_le_bytes());
            }
            self.staged.give_back(ring, buffers, bytes);
            counters.add(Count::FramesIn, 1);
            counters.add(Count::BytesIn, bytes.saturating_sub(header) as u64);
            moved += 1;
        }
        if moved > 0 {
            self.inward.notify(counters)?;
        }
        Ok(moved)
    }
}

impl Queue {
    /// Notifies the guest of what was used, if it wants that.
    fn notify(&mut self, counters: &Counters) -> Result<()> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        if ring.wants_notification()
            && let Some(call) = &self.call
        {
            match rustix::io::write(call, &1u64.to_ne_bytes()) {
                // That it has not taken notice of so many before will do.
                Ok(_) | Err(Errno::AGAIN) => counters.add(Count::Calls, 1),
                Err(error) => bail!("its VMM cannot be notified of frames ({error})"),
            }
        }
        Ok(())
    }
}

impl Staged {
    /// Looks at buffers until they have room for so many bytes; false where there are too few.
    fn stage(&mut self, ring: &Ring, memory: &Memory, needed: usize) -> Result<bool> {
        if self.room >= needed {
            return Ok(true);
        }
        let waiting = ring.waiting()?;
        while self.room < needed && self.buffers.len() < usize::from(waiting) {
            let before = self.parts.len();
            let behind = self.buffers.len() as u16;
            let head = ring.follow(behind, memory, Access::Written, &mut self.parts)?;
            let own = self.parts.iter().skip(before);
            let room = own.map(|part| part.iov_len).sum();
            self.buffers.push(Buffer { head, parts: self.parts.len() - before, room });
            self.room += room;
        }
        Ok(self.room >= needed)
    }

    /// The parts of the first buffer.
    fn first(&self) -> &[Part] {
        let count = self.buffers.first().map_or(0, |buffer| buffer.parts);
        self.parts.get(..count).unwrap_or_default()
    }

    /// How many buffers so many bytes take.
    fn used_by(&self, bytes: usize, mergeable: bool) -> usize {
        if !mergeable {
            return 1;
        }
        let mut left = bytes;
        let full = self.buffers.iter().take_while(|buffer| {
            let is_full = left > buffer.room;
            left = left.saturating_sub(buffer.room);
            is_full
        });
        (full.count() + 1).min(self.buffers.len())
    }

    /// Gives so many buffers back, which have those bytes.
    fn give_back(&mut self, ring: &mut Ring, count: usize, bytes: usize) {
        let (mut left, mut parts) = (bytes, 0);
        for (index, buffer) in self.buffers.drain(..count).enumerate() {
            let own = left.min(buffer.room);
            ring.put(index as u16, buffer.head, own as u32);
            left -= own;
            parts += buffer.parts;
            self.room -= buffer.room;
        }
        self.parts.drain(..parts);
        ring.publish(count as u16);
    }
}

/// Writes a number into a frame, wherever its parts lie.
fn write_into(parts: &[Part], mut at: usize, bytes: [u8; 2]) {
    let mut left = bytes.as_slice();
    for part in parts {
        while let Some((&byte, rest)) = left.split_first()
            && at < part.iov_len
        {
            // SAFETY: within the part, which is mapped and may be written.
            unsafe { part.iov_base.cast::<u8>().add(at).write_volatile(byte) };
            (left, at) = (rest, at + 1);
        }
        at = at.saturating_sub(part.iov_len);
    }
}

fn read(tap: &OwnedFd, parts: &[Part]) -> Result<usize, Errno> {
    // SAFETY: the parts are mapped and may be written, whatever the guest makes of them meanwhile.
    let read = unsafe { libc::readv(tap.as_raw_fd(), parts.as_ptr(), parts.len() as libc::c_int) };
    outcome(read)
}

fn write(tap: &OwnedFd, parts: &[Part]) -> Result<usize, Errno> {
    // SAFETY: the parts are mapped, whatever the guest makes of them meanwhile.
    let wrote =
        unsafe { libc::writev(tap.as_raw_fd(), parts.as_ptr(), parts.len() as libc::c_int) };
    outcome(wrote)
}

fn outcome(result: libc::ssize_t) -> Result<usize, Errno> {
    let last = || Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO);
    usize::try_from(result).map_err(|_| last())
}

fn set_tap(tap: &OwnedFd, what: libc::Ioctl, value: libc::c_ulong) -> Result<(), Errno> {
    // SAFETY: the one takes a number, the other the address of one that the caller holds.
    outcome(unsafe { libc::ioctl(tap.as_raw_fd(), what, value) } as libc::ssize_t).map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::unix::net::UnixDatagram;

    use proptest::prelude::*;

    use super::*;
    use crate::counters::{self, page};
    use crate::protocol::tests::message;
    use crate::ring::is_passed;
    use crate::ring::tests::{Guest, SIZE, USED_RING};

    const WRITTEN: u16 = 2;
    const FIRST: u64 = 0x3000;

    /// In place of a TAP a socket, which keeps frames apart as well.
    fn pair() -> (Pair, UnixDatagram) {
        let (tap, wire) = UnixDatagram::pair().unwrap();
        tap.set_nonblocking(true).unwrap();
        (Pair::new(tap.into()), wire)
    }

    #[test]
    fn a_frame_in_several_buffers_says_how_many_and_they_are_seen_together() {
        let (mut guest, (mut pair, wire)) = (Guest::new(), pair());
        let page = page().unwrap();
        let counters = Counters::new(&page).unwrap();
        pair.inward.ring = Some(guest.ring(false));
        let mut receive = |guest: &Guest| {
            let moved = pair.receive(&guest.memory, &counters, 8, LONG_HEADER, true).unwrap();
            (moved, pair.starved)
        };
        guest.describe(0, 0, (FIRST, 100, WRITTEN, 0));
        guest.make_available(0);
        wire.send(&[7; LONG_HEADER + 200]).unwrap();
        assert_eq!(receive(&guest), (0, true), "there is no room for what may come");
        for index in 1..4 {
            guest.describe(0, index, (0x4000, 0x8000, WRITTEN, 0));
            guest.make_available(index);
        }
        assert_eq!(receive(&guest), (1, true));
        assert_eq!(guest.short(USED_RING + 2), 2);
        let used = |entry: u64| guest.read(USED_RING + 4 + 8 * entry, 8);
        assert_eq!(
            (used(0), used(1)),
            (vec![0, 0, 0, 0, 100, 0, 0, 0], vec![1, 0, 0, 0, 112, 0, 0, 0])
        );
        assert_eq!(guest.read(FIRST, 13), [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 2, 0, 7]);
        let counted = counters::read(&File::from(page)).unwrap();
        assert_eq!((counted[Count::FramesIn as usize], counted[Count::BytesIn as usize]), (1, 200));
    }

    #[test]
    fn a_guest_that_gave_too_little_room_reports_of_more_also_where_some_is_left() {
        let (mut guest, (mut pair, _wire)) = (Guest::new(), pair());
        let counters = Counters::new(page().unwrap()).unwrap();
        pair.inward.ring = Some(guest.ring(true));
        for given in 1..=3 {
            guest.describe(0, given, (FIRST, 100, WRITTEN, 0));
            guest.make_available(given);
            let moved = pair.receive(&guest.memory, &counters, 8, LONG_HEADER, true).unwrap();
            assert_eq!((moved, pair.starved), (0, true));
            assert!(!pair.arm().unwrap(), "all of it was looked at");
            // It has to notify of the next one.
            let event = guest.short(USED_RING + 4 + 8 * u64::from(SIZE));
            assert!(is_passed(event, given + 1, given), "{event} after {given}");
        }
        guest.make_available(4);
        assert!(pair.arm().unwrap(), "it came meanwhile");
    }

    #[test]
    fn what_a_guest_sends_goes_out_as_it_is_and_its_buffers_come_back() {
        let (mut guest, (mut pair, wire)) = (Guest::new(), pair());
        let counters = Counters::new(page().unwrap()).unwrap();
        pair.outward.ring = Some(guest.ring(true));
        guest.write(FIRST, &[1; 12]);
        guest.write(0x4000, &[2; 60]);
        guest.describe(0, 0, (FIRST, 12, 1, 1));
        guest.describe(0, 1, (0x4000, 60, 0, 0));
        guest.make_available(0);
        assert_eq!(pair.send(&guest.memory, &counters, 8, LONG_HEADER).unwrap(), 1);
        let mut frame = [0; 100];
        assert_eq!(wire.recv(&mut frame).unwrap(), 72);
        assert_eq!((frame[11], frame[12], guest.short(USED_RING + 2)), (1, 2, 1));
        guest.describe(0, 1, (u64::MAX, 60, 0, 0));
        guest.make_available(0);
        assert!(pair.send(&guest.memory, &counters, 8, LONG_HEADER).is_err());
    }

    proptest! {
        /// Whatever its VMM says: an answer or an end with a reason, and no panic.
        #[test]
        fn no_vmm_confuses_a_card(
            said in prop::collection::vec(
                (0u32..40, 0u32..16, prop::collection::vec(any::<u8>(), 0..48)),
                1..12,
            ),
        ) {
            let (near, mut far) = UnixStream::pair().unwrap();
            let (tap, _wire) = UnixDatagram::pair().unwrap();
            let counters = Counters::new(page().unwrap()).unwrap();
            let mut card = Card::new(near, vec![tap.into()], counters, false).unwrap();
            for (request, flags, body) in &said {
                far.write_all(&message(*request, flags & !3, body)).unwrap();
            }
            drop(far.shutdown(std::net::Shutdown::Write));
            while let Ok(true) = card.hear() {
                let _ = card.turn(8);
            }
        }
    }
}
