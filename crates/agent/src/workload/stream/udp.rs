//! Streams over UDP: many datagrams a call (sendmmsg, recvmmsg), and many of them as one on their
//! way through the kernel where it can (UDP_SEGMENT on the sender when asked for, UDP_GRO on the
//! receiver always: it changes what a datagram costs, not what arrives).

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::ptr;

use anyhow::{Context as _, Result, anyhow};
use hypertare_plan::{StreamReceive, StreamSend};
use socket2::{SockAddr, Socket, Type};

use super::Context;
use super::account::{Account, BETWEEN_END_MARKS, END_MARKS};
use super::check::MAX_DATAGRAM;
use super::datagram::{self, HEADER, Kind};
use super::gaps::Gaps;
use super::receiver::{Arrival, Flow, Received, Stop};
use super::sender::{SendFlow, Sent};
use super::socket::{self, Buffer, in_vain};
use crate::net::socket::{header_of, set_option};
use crate::workload::clock;

/// Datagrams a call when nothing else is asked for: more gains nothing measurable.
const BATCH: u32 = 64;
/// The same where the kernel segments: a few full trains.
const SEGMENTED_BATCH: u32 = 256;
/// Segments of one train; the least limit of all kernels that have UDP_SEGMENT.
const TRAIN: u32 = 64;
/// Largest send buffer of one flow.
const MAX_BYTES: u32 = 1 << 20;

/// sendmmsg does not report an error after it has sent some entries: it takes fewer entries than it was
/// given. Then two calls of one entry follow: the first provokes the error (for example the answer of a
/// host where nobody receives), and the second reports it.
const CAREFUL_CALLS: u32 = 2;

/// The pause after the kernel refused a message for want of room (ENOBUFS).
const AFTER_REFUSAL: u64 = 50_000;

pub struct UdpSender {
    socket: Socket,
    calls: Vec<libc::mmsghdr>,
    /// The vectors to which `calls` point, one for each.
    vectors: Vec<libc::iovec>,
    /// The bytes to which `vectors` point: `batch` messages, one after the other, headers written once.
    bytes: Vec<u8>,
    message: usize,
    batch: u64,
    /// Messages that one entry of `calls` holds.
    train: usize,
    owner: u64,
    settled: u64,
    counted: u64,
    end_marks: u64,
    /// Calls that are to hand over one entry only, see [`CAREFUL_CALLS`].
    careful: u32,
}

// SAFETY: the pointers in `calls` and `vectors` lead to the sender's own vectors, whose storage
// moves with it and is never resized.
unsafe impl Send for UdpSender {}

/// Makes every flow's socket. Returns them with the size of their buffers.
pub fn connect(
    spec: &StreamSend,
    to: SocketAddr,
    context: &Context,
) -> Result<(Vec<UdpSender>, usize)> {
    let stream = (clock::now_ns() >> 10) as u16;
    let (mut flows, mut buffer) = (Vec::new(), 0);
    for flow in 0..spec.flows {
        let to = socket::of_flow(to, flow)?;
        let socket = socket::new(Type::DGRAM, to)?;
        buffer = socket::size_buffer(&socket, Buffer::Send, spec.socket_buffer)?;
        socket::mark(&socket, to, spec.dscp)?;
        socket
            .connect(&SockAddr::from(to))
            .with_context(|| format!("no way to {to}: is there a route and an address?"))?;
        let owner = datagram::owner(flow as u16, stream);
        let segments = spec.segmentation && segments(&socket, spec.message, context, flow == 0);
        flows.push(UdpSender::new(socket, owner, spec, segments));
    }
    Ok((flows, buffer))
}

/// Asks the kernel to cut its input into messages.
fn segments(socket: &Socket, message: u32, context: &Context, report: bool) -> bool {
    match set_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT, &(message as i32)) {
        Ok(()) => true,
        Err(error) => {
            if report {
                context.warn(format!("no UDP segmentation here ({error}): messages go one by one"));
            }
            false
        }
    }
}

impl UdpSender {
    fn new(socket: Socket, owner: u64, spec: &StreamSend, segments: bool) -> Self {
        let message = spec.message as usize;
        let batch = spec.batch.unwrap_or(if segments { SEGMENTED_BATCH } else { BATCH });
        let batch = batch.min(MAX_BYTES / spec.message).max(1);
        let mut bytes = vec![0x5a; message * batch as usize];
        for header in bytes.chunks_exact_mut(message) {
            datagram::write(header, owner, 0);
        }
        let mut sender = UdpSender {
            socket,
            calls: Vec::new(),
            vectors: Vec::new(),
            bytes,
            message,
            batch: u64::from(batch),
            train: 1,
            owner,
            settled: 0,
            counted: 0,
            end_marks: 0,
            careful: 0,
        };
        sender.form(if segments { TRAIN.min(MAX_DATAGRAM / spec.message).max(1) } else { 1 });
        sender
    }

