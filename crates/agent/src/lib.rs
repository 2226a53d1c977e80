//! The agent: one static binary that is the init of a guest, a process on a host, or a tool alone.
//!
//! - [`host`] makes benches and carries out plans: it hands orders to the agents of its nodes.
//! - [`node`] carries out the orders for one node: files, interfaces, knobs, probes, tasks.
//! - [`workload`] is what one task does, in a process of its own.
//! - [`guest`] starts VMs and is their init; [`net`] makes namespaces' links and interfaces.
//! - [`xen`] makes Xen's guests, and is what they and their driver domain have of their own.

#![warn(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

pub mod capabilities;
pub mod emit;
pub mod guest;
pub mod host;
pub mod knob;
pub mod lines;
pub mod net;
pub mod node;
pub mod probe;
pub mod values;
pub mod workload;
pub mod xen;
