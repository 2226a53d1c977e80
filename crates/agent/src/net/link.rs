//! Makes, reads, changes and removes links and their addresses. All of it works inside a user and network
//! namespace without any right on the host.

use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::address::{
    AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::netlink::Netlink;

/// Between two looks at a link that is being waited for.
const LONGEST_NAP: Duration = Duration::from_millis(100);

/// The links of one network namespace: that of the thread that opened it, whatever it enters later.
pub struct Links {
    netlink: Netlink<RouteNetlinkMessage>,
}

/// A link as the kernel reports it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    /// Its kind (`bridge`, `veth`, `tun`); `None` for hardware.
    pub kind: Option<String>,
    pub mtu: u32,
    /// `02:00:00:00:00:01`; empty for links without one.
    pub mac: String,
    /// Index of the bridge that it is a port of.
    pub master: Option<u32>,
    pub up: bool,
    /// Whether frames can pass: it is up, the other end is up, and the kernel has acted on that. Between
    /// the last two (IFF_LOWER_UP and IFF_RUNNING) it silently drops packets, and a lost ARP request costs
    /// a second.
    pub carrier: bool,
    /// Queues that the kernel reserved; how many are used is the driver's matter.
    pub rx_queues: u32,
    pub tx_queues: u32,
    /// Queue discipline at its root, `noqueue` for most that are not hardware.
    pub discipline: String,
    /// Packets that may wait to be sent (`txqueuelen`).
    pub queue_length: u32,
}

/// Another network namespace.
#[derive(Clone, Copy)]
pub enum Namespace<'a> {
    /// That of a process.
    Pid(u32),
    Fd(BorrowedFd<'a>),
}

impl Links {
    pub fn open() -> Result<Self> {
        Ok(Links { netlink: Netlink::route()? })
    }

    /// Makes a bridge, down. It forwards at once: without STP there is no learning delay. It keeps its
    /// first MAC address; by default it would take the least of its ports' addresses, and neighbours would
    /// lose it. A port with a smaller MTU may lower the bridge's: set the ports' first.
    pub fn bridge(&self, name: &str, mtu: u32) -> Result<()> {
        self.create(name, vec![kind(InfoKind::Bridge, None)])
            .and_then(|()| self.set_mac(name, &self.get(name)?.mac))
            .and_then(|()| self.set_mtu(name, mtu))
            .with_context(|| format!("making the bridge {name}"))
    }

    /// Makes a pair of links that are each other's wire, both down. The peer is made in `namespace`, so its
    /// name may be in use here.
    pub fn veth(&self, name: &str, peer: &str, namespace: Option<Namespace>) -> Result<()> {
        check_name(peer)?;
        let mut other = LinkMessage::default();
        other.attributes.push(LinkAttribute::IfName(peer.to_owned()));
        other.attributes.extend(namespace.map(Namespace::attribute));
        let data = InfoData::Veth(InfoVeth::Peer(other));
        self.create(name, vec![kind(InfoKind::Veth, Some(data))])
            .with_context(|| format!("making the veth pair {name}, {peer}"))
    }

    /// Moves a link away, for example hardware or a tap. It loses its addresses and goes down.
    pub fn move_to(&self, name: &str, namespace: Namespace) -> Result<()> {
        self.set(name, vec![namespace.attribute()])
            .with_context(|| format!("moving {name} to another network namespace"))
    }

    /// The link must be down.
    pub fn rename(&self, name: &str, to: &str) -> Result<()> {
        check_name(to)?;
        self.set(name, vec![LinkAttribute::IfName(to.to_owned())])
            .with_context(|| format!("renaming {name} to {to}"))
    }

    /// Makes a link a port of a bridge; `None` takes it out.
    pub fn set_master(&self, name: &str, master: Option<&str>) -> Result<()> {
        let index = master.map(|master| self.get(master)).transpose()?.map_or(0, |link| link.index);
        self.set(name, vec![LinkAttribute::Controller(index)])
            .with_context(|| format!("making {name} a port of {}", master.unwrap_or("nothing")))
    }

    /// Disciplines take it as their limit when they are attached.
    pub fn set_queue_length(&self, name: &str, packets: u32) -> Result<()> {
        self.set(name, vec![LinkAttribute::TxQueueLen(packets)])
            .with_context(|| format!("letting {packets} packets wait on {name}"))
    }

    pub fn set_mtu(&self, name: &str, bytes: u32) -> Result<()> {
        self.set(name, vec![LinkAttribute::Mtu(bytes)])
            .with_context(|| format!("setting the MTU of {name} to {bytes} bytes"))
    }

