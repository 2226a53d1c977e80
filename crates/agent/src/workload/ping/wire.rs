//! How one request goes out and one answer comes in, by protocol. Sockets block: the time of a message
//! includes the wake-up of its receiver, as for any program.
//!
//! Calls end with `AGAIN` after at most [`STOP_NS`], so that a waiting caller notices a stop. The kernel's
//! own timeout does that; a `poll` before every call would be one more call in the measured time.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use socket2::{Domain, Protocol, Socket, Type};

use super::message::{self, HEADER};
use crate::net::socket::{mark, set_option};
use crate::workload::Context;
use crate::workload::clock::{STOP_NS, now_ns};

const CONNECT_NS: u64 = 5_000_000_000;

pub trait Wire {
    /// Writes request `number`, so that only sending it remains to be measured.
    fn prepare(&mut self, number: u32);

    /// Sends it. After `AGAIN`, call again to go on.
    fn send(&mut self) -> Result<(), Errno>;

    /// The number of an answer that came in; `None` when it was another message.
    fn receive(&mut self) -> Result<Option<u32>, Errno>;

    /// Waits until a message has come, for so long at most.
    fn wait(&self, limit_ns: u64) -> Result<(), Errno>;
}

pub struct Udp {
    socket: Socket,
    session: u32,
    request: Vec<u8>,
    /// One byte more than an answer, to notice longer ones.
    answer: Vec<u8>,
}

impl Udp {
    pub fn new(to: SocketAddr, length: usize, session: u32, dscp: Option<u8>) -> Result<Self> {
        let socket = Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP))?;
        mark(&socket, to, dscp)?;
        // Connected: the kernel keeps strangers away, and reports when nobody listens.
        socket.connect(&to.into()).with_context(|| format!("no way to {to}"))?;
        set_timeouts(&socket)?;
        Ok(Udp { socket, session, request: vec![0; length], answer: vec![0; length + 1] })
    }
}

impl Wire for Udp {
    fn prepare(&mut self, number: u32) {
        message::write_request(&mut self.request, self.session, number);
    }

    fn send(&mut self) -> Result<(), Errno> {
        send(&self.socket, &self.request, SendFlags::NOSIGNAL).map(|_| ())
    }

    fn receive(&mut self) -> Result<Option<u32>, Errno> {
        let (length, _) = recv(&self.socket, &mut self.answer[..], RecvFlags::empty())?;
        Ok(message::answered(&self.answer[..length], self.session))
    }

    fn wait(&self, limit_ns: u64) -> Result<(), Errno> {
        poll(&self.socket, PollFlags::IN, limit_ns).map(drop)
    }
}

pub struct Tcp {
    socket: Socket,
    session: u32,
    request: Vec<u8>,
    sent: usize,
    answer: Vec<u8>,
    received: usize,
}

impl Tcp {
    pub fn new(
        to: SocketAddr,
        length: usize,
        session: u32,
        dscp: Option<u8>,
        context: &Context,
    ) -> Result<Self> {
        let socket = connect(to, context)?;
        mark(&socket, to, dscp)?;
        socket.set_tcp_nodelay(true)?;
        set_timeouts(&socket)?;
        let (request, answer) = (vec![0; length], vec![0; length]);
        Ok(Tcp { socket, session, request, sent: 0, answer, received: 0 })
    }
}

impl Wire for Tcp {
    fn prepare(&mut self, number: u32) {
        message::write_request(&mut self.request, self.session, number);
    }

    fn send(&mut self) -> Result<(), Errno> {
        while self.sent < self.request.len() {
            self.sent += send(&self.socket, &self.request[self.sent..], SendFlags::NOSIGNAL)?;
        }
        self.sent = 0;
        Ok(())
    }

    fn receive(&mut self) -> Result<Option<u32>, Errno> {
        while self.received < self.answer.len() {
            let rest = &mut self.answer[self.received..];
            match recv(&self.socket, rest, RecvFlags::empty())?.0 {
                0 => return Err(Errno::CONNRESET),
                length => self.received += length,
            }
        }
        self.received = 0;
        // All bytes of a connection are the other end's.
        message::answered(&self.answer, self.session).map(Some).ok_or(Errno::PROTO)
    }

    fn wait(&self, limit_ns: u64) -> Result<(), Errno> {
        poll(&self.socket, PollFlags::IN, limit_ns).map(drop)
    }
}

/// Connects without waiting longer for a stop than any other call here.
fn connect(to: SocketAddr, context: &Context) -> Result<Socket> {
    let limit = now_ns() + CONNECT_NS;
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    let mut outcome = socket.connect(&to.into());
    if let Err(error) = &outcome
        && error.raw_os_error() == Some(libc::EINPROGRESS)
    {
        while !poll(&socket, PollFlags::OUT, STOP_NS)? {
            if context.stopped() {
                bail!("stopped while connecting to {to}");
            }
            if now_ns() > limit {
                bail!(
                    "{to} did not answer the attempt to connect within {} s",
                    CONNECT_NS / 1_000_000_000
                );
            }
        }
        outcome = socket.take_error()?.map_or(Ok(()), Err);
    }
    outcome.with_context(|| format!("cannot connect to {to}"))?;
    socket.set_nonblocking(false)?;
    Ok(socket)
}

/// ICMP echo, which the other end's kernel answers.
pub struct Icmp {
    socket: Socket,
    session: u32,
    v6: bool,
    /// A raw socket sees every echo reply and wants the whole message; the unprivileged kind
    /// (Linux since 3.0) fills in identifier and checksum and sees only its own.
    raw: bool,
    request: Vec<u8>,
    answer: Vec<u8>,
}

