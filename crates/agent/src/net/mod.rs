//! Links, routes, queues, taps and interfaces of a network namespace.

mod changes;
pub mod classes;
pub mod driver_parameters;
pub mod drops;
pub mod ethtool;
pub mod forwarding;
pub mod frame_sources;
pub mod frames;
mod generic;
pub mod interrupts;
pub mod line;
pub mod link;
pub mod napi;
mod netlink;
pub mod queue;
pub mod route;
pub mod shared;
pub mod socket;
pub mod sysfs;
pub mod tap;
mod tc;
pub mod vhost;
pub mod xdp;

pub use changes::Changes;
pub use link::{Link, Links, Namespace};
