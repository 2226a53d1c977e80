//! What the links of this network namespace have dropped, by the kernel's own count: statistics of
//! the links and of their queueing disciplines, by route netlink.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage, Stats64};
use netlink_packet_route::tc::{TcAttribute, TcMessage, TcStats2};
use netlink_sys::protocols::NETLINK_ROUTE;

use super::netlink::Netlink;

/// Packets, of one link, since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkDrops {
    /// The NIC had no buffer left: `rx_missed_errors`.
    pub ring: u64,
    /// The driver, or the stack right behind it (a full backlog too), dropped them: `rx_dropped`.
    pub receive: u64,
    /// Received damaged: `rx_errors`.
    pub damaged: u64,
    /// The driver did not send them: `tx_dropped`; of a tap, its queue was full.
    pub transmit: u64,
    /// The queueing disciplines dropped them; in 32 bits.
    pub queue: u64,
}

/// Of every link, by name.
pub fn of_links() -> Result<BTreeMap<String, LinkDrops>> {
    let netlink = Netlink::<RouteNetlinkMessage>::open(NETLINK_ROUTE)?;
    let links = netlink.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()));
    let mut indices = BTreeMap::new();
    let mut found = BTreeMap::new();
    for message in &links.context("listing the links")? {
        if let Some((index, name, stats)) = link(message) {
            indices.insert(index, name.clone());
            found.insert(name, drops(&stats));
        }
    }
    let queues = netlink.dump(RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default()));
    for message in &queues.context("listing the queueing disciplines")? {
        let Some((index, dropped)) = queue(message) else { continue };
        if let Some(link) = indices.get(&index).and_then(|name| found.get_mut(name)) {
            link.queue += dropped;
        }
    }
    Ok(found)
}

fn link(message: &RouteNetlinkMessage) -> Option<(i32, String, Stats64)> {
    let RouteNetlinkMessage::NewLink(message) = message else { return None };
    let name = message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    });
    let stats = message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Stats64(stats) => Some(*stats),
        _ => None,
    });
    Some((message.header.index.try_into().ok()?, name?, stats?))
}

fn drops(stats: &Stats64) -> LinkDrops {
    LinkDrops {
        ring: stats.rx_missed_errors,
        receive: stats.rx_dropped,
        damaged: stats.rx_errors,
        transmit: stats.tx_dropped,
        queue: 0,
    }
}

/// The root discipline's count has its classes' in it; those are not told apart from it here.
fn queue(message: &RouteNetlinkMessage) -> Option<(i32, u64)> {
    let RouteNetlinkMessage::NewQueueDiscipline(message) = message else { return None };
    let dropped = message.attributes.iter().find_map(|attribute| match attribute {
        TcAttribute::Stats2(stats) => stats.iter().find_map(|stats| match stats {
            TcStats2::Queue(queue) => Some(u64::from(queue.drops)),
            _ => None,
        }),
        _ => None,
    });
    let root = u32::from(message.header.parent) == u32::MAX;
    root.then_some((message.header.index, dropped?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_namespace_has_a_loopback() {
        assert!(of_links().unwrap().contains_key("lo"));
    }
}
