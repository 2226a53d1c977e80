//! A stream of messages over TCP or UDP: what arrives, what is lost, what it costs.
//!
//! Both ends count the same part of the stream. Over UDP the sender marks the datagrams that count
//! and numbers them; over TCP each end leaves `omit_s` seconds out. What the values mean
//! is said where they are made.
//!
//! - `sender`, `receiver`: the two ends, whatever the protocol; `tcp`, `udp`: each protocol's part
//! - `pace`: when messages are due
//! - `datagram`, `sequence`, `account`: what arrived, and what did not
//! - `cli`, `control`, `table`: the stream as a tool alone

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
        send(self, context)
    }
}

impl WorkloadKind for StreamReceive {
    const VALUES: &'static [Definition] = receiver::VALUES;
    const LISTENS: bool = true;

    fn run(&self, context: &Context) -> Result<Outcome> {
        receive(self, context)
    }
}

pub fn send(spec: &StreamSend, context: &Context) -> Result<Outcome> {
    check::send(spec)?;
    let to = address::of_port(&spec.to)?;
    let report = |buffer| warn_of_shortfall(Buffer::Send, spec.socket_buffer, buffer, context);
    match spec.protocol {
        StreamProtocol::Tcp => {
            let (flows, buffer) = tcp::connect(spec, to)?;
            report(buffer);
            sender::run(&spec.into(), context, flows, buffer)
        }
        StreamProtocol::Udp => {
            let (flows, buffer) = udp::connect(spec, to, context)?;
            report(buffer);
            sender::run(&spec.into(), context, flows, buffer)
        }
    }
}

pub fn receive(spec: &StreamReceive, context: &Context) -> Result<Outcome> {
    check::receive(spec)?;
    let on = address::of_port(&spec.on)?;
    let report = |buffer| warn_of_shortfall(Buffer::Receive, spec.socket_buffer, buffer, context);
    match spec.protocol {
        StreamProtocol::Tcp => {
            let (listeners, buffer) = tcp::listen(spec, on)?;
            report(buffer);
            receiver::run(spec.into(), context, &listeners, buffer, |listener, flow| {
                tcp::receive(spec, listener, flow, context)
            })
        }
        StreamProtocol::Udp => {
            let (sockets, buffer) = udp::bind(spec, on)?;
            report(buffer);
            receiver::run(spec.into(), context, &sockets, buffer, |socket, flow| {
                udp::receive(spec, socket, flow, context)
            })
        }
    }
}

fn warn_of_shortfall(buffer: Buffer, asked: Option<u32>, got: usize, context: &Context) {
    if let Some(sentence) = socket::shortfall(buffer, asked, got) {
        context.warn(sentence);
    }
}
