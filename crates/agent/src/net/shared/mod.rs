//! Frames past a guest's card: a ring in memory that the guest shares with its machine (QEMU's ivshmem), as
//! vPF_RING has one. The machine captures what is sent to an address beside the guest's own and writes it there;
//! the guest reads, without a driver, an interrupt or an exit.
//!
//! What stands in the memory is the crate datapath's `frame_ring`. One ring takes all of it; where frames go
//! back as well, the first half is for those to the guest and the second for those from it.
//!
//! - `memory`: the machine's end: the memory as a file, and that address for the guest's bridge
//! - `device`: the guest's end: a PCI device whose second BAR is the memory; a source of frames, and the way back
//!
//! Source: Kumar Rodrigues and Sadok's vPF_RING; QEMU, docs/specs/ivshmem-spec.rst (`ivshmem-plain`).

mod device;
pub mod memory;

pub use device::{Taken, both_ways};

use super::frames::layout::Mac;

/// The address beside a card's own: frames that are sent there never meet the card.
pub fn beside(mut card: Mac) -> Mac {
    // Of those that are given locally; a guest's own begins with 52.
    card[0] ^= 4;
    card
}
