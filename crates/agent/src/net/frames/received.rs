//! Sources of frames on packet sockets: by calls that ask for many frames, or by a ring.

use std::io;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;

use anyhow::{Context as _, Result};
use socket2::Socket;

use super::memory::Shared;
use super::socket::{self, Drops, PATIENCE};
use super::{FrameSource, Opening};
use crate::net::Link;
use crate::net::socket::{Buffer, header_of, in_vain, size_buffer, word};

/// Frames that one call asks for at most.
const BATCH: usize = 64;

/// A packet socket without a ring.
pub struct Calls {
    socket: Socket,
    drops: Drops,
    calls: u64,
    buffer: u64,
    /// The entries of a call.
    headers: Vec<libc::mmsghdr>,
    _vectors: Vec<libc::iovec>,
    bytes: Vec<u8>,
    slot: usize,
}

// SAFETY: the pointers in `headers` and `_vectors` lead to the value's own vectors, whose storage moves
// with it and is never resized.
unsafe impl Send for Calls {}

impl Calls {
    pub fn open(opening: &Opening) -> Result<Self> {
        let link = socket::interface(opening.interface)?;
        let socket = socket::open()?;
        // The kernel doubles the number: frames wait with what it needs to keep them.
        let buffer = size_buffer(&socket, Buffer::Receive, Some(opening.ring / 2))? as u64;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket::listen(&socket, &link, opening.filter)?;
        // One byte more than the longest, to notice longer ones.
        let slot = opening.frame as usize + 1;
        let mut bytes = vec![0; slot * BATCH];
        let mut vectors: Vec<libc::iovec> = (bytes.chunks_exact_mut(slot))
            .map(|part| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: slot })
            .collect();
        let headers = vectors.iter_mut().map(header_of).collect();
        let drops = Drops::default();
        Ok(Calls { socket, drops, calls: 0, buffer, headers, _vectors: vectors, bytes, slot })
    }
}

impl FrameSource for Calls {
    fn next(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<u64> {
        self.calls += 1;
        // SAFETY: every header leads to a vector and every vector to bytes that live in `self`.
        let filled = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_WAITFORONE as _,
                std::ptr::null_mut(),
            )
        };
        let Ok(filled) = usize::try_from(filled) else {
            let error = io::Error::last_os_error();
            return if in_vain(&error) { Ok(0) } else { Err(socket::explained(error)) };
        };
        for (header, part) in
            self.headers.iter().zip(self.bytes.chunks_exact(self.slot)).take(filled)
        {
            take(&part[..(header.msg_len as usize).min(self.slot)]);
        }
        Ok(filled as u64)
    }

    fn drops(&mut self) -> io::Result<u64> {
        self.drops.look(&self.socket)
    }

    fn calls(&self) -> u64 {
        self.calls
    }

    fn ring_bytes(&self) -> u64 {
        self.buffer
    }
}

/// Milliseconds after which the kernel hands over a block with frames that is not full.
const RETIRE_MS: u32 = 1;

/// Largest block of a ring; smaller where the ring would have fewer than [`BLOCKS`].
const LARGEST_BLOCK: u32 = 256 << 10;
/// Each is handed over after [`RETIRE_MS`], however few frames it holds. So with this many a program may be
/// kept from running for a quarter of a second without a loss.
const BLOCKS: u32 = 256;
/// A block holds this many of the longest frames, because the rest of it at its end is wasted.
const LONG_FRAMES: u32 = 4;
/// For that a ring may have fewer blocks, but not fewer than this.
const FEW_BLOCKS: u32 = 16;

/// Room for the headers before a frame in a block, with the block's own header.
const BEFORE_A_FRAME: u32 = 256;

/// A ring that a packet socket shares with the kernel. Its parts are handed over one by one.
pub struct Ring<P> {
    /// Unmapped before the socket is closed.
    memory: Shared,
    socket: Socket,
    drops: Drops,
    calls: u64,
    /// Bytes of a part.
    part: usize,
    count: usize,
    /// The part that is filled next.
    next: usize,
    kind: PhantomData<P>,
}

/// A kind of part.
pub trait Part: Send {
    /// Where a part has its status.
    const STATUS_AT: usize;

    /// Hands on its frames, as far as its headers are possible; returns how many it has.
    fn frames(part: &[u8], take: &mut dyn FnMut(&[u8])) -> u64;
}

impl<P: Part> Ring<P> {
    fn make<R: Copy>(
        opening: &Opening,
        link: &Link,
        version: libc::tpacket_versions,
        (part, count): (u32, u32),
        request: &R,
        refusal: &str,
    ) -> Result<Self> {
        let socket = socket::open()?;
        socket::set(&socket, libc::PACKET_VERSION, &(version as i32))
            .context("no rings of frames here")?;
        socket::set(&socket, libc::PACKET_RX_RING, request).context(refusal.to_owned())?;
        let (part, count) = (part as usize, count as usize);
        let memory = Shared::map(&socket, part * count)?;
        socket::listen(&socket, link, opening.filter)?;
        let (drops, kind) = (Drops::default(), PhantomData);
        Ok(Ring { memory, socket, drops, calls: 0, part, count, next: 0, kind })
    }

