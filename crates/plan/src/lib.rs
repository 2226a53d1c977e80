//! The protocol between the controller and the agent: a **plan** goes in, **records** come out.
//!
//! Both are JSON, one object a line. The controller writes [`Step`]s; the host agent carries them
//! out, hands [`Order`]s to the agents of its nodes, and emits [`Record`]s. The same types serve
//! whether a plan arrives over a pipe, is baked into a machine's initramfs, or comes over a network.
//!
//! Conventions: seconds are `f64` fields that end in `_s`; sizes are bytes unless the name says
//! otherwise; times `t_s` are the emitter's monotonic clock. Unknown fields are refused.

#![warn(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod assignment;
mod bench;
mod constants;
mod guest;
mod knob;
mod line;
mod order;
#[cfg(feature = "schema")]
mod path;
mod probe;
mod record;
mod router;
mod step;
mod workload;

pub use assignment::*;
pub use bench::*;
pub use constants::*;
pub use guest::*;
pub use knob::*;
pub use line::*;
pub use order::*;
pub use probe::*;
pub use record::*;
pub use router::*;
pub use step::*;
pub use workload::*;
