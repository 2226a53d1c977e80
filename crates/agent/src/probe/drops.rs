//! Packets dropped, by place. Each place counts the packets that arrive there and go no further. A packet
//! is dropped once, and counted twice in one case only: a full backlog is also in `receive` of the
//! interface that the packet came from (`enqueue_to_backlog` in net/core/dev.c).
//!
//! By interface: see [`LinkDrops`]. By protocol: /proc/net/snmp and snmp6 of this network namespace.
//! The backlog is of the machine.

use std::path::Path;

use anyhow::{Context, Result};

use super::counters::{Kind, Sample};
use super::net_snmp;
use super::{ProbeKind, Source};
use crate::net::drops::{LinkDrops, of_links};
use crate::values::Definition;

/// By place; those with a point by interface.
const VALUES: &[Definition] = &[
    ("*.ring", "packets", "the NIC had no buffer left"),
    ("*.receive", "packets", "dropped by the driver or right behind it, full backlog included"),
    ("*.damaged", "packets", "received damaged (checksum or alignment of the frame)"),
    ("*.transmit", "packets", "not sent by the driver; of a tap, its queue was full (tx_dropped)"),
    ("*.queue", "packets", "dropped by the queueing discipline"),
    ("socket", "packets", "UDP: the socket's buffer was full"),
    ("tcp", "packets", "TCP: the socket's queues were full; TCP sends them again"),
    ("memory", "packets", "UDP: no memory left for all sockets (udp_mem)"),
    ("no_port", "packets", "UDP: nobody received at that port"),
    ("checksum", "packets", "UDP: wrong checksum"),
    ("ip_receive", "packets", "refused or discarded by IP on their way in"),
    ("ip_transmit", "packets", "without a route or discarded by IP on their way out"),
    ("backlog", "packets", "the CPU's backlog was full; also in `receive` of the interface"),
];

/// The probe.
pub const KIND: ProbeKind = ProbeKind {
    values: VALUES,
    source: Source::Numbers(|probe_context| sample(&probe_context.proc)),
};

/// Counters of the protocols by the place that they stand for.
const PROTOCOLS: [(&str, &str); 16] = [
    ("Udp.RcvbufErrors", "socket"),
    ("Udp6RcvbufErrors", "socket"),
    ("TcpExt.TCPBacklogDrop", "tcp"),
    ("TcpExt.TCPRcvQDrop", "tcp"),
    ("TcpExt.RcvPruned", "tcp"),
    ("Udp.MemErrors", "memory"),
    ("Udp6MemErrors", "memory"),
    ("Udp.NoPorts", "no_port"),
    ("Udp6NoPorts", "no_port"),
    ("Udp.InCsumErrors", "checksum"),
    ("Ip.InHdrErrors", "ip_receive"),
    ("Ip.InAddrErrors", "ip_receive"),
    ("Ip.InDiscards", "ip_receive"),
    ("Ip.OutDiscards", "ip_transmit"),
    ("Ip.OutNoRoutes", "ip_transmit"),
    ("softnet_dropped", "backlog"),
];

pub fn sample(proc: &Path) -> Result<Sample> {
    let mut sample = Sample::default();
    for (interface, drops) in of_links()? {
        link(&mut sample, &interface, &drops);
    }
    let read = |name: &str| {
        let path = proc.join("net").join(name);
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    };
    let protocols = net_snmp::parse(&read("snmp")?, &read("netstat")?, &read("softnet_stat")?)?;
    // A kernel without IPv6 has none.
    let version6 = snmp6(&read("snmp6").unwrap_or_default());
    by_place(&mut sample, &protocols);
    by_place(&mut sample, &version6);
    Ok(sample)
}

fn link(sample: &mut Sample, interface: &str, drops: &LinkDrops) {
    let mut count = |place, raw, kind| {
        sample.count(&format!("{interface}.{place}"), raw, kind, 1.0);
    };
    count("ring", drops.ring, Kind::Counter);
    count("receive", drops.receive, Kind::Counter);
    count("damaged", drops.damaged, Kind::Counter);
    count("transmit", drops.transmit, Kind::Counter);
    count("queue", drops.queue, Kind::Counter32);
}

fn by_place(sample: &mut Sample, counters: &Sample) {
    for entry in &counters.entries {
        for (name, place) in &PROTOCOLS {
            if entry.names.iter().any(|own| own == name) {
                sample.share(&entry.key, &[place], entry.raw, entry.kind, 1.0);
            }
        }
    }
}

/// Lines of a name and a number.
fn snmp6(text: &str) -> Sample {
    let mut sample = Sample::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if let (Some(name), Some(Ok(count))) = (words.next(), words.next().map(str::parse)) {
            sample.count(name, count, Kind::Counter, 1.0);
        }
    }
    sample
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::counters::difference;
    use super::super::net_snmp::tests::{NETSTAT, SNMP, SOFTNET};
    use super::*;

    pub(crate) fn captured(ring: u64, udp6: u64) -> Sample {
        let mut sample = Sample::default();
        link(&mut sample, "eth0", &LinkDrops { ring, ..LinkDrops::default() });
        by_place(&mut sample, &net_snmp::parse(SNMP, NETSTAT, SOFTNET).unwrap());
        by_place(&mut sample, &snmp6(&format!("Udp6InErrors 9\nUdp6RcvbufErrors    {udp6}\n")));
        sample
    }

    #[test]
    fn every_place_has_its_difference() {
        let values = difference(&captured(5, 1), &captured(12, 4), &mut Vec::new()).unwrap();
        assert_eq!((values["eth0.ring"], values["socket"], values["backlog"]), (7.0, 3.0, 0.0));
        assert!(!values.contains_key("Udp6InErrors"));
    }

    #[test]
    fn this_machine_reports_its_drops() {
        let sample = sample(Path::new("/proc")).unwrap();
        let names: Vec<&String> = sample.entries.iter().flat_map(|entry| &entry.names).collect();
        assert!(names.iter().any(|name| *name == "lo.transmit"), "{names:?}");
        assert!(names.iter().any(|name| *name == "socket"), "{names:?}");
    }
}
