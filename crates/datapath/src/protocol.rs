//! Messages of a VMM to the process that serves a card of its guest: on a Unix socket, some with files.
//!
//! Source: QEMU, docs/interop/vhost-user.rst.

use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result, bail, ensure};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::memory::{MOST_REGIONS, MemoryRegion};
use crate::ring::Addresses;

const VERSION: u32 = 1;
const VERSION_BITS: u32 = 3;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;
const HEADER: usize = 12;

/// The longest message has a piece of memory for each region.
const MOST_BYTES: usize = 8 + 32 * MOST_REGIONS;

/// Descriptors that come with one message at most: those of a card.
pub const MOST_FILES: usize = 19;

/// In the number of a ring that comes with a file: that none comes.
const NO_FILE: u64 = 1 << 8;

/// Of the protocol itself.
pub const MANY_QUEUES: u64 = 1;
pub const ANSWERS: u64 = 1 << 3;

/// What is said, as far as a card has a use for it.
#[derive(Debug)]
pub enum Said {
    GetFeatures,
    SetFeatures(u64),
    GetProtocolFeatures,
    SetProtocolFeatures(u64),
    GetQueueCount,
    /// Whose card it is: there is but one who could.
    Owner,
    Memory(Vec<MemoryRegion>, Vec<OwnedFd>),
    Size {
        ring: usize,
        count: u32,
    },
    At {
        ring: usize,
        addresses: Addresses,
    },
    Begin {
        ring: usize,
        next: u16,
    },
    /// Stop a ring and report where it stopped.
    Stop {
        ring: usize,
    },
    Kick {
        ring: usize,
        file: Option<OwnedFd>,
    },
    Call {
        ring: usize,
        file: Option<OwnedFd>,
    },
    Complain,
    Enable {
        ring: usize,
        on: bool,
    },
}

/// A message and what an answer to it needs.
#[derive(Debug)]
pub struct Message {
    pub said: Said,
    request: u32,
    wants_answer: bool,
}

/// Waits for a message; none where the VMM has closed the connection.
///
/// # Errors
/// It cannot be understood.
pub fn receive(socket: &mut UnixStream) -> Result<Option<Message>> {
    let mut header = [0; HEADER];
    let (read, files) =
        receive_with_files(&*socket, &mut header).context("its VMM cannot be heard")?;
    if read == 0 {
        return Ok(None);
    }
    socket.read_exact(header.get_mut(read..).unwrap_or_default()).context("half of a message")?;
    let word = |at: usize| {
        header.iter().skip(at).take(4).rev().fold(0, |sum: u32, &byte| sum << 8 | u32::from(byte))
    };
    let (request, flags, bytes) = (word(0), word(4), word(8) as usize);
    ensure!(flags & VERSION_BITS == VERSION, "its VMM speaks another version of vhost-user");
    ensure!(bytes <= MOST_BYTES, "its VMM sent a message of {bytes} bytes");
    let mut body = vec![0; bytes];
    socket.read_exact(&mut body).context("half of a message")?;
    let said = understand(request, &Body(&body), files)?;
    Ok(Some(Message { said, request, wants_answer: flags & NEED_REPLY != 0 }))
}

impl Message {
    /// Answers with numbers.
    pub fn answer(&self, socket: &mut UnixStream, numbers: &[u8]) -> Result<()> {
        let words = [self.request, VERSION | REPLY, numbers.len() as u32];
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
        bytes.extend(numbers);
        socket.write_all(&bytes).context("answering its VMM")
    }

    /// Says that what was said has been done, if that was to be said.
    pub fn acknowledge(&self, socket: &mut UnixStream, answers: bool) -> Result<()> {
        if !self.wants_answer || !answers {
            return Ok(());
        }
        self.answer(socket, &0u64.to_ne_bytes())
    }
}

/// What was said, up to `into.len()` bytes of it, and the descriptors that came with it.
pub fn receive_with_files(
    from: impl AsFd,
    into: &mut [u8],
) -> rustix::io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(into)];
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(&from, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(all) = message {
            files.extend(all);
        }
    }
    Ok((received.bytes, files))
}

/// A message's body: numbers one after the other.
struct Body<'a>(&'a [u8]);

