//! Request and response: how long a message takes there and back, one at a time.

mod frames;
mod message;
mod reply;
mod request;
mod round_trips;
pub mod standalone;
mod wire;

pub use message::MAX_DATAGRAM;

#[cfg(test)]
#[path = "../../../tests/common/mod.rs"]
mod common;
