//! Guests of KVM under the agent's own VMM, a small one for machines on which each instruction
//! counts: the emulated machine, which is a KVM host itself. What it leaves out (disks, screens, NICs,
//! firmware, several CPUs) is for QEMU.
//!
//! - the machine's side: [`module`] loads KVM in the paging mode asked for and reads it back,
//!   [`pool`] reserves huge pages, [`guest`] starts a VMM and listens to it;
//! - the VMM, one process a guest: [`vmm`] is its command line, [`memory`] what it maps, [`boot`] puts
//!   the kernel there, [`machine`] runs the CPU; the guest finds a serial line for what it prints and,
//!   on a PCI bus ([`pci`]), a virtio console ([`virtio`], [`port`]) for orders and records: the same
//!   port that it has under QEMU.
//!
//! Whatever a guest writes to a register or into a queue is untrusted: it is checked or ignored, and
//! can end no more than its own VMM.

pub mod boot;
pub mod guest;
pub mod machine;
pub mod memory;
pub mod module;
pub mod pci;
pub mod pool;
pub mod port;
pub mod virtio;
pub mod vmm;
