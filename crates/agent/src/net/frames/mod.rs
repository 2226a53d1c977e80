//! Frames of our own EtherType, in and out of an interface, without an IP stack between: what a capture
//! program and a generator of frames do.
//!
//! - `layout`: what a frame has in it; `filter`: which of them a source hands on
//! - `socket`: packet sockets (packet(7)), of both ends; `memory`: what they share with the kernel
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

/// What is to be opened.
#[derive(Clone, Copy)]
pub struct Opening<'a> {
    pub interface: &'a str,
    pub via: FrameVia,
    /// Bytes of memory in which frames wait to be taken: whole pages.
    pub ring: u32,
    /// Longest frame that is expected, in bytes with its header.
    pub frame: u32,
    /// Frames that it does not let pass are nobody's: not handed on, not counted.
    pub filter: &'a Filter,
    /// Each frame is handed on at once, for who answers it; else with others where that is cheaper.
    pub at_once: bool,
}

/// Where frames come in. One thread owns it.
pub trait FrameSource: Send {
    /// Hands on each frame that is there, from its destination address on and without FCS. Waits for
    /// one if there is none, for `socket::PATIENCE` at most. Returns how many there were; 0 only after
    /// a wait in vain.
    ///
    /// It may return before all is handed on, so that its caller looks at the clock now and then: a
    /// full ring at most.
    fn next(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<u64>;

    /// Frames that passed the filter and were dropped since it was opened, for want of room.
    fn drops(&mut self) -> io::Result<u64>;

    /// System calls that asked for frames or waited for them, those in vain too.
    fn calls(&self) -> u64;

    /// Bytes of memory in which frames wait to be taken, as the kernel gave them.
    fn ring_bytes(&self) -> u64;

    /// What there is to report beside, of this way alone.
    fn reported(&self) -> Reported {
        Reported::default()
    }
}

/// What a source says of itself.
#[derive(Clone, Debug, Default)]
pub struct Reported {
    pub values: Vec<(&'static str, f64)>,
    pub warning: Option<String>,
}