    /// Lays the messages out in trains of `train`.
    fn form(&mut self, train: u32) {
        self.train = (train as usize).min(self.batch as usize);
        let train_bytes = self.train * self.message;
        self.vectors = (self.bytes.chunks_mut(train_bytes))
            .map(|chunk| libc::iovec { iov_base: chunk.as_mut_ptr().cast(), iov_len: chunk.len() })
            .collect();
        self.calls = self.vectors.iter_mut().map(header_of).collect();
    }

    /// Numbers the first `count` messages from `first` on.
    fn number(&mut self, count: usize, kind: Kind, first: u64) {
        let messages = self.bytes.chunks_exact_mut(self.message).take(count);
        for (mark, message) in (datagram::mark(kind, first)..).zip(messages) {
            message[8..HEADER].copy_from_slice(&mark.to_le_bytes());
        }
    }

    /// Hands the first `count` messages to the kernel; returns how many it took.
    fn hand_over(&mut self, count: usize) -> io::Result<usize> {
        let calls = count.div_ceil(self.train);
        let last = &mut self.vectors[calls - 1];
        let full = last.iov_len;
        last.iov_len = (count - (calls - 1) * self.train) * self.message;
        // SAFETY: every header leads to a vector and every vector to bytes that live in `self`.
        let taken = unsafe {
            libc::sendmmsg(
                self.socket.as_raw_fd(),
                self.calls.as_mut_ptr(),
                calls as u32,
                libc::MSG_NOSIGNAL as _,
            )
        };
        let error = io::Error::last_os_error();
        self.vectors[calls - 1].iov_len = full;
        match taken {
            ..0 => Err(error),
            taken => Ok((taken as usize * self.train).min(count)),
        }
    }
}

impl SendFlow for UdpSender {
    fn send(&mut self, due: u64, kind: Kind) -> io::Result<Sent> {
        let most = if self.careful > 0 { self.train as u64 } else { self.batch };
        let count = due.min(most) as usize;
        self.careful = self.careful.saturating_sub(1);
        let first = if kind == Kind::Counted { self.counted } else { self.settled };
        self.number(count, kind, first);
        let taken = match self.hand_over(count) {
            Ok(taken) => {
                if taken < count {
                    self.careful = CAREFUL_CALLS;
                }
                taken as u64
            }
            Err(error) if in_vain(&error) => 0,
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                clock::sleep_once(clock::now_ns() + AFTER_REFUSAL);
                return Ok(Sent { refused: 1, ..Sent::default() });
            }
            Err(error) if self.train > 1 && !is_refusal(&error) => {
                // The device's checksums or MTU do not allow trains: go on without.
                set_option(&self.socket, libc::SOL_UDP, libc::UDP_SEGMENT, &0i32)?;
                self.form(1);
                0
            }
            Err(error) => return Err(explained(error, self.message)),
        };
        match kind {
            Kind::Counted => self.counted += taken,
            _ => self.settled += taken,
        }
        Ok(Sent { bytes: taken * self.message as u64, messages: taken, refused: 0 })
    }

    fn finish(&mut self, counted: u64, _context: &Context) -> Option<String> {
        let mut end = [0; HEADER];
        datagram::write(&mut end, self.owner, datagram::mark(Kind::End, counted));
        for _ in 0..END_MARKS {
            // A receiver that is gone needs no mark.
            self.end_marks += u64::from(self.socket.send(&end).is_ok());
            clock::sleep_once(clock::now_ns() + BETWEEN_END_MARKS.as_nanos() as u64);
        }
        None
    }

    fn message(&self) -> u32 {
        self.message as u32
    }

    fn all(&self) -> Option<u64> {
        Some(self.settled + self.counted + self.end_marks)
    }

    fn segments(&self) -> Option<bool> {
        Some(self.train > 1)
    }
}

fn is_refusal(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ECONNREFUSED)
}

