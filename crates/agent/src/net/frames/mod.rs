//! Frames of our own EtherType, in and out of an interface, without an IP stack between, as capture
//! programs and generators of frames handle them.
//!
//! - `layout`: the contents of a frame; `filter`: which frames a source hands on
//! - `socket`: packet sockets (packet(7)), of both ends; `memory`: the memory that they share with the
//!   kernel
//! - `received`: sources of frames that use them (others are `net/xdp` and
//!   `net/shared`); `sent`: the generator's ring
//! - `neighbour`: which MAC address an IP address has
//!
//! A way for frames to come in is a [`FrameSource`] and a line of [`super::frame_sources::open`].

use std::io;

use hypertare_plan::FrameVia;

mod filter;
pub mod layout;
pub mod memory;
pub mod neighbour;
pub mod received;
pub mod sent;
pub mod socket;

pub use filter::{Filter, TYPE_AT};

/// IEEE Std 802: Local Experimental EtherType 1. No protocol of a kernel takes it.
pub const ETHER_TYPE: u16 = 0x88B5;

/// The source that is to be opened.
#[derive(Clone, Copy)]
pub struct Opening<'a> {
    pub interface: &'a str,
    pub via: FrameVia,
    /// Bytes of memory in which frames wait to be taken: whole pages.
    pub ring: u32,
    /// Longest frame that is expected, in bytes with its header.
    pub frame: u32,
    /// Frames that it does not let pass are neither handed on nor counted.
    pub filter: &'a Filter,
    /// Whether each frame is handed on at once, to be answered; otherwise with others where that is
    /// cheaper.
    pub at_once: bool,
}

/// Where frames come in. One thread owns it.
pub trait FrameSource: Send {
    /// Hands on each waiting frame, from its destination address on and without FCS. If there is none, it
    /// waits for one, for `socket::PATIENCE` at most. Returns the number of frames; 0 only after a wait in
    /// vain.
    ///
    /// It hands on a full ring at most, so that its caller looks at the clock now and then.
    fn next(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<u64>;

    /// Frames that passed the filter and were dropped since it was opened, for want of room.
    fn drops(&mut self) -> io::Result<u64>;

    /// System calls that asked for frames or waited for them, those in vain too.
    fn calls(&self) -> u64;

    /// Bytes of memory in which frames wait to be taken, as the kernel gave them.
    fn ring_bytes(&self) -> u64;

    /// Further values that this kind of source alone reports.
    fn reported(&self) -> Reported {
        Reported::default()
    }
}

/// Values and a warning of one source.
#[derive(Clone, Debug, Default)]
pub struct Reported {
    pub values: Vec<(&'static str, f64)>,
    pub warning: Option<String>,
}
