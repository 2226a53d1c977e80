//! Links, taps and interfaces of a network namespace.

pub mod ethtool;
pub mod interrupts;
pub mod link;
mod netlink;
pub mod sysfs;
pub mod tap;

pub use link::{Link, Links, Namespace};