fn explained(error: io::Error, message: usize) -> io::Error {
    let text = match error.raw_os_error() {
        _ if is_refusal(&error) => "nobody receives there: start the receiver first".to_owned(),
        Some(libc::EMSGSIZE) => format!("messages of {message} bytes do not fit on this path"),
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{text} ({error})"))
}

/// Binds a socket for every flow. Returns them with the size of their buffers.
pub fn bind(spec: &StreamReceive, on: SocketAddr) -> Result<(Vec<Socket>, usize)> {
    let (mut sockets, mut buffer) = (Vec::new(), 0);
    for flow in 0..spec.flows {
        let on = socket::of_flow(on, flow)?;
        let socket = socket::new(Type::DGRAM, on)?;
        buffer = socket::size_buffer(&socket, Buffer::Receive, spec.socket_buffer)?;
        socket::bind(&socket, on)?;
        sockets.push(socket);
    }
    Ok((sockets, buffer))
}

/// Counts the datagrams that come to a flow's socket. `None` when none came.
pub fn receive(
    spec: &StreamReceive,
    socket: &Socket,
    flow: &Flow,
    context: &Context,
) -> Result<Option<Received>> {
    let mut intake = Intake::new(socket, spec);
    let mut account = Account::new(flow.index, 0);
    let (mut received, mut stop) = (Received::default(), Stop::of_datagrams());
    received.gaps = spec.every_ns.map(Gaps::new).transpose()?;
    loop {
        received.all_calls += 1;
        let filled = match intake.fill(socket) {
            Ok(filled) => filled,
            Err(error) if in_vain(&error) => 0,
            Err(error) => return Err(anyhow!("cannot receive: {error}")),
        };
        let now = clock::now_ns();
        if filled > 0 {
            let datagrams = intake.datagrams(filled);
            let (bytes, packets) = match &mut received.gaps {
                None => account.take(datagrams),
                Some(gaps) => account.take_noting(datagrams, |number| gaps.note(number, now)),
            };
            if packets > 0 {
                received.arrival(flow, Arrival { now, bytes, packets });
            }
            flow.report(&received, Some(&account.sequence));
            flow.foreign(account.foreign);
            received.all = Some(account.all);
            received.all_bytes = account.all_bytes;
        }
        if account.ended && received.began() {
            flow.end();
            received.close();
        }
        let quiet = account.end_marks == END_MARKS || filled == 0;
        if stop.is_due(context, quiet, now) {
            if !quiet {
                context.warn(format!(
                    "flow {}: datagrams still came seconds after the sender was to have ended; what a \
                     queue on the way still holds slows the next trial: give the stream a rate that \
                     the way carries",
                    flow.index
                ));
            }
            break;
        }
    }
    received.close();
    if spec.omit_s > 0.0 && received.began() && !account.settled {
        context.warn(format!(
            "flow {}: the receiver was to omit {} s, but the sender marked nothing to omit",
            flow.index, spec.omit_s
        ));
    }
    Ok(account.came().then_some(received))
}

/// Room for the datagrams of one call.
struct Intake {
    calls: Vec<libc::mmsghdr>,
    /// The vectors to which `calls` point, one for each.
    _vectors: Vec<libc::iovec>,
    controls: Vec<Control>,
    bytes: Vec<u8>,
    slot: usize,
}

/// Room for one control message with a number in it, aligned as the kernel wants it.
type Control = [u64; 4];

/// Slots begin at different places of a page, so that they do not compete for the same cache lines.
const STAGGER: usize = 192;

const COALESCED_SLOT: usize = 64 << 10;
const COALESCED_BATCH: u32 = 32;

impl Intake {
    fn new(socket: &Socket, spec: &StreamReceive) -> Self {
        let coalesces = set_option(socket, libc::SOL_UDP, libc::UDP_GRO, &1i32).is_ok();
        let (slot, batch) = match coalesces {
            true => (COALESCED_SLOT, COALESCED_BATCH),
            false => ((spec.message as usize).max(HEADER).next_multiple_of(64), BATCH),
        };
        let batch = spec.batch.unwrap_or(batch).min(batch) as usize;
        let slot = slot + STAGGER;
        let mut bytes = vec![0; slot * batch];
        let mut controls = vec![Control::default(); batch];
        let mut vectors: Vec<libc::iovec> = (bytes.chunks_exact_mut(slot))
            .map(|slot| libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() })
            .collect();
        let mut calls: Vec<libc::mmsghdr> = vectors.iter_mut().map(header_of).collect();
        for (call, control) in calls.iter_mut().zip(&mut controls) {
            call.msg_hdr.msg_control = ptr::from_mut(control).cast();
        }
        Intake { calls, _vectors: vectors, controls, bytes, slot }
    }

    /// Waits for datagrams, takes those that are there; returns how many slots they fill.
    fn fill(&mut self, socket: &Socket) -> io::Result<usize> {
        for call in &mut self.calls {
            call.msg_hdr.msg_controllen = size_of::<Control>() as _;
        }
        // SAFETY: every header leads to a vector, a slot and a control that live in `self`.
        let filled = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.calls.as_mut_ptr(),
                self.calls.len() as u32,
                libc::MSG_WAITFORONE as _,
                ptr::null_mut(),
            )
        };
        if filled < 0 { Err(io::Error::last_os_error()) } else { Ok(filled as usize) }
    }

    /// The datagrams of the first `filled` slots.
    fn datagrams(&self, filled: usize) -> impl Iterator<Item = &[u8]> {
        let calls = self.calls.iter().zip(&self.controls);
        calls.zip(self.bytes.chunks_exact(self.slot)).take(filled).flat_map(
            |((call, control), slot)| {
                let bytes = &slot[..(call.msg_len as usize).min(slot.len())];
                let size = segment_size(control, call.msg_hdr.msg_controllen);
                bytes.chunks(size.unwrap_or(bytes.len()).max(1))
            },
        )
    }
}

