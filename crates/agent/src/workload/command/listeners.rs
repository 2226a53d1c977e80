//! Listening sockets of this network namespace, found in /proc/net (proc(5)).

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use rustix::io::Errno;

/// By file, the state of a listening socket: TCP_LISTEN, and TCP_CLOSE for a datagram socket that is bound
/// and not connected (`net/tcp_states.h`).
const WAITING: [(&str, &str); 4] = [
    ("/proc/self/net/tcp", "0A"),
    ("/proc/self/net/tcp6", "0A"),
    ("/proc/self/net/udp", "07"),
    ("/proc/self/net/udp6", "07"),
];

/// The sockets that listen now.
#[derive(Debug, Default, PartialEq)]
pub struct Listeners {
    /// Inodes of the sockets that other nodes can reach.
    reachable: BTreeSet<u64>,
    /// Inodes of those that only this node can reach.
    loopback: BTreeSet<u64>,
}

impl Listeners {
    pub fn now() -> Result<Self> {
        let mut found = Listeners::default();
        for (file, state) in WAITING {
            match std::fs::read_to_string(file) {
                Ok(text) => found.take_in(&text, state),
                // A kernel without IPv6.
                Err(error) if error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => {}
                Err(error) => return Err(error).with_context(|| format!("cannot read {file}")),
            }
        }
        Ok(found)
    }

    /// Whether other nodes can reach a socket that was not there `before`.
    pub fn can_be_reached(&self, before: &Self) -> bool {
        !self.reachable.is_subset(&before.reachable)
    }

    /// Whether sockets exist that were not there `before`, all of them out of other nodes' reach.
    pub fn are_on_loopback(&self, before: &Self) -> bool {
        !self.can_be_reached(before) && !self.loopback.is_subset(&before.loopback)
    }

    /// Lines `sl local_address rem_address st ... inode ...`; addresses in hexadecimal, with their bytes
    /// in words of the machine's order.
    fn take_in(&mut self, text: &str, waiting: &str) {
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let (Some(&local), Some(&state), Some(inode)) =
                (fields.get(1), fields.get(3), fields.get(9).and_then(|one| one.parse().ok()))
            else {
                continue;
            };
            if state != waiting {
                continue;
            }
            let kind = if is_loopback(local) { &mut self.loopback } else { &mut self.reachable };
            kind.insert(inode);
        }
    }
}

/// 127.0.0.0/8, also mapped into IPv6, and ::1.
fn is_loopback(local: &str) -> bool {
    let address = local.split(':').next().unwrap_or_default();
    match address.len() {
        8 => address.ends_with("7F"),
        _ => {
            address == "00000000000000000000000001000000"
                || (address.starts_with("0000000000000000FFFF0000") && address.ends_with("7F"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1451 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 71 1 0 100
   1: 0100007F:1452 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 72 1 0 100
   2: 02004D0A:1451 03004D0A:A0B2 01 00000000:00000000 00:00000000 00000000     0        0 73 1 0 100
   3: broken
";

    fn of(text: &str, waiting: &str) -> Listeners {
        let mut found = Listeners::default();
        found.take_in(text, waiting);
        found
    }

    #[test]
    fn listening_sockets_are_reported_from_others_and_from_those_on_loopback() {
        let found = of(TCP, "0A");
        assert_eq!(found.reachable, BTreeSet::from([71]));
        assert_eq!(found.loopback, BTreeSet::from([72]));
        assert!(found.can_be_reached(&Listeners::default()));
        assert!(!found.are_on_loopback(&Listeners::default()));
    }

    #[test]
    fn what_was_there_before_does_not_count() {
        let before = of(TCP, "0A");
        assert!(!of(TCP, "0A").can_be_reached(&before));
        assert!(!of(TCP, "0A").are_on_loopback(&before));
        let own = TCP.replace(" 72 ", " 99 ");
        assert!(of(&own, "0A").are_on_loopback(&before));
    }

    #[test]
    fn loopback_has_three_forms() {
        assert!(is_loopback("0100007F:0016") && is_loopback("0500007F:0016"));
        assert!(is_loopback("00000000000000000000000001000000:0016"));
        assert!(is_loopback("0000000000000000FFFF00000100007F:0016"));
        assert!(!is_loopback("7F00000A:0016"));
        assert!(!is_loopback("00000000000000000000000000000000:0016"));
        assert!(!is_loopback("000080FE000000000100007F0000007F:0016"));
    }

    #[test]
    fn a_socket_of_this_process_is_seen() {
        let before = Listeners::now().unwrap();
        let _socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        assert!(Listeners::now().unwrap().can_be_reached(&before));
    }
}
