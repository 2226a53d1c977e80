//! Frames past a guest's card: a ring in memory that the guest shares with its machine (QEMU's ivshmem), as
//! in vPF_RING. The machine captures frames to an address beside the guest's own and writes them there; the
//! guest reads them without a driver, an interrupt or an exit.
//!
//! The memory holds `frame_ring`s of the crate datapath. One ring takes all of it; where frames also go
//! back, the first half is for frames to the guest and the second for those from it.
//!
//! - `memory`: the machine's end: the memory as a file, and that address for the guest's bridge
//! - `device`: the guest's end: a PCI device whose second BAR is the memory; a source of frames, and the way back
//!
//! Source: Kumar Rodrigues and Sadok's vPF_RING; QEMU, docs/specs/ivshmem-spec.rst (`ivshmem-plain`).

mod device;
pub mod memory;

pub use device::{Taken, both_ways};

use super::frames::layout::Mac;

/// The address beside a card's own: frames to it never reach the card.
pub fn beside(mut card: Mac) -> Mac {
    // A locally administered address; a guest's own begins with 52.
    card[0] ^= 4;
    card
}
