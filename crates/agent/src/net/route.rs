//! Routes of one network namespace to networks without a link of it.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, Result, bail};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::link::{Link, is, parse_cidr};
use super::netlink::Netlink;

/// Routes of the namespace of the thread that opened it, whatever namespace it enters later.
pub struct Routes {
    netlink: Netlink<RouteNetlinkMessage>,
}

impl Routes {
    pub fn open() -> Result<Self> {
        Ok(Routes { netlink: Netlink::route()? })
    }

    /// Packets to the network `to`, `10.78.2.0/24` or `fd78:2::/64`, go to the router `via`.
    ///
    /// # Errors
    /// One of them is malformed, they are of different families, or `via` is on no link that is up.
    pub fn add(&self, to: &str, via: &str) -> Result<()> {
        let message = message(to, via)?;
        match self
            .netlink
            .execute(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
        {
            Err(error) if is(&error, libc::ENETUNREACH) || is(&error, libc::EHOSTUNREACH) => bail!(
                "there is no way to {to} via {via}: no interface that is up has an address in \
                 the network of {via}"
            ),
            outcome => outcome.with_context(|| format!("adding the route to {to} via {via}")),
        }
    }

    /// Packets to this address alone leave by `link`, whose other end has the address.
    pub fn add_neighbour(&self, address: Ipv4Addr, link: &Link) -> Result<()> {
        let mut message = unicast(AddressFamily::Inet, 32);
        message.header.scope = RouteScope::Link;
        message.attributes = vec![
            RouteAttribute::Destination(RouteAddress::Inet(address)),
            RouteAttribute::Oif(link.index),
        ];
        self.netlink
            .execute(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
            .with_context(|| format!("adding the route to {address} by {}", link.name))
    }

    /// Index of the link by which packets to an address leave; `None` where there is no route to it.
    pub fn link_to(&self, address: Ipv4Addr) -> Result<Option<u32>> {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet;
        message.header.destination_prefix_length = 32;
        message.attributes.push(RouteAttribute::Destination(RouteAddress::Inet(address)));
        let answers = match self.netlink.get(RouteNetlinkMessage::GetRoute(message)) {
            Err(error) if is(&error, libc::ENETUNREACH) => return Ok(None),
            answers => answers.with_context(|| format!("looking up the route to {address}"))?,
        };
        Ok(answers.iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewRoute(route) => {
                route.attributes.iter().find_map(|attribute| match attribute {
                    RouteAttribute::Oif(index) => Some(*index),
                    _ => None,
                })
            }
            _ => None,
        }))
    }
}

fn message(to: &str, via: &str) -> Result<RouteMessage> {
    let (network, length) = parse_cidr(to)?;
    let via: IpAddr =
        via.parse().with_context(|| format!("{via:?} is not the address of a router"))?;
    let (family, network, gateway) = match (network, via) {
        (IpAddr::V4(network), IpAddr::V4(via)) => {
            (AddressFamily::Inet, RouteAddress::Inet(network), RouteAddress::Inet(via))
        }
        (IpAddr::V6(network), IpAddr::V6(via)) => {
            (AddressFamily::Inet6, RouteAddress::Inet6(network), RouteAddress::Inet6(via))
        }
        _ => bail!("{to} and {via} are not of the same family: one is IPv4, the other IPv6"),
    };
    let mut message = unicast(family, length);
    message.attributes =
        vec![RouteAttribute::Destination(network), RouteAttribute::Gateway(gateway)];
    Ok(message)
}

fn unicast(family: AddressFamily, length: u8) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family;
    message.header.destination_prefix_length = length;
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = RouteProtocol::Static;
    message.header.scope = RouteScope::Universe;
    message.header.kind = RouteType::Unicast;
    message
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{NetlinkHeader, NetlinkMessage, NetlinkPayload};

    use super::*;

    /// The bytes that rtnetlink(7) and linux/rtnetlink.h ask for.
    #[test]
    fn a_route_on_the_wire() {
        let inner = RouteNetlinkMessage::NewRoute(message("10.78.2.0/24", "10.78.1.1").unwrap());
        let mut whole =
            NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::InnerMessage(inner));
        whole.finalize();
        let mut bytes = vec![0; whole.buffer_len()];
        whole.serialize(&mut bytes);
        assert_eq!(bytes[4..6], 24u16.to_ne_bytes(), "RTM_NEWROUTE");
        let rtmsg = [2, 24, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
        let destination = [8, 0, 1, 0, 10, 78, 2, 0];
        let gateway = [8, 0, 5, 0, 10, 78, 1, 1];
        assert_eq!(bytes[16..], [&rtmsg[..], &destination, &gateway].concat());
    }

    #[test]
    fn what_is_no_route_is_reported() {
        let error = |to, via| message(to, via).unwrap_err().to_string();
        assert!(error("10.78.2.0", "10.78.1.1").contains("is not an address with its prefix"));
        assert!(error("10.78.2.0/24", "router").contains("\"router\" is not the address"));
        assert!(error("10.78.2.0/24", "fd78::1").contains("not of the same family"));
        assert!(error("fd78:2::/64", "10.78.1.1").contains("not of the same family"));
    }
}
