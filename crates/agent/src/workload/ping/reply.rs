//! The end that answers. Anyone may send to it: only well-formed requests are answered, each with as many
//! bytes as it had, so that nobody gets more than they sent.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use anyhow::{Context as _, Result, bail};
use hypertare_plan::{PingProtocol, PingReply};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, recvfrom, send, sendto};
use socket2::{Domain, Protocol, Socket, Type};

use super::frames;
use super::message::{self, MAX_DATAGRAM};
use super::wire::{check_length, poll, set_timeouts};
use crate::values::Definition;
use crate::workload::clock::STOP_NS;
use crate::workload::{Context, Outcome, WorkloadKind, address};

/// The longest request over TCP.
pub const MAX_MESSAGE: usize = 1 << 20;

/// Connections served at a time; more are closed at once.
const MAX_CONNECTIONS: usize = 128;

impl WorkloadKind for PingReply {
    const VALUES: &'static [Definition] = &[("replies", "messages", "requests answered")];
    const LISTENS: bool = true;

    /// Answers requests of up to `message` bytes until asked to stop.
    fn run(&self, context: &Context) -> Result<Outcome> {
        let replies = AtomicU64::new(0);
        match self.protocol {
            PingProtocol::Udp => {
                let largest = check_length(self.message, MAX_DATAGRAM)?;
                let socket = bind(self, Type::DGRAM, Protocol::UDP)?;
                set_timeouts(&socket)?;
                context.ready();
                answer_datagrams(&socket, largest, &replies, context)?;
            }
            PingProtocol::Tcp => {
                let largest = check_length(self.message, MAX_MESSAGE)?;
                let socket = bind(self, Type::STREAM, Protocol::TCP)?;
                socket.listen(64)?;
                context.ready();
                answer_connections(&socket, largest, &replies, context)?;
            }
            PingProtocol::Frame => {
                let on = address::host(&self.on)?;
                frames::answer(on, frames::via(self.via)?, self.message, &replies, context)?;
            }
            PingProtocol::Icmp => {
                bail!("the kernel answers ICMP by itself: there is nothing to run")
            }
        }
        Ok(Outcome::of([("replies", replies.into_inner() as f64)]))
    }
}

fn bind(spec: &PingReply, kind: Type, protocol: Protocol) -> Result<Socket> {
    let on = address::with_port(&spec.on)?;
    let socket = Socket::new(Domain::for_address(on), kind, Some(protocol))?;
    if kind == Type::STREAM {
        socket.set_reuse_address(true)?;
    }
    socket.bind(&on.into()).with_context(|| format!("cannot listen at {on}"))?;
    Ok(socket)
}

