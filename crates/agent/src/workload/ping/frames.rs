//! Requests and answers as frames: the round trip as a capture program sees it, past both IP stacks.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, anyhow};
use hypertare_plan::FrameVia;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use socket2::Socket;

use super::message;
use super::wire::Wire;
use crate::net::Link;
use crate::net::frame_sources;
use crate::net::frames::layout::{ETHERNET, blank, check_length, turn_round};
use crate::net::frames::{Filter, FrameSource, Opening, neighbour, socket};
use crate::net::link::parse_mac;
use crate::workload::Context;

/// How frames come in; another protocol has no such choice.
pub fn via(given: Option<FrameVia>) -> Result<FrameVia> {
    given.context("protocol frame needs via, which says how frames come in")
}

/// Memory in which frames wait: one at a time is under way.
const RING: u32 = 256 << 10;

/// # Errors
/// The interface carries no frame with a message of so many bytes.
fn length_of(message: u32, link: &Link) -> Result<usize> {
    let frame = message.saturating_add(ETHERNET as u32);
    check_length(frame, link.mtu).with_context(|| {
        format!(
            "a message of {message} bytes, with {ETHERNET} of header, is no frame of {}",
            link.name
        )
    })?;
    Ok(frame as usize)
}

fn source(
    link: &Link,
    via: FrameVia,
    frame: usize,
    filter: &Filter,
) -> Result<Box<dyn FrameSource>> {
    let interface = &link.name;
    let frame = frame as u32;
    frame_sources::open(&Opening { interface, via, ring: RING, frame, filter, at_once: true })
}

fn way_out(link: &Link) -> Result<Socket> {
    let out = socket::open()?;
    socket::send_only(&out, link)?;
    Ok(out)
}

/// The end that asks.
pub struct Frames {
    source: Box<dyn FrameSource>,
    out: Socket,
    session: u32,
    request: Vec<u8>,
}

impl Frames {
    pub fn new(to: IpAddr, via: FrameVia, message: u32, session: u32) -> Result<Self> {
        let (link, mac) = neighbour::find(to)?;
        let length = length_of(message, &link)?;
        let source = source(&link, via, length, &message::of_answers(ETHERNET, session))?;
        let request = blank(length, mac, parse_mac(&link.mac)?);
        Ok(Frames { source, out: way_out(&link)?, session, request })
    }
}

impl Wire for Frames {
    fn prepare(&mut self, number: u32) {
        message::write_request(&mut self.request[ETHERNET..], self.session, number);
    }

    fn send(&mut self) -> Result<(), Errno> {
        send(&self.out, &self.request, SendFlags::NOSIGNAL).map(|_| ())
    }

    fn receive(&mut self) -> Result<Option<u32>, Errno> {
        let mut answered = None;
        let taken = self.source.next(&mut |frame| {
            let message = frame.get(ETHERNET..).unwrap_or_default();
            answered = message::answered(message, self.session).or(answered);
        });
        match taken {
            Ok(0) => Err(Errno::AGAIN),
            Ok(_) => Ok(answered),
            Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        }
    }

    /// Receiving waits as long as this would.
    fn wait(&self, _limit_ns: u64) -> Result<(), Errno> {
        Ok(())
    }
}

/// Answers requests at the interface of an address, each with as many bytes as it had.
pub fn answer(
    on: IpAddr,
    via: FrameVia,
    message: u32,
    replies: &AtomicU64,
    context: &Context,
) -> Result<()> {
    let link = neighbour::link_with(on)?;
    let longest = length_of(message, &link)?;
    let mut source = source(&link, via, longest, &message::of_requests(ETHERNET))?;
    let out = way_out(&link)?;
    let mut answer = Vec::with_capacity(longest);
    context.ready();
    while !context.stopped() {
        let taken = source.next(&mut |frame| {
            let message = frame.get(ETHERNET..).unwrap_or_default();
            if message::requested_length(message) != Some(message.len()) || frame.len() > longest {
                return;
            }
            answer.clear();
            answer.extend_from_slice(frame);
            turn_round(&mut answer);
            message::turn_into_answer(&mut answer[ETHERNET..]);
            // Who cannot be reached any more is not our business.
            if send(&out, &answer, SendFlags::NOSIGNAL).is_ok() {
                replies.fetch_add(1, Ordering::Relaxed);
            }
        });
        taken.map_err(|error| anyhow!("cannot receive requests: {error}"))?;
    }
    Ok(())
}
