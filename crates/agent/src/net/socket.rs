//! Buffers and options of any kind of socket.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use anyhow::{Context, Result, ensure};
use socket2::Socket;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    Send,
    Receive,
}

/// Sets a buffer to hold `bytes`, beyond the system's limit where this process may. Returns what
/// the kernel set (it doubles the number, for its own bookkeeping).
pub fn size_buffer(socket: &Socket, buffer: Buffer, bytes: Option<u32>) -> Result<usize> {
    let (force, read): (_, fn(&Socket) -> io::Result<usize>) = match buffer {
        Buffer::Send => (libc::SO_SNDBUFFORCE, Socket::send_buffer_size),
        Buffer::Receive => (libc::SO_RCVBUFFORCE, Socket::recv_buffer_size),
    };
    if let Some(bytes) = bytes
        && set_option(socket, libc::SOL_SOCKET, force, &(bytes as i32)).is_err()
    {
        match buffer {
            Buffer::Send => socket.set_send_buffer_size(bytes as usize)?,
            Buffer::Receive => socket.set_recv_buffer_size(bytes as usize)?,
        }
    }
    Ok(read(socket)?)
}

/// The most that a mark in a packet's header can be (DSCP, RFC 2474).
const MOST_DSCP: u8 = 63;

/// Has every packet that a socket sends carry a mark; `None` keeps the kernel's.
///
/// # Errors
/// The mark is too large, or the kernel refuses it.
pub fn mark(socket: &Socket, to: SocketAddr, dscp: Option<u8>) -> Result<()> {
    let Some(dscp) = dscp else { return Ok(()) };
    ensure!(dscp <= MOST_DSCP, "dscp is {dscp}: it must be from 0 to {MOST_DSCP}");
    let (level, name) = match to {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    };
    set_option(socket, level, name, &(i32::from(dscp) << 2))
        .with_context(|| format!("marking packets to {to} with DSCP {dscp}"))
}

/// `T` must be what the option takes.
pub fn set_option<T: Copy>(
    socket: &impl AsRawFd,
    level: i32,
    name: i32,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the kernel reads no more than the value, which lives through the call.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether a call only ran into its time limit or a signal.
pub fn in_vain(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// A header that points to one vector, which its user has to keep alive.
pub fn header_of(vector: &mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: all zeroes is a valid header, of nothing.
    let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
    header.msg_hdr.msg_iov = std::ptr::from_mut(vector);
    header.msg_hdr.msg_iovlen = 1;
    header
}

/// An option's bytes, `most` of them at most.
pub fn option(socket: impl AsFd, level: i32, name: i32, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0u8; most];
    let length = read_option(socket, level, name, &mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

/// Reads an option's first bytes, as many as there is room for, and returns how many they are.
pub fn read_option(
    socket: impl AsFd,
    level: i32,
    name: i32,
    bytes: &mut [u8],
) -> io::Result<usize> {
    let mut length = bytes.len() as libc::socklen_t;
    let socket = socket.as_fd().as_raw_fd();
    let value = bytes.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `length` bytes, which is how many there are.
    match unsafe { libc::getsockopt(socket, level, name, value, &raw mut length) } {
        0 => Ok(length as usize),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The number of 32 bits at this place, in this machine's byte order.
#[inline]
pub fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Type};

    use super::*;

    #[test]
    fn packets_carry_the_mark() {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        let to = "127.0.0.1:1".parse().unwrap();
        mark(&socket, to, None).unwrap();
        assert_eq!(socket.tos_v4().unwrap(), 0);
        mark(&socket, to, Some(46)).unwrap();
        assert_eq!(socket.tos_v4().unwrap(), 0xb8, "EF in the upper six bits");
        assert!(mark(&socket, to, Some(64)).unwrap_err().to_string().contains("from 0 to 63"));
    }
}
