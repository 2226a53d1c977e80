//! The socket of one of an interface's queues, with memory of its own for frames.
//!
//! A buffer is in the ring of free ones, with the kernel, in the ring of received ones, or being read here.

use std::io::Error;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_xdp_rx_ring_size, set_xdp_umem_completion_ring_size, set_xdp_umem_fill_ring_size,
    set_xdp_umem_reg, xdp_mmap_offsets, xdp_options, xdp_statistics,
};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_UMEM_PGOFF_FILL_RING, XdpMmapOffsets,
    XdpOptionsFlags, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use super::ring::{Fill, Received};
use crate::net::frames::memory::Shared;

/// The kernel's own room before each frame in a buffer (XDP_PACKET_HEADROOM).
const HEADROOM: u32 = 256;
const HEADER: u32 = 14 + 4;
/// Frames after which their buffers are given back, so that the kernel does not wait for the last of many.
const TURN: u32 = 64;
/// Fewer buffers are too few: some frames arrive while others are read.
const LEAST: u64 = 16;
/// The ring for sending, which is unused, but which the kernel requires.
const UNUSED_RING: u32 = 2;

/// Buffers of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Bytes of one: 2,048 or 4,096, all that the kernel takes.
    pub size: u32,
    /// A power of two.
    pub count: u32,
}

impl Buffers {
    /// As many as fit into so much memory, shared by so many queues.
    pub fn of(memory: u64, mtu: u32, queues: u32) -> Result<Self> {
        let fits = |size: &u32| mtu + HEADER <= size - HEADROOM;
        let size = [2048, 4096].into_iter().find(fits);
        let size = size.with_context(|| {
            let most = 4096 - HEADROOM - HEADER;
            format!("XDP takes frames of up to a page: the MTU is {mtu}, and may be {most} at most")
        })?;
        let count = memory / u64::from(size) / u64::from(queues.max(1));
        // The largest power of two that is not larger.
        let count = count.checked_ilog2().map_or(0, |bits| 1 << bits.min(24));
        ensure!(
            u64::from(count) >= LEAST,
            "{memory} bytes of buffers are too few: {queues} queues need {} at least",
            LEAST * u64::from(size) * u64::from(queues)
        );
        Ok(Buffers { size, count })
    }

    /// Entries of the ring of free ones. The kernel shows a frame first and then says that its buffer left that
    /// ring (`xsk_flush`): for a moment it is in both, and may have come back already.
    fn fill(self) -> u32 {
        2 * self.count
    }

    fn bytes(self) -> usize {
        self.size as usize * self.count as usize
    }

    /// The buffer with a frame that the kernel reports.
    fn holding(self, address: u64, bytes: u32) -> Result<u64> {
        let buffer = address & !u64::from(self.size - 1);
        let end = u64::from(self.size).checked_sub(address - buffer);
        let fits = buffer < self.bytes() as u64 && end.is_some_and(|end| u64::from(bytes) <= end);
        ensure!(fits, "the kernel reports {bytes} bytes at {address:#x}, which no buffer has");
        Ok(buffer)
    }
}

pub struct Queue {
    socket: OwnedFd,
    memory: Shared,
    buffers: Buffers,
    fill: Fill,
    received: Received,
}

