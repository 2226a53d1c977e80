//! The common part of queue disciplines on netlink: the length of a frame on the wire, and options that the
//! packets' library does not know.
//!
//! Source: `struct tc_ratespec` of linux/pkt_sched.h; IEEE 802.3: a frame has a preamble of 8 bytes, a check of 4
//! and a gap of 12 beside what the kernel counts, and is at least 84 bytes long with them.

use netlink_packet_core::{Nla, NlasIterator};
use netlink_packet_route::tc::{TcAttribute, TcMessage};

const UNCOUNTED: u16 = 8 + 4 + 12;
const LEAST_ON_WIRE: u16 = 84;
/// Frames of any length are sent as they are: no cells of ATM.
const ETHERNET: u8 = 1;

/// `struct tc_ratespec`, of bytes per second on the wire.
pub fn rate_spec(rate: u32) -> Vec<u8> {
    let [overhead, least] = [UNCOUNTED, LEAST_ON_WIRE].map(u16::to_ne_bytes);
    [&[0, ETHERNET], &overhead[..], &[0, 0], &least, &rate.to_ne_bytes()].concat()
}

/// One of a message's options, which are one attribute to the packets' library.
pub fn option(message: &TcMessage, kind: u16) -> Option<Vec<u8>> {
    let options = message.attributes.iter().find_map(|attribute| match attribute {
        TcAttribute::Options(options) => options.first(),
        _ => None,
    })?;
    let mut bytes = vec![0; options.value_len()];
    options.emit_value(&mut bytes);
    let all = NlasIterator::new(&bytes[..]).filter_map(Result::ok);
    all.filter(|one| one.kind() == kind).map(|one| one.value().to_vec()).next()
}