/// Size of the datagrams that came as one, where the kernel says that they did. Only UDP_GRO is
/// asked for, so its message is the only one there can be.
fn segment_size(control: &Control, length: usize) -> Option<usize> {
    const NEEDED: usize = size_of::<libc::cmsghdr>() + size_of::<i32>();
    let level_and_type = (control[1] as u32 as i32, (control[1] >> 32) as i32);
    if length < NEEDED || level_and_type != (libc::SOL_UDP, libc::UDP_GRO) {
        return None;
    }
    usize::try_from(control[2] as u32 as i32).ok().filter(|&size| size > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(owner: u64, kind: Kind, number: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        datagram::write(&mut bytes, owner, datagram::mark(kind, number));
        bytes
    }

    fn take(account: &mut Account, datagrams: &[Vec<u8>]) -> (u64, u64) {
        account.take(datagrams.iter().map(Vec::as_slice))
    }

    #[test]
    fn only_the_streams_own_counted_datagrams_count() {
        let (ours, mut account) = (datagram::owner(3, 7), Account::new(3, 0));
        let counted = take(
            &mut account,
            &[
                datagram(ours, Kind::Settling, 0, 64),
                datagram(ours, Kind::Counted, 0, 64),
                datagram(ours, Kind::Counted, 2, 64),
                datagram(datagram::owner(3, 8), Kind::Counted, 1, 64),
                datagram(datagram::owner(4, 7), Kind::Counted, 1, 64),
                datagram(ours, Kind::Counted, 2, 64),
                datagram(ours, Kind::End, 4, 16),
            ],
        );
        assert_eq!(counted, (128, 2));
        assert_eq!((account.sequence.lost(), account.sequence.duplicates), (2, 1));
        assert_eq!((account.foreign, account.settled, account.ended), (2, true, true));
        assert_eq!((account.all, account.end_marks), (5, 1));
    }

    #[test]
    fn the_end_of_an_earlier_stream_gives_way() {
        let (old, new, mut account) =
            (datagram::owner(0, 1), datagram::owner(0, 2), Account::new(0, 0));
        take(&mut account, &[datagram(old, Kind::End, 1000, 16)]);
        assert_eq!((account.sequence.lost(), account.ended), (1000, true));
        let counted = take(&mut account, &[datagram(new, Kind::Counted, 0, 32)]);
        assert_eq!(counted, (32, 1));
        assert_eq!((account.sequence.lost(), account.ended), (0, false));
        assert_eq!(take(&mut account, &[datagram(old, Kind::Counted, 0, 32)]), (0, 0));
    }

    #[test]
    fn malformed_datagrams_are_refused_without_harm() {
        let mut account = Account::new(0, 0);
        let mut malformed: Vec<Vec<u8>> = (0..HEADER).map(|length| vec![0xff; length]).collect();
        malformed.push(vec![0xff; 1500]);
        malformed.push(vec![0; 64]);
        assert_eq!(take(&mut account, &malformed), (0, 0));
        assert_eq!(account.foreign, malformed.len() as u64);
        assert!(!account.came());
    }

    #[test]
    fn the_size_of_segments_is_read_with_care() {
        let word = libc::SOL_UDP as u64 | (libc::UDP_GRO as u64) << 32;
        assert_eq!(segment_size(&[20, word, 64, 0], 24), Some(64));
        assert_eq!(segment_size(&[20, word, 64, 0], 0), None);
        assert_eq!(segment_size(&[20, word, 0, 0], 24), None);
        assert_eq!(segment_size(&[20, word, u64::from(u32::MAX), 0], 24), None);
        assert_eq!(segment_size(&[20, 0, 64, 0], 24), None);
    }
}
