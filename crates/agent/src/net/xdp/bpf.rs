//! Three uses of bpf(2): a map of sockets, a program, and a link that holds the program at an interface. The
//! link goes when its descriptor is closed, which no end of this process prevents.
//!
//! Source: bpf(2), `union bpf_attr` of linux/bpf.h.

use std::ffi::CStr;
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::program::Instruction;

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;

const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
/// BPF_XDP of `enum bpf_attach_type` (links: Linux 5.9).
const ATTACH_XDP: u32 = 37;
/// Not compatible with the GPL, which no helper in use requires.
const LICENSE: &CStr = c"Apache-2.0";

/// Where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the interface's driver, before the kernel has made a packet of the frame.
    Native,
    /// After that: with every driver, and slower.
    Generic,
}

impl Mode {
    /// XDP_FLAGS_* of linux/if_link.h.
    fn flags(self) -> u32 {
        match self {
            Mode::Generic => 1 << 1,
            Mode::Native => 1 << 2,
        }
    }
}

/// Sockets by the number of their queue.
pub fn map(queues: u32) -> Result<OwnedFd> {
    descriptor(MAP_CREATE, &[MAP_TYPE_XSKMAP, 4, 4, queues])
}

pub fn set(map: &OwnedFd, queue: u32, socket: BorrowedFd) -> Result<()> {
    #[repr(C)]
    struct Attributes {
        map: u64,
        key: u64,
        value: u64,
        flags: u64,
    }
    let socket = socket.as_raw_fd() as u32;
    let attributes = Attributes {
        map: map.as_raw_fd() as u64,
        key: (&raw const queue).expose_provenance() as u64,
        value: (&raw const socket).expose_provenance() as u64,
        flags: 0,
    };
    // SAFETY: the attributes of this call; key and value are four bytes each, as the map has them, and on this
    // stack.
    unsafe { call(MAP_UPDATE_ELEM, &attributes) }.map(drop)
}

pub fn load(program: &[Instruction]) -> Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
        /// Log level and size, log, kernel version and flags, name, device: none.
        none: [u32; 11],
        attach: u32,
    }
    let attributes = Attributes {
        kind: PROG_TYPE_XDP,
        count: u32::try_from(program.len()).map_err(Error::other)?,
        instructions: program.as_ptr().expose_provenance() as u64,
        license: LICENSE.as_ptr().expose_provenance() as u64,
        none: [0; 11],
        attach: ATTACH_XDP,
    };
    // SAFETY: the attributes of this call; the program has so many instructions, the licence ends with a zero, and
    // both outlive the call.
    let number = unsafe { call(PROG_LOAD, &attributes) }?;
    Ok(owned(number))
}

/// Has a program run for each frame that an interface receives, until the returned descriptor is closed.
pub fn attach(program: &OwnedFd, interface: u32, mode: Mode) -> Result<OwnedFd> {
    let attributes = [program.as_raw_fd() as u32, interface, ATTACH_XDP, mode.flags()];
    descriptor(LINK_CREATE, &attributes)
}

/// For commands whose attributes are four numbers that name no memory.
fn descriptor(command: libc::c_int, attributes: &[u32; 4]) -> Result<OwnedFd> {
    // SAFETY: the kernel reads as many bytes as these are, and follows none of them.
    let number = unsafe { call(command, attributes) }?;
    Ok(owned(number))
}

fn owned(number: libc::c_int) -> OwnedFd {
    // SAFETY: the call made it (close-on-exec, as all of bpf(2)'s) and nobody else has it.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// # Safety
/// The attributes are those of the command, and what they point at is as long as they say.
unsafe fn call<T>(command: libc::c_int, attributes: &T) -> Result<libc::c_int> {
    let (from, bytes) = (std::ptr::from_ref(attributes), size_of::<T>());
    // SAFETY: the caller's word.
    match unsafe { libc::syscall(libc::SYS_bpf, command, from, bytes) } {
        -1 => Err(Error::last_os_error()),
        value => Ok(value as libc::c_int),
    }
}