    /// `mac` is six bytes in hexadecimal with colons.
    pub fn set_mac(&self, name: &str, mac: &str) -> Result<()> {
        let bytes = parse_mac(mac)?;
        self.set(name, vec![LinkAttribute::Address(bytes.to_vec())])
            .with_context(|| format!("setting the MAC address of {name} to {mac}"))
    }

    /// Adds an address with its prefix, `10.77.0.2/24` or `fd00::2/64`. An IPv6 address is usable at once,
    /// without duplicate address detection. If the first packet has to arrive, call
    /// [`Links::wait_for_carrier`] before.
    pub fn add_address(&self, name: &str, cidr: &str) -> Result<()> {
        let (address, prefix) = parse_cidr(cidr)?;
        let mut message = AddressMessage::default();
        message.header.index = self.get(name)?.index;
        message.header.prefix_len = prefix;
        message.header.scope = AddressScope::Universe;
        message.header.family = match address {
            IpAddr::V4(_) => AddressFamily::Inet,
            IpAddr::V6(_) => AddressFamily::Inet6,
        };
        if address.is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
        }
        message.attributes =
            vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        self.netlink
            .execute(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
            .with_context(|| format!("giving {name} the address {cidr}"))
    }

    /// Takes all addresses away, and with them their routes.
    pub fn remove_addresses(&self, name: &str) -> Result<()> {
        let messages = self.address_messages(&self.get(name)?)?;
        messages.into_iter().try_for_each(|message| {
            self.netlink
                .execute(RouteNetlinkMessage::DelAddress(message), 0)
                .with_context(|| format!("taking an address from {name}"))
        })
    }

    /// The addresses of a link, `10.77.0.2/24`.
    pub fn addresses(&self, name: &str) -> Result<Vec<String>> {
        let messages = self.address_messages(&self.get(name)?)?;
        let text = |message: &AddressMessage| {
            Some(format!("{}/{}", address(message)?, message.header.prefix_len))
        };
        Ok(messages.iter().filter_map(text).collect())
    }

    /// The link that has an address.
    ///
    /// # Errors
    /// No link here has it.
    pub fn holding(&self, address: IpAddr) -> Result<Link> {
        let text = address.to_string();
        for link in self.list()? {
            let own = self.addresses(&link.name)?;
            if own.iter().any(|one| one.split('/').next() == Some(&text)) {
                return Ok(link);
            }
        }
        bail!("no interface here has the address {address}")
    }

    pub fn set_up(&self, name: &str) -> Result<()> {
        self.set_flags(name, LinkFlags::Up).with_context(|| format!("setting {name} up"))
    }

    pub fn set_down(&self, name: &str) -> Result<()> {
        self.set_flags(name, LinkFlags::empty()).with_context(|| format!("setting {name} down"))
    }

