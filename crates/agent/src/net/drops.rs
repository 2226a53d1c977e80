//! Packets that the links of this network namespace have dropped, by the kernel's own counts: statistics of
//! the links and of their queueing disciplines, by route netlink; and those that some drivers report only
//! through ethtool.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage, Stats64};
use netlink_packet_route::tc::{TcAttribute, TcMessage, TcStats2};

use super::ethtool::Ethtool;
use super::netlink::Netlink;
use super::sysfs::InterfaceDirectory;

/// Packets, of one link, since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkDrops {
    /// The NIC had no buffer left: `rx_missed_errors`, or the driver's own count, see [`NO_BUFFER`].
    pub ring: u64,
    /// The driver, or the stack right behind it (a full backlog too), dropped them: `rx_dropped`.
    pub receive: u64,
    /// Received damaged: wrong checksum or alignment of the frame. Not `rx_errors`: there e1000e also
    /// counts frames that it received and that were shorter than Ethernet allows, as QEMU's may be.
    pub damaged: u64,
    /// The driver did not send them: `tx_dropped`; of a tap, its queue was full.
    pub transmit: u64,
    /// The queueing disciplines dropped them; in 32 bits.
    pub queue: u64,
}

/// vmxnet3's statistic for packets that found no buffer; the link's own lack it.
const NO_BUFFER: &str = "pkts rx OOB";
/// The PCI subsystem vendor of devices that QEMU makes.
const QEMU: &str = "0x1af4";

/// Of every link, by name.
pub fn of_links() -> Result<BTreeMap<String, LinkDrops>> {
    let netlink = Netlink::route()?;
    let list = || {
        let links = netlink.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()));
        links.context("listing the links")
    };
    // Some drivers (e1000) read the NIC's counters every two seconds, or when they are asked here.
    let of_drivers: BTreeMap<String, u64> = (list()?.iter().filter_map(link))
        .filter_map(|(_, name, _)| Some((of_driver(&name)?, name)))
        .map(|(ring, name)| (name, ring))
        .collect();
    let mut indices = BTreeMap::new();
    let mut found = BTreeMap::new();
    for message in &list()? {
        if let Some((index, name, stats)) = link(message) {
            indices.insert(index, name.clone());
            let mut drops = drops(&stats);
            drops.ring = of_drivers.get(&name).copied().unwrap_or(drops.ring);
            found.insert(name, drops);
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

/// Packets that found no buffer, where the link's own count is not right.
fn of_driver(link: &str) -> Option<u64> {
    let ethtool = Ethtool::open(link).ok()?;
    if ethtool.driver().as_deref() == Some("e1000") && is_of_qemu(link) {
        let missed = || ethtool.statistics().get("rx_missed_errors").copied();
        return not_reset([missed()?, missed()?, missed()?]);
    }
    ethtool.statistics().get(NO_BUFFER).copied()
}

/// The NIC's counter, from three values that the driver reports. The driver adds up its readings of the
/// counter, which hardware resets at every reading and QEMU does not: so two values differ by the counter
/// itself. The driver also reads it every two seconds on its own. If that falls between two values, they
/// differ by twice as much, but it does not fall between the other two as well.
fn not_reset([first, second, third]: [u64; 3]) -> Option<u64> {
    Some(second.checked_sub(first)?.min(third.checked_sub(second)?))
}

fn is_of_qemu(link: &str) -> bool {
    let vendor = InterfaceDirectory::find(link).and_then(|directory| {
        Ok(std::fs::read_to_string(directory.path().join("device/subsystem_vendor"))?)
    });
    vendor.is_ok_and(|vendor| vendor.trim() == QEMU)
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
        damaged: stats.rx_crc_errors + stats.rx_frame_errors,
        transmit: stats.tx_dropped,
        queue: 0,
    }
}

/// The root discipline's count, which includes its classes' counts.
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
    fn a_reading_of_the_driver_s_own_is_not_counted_twice() {
        assert_eq!(not_reset([35, 42, 49]), Some(7));
        assert_eq!(not_reset([35, 49, 56]), Some(7));
        assert_eq!(not_reset([35, 42, 56]), Some(7));
        assert_eq!(not_reset([35, 35, 35]), Some(0));
        assert_eq!(not_reset([35, 34, 34]), None);
    }

    #[test]
    fn this_namespace_has_a_loopback() {
        assert!(of_links().unwrap().contains_key("lo"));
    }
}