fn answer_datagrams(
    socket: &Socket,
    largest: usize,
    replies: &AtomicU64,
    context: &Context,
) -> Result<()> {
    // One byte more than the largest, to notice longer ones.
    let mut buffer = vec![0; largest + 1];
    while !context.stopped() {
        let (length, from) = match recvfrom(socket, &mut buffer[..], RecvFlags::empty()) {
            Ok((length, _, Some(from))) => (length, from),
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => continue,
            Err(error) => return Err(error).context("cannot receive requests"),
        };
        if message::requested_length(&buffer[..length]) != Some(length) || length > largest {
            continue;
        }
        message::turn_into_answer(&mut buffer[..length]);
        // A sender that cannot be reached any more is no error of this end.
        if sendto(socket, &buffer[..length], SendFlags::NOSIGNAL, &from).is_ok() {
            replies.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

fn answer_connections(
    listener: &Socket,
    largest: usize,
    replies: &AtomicU64,
    context: &Context,
) -> Result<()> {
    let open = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        while !context.stopped() {
            if !poll(listener, PollFlags::IN, STOP_NS)? {
                continue;
            }
            // A client that left before it was accepted is no error of this end.
            let Ok((socket, _)) = listener.accept() else { continue };
            if open.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
                open.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let open = &open;
            scope.spawn(move || {
                // The end of one connection does not end the others.
                let _ = answer_connection(&socket, largest, replies, context);
                open.fetch_sub(1, Ordering::Relaxed);
            });
        }
        Ok(())
    })
}

fn answer_connection(
    socket: &Socket,
    largest: usize,
    replies: &AtomicU64,
    context: &Context,
) -> Result<()> {
    socket.set_tcp_nodelay(true)?;
    set_timeouts(socket)?;
    let mut buffer = vec![0; largest];
    let mut filled = 0;
    loop {
        match wait_through(context, || {
            Ok(recv(socket, &mut buffer[filled..], RecvFlags::empty())?.0)
        })? {
            0 => return Ok(()),
            length => filled += length,
        }
        while filled >= message::HEADER {
            let Some(length) = message::requested_length(&buffer[..filled]) else {
                bail!("not a request");
            };
            if length > largest {
                bail!("a request of {length} bytes is longer than {largest}");
            }
            if filled < length {
                break;
            }
            message::turn_into_answer(&mut buffer[..length]);
            let mut rest = &buffer[..length];
            while !rest.is_empty() {
                let sent = wait_through(context, || send(socket, rest, SendFlags::NOSIGNAL))?;
                rest = &rest[sent..];
            }
            replies.fetch_add(1, Ordering::Relaxed);
            buffer.copy_within(length..filled, 0);
            filled -= length;
        }
    }
}

/// Calls until it succeeds, fails, or the workload is asked to stop.
fn wait_through<T>(context: &Context, mut call: impl FnMut() -> Result<T, Errno>) -> Result<T> {
    while !context.stopped() {
        match call() {
            Err(Errno::AGAIN | Errno::INTR) => {}
            outcome => return Ok(outcome?),
        }
    }
    bail!("stopped")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpStream, UdpSocket};
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use super::*;
    use crate::emit::Emitter;
    use crate::workload::ping::common::free_port;

    fn running(protocol: PingProtocol, play: impl FnOnce(&str)) -> f64 {
        let on = format!("127.0.0.1:{}", free_port());
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = std::sync::mpsc::channel();
        let emitter = Arc::new(Emitter::new(std::io::sink()));
        let context =
            Context::new(("node", 1, "phase", "task"), emitter, stop.clone(), move || {
                ready.send(()).unwrap();
            });
        let spec = PingReply { protocol, on: on.clone(), message: 64, via: None };
        let replier = std::thread::spawn(move || spec.run(&context));
        is_ready.recv_timeout(Duration::from_secs(5)).unwrap();
        play(&on);
        stop.store(true, Ordering::Relaxed);
        replier.join().unwrap().unwrap().values["replies"]
    }

    fn request(length: usize) -> Vec<u8> {
        let mut request = vec![0; length];
        message::write_request(&mut request, 1, 2);
        request
    }

    #[test]
    fn strange_datagrams_are_not_answered() {
        let replies = running(PingProtocol::Udp, |on| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
            let mut answer = request(64);
            message::turn_into_answer(&mut answer);
            for strange in
                [&b""[..], b"x", &[0xff; 2000], &request(65), &request(64)[..63], &answer]
            {
                socket.send_to(strange, on).unwrap();
            }
            socket.send_to(&request(64), on).unwrap();
            let mut buffer = [0; 2048];
            assert_eq!(socket.recv(&mut buffer).unwrap(), 64);
            assert_eq!(message::answered(&buffer[..64], 1), Some(2));
        });
        assert_eq!(replies, 1.0);
    }

    #[test]
    fn a_strange_connection_is_closed_and_the_others_go_on() {
        let replies = running(PingProtocol::Tcp, |on| {
            let mut good = TcpStream::connect(on).unwrap();
            for strange in [vec![0xff; 100], request(65)] {
                let mut bad = TcpStream::connect(on).unwrap();
                bad.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
                bad.write_all(&strange).unwrap();
                // The end, or a reset for what was left unread: not a byte of an answer.
                assert_eq!(bad.read(&mut [0; 10]).unwrap_or(0), 0);
            }
            // In two pieces, with the next one close behind.
            let two = [request(64), request(32)].concat();
            good.write_all(&two[..20]).unwrap();
            std::thread::sleep(Duration::from_millis(20));
            good.write_all(&two[20..]).unwrap();
            let mut answers = [0; 96];
            good.read_exact(&mut answers).unwrap();
            assert_eq!(message::answered(&answers[..64], 1), Some(2));
            assert_eq!(message::answered(&answers[64..], 1), Some(2));
        });
        assert_eq!(replies, 2.0);
    }

    #[test]
    fn an_address_in_use_is_named() {
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let on = taken.local_addr().unwrap().to_string();
        let emitter = Arc::new(Emitter::new(std::io::sink()));
        let context = Context::new(("n", 1, "p", "t"), emitter, Arc::default(), || {});
        let spec =
            PingReply { protocol: PingProtocol::Udp, on: on.clone(), message: 64, via: None };
        let error = format!("{:#}", spec.run(&context).unwrap_err());
        assert!(error.contains(&on) && error.contains("in use"), "{error}");
    }
}
