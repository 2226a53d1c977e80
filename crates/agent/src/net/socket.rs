//! Buffers and options of sockets of any kind.

use std::io;
use std::os::fd::AsRawFd;

use anyhow::Result;
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
        && set_option(socket, libc::SOL_SOCKET, force, bytes as i32).is_err()
    {
        match buffer {
            Buffer::Send => socket.set_send_buffer_size(bytes as usize)?,
            Buffer::Receive => socket.set_recv_buffer_size(bytes as usize)?,
        }
    }
    Ok(read(socket)?)
}

pub fn set_option(socket: &Socket, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the option's value is an int that lives through the call.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
