//! The MAC address of an IP address, from the kernel's table of neighbours. Where it is missing, the kernel
//! is made to ask for it (ARP, neighbour discovery). Broadcast frames would be copied at each port of a
//! bridge.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::layout::Mac;
use crate::net::netlink::Netlink;
use crate::net::{Link, Links};

/// As long as a kernel asks three times.
const LIMIT: Duration = Duration::from_secs(4);

const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// The interface by which an address is reached, and its MAC address.
pub fn find(to: IpAddr) -> Result<(Link, Mac)> {
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).context("no socket")?;
    // It sends nothing: it looks the route up.
    socket.connect(SocketAddr::new(to, 9)).with_context(|| format!("no way to {to}"))?;
    // The kernel's choice: the link of the address that it would send from.
    let link = Links::open()?.holding(socket.local_addr()?.ip())?;
    let netlink = Netlink::route()?;
    let deadline = Instant::now() + LIMIT;
    let mut asked = false;
    loop {
        let mut message = NeighbourMessage::default();
        message.header.family = family(to);
        let all = netlink.dump(RouteNetlinkMessage::GetNeighbour(message));
        let found = all.context("no neighbours")?.iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewNeighbour(one) if one.header.ifindex == link.index => {
                mac(one, to)
            }
            _ => None,
        });
        if let Some(mac) = found {
            return Ok((link, mac));
        }
        if !asked {
            ask(&netlink, to, &link)?;
            asked = true;
        }
        if Instant::now() > deadline {
            bail!("{to} does not report its MAC address on {}: is it up, and there?", link.name);
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// Its MAC address, if the neighbour is this one and has answered.
fn mac(neighbour: &NeighbourMessage, of: IpAddr) -> Option<Mac> {
    let has_answered = !matches!(
        neighbour.header.state,
        NeighbourState::None | NeighbourState::Incomplete | NeighbourState::Failed
    );
    let mut attributes = neighbour.attributes.iter();
    let is_it = attributes.any(|one| *one == NeighbourAttribute::Destination(address(of)));
    neighbour
        .attributes
        .iter()
        .find_map(|one| match one {
            NeighbourAttribute::LinkLayerAddress(bytes) => Mac::try_from(bytes.as_slice()).ok(),
            _ => None,
        })
        .filter(|_| has_answered && is_it)
}

/// Has the kernel ask, without a packet of ours that would be counted on its way.
fn ask(netlink: &Netlink<RouteNetlinkMessage>, to: IpAddr, link: &Link) -> Result<()> {
    let mut message = NeighbourMessage::default();
    message.header.family = family(to);
    message.header.ifindex = link.index;
    message.header.state = NeighbourState::None;
    message.header.flags = NeighbourFlags::Use;
    message.attributes = vec![NeighbourAttribute::Destination(address(to))];
    netlink
        .execute(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)
        .with_context(|| {
            format!("the kernel does not know the MAC address of {to} and may not be made to ask (CAP_NET_ADMIN)")
        })
}

fn family(of: IpAddr) -> AddressFamily {
    if of.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn address(of: IpAddr) -> NeighbourAddress {
    match of {
        IpAddr::V4(address) => NeighbourAddress::Inet(address),
        IpAddr::V6(address) => NeighbourAddress::Inet6(address),
    }
}