    /// Removes a link that was made; its addresses, and a veth's peer, go with it.
    pub fn delete(&self, name: &str) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = self.get(name)?.index;
        self.netlink
            .execute(RouteNetlinkMessage::DelLink(message), 0)
            .with_context(|| format!("removing the link {name}"))
    }

    pub fn list(&self) -> Result<Vec<Link>> {
        let all = self.netlink.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()));
        Ok(all.context("listing the links")?.iter().filter_map(link).collect())
    }

    /// One link by its name.
    ///
    /// # Errors
    /// There is no such link; the error lists the existing ones.
    pub fn get(&self, name: &str) -> Result<Link> {
        check_name(name)?;
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        match self.netlink.get(RouteNetlinkMessage::GetLink(message)) {
            Ok(answers) => answers
                .iter()
                .find_map(link)
                .with_context(|| format!("the kernel reported nothing of the interface {name}")),
            Err(error) if is(&error, libc::ENODEV) => {
                let names: Vec<String> = self.list()?.into_iter().map(|link| link.name).collect();
                bail!("there is no interface {name} here; there are: {}", names.join(", "))
            }
            Err(error) => Err(error.context(format!("looking at the interface {name}"))),
        }
    }

    /// The machine's NIC of this MAC address; a bridge with its port's address does not count.
    ///
    /// # Errors
    /// There is no such NIC; the error lists the existing ones.
    pub fn nic(&self, mac: &str) -> Result<String> {
        let mut all = self.list()?;
        all.retain(|link| link.kind.as_deref() != Some("bridge") && link.name != "lo");
        let found = all.iter().find(|link| link.mac.eq_ignore_ascii_case(mac));
        found.map(|link| link.name.clone()).with_context(|| {
            let there: Vec<_> = all.iter().map(|l| format!("{} {}", l.name, l.mac)).collect();
            format!("the machine has no NIC of the address {mac:?}; it has: {}", there.join(", "))
        })
    }

    /// Waits until frames can pass and the link's addresses answer.
    ///
    /// # Errors
    /// They still cannot after `limit`; the error names what is missing.
    pub fn wait_for_carrier(&self, name: &str, limit: Duration) -> Result<()> {
        let began = Instant::now();
        loop {
            let Some(missing) = self.missing(name)? else { return Ok(()) };
            let waited = began.elapsed();
            if waited >= limit {
                bail!("{name} has no carrier after {:.1} s: {missing}", limit.as_secs_f64());
            }
            // A look costs time, most of all where every instruction is emulated: after a long wait it
            // may as well wait an eighth longer.
            std::thread::sleep((waited / 8).clamp(Duration::from_millis(2), LONGEST_NAP));
        }
    }

    /// Waits until the link's addresses answer, even if its other end is not up.
    pub fn wait_for_addresses(&self, name: &str, limit: Duration) -> Result<()> {
        let link = self.get(name)?;
        let deadline = Instant::now() + limit;
        while let Some(missing) = self.missing_address(&link)? {
            if Instant::now() >= deadline {
                bail!("{name} is of no use after {:.1} s: {missing}", limit.as_secs_f64());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// What a link still lacks to be usable.
    fn missing(&self, name: &str) -> Result<Option<String>> {
        let link = self.get(name)?;
        if !link.up {
            return Ok(Some("it is not up itself".to_owned()));
        }
        if !link.carrier {
            return Ok(Some("its other end is not up".to_owned()));
        }
        self.missing_address(&link)
    }

    fn missing_address(&self, link: &Link) -> Result<Option<String>> {
        let addresses = self.address_messages(link)?;
        for address in addresses.iter().filter_map(given_without_dad) {
            if !self.is_local(address)? {
                return Ok(Some(format!("the kernel does not answer for {address} yet")));
            }
        }
        Ok(None)
    }

    /// Whether packets to an address end here. The kernel acknowledges a new IPv6 address first and
    /// puts its route in place later, in a work queue; what comes in between, a neighbour's answer
    /// for example, is dropped.
    fn is_local(&self, address: Ipv6Addr) -> Result<bool> {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet6;
        message.header.destination_prefix_length = 128;
        message.attributes.push(RouteAttribute::Destination(RouteAddress::Inet6(address)));
        match self.netlink.get(RouteNetlinkMessage::GetRoute(message)) {
            Ok(answers) => Ok(answers.iter().any(|answer| {
                matches!(answer, RouteNetlinkMessage::NewRoute(route)
                    if route.header.kind == RouteType::Local)
            })),
            Err(error) if is(&error, libc::ENETUNREACH) => Ok(false),
            Err(error) => Err(error.context(format!("looking up the route to {address}"))),
        }
    }

    fn address_messages(&self, link: &Link) -> Result<Vec<AddressMessage>> {
        let all = self.netlink.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()));
        let all = all.with_context(|| format!("listing the addresses of {}", link.name))?;
        let of_link = all.into_iter().filter_map(|message| match message {
            RouteNetlinkMessage::NewAddress(address) => Some(address),
            _ => None,
        });
        Ok(of_link.filter(|address| address.header.index == link.index).collect())
    }

    fn create(&self, name: &str, attributes: Vec<LinkAttribute>) -> Result<()> {
        check_name(name)?;
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        message.attributes.extend(attributes);
        self.netlink.execute(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    fn set(&self, name: &str, attributes: Vec<LinkAttribute>) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = self.get(name)?.index;
        message.attributes = attributes;
        self.netlink.execute(RouteNetlinkMessage::SetLink(message), 0)
    }

    fn set_flags(&self, name: &str, flags: LinkFlags) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = self.get(name)?.index;
        message.header.flags = flags;
        message.header.change_mask = LinkFlags::Up;
        self.netlink.execute(RouteNetlinkMessage::SetLink(message), 0)
    }
}

impl Namespace<'_> {
    fn attribute(self) -> LinkAttribute {
        match self {
            Namespace::Pid(pid) => LinkAttribute::NetNsPid(pid),
            Namespace::Fd(fd) => LinkAttribute::NetNsFd(fd.as_raw_fd()),
        }
    }
}

/// Whether an error is one of the kernel's.
pub(crate) fn is(error: &anyhow::Error, code: i32) -> bool {
    error.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error) == Some(code)
}

/// Checks a name as the kernel does (`dev_valid_name`).
pub(super) fn check_name(name: &str) -> Result<()> {
    let odd = |byte: u8| byte == b'/' || byte == b':' || byte == 0 || byte.is_ascii_whitespace();
    ensure!(
        (1..=15).contains(&name.len()) && name != "." && name != ".." && !name.bytes().any(odd),
        "{name:?} cannot be an interface's name: 1 to 15 bytes without space, slash or colon"
    );
    Ok(())
}

