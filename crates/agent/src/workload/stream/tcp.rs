//! Streams over TCP: one connection for each flow. It begins with a header (see `datagram.rs`) that is not
//! counted, by which the receiver distinguishes it from others.

use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use hypertare_plan::{StreamReceive, StreamSend};
use socket2::{SockAddr, Socket, Type};

use super::Context;
use super::datagram::{self, HEADER, Kind};
use super::receiver::{Arrival, Flow, Received, Stop};
use super::sender::{SendFlow, Sent};
use super::socket::{self, Buffer, in_vain};
use crate::workload::clock::{self, SECOND};

const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How long the receiver may take to read the buffers when the stream ends.
const DRAIN_LIMIT: u64 = 10 * SECOND;

/// The same for a sender that was asked to stop.
const STOPPED_DRAIN_LIMIT: u64 = SECOND / 4;

/// How long the header of a new connection may take.
const HELLO_LIMIT: u64 = 2 * SECOND;

/// A paced stream writes what is due about every millisecond, or a full segment if that is more:
/// a long message once in a while would not be a rate.
const PACED_WRITE_S: f64 = 0.001;
const FULL_SEGMENT: f64 = 1448.0;

/// Least read buffer: small messages are still read many at a time.
const READ: usize = 128 << 10;

pub struct TcpSender {
    socket: Arc<Socket>,
    message: Arc<[u8]>,
    /// Bytes of the message under way that the kernel has already.
    taken: usize,
}

/// Connects every flow. Returns them with the size of their socket buffers.
pub fn connect(spec: &StreamSend, to: SocketAddr) -> Result<(Vec<TcpSender>, usize)> {
    let due = spec.rate_bps.map(|rate| rate / 8.0 / f64::from(spec.flows) * PACED_WRITE_S);
    let size = due.map_or(spec.message, |due| spec.message.min(due.max(FULL_SEGMENT) as u32));
    let message: Arc<[u8]> = vec![0x5a; size as usize].into();
    let stream = clock::now_ns() as u16;
    let (mut flows, mut buffer) = (Vec::new(), 0);
    for flow in 0..spec.flows {
        let to = socket::of_flow(to, flow)?;
        let socket = socket::new(Type::STREAM, to)?;
        buffer = socket::size_buffer(&socket, Buffer::Send, spec.socket_buffer)?;
        socket::mark(&socket, to, spec.dscp)?;
        socket
            .connect_timeout(&SockAddr::from(to), CONNECT_LIMIT)
            .map_err(|error| unreachable(to, &error))?;
        socket.set_tcp_nodelay(true)?;
        let mut hello = [0; HEADER];
        datagram::write(&mut hello, datagram::owner(flow as u16, stream), 0);
        if socket.send(&hello)? != HEADER {
            bail!("{to}: the connection took no data");
        }
        // Only now, so that the header never waits.
        socket.set_tcp_nodelay(spec.nodelay)?;
        flows.push(TcpSender { socket: Arc::new(socket), message: message.clone(), taken: 0 });
    }
    Ok((flows, buffer))
}

fn unreachable(to: SocketAddr, error: &io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => anyhow!("nobody listens at {to}: start the receiver"),
        io::ErrorKind::TimedOut => {
            anyhow!("{to} does not answer: is its network up, does a firewall drop the port?")
        }
        _ => anyhow!("cannot connect to {to}: {error}"),
    }
}

impl SendFlow for TcpSender {
    fn send(&mut self, _due: u64, _kind: Kind) -> io::Result<Sent> {
        let rest = &self.message[self.taken..];
        let taken = match self.socket.send_with_flags(rest, libc::MSG_NOSIGNAL) {
            Ok(taken) => taken,
            Err(error) if in_vain(&error) => 0,
            Err(error) => return Err(gone(error)),
        };
        self.taken += taken;
        let whole = self.taken == self.message.len();
        if whole {
            self.taken = 0;
        }
        Ok(Sent { bytes: taken as u64, messages: u64::from(whole), refused: 0 })
    }

