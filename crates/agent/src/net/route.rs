//! Routes of one network namespace to networks that it is not on.

use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;

use super::link::{is, parse_cidr};
use super::netlink::Netlink;

/// Of the thread that opened it, whatever it enters later.
pub struct Routes {
    netlink: Netlink<RouteNetlinkMessage>,
}

impl Routes {
    pub fn open() -> Result<Self> {
        Ok(Routes { netlink: Netlink::open(NETLINK_ROUTE)? })
    }

    /// Packets to the network `to`, `10.78.2.0/24` or `fd78:2::/64`, go to the router `via`.
    ///
    /// # Errors
    /// One of them is none, they are of different families, or `via` is on no link that is up.
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
}

fn message(to: &str, via: &str) -> Result<RouteMessage> {
    let (network, length) = parse_cidr(to)?;
    let via: IpAddr =
        via.parse().with_context(|| format!("{via:?} is not the address of a router"))?;
    let mut message = RouteMessage::default();
    let (family, network, gateway) = match (network, via) {
        (IpAddr::V4(network), IpAddr::V4(via)) => {
            (AddressFamily::Inet, RouteAddress::Inet(network), RouteAddress::Inet(via))
        }
        (IpAddr::V6(network), IpAddr::V6(via)) => {
            (AddressFamily::Inet6, RouteAddress::Inet6(network), RouteAddress::Inet6(via))
        }
        _ => bail!("{to} and {via} are not of the same family: one is IPv4, the other IPv6"),
    };
    message.header.address_family = family;
    message.header.destination_prefix_length = length;
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = RouteProtocol::Static;
    message.header.scope = RouteScope::Universe;
    message.header.kind = RouteType::Unicast;
    message.attributes =
        vec![RouteAttribute::Destination(network), RouteAttribute::Gateway(gateway)];
    Ok(message)
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
    fn what_is_no_route_is_told() {
        let error = |to, via| message(to, via).unwrap_err().to_string();
        assert!(error("10.78.2.0", "10.78.1.1").contains("is not an address with its prefix"));
        assert!(error("10.78.2.0/24", "router").contains("\"router\" is not the address"));
        assert!(error("10.78.2.0/24", "fd78::1").contains("not of the same family"));
        assert!(error("fd78:2::/64", "10.78.1.1").contains("not of the same family"));
    }
}
