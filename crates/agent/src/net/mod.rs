//! Links, taps and interfaces of a network namespace.

pub mod coalescing;
pub mod drops;
pub mod ethtool;
mod generic;
pub mod interrupts;
pub mod link;
pub mod napi;
mod netlink;
pub mod sysfs;
pub mod tap;

pub use link::{Link, Links, Namespace};
