//! The agent: one static binary that is the init of a guest, a process on a host, or a tool alone.
//!
//! - [`host`] makes benches and carries out plans: it hands orders to the agents of its nodes, by
//!   [`links`], which know what a node is: a process, a guest of a VMM, a guest of Xen.
//! - [`node`] carries out the orders for one node: files, interfaces, knobs, probes, tasks.
//! - [`workload`] is what one task does, in a process of its own.
//! - [`vmm`] runs VMs and [`init`] is the first process in them; what they agree on is the
//!   [`boot_contract`]. [`emulated`] is the other use of QEMU: a whole PC as the machine of an experiment,
//!   and [`own_machine`] what such a one is given for its guests.
//! - [`datapath`] moves packets of guests beside their VMMs, in a process of its own.
//! - [`net`] makes namespaces' links and interfaces; [`process`] starts, confines and accounts for
//!   processes.
//! - [`xen`] makes Xen's guests, and is what they and their driver domain have of their own.

#![warn(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

pub mod arch;
pub mod boot_contract;
pub mod capabilities;
pub mod datapath;
pub mod emit;
pub mod emulated;
pub mod host;
pub mod init;
pub mod knob;
pub mod lines;
pub mod links;
pub mod net;
pub mod node;
pub mod own_machine;
pub mod probe;
pub mod process;
pub mod standalone;
#[cfg(test)]
mod tried_again;
pub mod units;
pub mod values;
pub mod vmm;
pub mod workload;
pub mod xen;