    /// Hands on the frames of all parts that are full by now.
    fn take_parts(&mut self, take: &mut dyn FnMut(&[u8])) -> u64 {
        let mut taken = 0;
        for _ in 0..self.count {
            let start = self.next * self.part;
            if self.memory.load(start + P::STATUS_AT) & libc::TP_STATUS_USER == 0 {
                break;
            }
            taken += P::frames(self.memory.bytes(start, self.part), take);
            self.memory.store(start + P::STATUS_AT, libc::TP_STATUS_KERNEL);
            self.next = (self.next + 1) % self.count;
        }
        taken
    }
}

impl<P: Part> FrameSource for Ring<P> {
    fn next(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<u64> {
        let taken = self.take_parts(take);
        if taken > 0 {
            return Ok(taken);
        }
        self.calls += 1;
        socket::wait(&self.socket)?;
        Ok(self.take_parts(take))
    }

    fn drops(&mut self) -> io::Result<u64> {
        self.drops.look(&self.socket)
    }

    fn calls(&self) -> u64 {
        self.calls
    }

    fn ring_bytes(&self) -> u64 {
        (self.part * self.count) as u64
    }
}

/// Blocks with frames of any length (TPACKET_V3), as libpcap and its users have them.
pub struct Blocks;

impl Blocks {
    pub fn open(opening: &Opening) -> Result<Ring<Self>> {
        let link = socket::interface(opening.interface)?;
        let block = block_of(opening.ring, opening.frame)?;
        let count = opening.ring / block;
        let request = libc::tpacket_req3 {
            tp_block_size: block,
            tp_block_nr: count,
            tp_frame_size: block,
            tp_frame_nr: count,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        let version = libc::tpacket_versions::TPACKET_V3;
        let refusal = format!("no ring of {} bytes: take a smaller one", opening.ring);
        Ring::make(opening, &link, version, (block, count), &request, &refusal)
    }
}

impl Part for Blocks {
    const STATUS_AT: usize = STATUS_AT;

    fn frames(block: &[u8], take: &mut dyn FnMut(&[u8])) -> u64 {
        let (Some(count), Some(first)) = (word(block, FRAMES_AT), word(block, FIRST_AT)) else {
            return 0;
        };
        let mut header = first as usize;
        for number in 0..u64::from(count) {
            let Some((frame, next)) = frame_at(block, header) else { return number };
            take(frame);
            if next == 0 {
                return number + 1;
            }
            header += next;
        }
        u64::from(count)
    }
}

/// Bytes of a block: whole pages, a power of two, room for a frame.
fn block_of(ring: u32, frame: u32) -> Result<u32> {
    let page = rustix::param::page_size() as u32;
    let least = (frame + BEFORE_A_FRAME).max(page).next_power_of_two();
    anyhow::ensure!(
        ring >= least,
        "a ring of {ring} bytes has no room for a frame of {frame}: {least} are the least"
    );
    let mut block = least;
    while block < LARGEST_BLOCK && ring.is_multiple_of(2 * block) {
        let is_small = block < LONG_FRAMES * (frame + BEFORE_A_FRAME);
        if ring / (2 * block) < if is_small { FEW_BLOCKS } else { BLOCKS } {
            break;
        }
        block *= 2;
    }
    Ok(block)
}

// struct tpacket_block_desc
const STATUS_AT: usize = 8;
const FRAMES_AT: usize = 12;
const FIRST_AT: usize = 16;
// struct tpacket3_hdr, from the frame's own beginning
const NEXT_AT: usize = 0;
const LENGTH_AT: usize = 12;
const MAC_AT: usize = 24;

/// The frame whose header is there, and how far it is to the next one's.
#[inline]
fn frame_at(block: &[u8], header: usize) -> Option<(&[u8], usize)> {
    let length = word(block, header.checked_add(LENGTH_AT)?)? as usize;
    let mac = half(block, header.checked_add(MAC_AT)?)? as usize;
    let start = header.checked_add(mac)?;
    let frame = block.get(start..start.checked_add(length)?)?;
    Some((frame, word(block, header + NEXT_AT)? as usize))
}

#[inline]
fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

/// Frames that may wait to be taken one by one.
const SLOTS: u32 = 64;

// struct tpacket2_hdr
const SLOT_LENGTH_AT: usize = 8;
const SLOT_MAC_AT: usize = 12;
const SLOT_HEADER: u32 = 96;

/// Slots for one frame each, handed over at once (TPACKET_V2): what libpcap takes in its immediate
/// mode, for a block waits for more frames.
pub struct Slots;

impl Slots {
    pub fn open(opening: &Opening) -> Result<Ring<Self>> {
        let link = socket::interface(opening.interface)?;
        let page = rustix::param::page_size() as u32;
        let slot = (opening.frame + SLOT_HEADER).max(128).next_power_of_two();
        let block = slot.max(page);
        let request = libc::tpacket_req {
            tp_block_size: block,
            tp_block_nr: SLOTS * slot / block.max(1),
            tp_frame_size: slot,
            tp_frame_nr: SLOTS,
        };
        let version = libc::tpacket_versions::TPACKET_V2;
        Ring::make(opening, &link, version, (slot, SLOTS), &request, "no ring of frames")
    }
}

impl Part for Slots {
    const STATUS_AT: usize = 0;