impl Queue {
    /// # Errors
    /// The kernel has no such sockets, or another one has the queue.
    pub fn open(interface: u32, queue: u32, buffers: Buffers) -> Result<Self> {
        let made = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None);
        let socket = made.map_err(|error| match error {
            Errno::AFNOSUPPORT => anyhow!("this kernel has no AF_XDP (CONFIG_XDP_SOCKETS)"),
            error => anyhow::Error::new(Error::from(error)).context("making an AF_XDP socket"),
        })?;
        let memory = Shared::own(buffers.bytes()).context("memory for frames")?;
        let offsets = give_memory(&socket, &memory, buffers)
            .context("setting up the rings of an AF_XDP socket")?;
        let size = buffers.count;
        let map = |from| {
            let socket = &socket;
            move |bytes| {
                let mapped = Shared::map_from(socket, from, bytes);
                mapped.context("mapping a ring of an AF_XDP socket")
            }
        };
        let mut fill = Fill::new(&offsets.fr, buffers.fill(), map(XDP_UMEM_PGOFF_FILL_RING))?;
        let received = Received::new(&offsets.rx, size, map(XDP_PGOFF_RX_RING))?;
        for number in 0..size {
            fill.put(number, u64::from(number) * u64::from(buffers.size))?;
        }
        fill.publish(size);
        let address = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP, interface, queue);
        bind(&socket, &address).map_err(|error| match error {
            Errno::BUSY => anyhow!("another AF_XDP socket has its queue {queue}: wait for its end"),
            error => anyhow::Error::new(Error::from(error))
                .context(format!("binding an AF_XDP socket to its queue {queue}")),
        })?;
        Ok(Queue { socket, memory, buffers, fill, received })
    }

    pub fn ring_bytes(&self) -> u64 {
        self.memory.length() as u64
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether the driver puts frames into the buffers itself.
    pub fn is_zero_copy(&self) -> Result<bool> {
        let options = xdp_options(&self.socket).context("reading XDP_OPTIONS")?;
        Ok(options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
    }

    /// Shows the frames that are there, a turn of them at most, and returns how many there were.
    pub fn take(&mut self, each: &mut dyn FnMut(&[u8])) -> Result<u32> {
        let count = self.received.waiting()?.min(TURN);
        for behind in 0..count {
            let (address, bytes) = self.received.at(behind);
            let buffer = self.buffers.holding(address, bytes)?;
            // The kernel does not write to a buffer until it has it back.
            each(self.memory.bytes(usize::try_from(address)?, bytes as usize));
            self.fill.put(behind, buffer)?;
        }
        if count > 0 {
            self.received.release(count);
            self.fill.publish(count);
            if self.fill.needs_wakeup() {
                // Wakes a driver that found no buffer and sleeps, so that it looks again.
                let mut own = [PollFd::new(&self.socket, PollFlags::IN)];
                poll(&mut own, Some(&Timespec::default())).context("waking the driver")?;
            }
        }
        Ok(count)
    }

    /// Frames for this socket that found no free buffer, or no place in the ring of received ones. (Where a
    /// driver puts frames into buffers itself, the card counts the former as missed.)
    pub fn drops(&self) -> rustix::io::Result<u64> {
        let counts = xdp_statistics(&self.socket)?;
        Ok(counts.rx_dropped + counts.rx_ring_full.unwrap_or_default())
    }
}

fn give_memory(socket: &OwnedFd, memory: &Shared, buffers: Buffers) -> Result<XdpMmapOffsets> {
    let register = XdpUmemReg {
        addr: memory.address(),
        len: memory.length() as u64,
        chunk_size: buffers.size,
        headroom: 0,
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    };
    set_xdp_umem_reg(socket, register).map_err(|error| match error {
        Errno::NOBUFS => anyhow!(
            "the kernel does not lock {} bytes in memory for this user (ulimit -l)",
            memory.length()
        ),
        error => error.into(),
    })?;
    set_xdp_umem_fill_ring_size(socket, buffers.fill())?;
    set_xdp_umem_completion_ring_size(socket, UNUSED_RING)?;
    set_xdp_rx_ring_size(socket, buffers.count)?;
    Ok(xdp_mmap_offsets(socket)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_as_large_as_frames_need() {
        let of = |memory, mtu, queues| Buffers::of(memory, mtu, queues).unwrap();
        assert_eq!(of(4 << 20, 1500, 1), Buffers { size: 2048, count: 2048 });
        assert_eq!(of(4 << 20, 1774, 1).size, 2048);
        assert_eq!(of(4 << 20, 1775, 1), Buffers { size: 4096, count: 1024 });
        assert_eq!(of((4 << 20) + 100, 1500, 3), Buffers { size: 2048, count: 512 });
        let error = Buffers::of(4 << 20, 9000, 1).unwrap_err().to_string();
        assert!(error.contains("may be 3822 at most"), "{error}");
        let error = Buffers::of(32 << 10, 1500, 2).unwrap_err().to_string();
        assert!(error.contains("2 queues need 65536"), "{error}");
        assert!(Buffers::of(0, 1500, 1).is_err());
    }

    #[test]
    fn a_frame_is_in_one_buffer() {
        let buffers = Buffers { size: 2048, count: 64 };
        assert_eq!(buffers.holding(2048 + 256, 1792).unwrap(), 2048);
        assert_eq!(buffers.holding(63 * 2048, 2048).unwrap(), 63 * 2048);
        for (address, bytes) in
            [(2048 + 257, 1792), (64 * 2048, 1), (u64::MAX, 1), (0, 2049), (0, u32::MAX)]
        {
            assert!(buffers.holding(address, bytes).is_err(), "{address} {bytes}");
        }
    }
}