fn kind(kind: InfoKind, data: Option<InfoData>) -> LinkAttribute {
    let mut info = vec![LinkInfo::Kind(kind)];
    info.extend(data.map(LinkInfo::Data));
    LinkAttribute::LinkInfo(info)
}

fn link(message: &RouteNetlinkMessage) -> Option<Link> {
    let RouteNetlinkMessage::NewLink(message) = message else { return None };
    let flags = message.header.flags;
    let mut link = Link {
        index: message.header.index,
        up: flags.contains(LinkFlags::Up),
        carrier: flags.contains(LinkFlags::Up | LinkFlags::LowerUp | LinkFlags::Running),
        ..Link::default()
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Address(bytes) => link.mac = mac_text(bytes),
            LinkAttribute::Controller(index) => link.master = Some(*index),
            LinkAttribute::NumRxQueues(queues) => link.rx_queues = *queues,
            LinkAttribute::NumTxQueues(queues) => link.tx_queues = *queues,
            LinkAttribute::Qdisc(name) => link.discipline.clone_from(name),
            LinkAttribute::TxQueueLen(packets) => link.queue_length = *packets,
            LinkAttribute::LinkInfo(info) => {
                link.kind = info.iter().find_map(|info| match info {
                    LinkInfo::Kind(kind) => Some(kind.to_string()),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    (!link.name.is_empty()).then_some(link)
}

fn address(message: &AddressMessage) -> Option<IpAddr> {
    // On a point-to-point link `Address` is the other end's, and `Local` this one's.
    let find = |local: bool| {
        message.attributes.iter().find_map(move |attribute| match attribute {
            AddressAttribute::Local(address) if local => Some(*address),
            AddressAttribute::Address(address) if !local => Some(*address),
            _ => None,
        })
    };
    find(true).or_else(|| find(false))
}

/// An address that [`Links::add_address`] has given. The kernel's own link-local one takes seconds to
/// become usable, and is not needed here.
fn given_without_dad(message: &AddressMessage) -> Option<Ipv6Addr> {
    match address(message)? {
        IpAddr::V6(address) if message.header.flags.contains(AddressHeaderFlags::Nodad) => {
            Some(address)
        }
        _ => None,
    }
}

pub(super) fn parse_cidr(cidr: &str) -> Result<(IpAddr, u8)> {
    let parsed = cidr.split_once('/').and_then(|(address, prefix)| {
        let address: IpAddr = address.parse().ok()?;
        let prefix: u8 = prefix.parse().ok()?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        (prefix <= longest).then_some((address, prefix))
    });
    parsed.with_context(|| {
        format!("{cidr:?} is not an address with its prefix, such as 10.77.0.2/24 or fd00::2/64")
    })
}

pub(crate) fn parse_mac(mac: &str) -> Result<[u8; 6]> {
    let bytes: Option<Vec<u8>> = mac
        .split(':')
        .map(|byte| (byte.len() == 2).then(|| u8::from_str_radix(byte, 16).ok()).flatten())
        .collect();
    let bytes: Option<[u8; 6]> = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.filter(|bytes| bytes[0] & 1 == 0).with_context(|| {
        format!("{mac:?} is not a MAC address of one interface, such as 02:00:00:00:00:01")
    })
}

pub(crate) fn mac_text(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_before_the_kernel_sees_them() {
        assert_eq!(parse_cidr("10.0.0.1/24").unwrap(), ("10.0.0.1".parse().unwrap(), 24));
        assert_eq!(parse_cidr("fd00::1/128").unwrap().1, 128);
        for wrong in ["10.0.0.1", "10.0.0.1/33", "fd00::1/129", "host/24", "10.0.0.1/x", ""] {
            assert!(parse_cidr(wrong).unwrap_err().to_string().contains("10.77.0.2/24"));
        }
    }

    #[test]
    fn mac_addresses_are_checked() {
        assert_eq!(parse_mac("02:00:00:00:00:ff").unwrap(), [2, 0, 0, 0, 0, 255]);
        for wrong in [
            "02:00:00:00:00",
            "01:00:00:00:00:01",
            "2:0:0:0:0:1",
            "zz:00:00:00:00:00",
            "+2:00:00:00:00:01x",
        ] {
            assert!(parse_mac(wrong).is_err(), "{wrong}");
        }
        assert_eq!(mac_text(&[2, 0, 0, 0, 0, 255]), "02:00:00:00:00:ff");
    }

    #[test]
    fn names_are_checked() {
        assert!(check_name("eth0").is_ok());
        for wrong in ["", "a/b", "..", "sixteen-letters!", "a b"] {
            assert!(check_name(wrong).is_err(), "{wrong}");
        }
    }
}
