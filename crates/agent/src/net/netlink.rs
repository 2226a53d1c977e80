//! A request and its answers over a netlink socket, blocking.
//!
//! It uses netlink-packet-route (the messages) over netlink-sys (the socket), not rtnetlink: links are made
//! one after the other, a handful for each bench, so futures would gain nothing, and tokio would double the
//! agent's dependencies and enlarge a binary that is copied into every guest.

use std::marker::PhantomData;

use anyhow::{Context, Result, bail};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, NetlinkSerializable,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// A socket in the network namespace that the thread was in when it was opened.
pub(super) struct Netlink<M> {
    socket: Socket,
    messages: PhantomData<M>,
}

impl Netlink<RouteNetlinkMessage> {
    /// For links, addresses, routes, neighbours and queues.
    pub fn route() -> Result<Self> {
        Self::open(NETLINK_ROUTE)
    }
}

impl<M: NetlinkSerializable + NetlinkDeserializable> Netlink<M> {
    /// `protocol`: a `NETLINK_*` number, whose messages have to be `M`.
    pub fn open(protocol: isize) -> Result<Self> {
        let mut socket = Socket::new(protocol).context("opening a netlink socket")?;
        socket.bind_auto().context("binding a netlink socket")?;
        socket.connect(&SocketAddr::new(0, 0)).context("connecting a netlink socket")?;
        Ok(Netlink { socket, messages: PhantomData })
    }

    /// Requests a change, and waits until it is made.
    ///
    /// # Errors
    /// The kernel's, as an [`std::io::Error`] that the caller can look into.
    pub fn execute(&self, message: M, flags: u16) -> Result<()> {
        self.exchange(message, flags | NLM_F_ACK).map(drop)
    }

    /// Asks for one thing.
    pub fn get(&self, message: M) -> Result<Vec<M>> {
        self.exchange(message, NLM_F_ACK)
    }

    /// Asks for all of a kind.
    pub fn dump(&self, message: M) -> Result<Vec<M>> {
        self.exchange(message, NLM_F_DUMP)
    }

    fn exchange(&self, message: M, flags: u16) -> Result<Vec<M>> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0).context("sending to netlink")?;
        self.answers()
    }

    /// Everything up to the end of a dump, an acknowledgement or an error.
    fn answers(&self) -> Result<Vec<M>> {
        let mut answers = Vec::new();
        loop {
            let (datagram, _) = self.socket.recv_from_full().context("receiving from netlink")?;
            let mut rest = &datagram[..];
            while !rest.is_empty() {
                let message = NetlinkMessage::<M>::deserialize(rest)
                    .context("netlink sent what cannot be understood")?;
                // Messages are aligned to four bytes; a length of nothing would never end.
                let length = (message.header.length as usize).next_multiple_of(4).max(4);
                rest = rest.get(length..).unwrap_or_default();
                match message.payload {
                    NetlinkPayload::Done(_) => return Ok(answers),
                    NetlinkPayload::Error(error) if error.code.is_none() => return Ok(answers),
                    NetlinkPayload::Error(error) => return Err(error.to_io().into()),
                    NetlinkPayload::InnerMessage(inner) => answers.push(inner),
                    NetlinkPayload::Overrun(_) => bail!("netlink lost messages"),
                    _ => {}
                }
            }
        }
    }
}
