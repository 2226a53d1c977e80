//! Requests and answers as frames: the round trip of capture programs, past both IP stacks.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, anyhow};
use datapath::frame_ring::Writer;
use datapath::memory::Mapped;
use hypertare_plan::FrameVia;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use socket2::Socket;

use super::message;
use super::wire::Wire;
use crate::net::frame_sources;
use crate::net::frames::layout::{ETHERNET, Mac, blank, check_length, turn_round};
use crate::net::frames::{Filter, FrameSource, Opening, neighbour, socket};
use crate::net::link::parse_mac;
use crate::net::shared;
use crate::net::{Link, Links};
use crate::workload::Context;

/// How frames come in, which the plan has to say for this protocol.
pub fn via(given: Option<FrameVia>) -> Result<FrameVia> {
    given.context("protocol frame needs via, which says how frames come in")
}

/// Bytes of memory in which frames wait: only one is under way at a time.
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

/// Where frames come in, and where they leave.
struct Ends {
    source: Box<dyn FrameSource>,
    out: Out,
    /// The address from which frames leave.
    address: Mac,
}

enum Out {
    Card(Socket),
    /// Memory that this guest shares with its machine.
    Ring(Writer<Mapped>),
}

impl Ends {
    fn open(link: &Link, via: FrameVia, frame: usize, filter: &Filter) -> Result<Self> {
        let card = parse_mac(&link.mac)?;
        if via == FrameVia::Shared {
            let (taken, writer) = shared::both_ways(filter)?;
            let (source, out) = (Box::new(taken), Out::Ring(writer));
            return Ok(Ends { source, out, address: shared::beside(card) });
        }
        let (interface, frame) = (&*link.name, frame as u32);
        let opening = Opening { interface, via, ring: RING, frame, filter, at_once: true };
        let source = frame_sources::open(&opening)?;
        let out = socket::open()?;
        socket::send_only(&out, link)?;
        Ok(Ends { source, out: Out::Card(out), address: card })
    }
}

impl Out {
    fn send(&mut self, frame: &[u8]) -> Result<(), Errno> {
        match self {
            Out::Card(socket) => send(socket, frame, SendFlags::NOSIGNAL).map(|_| ()),
            Out::Ring(writer) => match writer.put(frame) {
                Ok(true) => Ok(()),
                Ok(false) => Err(Errno::NOBUFS),
                // The machine's indices in the ring are impossible.
                Err(_) => Err(Errno::PROTO),
            },
        }
    }
}

/// The end that asks.
pub struct Frames {
    ends: Ends,
    session: u32,
    request: Vec<u8>,
}

impl Frames {
    /// `past_card`: the other end gets the requests through memory that it shares with its machine.
    pub fn new(
        to: IpAddr,
        via: FrameVia,
        past_card: bool,
        message: u32,
        session: u32,
    ) -> Result<Self> {
        let (link, mac) = neighbour::find(to)?;
        let mac = if past_card { shared::beside(mac) } else { mac };
        let length = length_of(message, &link)?;
        let ends = Ends::open(&link, via, length, &message::of_answers(ETHERNET, session))?;
        let request = blank(length, mac, ends.address);
        Ok(Frames { ends, session, request })
    }
}

impl Wire for Frames {
    fn prepare(&mut self, number: u32) {
        message::write_request(&mut self.request[ETHERNET..], self.session, number);
    }

    fn send(&mut self) -> Result<(), Errno> {
        self.ends.out.send(&self.request)
    }

    fn receive(&mut self) -> Result<Option<u32>, Errno> {
        let mut answered = None;
        let taken = self.ends.source.next(&mut |frame| {
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
    let link = Links::open()?.holding(on)?;
    let longest = length_of(message, &link)?;
    let ends = Ends::open(&link, via, longest, &message::of_requests(ETHERNET))?;
    let Ends { mut source, mut out, .. } = ends;
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
            // A sender that cannot be reached any more is no error of this end.
            if out.send(&answer).is_ok() {
                replies.fetch_add(1, Ordering::Relaxed);
            }
        });
        taken.map_err(|error| anyhow!("cannot receive requests: {error}"))?;
    }
    Ok(())
}