const ICMP_HEADER: usize = 8;
const LONGEST_IPV4_HEADER: usize = 60;

impl Icmp {
    pub fn new(to: IpAddr, length: usize, session: u32) -> Result<Self> {
        let v6 = to.is_ipv6();
        let (socket, raw) = icmp_socket(v6)?;
        socket
            .connect(&SocketAddr::new(to, 0).into())
            .with_context(|| format!("no way to {to}"))?;
        set_timeouts(&socket)?;
        if raw {
            let_only_echo_replies_in(&socket, v6)?;
        }
        let answer = vec![0; LONGEST_IPV4_HEADER + ICMP_HEADER + length + 1];
        Ok(Icmp { socket, session, v6, raw, request: vec![0; ICMP_HEADER + length], answer })
    }

    /// An echo reply's payload, if `packet` is one.
    fn payload<'a>(&self, packet: &'a [u8]) -> Option<&'a [u8]> {
        let with_ip = self.raw && !self.v6;
        let ip_length = if with_ip { usize::from(packet.first()? & 0x0f) * 4 } else { 0 };
        let icmp = packet.get(ip_length..)?;
        let reply = if self.v6 { 129 } else { 0 };
        if *icmp.first()? != reply {
            return None;
        }
        icmp.get(ICMP_HEADER..)
    }
}

impl Wire for Icmp {
    fn prepare(&mut self, number: u32) {
        let (header, payload) = self.request.split_at_mut(ICMP_HEADER);
        message::write_request(payload, self.session, number);
        header.fill(0);
        header[0] = if self.v6 { 128 } else { 8 };
        header[4..6].copy_from_slice(&(self.session as u16).to_be_bytes());
        header[6..8].copy_from_slice(&(number as u16).to_be_bytes());
        if self.raw && !self.v6 {
            let sum = internet_checksum(&self.request);
            self.request[2..4].copy_from_slice(&sum.to_be_bytes());
        }
    }

    fn send(&mut self) -> Result<(), Errno> {
        send(&self.socket, &self.request, SendFlags::empty()).map(|_| ())
    }

    fn receive(&mut self) -> Result<Option<u32>, Errno> {
        let (length, _) = recv(&self.socket, &mut self.answer[..], RecvFlags::empty())?;
        let payload = self.payload(&self.answer[..length]);
        Ok(payload.and_then(|payload| message::echoed(payload, self.session)))
    }

    fn wait(&self, limit_ns: u64) -> Result<(), Errno> {
        poll(&self.socket, PollFlags::IN, limit_ns).map(drop)
    }
}

/// The unprivileged kind where it is allowed, else a raw one; and whether it is raw.
fn icmp_socket(v6: bool) -> Result<(Socket, bool)> {
    let (domain, protocol) = match v6 {
        true => (Domain::IPV6, Protocol::ICMPV6),
        false => (Domain::IPV4, Protocol::ICMPV4),
    };
    if let Ok(socket) = Socket::new(domain, Type::DGRAM, Some(protocol)) {
        return Ok((socket, false));
    }
    match Socket::new(domain, Type::RAW, Some(protocol)) {
        Ok(socket) => Ok((socket, true)),
        Err(error) => bail!(
            "no ICMP socket ({error}): run as root, give the program CAP_NET_RAW, or allow its \
             group with `sysctl net.ipv4.ping_group_range=\"0 2147483647\"`"
        ),
    }
}

/// Asks the kernel to drop all other ICMP messages before they wake anyone. Over loopback that
/// includes the requests themselves.
fn let_only_echo_replies_in(socket: &Socket, v6: bool) -> Result<()> {
    const ICMP_FILTER: i32 = 1;
    const ICMP6_FILTER: i32 = 1;
    let mut blocked = [u32::MAX; 8];
    let reply = if v6 { 129 } else { 0 };
    blocked[reply / 32] &= !(1 << (reply % 32));
    match v6 {
        false => set_option(socket, libc::SOL_RAW, ICMP_FILTER, &blocked[0]),
        true => set_option(socket, libc::IPPROTO_ICMPV6, ICMP6_FILTER, &blocked),
    }
    .context("cannot set the ICMP filter")
}

/// RFC 1071.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

pub fn set_timeouts(socket: &Socket) -> std::io::Result<()> {
    socket.set_read_timeout(Some(Duration::from_nanos(STOP_NS)))?;
    socket.set_write_timeout(Some(Duration::from_nanos(STOP_NS)))
}

/// Whether the socket became readable or writable within so many nanoseconds.
pub fn poll(fd: impl AsFd, flags: PollFlags, limit_ns: u64) -> Result<bool, Errno> {
    let limit = rustix::time::Timespec {
        tv_sec: (limit_ns / 1_000_000_000) as i64,
        tv_nsec: (limit_ns % 1_000_000_000) as i64,
    };
    let mut fds = [rustix::event::PollFd::new(&fd, flags)];
    match rustix::event::poll(&mut fds, Some(&limit)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Checks that a protocol can carry a message of this length.
pub fn check_length(length: u32, largest: usize) -> Result<usize> {
    let length = length as usize;
    if !(HEADER..=largest).contains(&length) {
        bail!("a message of {length} bytes is not possible: it must have {HEADER} to {largest}");
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_of_rfc_1071() {
        let example = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(internet_checksum(&example), !0xddf2);
        assert_eq!(internet_checksum(&[0x01]), !0x0100, "an odd length is filled with zero");
    }

    #[test]
    fn lengths_are_bounded() {
        assert!(check_length(15, 100).is_err());
        assert_eq!(check_length(16, 100).unwrap(), 16);
        assert!(check_length(101, 100).unwrap_err().to_string().contains("16 to 100"));
    }
}
