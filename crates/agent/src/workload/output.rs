//! A command's output. It is read as fast as it comes, so that the command never waits, and only the last
//! part of each stream is kept, so that it never fills the memory.

use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context as _, Result};
use hypertare_plan::MAX_OUTPUT;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::time::Timespec;

/// Large pipes seldom wake the reader, which may share the command's CPUs.
const PIPE_BYTES: usize = 1 << 20;

const CHUNK: usize = 64 << 10;

/// One stream of a command's output, at this end.
pub struct Stream {
    /// `None` once its other end is closed everywhere.
    pipe: Option<std::fs::File>,
    tail: Tail,
}

impl Stream {
    /// The stream, and the end that the command gets.
    pub fn new() -> Result<(Self, OwnedFd)> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).context("no pipe for the output")?;
        // Beyond the user's limit for pipes the pipe keeps the kernel's usual size.
        let _ = rustix::pipe::fcntl_setpipe_size(&write, PIPE_BYTES);
        rustix::io::ioctl_fionbio(&read, true)?;
        Ok((Stream { pipe: Some(read.into()), tail: Tail::default() }, write))
    }

    /// The stream from a terminal's own end; it ends when the last process closes the other end.
    pub fn of_terminal(own: OwnedFd) -> Result<Self> {
        rustix::io::ioctl_fionbio(&own, true)?;
        Ok(Stream { pipe: Some(own.into()), tail: Tail::default() })
    }

    /// An empty stream.
    pub fn none() -> Self {
        Stream { pipe: None, tail: Tail::default() }
    }

    /// Reads the output that is there now, but no more than a pipe can hold: a command that writes without
    /// an end must not keep the reader here.
    pub fn take_in(&mut self) {
        let mut chunk = [0; CHUNK];
        for _ in 0..PIPE_BYTES / CHUNK {
            let Some(pipe) = &mut self.pipe else { return };
            match pipe.read(&mut chunk) {
                Ok(0) => self.pipe = None,
                Ok(length) => self.tail.keep(&chunk[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.pipe = None,
            }
        }
    }

    /// The last bytes that came, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.tail.last()).into_owned()
    }
}

/// Waits until one of the streams has output, or the other side of `end` is closed, or the time is over.
/// Returns whether `end` was closed.
pub fn wait(streams: [&Stream; 2], end: impl AsFd, limit: &Timespec) -> Result<bool, Errno> {
    let mut fds: Vec<PollFd<'_>> = vec![PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN)];
    for pipe in streams.iter().filter_map(|stream| stream.pipe.as_ref()) {
        fds.push(PollFd::new(pipe, PollFlags::IN));
    }
    match poll(&mut fds, Some(limit)) {
        Ok(_) | Err(Errno::INTR) => Ok(!fds[0].revents().is_empty()),
        Err(error) => Err(error),
    }
}

/// Keeps the last `MAX_OUTPUT` bytes of its input; holds at most twice as many, and a chunk.
#[derive(Default)]
struct Tail {
    bytes: Vec<u8>,
}

impl Tail {
    fn keep(&mut self, chunk: &[u8]) {
        self.bytes.extend_from_slice(chunk);
        if self.bytes.len() > 2 * MAX_OUTPUT {
            self.bytes.drain(..self.bytes.len() - MAX_OUTPUT);
        }
    }

    fn last(&self) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(MAX_OUTPUT)..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_bytes_whatever_the_chunks() {
        let all: Vec<u8> = (0..200_000u32).map(|k| (k % 251) as u8).collect();
        for size in [1, 7, 4096, 65536, 200_000] {
            let mut tail = Tail::default();
            all.chunks(size).for_each(|chunk| tail.keep(chunk));
            assert_eq!(tail.last(), &all[all.len() - MAX_OUTPUT..], "chunks of {size}");
            assert!(tail.bytes.len() <= 2 * MAX_OUTPUT);
        }
        let mut short = Tail::default();
        short.keep(b"few");
        assert_eq!(short.last(), b"few");
    }
}