impl Body<'_> {
    fn number(&self, at: usize, bytes: usize) -> Result<u64> {
        let found =
            self.0.get(at..at + bytes).context("its VMM sent a message that is too short")?;
        Ok(found.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
    }

    fn long(&self, at: usize) -> Result<u64> {
        self.number(at, 8)
    }

    fn word(&self, at: usize) -> Result<u32> {
        Ok(self.number(at, 4)? as u32)
    }

    fn ring(&self) -> Result<usize> {
        Ok(self.word(0)? as usize)
    }

    /// A ring and the file that comes with it.
    fn ring_and_file(&self, mut files: Vec<OwnedFd>) -> Result<(usize, Option<OwnedFd>)> {
        let number = self.long(0)?;
        let expected = usize::from(number & NO_FILE == 0);
        ensure!(files.len() == expected, "its VMM sent {} files for a ring", files.len());
        Ok(((number & 0xff) as usize, files.pop()))
    }

    fn memory(&self, files: Vec<OwnedFd>) -> Result<Said> {
        let count = self.word(0)? as usize;
        ensure!(count <= MOST_REGIONS, "its VMM lends {count} pieces of memory at once");
        let lent = (0..count).map(|index| {
            let at = 8 + 32 * index;
            Ok(MemoryRegion {
                guest: self.long(at)?,
                size: self.long(at + 8)?,
                vmm: self.long(at + 16)?,
                offset: self.long(at + 24)?,
            })
        });
        Ok(Said::Memory(lent.collect::<Result<_>>()?, files))
    }
}

fn understand(request: u32, body: &Body, files: Vec<OwnedFd>) -> Result<Said> {
    if !files.is_empty() && !matches!(request, 5 | 12..=14) {
        bail!("its VMM sent a file with what needs none (request {request})");
    }
    Ok(match request {
        1 => Said::GetFeatures,
        2 => Said::SetFeatures(body.long(0)?),
        3 | 4 => Said::Owner,
        5 => body.memory(files)?,
        8 => Said::Size { ring: body.ring()?, count: body.word(4)? },
        9 => Said::At {
            ring: body.ring()?,
            addresses: Addresses {
                descriptors: body.long(8)?,
                used: body.long(16)?,
                available: body.long(24)?,
            },
        },
        10 => Said::Begin { ring: body.ring()?, next: body.word(4)? as u16 },
        11 => Said::Stop { ring: body.ring()? },
        12 => {
            let (ring, file) = body.ring_and_file(files)?;
            Said::Kick { ring, file }
        }
        13 => {
            let (ring, file) = body.ring_and_file(files)?;
            Said::Call { ring, file }
        }
        14 => {
            body.ring_and_file(files)?;
            Said::Complain
        }
        15 => Said::GetProtocolFeatures,
        16 => Said::SetProtocolFeatures(body.long(0)?),
        17 => Said::GetQueueCount,
        18 => Said::Enable { ring: body.ring()?, on: body.word(4)? == 1 },
        _ => bail!("its VMM asked for what was not offered (request {request})"),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A message without files.
    pub fn message(request: u32, flags: u32, body: &[u8]) -> Vec<u8> {
        let words = [request, VERSION | flags, body.len() as u32];
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
        bytes.extend(body);
        bytes
    }

    fn hear(bytes: &[u8]) -> Result<Option<Message>> {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        far.write_all(bytes).unwrap();
        drop(far);
        receive(&mut near)
    }

    #[test]
    fn what_is_said_is_understood() {
        let said = |request, body: &[u8]| hear(&message(request, 0, body)).unwrap().unwrap().said;
        assert!(matches!(said(1, &[]), Said::GetFeatures));
        assert!(matches!(said(2, &7u64.to_ne_bytes()), Said::SetFeatures(7)));
        let state = [1u32.to_ne_bytes(), 256u32.to_ne_bytes()].concat();
        assert!(matches!(said(8, &state), Said::Size { ring: 1, count: 256 }));
        let none = (NO_FILE | 3).to_ne_bytes();
        assert!(matches!(said(13, &none), Said::Call { ring: 3, file: None }));
        assert!(hear(&[]).unwrap().is_none(), "the end");
    }

    #[test]
    fn what_cannot_be_understood_is_said() {
        let refused = |bytes: &[u8]| hear(bytes).unwrap_err().to_string();
        assert!(refused(&message(999, 0, &[])).contains("not offered (request 999)"));
        assert!(refused(&message(2, 0, &[1])).contains("too short"));
        assert!(refused(&message(2, 2, &[])).contains("another version"));
        assert!(refused(&message(12, 0, &[0; 8])).contains("0 files for a ring"));
        let many = [9u32.to_ne_bytes(), [0; 4]].concat();
        assert!(refused(&message(5, 0, &many)).contains("9 pieces"));
        let mut long = message(1, 0, &[]);
        long[8..12].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert!(refused(&long).contains("4294967295 bytes"));
        assert!(refused(&message(1, 0, &[])[..7]).contains("half of a message"));
    }
}
