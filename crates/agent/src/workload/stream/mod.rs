//! A stream of messages over TCP or UDP: how much arrives, how much is lost, and the cost.
//!
//! Both ends count the same part of the stream. Over UDP the sender marks the datagrams that count and
//! numbers them; over TCP each end leaves `omit_s` seconds out. The values are defined where they are made.
//!
//! - `sender`, `receiver`: the two ends, whatever the protocol; `tcp`, `udp`: each protocol's part
//! - `pace`: when messages are due
//! - `datagram`, `sequence`, `account`: which messages arrived, and which did not
//! - `cli`, `control`, `table`: the stream as a stand-alone tool

pub(super) mod account;
pub(super) mod check;
pub mod cli;
mod control;
pub(super) mod datagram;
mod gaps;
mod pace;
pub(super) mod receiver;
pub(super) mod sender;
mod sequence;
pub(super) mod socket;
mod table;
mod tcp;
mod tcp_info;
mod udp;

#[cfg(test)]
mod tests;

use anyhow::Result;
use hypertare_plan::{StreamProtocol, StreamReceive, StreamSend};

use self::socket::Buffer;
use super::{Context, Outcome, WorkloadKind, address};
use crate::values::Definition;

impl WorkloadKind for StreamSend {
    const VALUES: &'static [Definition] = sender::VALUES;

    fn run(&self, context: &Context) -> Result<Outcome> {
        check::send(self)?;
        let to = address::of_port(&self.to)?;
        let report = |buffer| warn_of_shortfall(Buffer::Send, self.socket_buffer, buffer, context);
        match self.protocol {
            StreamProtocol::Tcp => {
                let (flows, buffer) = tcp::connect(self, to)?;
                report(buffer);
                sender::run(&self.into(), context, flows, buffer)
            }
            StreamProtocol::Udp => {
                let (flows, buffer) = udp::connect(self, to, context)?;
                report(buffer);
                sender::run(&self.into(), context, flows, buffer)
            }
        }
    }
}

impl WorkloadKind for StreamReceive {
    const VALUES: &'static [Definition] = receiver::VALUES;
    const LISTENS: bool = true;

    fn run(&self, context: &Context) -> Result<Outcome> {
        check::receive(self)?;
        let on = address::of_port(&self.on)?;
        let report =
            |buffer| warn_of_shortfall(Buffer::Receive, self.socket_buffer, buffer, context);
        match self.protocol {
            StreamProtocol::Tcp => {
                let (listeners, buffer) = tcp::listen(self, on)?;
                report(buffer);
                receiver::run(self.into(), context, &listeners, buffer, |listener, flow| {
                    tcp::receive(self, listener, flow, context)
                })
            }
            StreamProtocol::Udp => {
                let (sockets, buffer) = udp::bind(self, on)?;
                report(buffer);
                receiver::run(self.into(), context, &sockets, buffer, |socket, flow| {
                    udp::receive(self, socket, flow, context)
                })
            }
        }
    }
}

fn warn_of_shortfall(buffer: Buffer, asked: Option<u32>, got: usize, context: &Context) {
    if let Some(sentence) = socket::shortfall(buffer, asked, got) {
        context.warn(sentence);
    }
}