    /// Ends this direction; the receiver ends the other once it has read everything.
    fn finish(&mut self, _counted: u64, context: &Context) -> Option<String> {
        self.socket.shutdown(Shutdown::Write).ok()?;
        let mut limit = clock::now_ns() + DRAIN_LIMIT;
        let mut bytes = [0; 64];
        while clock::now_ns() < limit {
            if context.stopped() {
                limit = limit.min(clock::now_ns() + STOPPED_DRAIN_LIMIT);
            }
            match (&*self.socket).read(&mut bytes) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) if in_vain(&error) => {}
                Err(error) => {
                    return Some(format!("the receiver ended before it had everything: {error}"));
                }
            }
        }
        // The end itself takes one number, like a byte.
        let missing = unsent(&self.socket)? - 1;
        (missing > 0).then(|| format!("{missing} bytes were still under way when it ended"))
    }

    fn connection(&self) -> Option<Arc<Socket>> {
        Some(self.socket.clone())
    }

    fn message(&self) -> u32 {
        self.message.len() as u32
    }
}

fn gone(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            io::Error::new(error.kind(), format!("the receiver closed the connection ({error})"))
        }
        _ => error,
    }
}

/// Bytes in the send buffer that the receiver has not acknowledged.
fn unsent(socket: &Socket) -> Option<i32> {
    let mut bytes = 0;
    // SAFETY: SIOCOUTQ (the same number as TIOCOUTQ) writes one int.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) };
    (status == 0).then_some(bytes)
}

/// Listens for every flow. Returns the sockets with the size of their buffers.
pub fn listen(spec: &StreamReceive, on: SocketAddr) -> Result<(Vec<Socket>, usize)> {
    let (mut listeners, mut buffer) = (Vec::new(), 0);
    for flow in 0..spec.flows {
        let on = socket::of_flow(on, flow)?;
        let socket = socket::new(Type::STREAM, on)?;
        // Connections inherit it; set before they come, so that the window can be scaled to it.
        buffer = socket::size_buffer(&socket, Buffer::Receive, spec.socket_buffer)?;
        // The ports of connections that have just ended may be used again at once.
        socket.set_reuse_address(true)?;
        socket::bind(&socket, on)?;
        socket.listen(8).with_context(|| format!("cannot listen on {on}"))?;
        listeners.push(socket);
    }
    Ok((listeners, buffer))
}

/// Accepts a flow's connection and counts its data. `None` when it never came.
pub fn receive(
    spec: &StreamReceive,
    listener: &Socket,
    flow: &Flow,
    context: &Context,
) -> Result<Option<Received>> {
    let Some(connection) = accept(listener, flow, context)? else { return Ok(None) };
    let mut bytes = vec![0; READ.max(spec.message as usize)];
    let omit = clock::from_seconds(spec.omit_s);
    let (mut received, mut stop) = (Received::default(), Stop::default());
    loop {
        received.all_calls += 1;
        match (&connection).read(&mut bytes) {
            Ok(0) => {
                flow.end();
                break;
            }
            Ok(length) => {
                let now = clock::now_ns();
                received.all_bytes += length as u64;
                if received.all_bytes == length as u64 {
                    flow.came(now);
                }
                if received.began() || now >= flow.first_arrival() + omit {
                    received.arrival(flow, Arrival { now, bytes: length as u64, packets: 1 });
                    flow.report(&received, None);
                }
                if stop.is_due(context, false, now) {
                    break;
                }
            }
            Err(error) if in_vain(&error) => {
                if stop.is_due(context, true, clock::now_ns()) {
                    break;
                }
            }
            Err(error) => {
                let came = received.all_bytes;
                bail!("the sender's connection broke after {came} bytes: {error}")
            }
        }
    }
    received.close();
    Ok(Some(received))
}

/// Waits for the connection whose header is this flow's.
fn accept(listener: &Socket, flow: &Flow, context: &Context) -> Result<Option<Socket>> {
    let mut strangers = 0;
    while !context.stopped() {
        match listener.accept() {
            Ok((connection, _)) => {
                connection.set_read_timeout(Some(socket::PATIENCE))?;
                if says_hello(&connection, flow.index, context) {
                    return Ok(Some(connection));
                }
                strangers += 1;
                flow.foreign(strangers);
            }
            Err(error) if in_vain(&error) || error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error).context("cannot take a connection"),
        }
    }
    Ok(None)
}

fn says_hello(mut connection: &Socket, flow: u16, context: &Context) -> bool {
    let limit = clock::now_ns() + HELLO_LIMIT;
    let (mut hello, mut length) = ([0; HEADER], 0);
    while length < HEADER && !context.stopped() && clock::now_ns() < limit {
        match connection.read(&mut hello[length..]) {
            Ok(0) => return false,
            Ok(more) => length += more,
            Err(error) if in_vain(&error) => {}
            Err(_) => return false,
        }
    }
    length == HEADER
        && datagram::words(&hello).is_some_and(|(owner, _)| datagram::is_of_flow(owner, flow))
}
