//! Bounds of a stream's specification. Specifications also come over networks (`control.rs`), so every
//! number that sizes memory, threads or time is bounded here.

use anyhow::{Result, bail};
use hypertare_plan::{StreamProtocol, StreamReceive, StreamSend};

use super::datagram;
use super::sender::Timetable;

const MAX_FLOWS: u32 = 128;
const MAX_BATCH: u32 = 1024;
/// The kernel's own memory, per flow.
const MAX_SOCKET_BUFFER: u32 = 256 << 20;
const MAX_TCP_MESSAGE: u32 = 16 << 20;
/// Largest payload of a UDP datagram over IPv4: 65535 less the headers of IP and UDP.
pub const MAX_DATAGRAM: u32 = 65507;
/// A day.
const MAX_SECONDS: f64 = 86_400.0;
const MIN_INTERVAL_S: f64 = 0.01;

pub fn send(spec: &StreamSend) -> Result<()> {
    common(spec.protocol, spec.flows, spec.message, spec.batch)?;
    socket_buffer(spec.socket_buffer)?;
    timetable(&spec.into())
}

pub fn receive(spec: &StreamReceive) -> Result<()> {
    common(spec.protocol, spec.flows, spec.message, spec.batch)?;
    socket_buffer(spec.socket_buffer)?;
    reporting(spec.interval_s, spec.omit_s)
}

/// Checks the timetable of a sender of any messages.
pub fn timetable(asked: &Timetable) -> Result<()> {
    seconds("duration_s", asked.duration_s, 0.001)?;
    if let Some(rate) = asked.rate_bps
        && !(rate.is_finite() && (1.0..=1e13).contains(&rate))
    {
        bail!("rate_bps is {rate}: it must be from 1 to 1e13 bits per second");
    }
    reporting(asked.interval_s, asked.omit_s)
}

/// Checks how much of a stream is left out, and how often an end reports.
pub fn reporting(interval_s: f64, omit_s: f64) -> Result<()> {
    seconds("interval_s", interval_s, MIN_INTERVAL_S)?;
    seconds("omit_s", omit_s, 0.0)
}

fn common(protocol: StreamProtocol, flows: u32, message: u32, batch: Option<u32>) -> Result<()> {
    if !(1..=MAX_FLOWS).contains(&flows) {
        bail!("flows is {flows}: it must be from 1 to {MAX_FLOWS}");
    }
    let (least, most) = match protocol {
        StreamProtocol::Tcp => (1, MAX_TCP_MESSAGE),
        StreamProtocol::Udp => (datagram::HEADER as u32, MAX_DATAGRAM),
    };
    if !(least..=most).contains(&message) {
        bail!("message is {message} bytes: it must be from {least} to {most}");
    }
    if batch.is_some_and(|batch| !(1..=MAX_BATCH).contains(&batch)) {
        bail!("batch is {}: it must be from 1 to {MAX_BATCH}", batch.unwrap_or_default());
    }
    Ok(())
}

fn socket_buffer(bytes: Option<u32>) -> Result<()> {
    match bytes {
        Some(bytes) if !(1..=MAX_SOCKET_BUFFER).contains(&bytes) => {
            bail!("socket_buffer is {bytes} bytes: it must be from 1 to {MAX_SOCKET_BUFFER}")
        }
        _ => Ok(()),
    }
}

fn seconds(name: &str, value: f64, least: f64) -> Result<()> {
    if !(value.is_finite() && (least..=MAX_SECONDS).contains(&value)) {
        bail!("{name} is {value}: it must be from {least} to {MAX_SECONDS} seconds");
    }
    Ok(())
}
