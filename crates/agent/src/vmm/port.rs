//! What is behind a guest's card, and the words by which QEMU gets it: descriptors that it inherits.

use std::os::fd::OwnedFd;

use hypertare_plan::Interface;

/// An interface and what moves its packets.
pub struct Port<'a> {
    pub interface: &'a Interface,
    pub way: Way,
}

/// What moves packets between a card's rings and the machine's kernel. A TAP has a descriptor for each
/// pair of queues.
pub enum Way {
    /// QEMU itself.
    Qemu { taps: Vec<OwnedFd> },
    /// The kernel, reached by a handle of vhost-net for each pair of queues.
    Vhost { taps: Vec<OwnedFd>, handles: Vec<OwnedFd>, poll_us: Option<u32> },
    /// A process that listens on a socket. It has a name for nobody: QEMU finds it by its descriptor.
    Process { socket: OwnedFd, queues: usize },
}

impl Way {
    /// QEMU's words for it, where the first of its descriptors has this number there: what comes before
    /// the network device, and the device.
    pub fn words(&self, index: usize, first: i32) -> (Option<String>, String) {
        let numbers = |from: usize, count: usize| -> Vec<String> {
            (first..).skip(from).take(count).map(|number| number.to_string()).collect()
        };
        match self {
            Way::Qemu { taps } => {
                (None, format!("tap,{},vhost=off", named("fd", &numbers(0, taps.len()))))
            }
            Way::Vhost { taps, handles, poll_us } => {
                let taps_there = named("fd", &numbers(0, taps.len()));
                let handles_there = named("vhostfd", &numbers(taps.len(), handles.len()));
                let poll = poll_us.map_or_else(String::new, |poll| format!(",poll-us={poll}"));
                (None, format!("tap,{taps_there},vhost=on,{handles_there}{poll}"))
            }
            Way::Process { queues, .. } => {
                let socket = format!("socket,id=way{index},path=/proc/self/fd/{first}");
                let several = if *queues > 1 { format!(",queues={queues}") } else { String::new() };
                (Some(socket), format!("vhost-user,chardev=way{index}{several}"))
            }
        }
    }

    /// How many pairs of queues it has.
    pub fn queues(&self) -> usize {
        match self {
            Way::Qemu { taps } | Way::Vhost { taps, .. } => taps.len(),
            Way::Process { queues, .. } => *queues,
        }
    }

    /// How many descriptors QEMU inherits.
    pub fn count(&self) -> usize {
        match self {
            Way::Qemu { taps } => taps.len(),
            Way::Vhost { taps, handles, .. } => taps.len() + handles.len(),
            Way::Process { .. } => 1,
        }
    }

    /// Them, in the order of their numbers.
    pub fn into_descriptors(self) -> Vec<OwnedFd> {
        match self {
            Way::Qemu { taps } => taps,
            Way::Vhost { mut taps, handles, .. } => {
                taps.extend(handles);
                taps
            }
            Way::Process { socket, .. } => vec![socket],
        }
    }
}

/// `fd=7`, or `fds=7:8` of several.
fn named(key: &str, numbers: &[String]) -> String {
    match numbers {
        [one] => format!("{key}={one}"),
        several => format!("{key}s={}", several.join(":")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn some(count: usize) -> Vec<OwnedFd> {
        (0..count).map(|_| File::open("/dev/null").unwrap().into()).collect()
    }

    #[test]
    fn every_way_has_its_words() {
        let said = |way: &Way| way.words(1, 7);
        assert_eq!(said(&Way::Qemu { taps: some(1) }), (None, "tap,fd=7,vhost=off".into()));
        assert_eq!(said(&Way::Qemu { taps: some(2) }), (None, "tap,fds=7:8,vhost=off".into()));
        let vhost =
            |count, poll_us| Way::Vhost { taps: some(count), handles: some(count), poll_us };
        assert_eq!(said(&vhost(1, None)).1, "tap,fd=7,vhost=on,vhostfd=8");
        assert_eq!(said(&vhost(2, Some(50))).1, "tap,fds=7:8,vhost=on,vhostfds=9:10,poll-us=50");
        let way = |queues| Way::Process { socket: some(1).remove(0), queues };
        let (socket, device) = said(&way(1));
        assert_eq!(socket.unwrap(), "socket,id=way1,path=/proc/self/fd/7");
        assert_eq!(device, "vhost-user,chardev=way1");
        assert_eq!(said(&way(4)).1, "vhost-user,chardev=way1,queues=4");
    }

    #[test]
    fn as_many_descriptors_are_handed_over_as_words_name() {
        for way in [
            Way::Qemu { taps: some(2) },
            Way::Vhost { taps: some(2), handles: some(2), poll_us: None },
            Way::Process { socket: some(1).remove(0), queues: 2 },
        ] {
            assert_eq!(way.queues(), 2);
            assert_eq!(way.count(), way.into_descriptors().len());
        }
    }
}
