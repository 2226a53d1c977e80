//! Moves packets between the rings of guests' cards and TAPs: the back end of virtio-net outside of its
//! VMM, by the protocol vhost-user.
//!
//! - [`memory`] is a guest's memory as its VMM lends it; [`ring`] a queue in it; [`protocol`] what the VMM
//!   says; [`card`] joins them with a TAP, and moves frames.
//! - [`frame_ring`] is a queue of frames in memory that a guest shares with its machine, past any card;
//!   [`relay`] joins two of them with a packet socket.
//! - [`serve`] serves cards and relays: sleeping until notified, or never sleeping.
//! - [`counters`] are what others may know of that meanwhile.
//!
//! **What a guest writes is hostile**: it may change at any moment, name any address, and lead in circles.
//! So every value is read once and checked before it is used; no address is followed that is not inside of
//! the guest's memory as a whole; every walk is bounded. What cannot be followed ends the card, with a
//! sentence, and nothing else.
//!
//! The rings are our own and not those of a library (rust-vmm's virtio-queue 0.18): that one publishes each
//! buffer by itself, but the buffers of a frame that takes several (VIRTIO_NET_F_MRG_RXBUF) must be seen
//! together, or the guest's driver drops it.
//!
//! Sources: Virtual I/O Device (VIRTIO) 1.2, sections 2.7 (split virtqueues) and 5.1 (network device);
//! QEMU, docs/interop/vhost-user.rst.

#![warn(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

pub mod card;
pub mod counters;
pub mod frame_ring;
pub mod memory;
pub mod protocol;
pub mod relay;
pub mod ring;
pub mod serve;
