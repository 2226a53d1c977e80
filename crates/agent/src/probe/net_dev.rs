//! /proc/net/dev: packets, bytes, drops and errors by interface, of this process's network
//! namespace. The kernel counts in 64 bits (`rtnl_link_stats64`), so a step backwards is not a
//! counter's end but an interface that was made again under its old name.

use anyhow::{Context, Result, bail};

use super::counters::{Kind, Sample};
use super::{HAS_NO_NETWORK, ProbeKind, Source};
use crate::values::Definition;

/// By interface: `eth0.rx_bytes`. In the order of the file's columns.
const VALUES: &[Definition] = &[
    ("*.rx_bytes", "B", "received by the interface"),
    ("*.rx_packets", "packets", "received; after GRO in hardware or a peer's TSO, large ones"),
    ("*.rx_errors", "packets", "received and bad"),
    ("*.rx_dropped", "packets", "received and dropped for want of room or of a taker"),
    ("*.rx_fifo", "packets", "lost because the ring was full"),
    ("*.rx_frame", "packets", "with alignment errors"),
    ("*.rx_compressed", "packets", "received compressed"),
    ("*.rx_multicast", "packets", "received to a multicast address"),
    ("*.tx_bytes", "B", "sent by the interface"),
    ("*.tx_packets", "packets", "sent; before TSO, large ones"),
    ("*.tx_errors", "packets", "not sent, by an error"),
    ("*.tx_dropped", "packets", "not sent, for want of room"),
    ("*.tx_fifo", "packets", "not sent, by an underrun"),
    ("*.tx_collisions", "collisions", "collisions"),
    ("*.tx_carrier", "packets", "not sent, for want of a carrier"),
    ("*.tx_compressed", "packets", "sent compressed"),
];

/// The probe.
pub const KIND: ProbeKind = ProbeKind {
    values: VALUES,
    source: Source::Files(&[("net/dev", HAS_NO_NETWORK)], |texts| parse(&texts[0])),
};

pub fn parse(text: &str) -> Result<Sample> {
    let mut sample = Sample::default();
    for line in text.lines().skip(2) {
        // A colon may be part of an old alias's name; the last one ends it.
        let Some((interface, numbers)) = line.rsplit_once(':') else { continue };
        let interface = interface.trim();
        let numbers: Vec<&str> = numbers.split_whitespace().collect();
        if numbers.len() != VALUES.len() {
            bail!("/proc/net/dev has {} numbers for {interface}, not 16", numbers.len());
        }
        for ((column, ..), number) in VALUES.iter().zip(numbers) {
            let count = number
                .parse()
                .with_context(|| format!("/proc/net/dev holds {number:?} for {interface}"))?;
            sample.count(&column.replace('*', interface), count, Kind::Counter, 1.0);
        }
    }
    Ok(sample)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::counters::difference;
    use super::*;

    pub(crate) const BEFORE: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:    3193      29    0    0    0     0          0         0     3193      29    0    0    0     0       0          0
  eth0: 303188527    6352    0    7    0     0          0         0   267350    3440    0    0    0     0       0          0
";

    #[test]
    fn differences_by_interface() {
        let after = BEFORE
            .replace("303188527    6352    0    7", "303190027    6353    0    9")
            .replace("267350    3440", "267450    3442");
        let values =
            difference(&parse(BEFORE).unwrap(), &parse(&after).unwrap(), &mut Vec::new()).unwrap();
        assert_eq!(values["eth0.rx_bytes"], 1500.0);
        assert_eq!(values["eth0.rx_packets"], 1.0);
        assert_eq!(values["eth0.rx_dropped"], 2.0);
        assert_eq!(values["eth0.tx_bytes"], 100.0);
        assert_eq!(values["eth0.tx_packets"], 2.0);
        assert_eq!(values["lo.rx_bytes"], 0.0);
    }

    #[test]
    fn numbers_that_touch_the_colon_are_read() {
        // Kernels before 2.6.39 printed no space.
        let text = "a\nb\n eth0:12345678 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n";
        let sample = parse(text).unwrap();
        assert_eq!(
            (sample.entries[0].key.as_str(), sample.entries[0].raw),
            ("eth0.rx_bytes", 12345678)
        );
    }

    #[test]
    fn an_interface_made_anew_is_left_out_and_the_others_stay() {
        let after = BEFORE.replace("303188527    6352", "      100       1");
        let mut notes = Vec::new();
        let values =
            difference(&parse(BEFORE).unwrap(), &parse(&after).unwrap(), &mut notes).unwrap();
        assert!(!values.contains_key("eth0.rx_bytes"));
        assert_eq!(values["lo.rx_bytes"], 0.0);
        assert!(notes[0].ends_with("eth0.rx_bytes, eth0.rx_packets"), "{notes:?}");
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(parse("a\nb\n eth0: 1 2 3\n").is_err());
    }
}