    fn frames(slot: &[u8], take: &mut dyn FnMut(&[u8])) -> u64 {
        if let Some(frame) = frame_in(slot) {
            take(frame);
        }
        1
    }
}

/// The frame of a slot, if it lies in it.
fn frame_in(slot: &[u8]) -> Option<&[u8]> {
    let length = word(slot, SLOT_LENGTH_AT)? as usize;
    let mac = half(slot, SLOT_MAC_AT)? as usize;
    slot.get(mac..mac.checked_add(length)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block with frames of these bytes, as the kernel lays them.
    fn block(frames: &[&[u8]]) -> Vec<u8> {
        let mut block = vec![0; 4096];
        put(&mut block, FRAMES_AT, frames.len() as u32);
        put(&mut block, FIRST_AT, 48);
        let mut at = 48;
        for frame in frames {
            let length = (82 + frame.len()).next_multiple_of(8);
            put(&mut block, at + NEXT_AT, length as u32);
            put(&mut block, at + LENGTH_AT, frame.len() as u32);
            block[at + MAC_AT..at + MAC_AT + 2].copy_from_slice(&82u16.to_ne_bytes());
            block[at + 82..at + 82 + frame.len()].copy_from_slice(frame);
            at += length;
        }
        block
    }

    fn put(bytes: &mut [u8], at: usize, value: u32) {
        bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    fn taken(block: &[u8]) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let count = Blocks::frames(block, &mut |frame| frames.push(frame.to_vec()));
        assert_eq!(count, frames.len() as u64);
        frames
    }

    #[test]
    fn a_block_has_frames_of_any_length() {
        let frames: [&[u8]; 3] = [&[1; 60], &[2; 1514], &[3; 61]];
        assert_eq!(taken(&block(&frames)), frames);
        assert!(taken(&block(&[])).is_empty());
    }

    #[test]
    fn what_a_block_says_of_itself_is_not_believed() {
        let good = block(&[&[1; 60], &[2; 60]]);
        for (at, value, left) in [
            (FRAMES_AT, u32::MAX, 3),
            (FIRST_AT, 4090, 0),
            (FIRST_AT, u32::MAX, 0),
            (48 + NEXT_AT, u32::MAX, 1),
            (48 + LENGTH_AT, 5000, 0),
            (48 + LENGTH_AT, u32::MAX, 0),
            (48 + MAC_AT, u32::MAX, 0),
        ] {
            let mut bad = good.clone();
            put(&mut bad, at, value);
            assert!(taken(&bad).len() <= left, "{at} {value}");
        }
        for length in 0..100 {
            assert!(taken(&good[..length]).is_empty());
        }
    }

    #[test]
    fn a_block_that_leads_to_itself_ends() {
        let mut bad = block(&[&[1; 60], &[1; 60]]);
        put(&mut bad, 48 + NEXT_AT, 0);
        assert_eq!(taken(&bad).len(), 1);
    }

    #[test]
    fn a_slot_holds_its_frame_or_nothing() {
        let mut slot = vec![0; 256];
        put(&mut slot, SLOT_LENGTH_AT, 60);
        slot[SLOT_MAC_AT..SLOT_MAC_AT + 2].copy_from_slice(&82u16.to_ne_bytes());
        assert_eq!(frame_in(&slot).unwrap().len(), 60);
        put(&mut slot, SLOT_LENGTH_AT, 175);
        assert!(frame_in(&slot).is_none());
        assert!(frame_in(&[]).is_none());
    }

    #[test]
    fn blocks_fill_the_ring_and_hold_a_frame() {
        assert_eq!(block_of(4 << 20, 64).unwrap(), 16 << 10);
        assert_eq!(block_of(4 << 20, 1514).unwrap(), 16 << 10);
        assert_eq!(block_of(4 << 20, 9014).unwrap(), 64 << 10);
        assert_eq!(block_of(256 << 20, 64).unwrap(), 256 << 10);
        assert_eq!(block_of(4096, 64).unwrap(), 4096);
        assert_eq!(block_of(5 * 4096, 64).unwrap(), 4096);
        assert_eq!(block_of(64 << 10, 9014).unwrap(), 16384);
        assert!(block_of(8192, 9014).unwrap_err().to_string().contains("16384"));
    }
}
