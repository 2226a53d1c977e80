//! Requests of the driver domain to the hypervisor, through the kernel's /dev/xen/privcmd: without starting
//! a program, which on an emulated machine takes a quarter of a second of CPU time.
//!
//! Their layout belongs to one version of Xen's tool interface, which they name; another version refuses
//! them with EACCES. Source: Xen 4.17, public/sysctl.h and public/domctl.h, and the kernel's
//! uapi/xen/privcmd.h.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result};

use crate::net::frames::memory::Shared;

const SYSCTL: u64 = 35;
const DOMCTL: u64 = 36;
/// XEN_SYSCTL_INTERFACE_VERSION and XEN_DOMCTL_INTERFACE_VERSION of Xen 4.17.
const INTERFACE_VERSION: u32 = 0x15;

/// _IOC(_IOC_NONE, 'P', 0, sizeof(struct privcmd_hypercall))
const HYPERCALL: libc::Ioctl = 48 << 16 | (b'P' as libc::Ioctl) << 8;

#[repr(C)]
struct Hypercall {
    op: u64,
    arguments: [u64; 5],
}

/// A member of the union that both requests end with, of 128 bytes.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
union Member<T: Copy> {
    value: T,
    room: [u8; 128],
}

/// struct xen_sysctl
#[repr(C)]
#[derive(Clone, Copy)]
struct Sysctl<T: Copy> {
    cmd: u32,
    interface_version: u32,
    member: Member<T>,
}

/// struct xen_domctl
#[repr(C)]
#[derive(Clone, Copy)]
struct Domctl<T: Copy> {
    cmd: u32,
    interface_version: u32,
    domain: u16,
    pad: [u16; 3],
    member: Member<T>,
}

const PAGE: usize = 4096;

/// One page that the hypervisor may read and write, with what is at its begin.
pub struct Page<T> {
    memory: Shared,
    place: *mut T,
}

impl<T: Copy> Page<T> {
    /// # Errors
    /// This is no driver domain.
    pub fn new() -> Result<Self> {
        let file = File::options().read(true).write(true).open("/dev/xen/hypercall");
        let file = file.context("opening /dev/xen/hypercall: only a driver domain has it")?;
        let memory = Shared::map(&file, PAGE).context("mapping a buffer for the hypervisor")?;
        let place = std::ptr::with_exposed_provenance_mut(memory.address() as usize);
        Ok(Page { memory, place })
    }

    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// What the hypervisor has written there.
    pub fn read(&self) -> T {
        const { assert!(size_of::<T>() <= PAGE) };
        // SAFETY: the page is mapped as long as `self`, and of numbers any bytes are valid.
        unsafe { self.place.read() }
    }
}

/// Asks for something of the machine, and returns the request as the hypervisor has filled it in.
///
/// # Errors
/// This is no driver domain, or the hypervisor is of another release, or it refuses.
pub fn sysctl<T: Copy>(cmd: u32, value: T) -> Result<T> {
    let member = member(value);
    let request = Sysctl { cmd, interface_version: INTERFACE_VERSION, member };
    // SAFETY: the hypervisor has left the member as it was written, or filled it in.
    Ok(unsafe { ask(SYSCTL, request)?.member.value })
}

/// Asks for something of a domain, and returns the request as the hypervisor has filled it in.
///
/// # Errors
/// As [`sysctl`], or there is no such domain.
pub fn domctl<T: Copy>(domain: u32, cmd: u32, value: T) -> Result<T> {
    let domain = u16::try_from(domain).context("no domain has such a number")?;
    let member = member(value);
    let version = INTERFACE_VERSION;
    let request = Domctl { cmd, interface_version: version, domain, pad: [0; 3], member };
    // SAFETY: as above.
    Ok(unsafe { ask(DOMCTL, request)?.member.value })
}

fn member<T: Copy>(value: T) -> Member<T> {
    const { assert!(size_of::<T>() <= 128) };
    let mut member = Member { room: [0; 128] };
    member.value = value;
    member
}

fn ask<T: Copy>(op: u64, request: T) -> Result<T> {
    let page = Page::<T>::new()?;
    // SAFETY: the page is mapped, and larger than any request ([`Page::read`]).
    unsafe { page.place.write(request) };
    call(op, [page.address(), 0, 0, 0, 0])?;
    Ok(page.read())
}

/// A hypercall, whose arguments point into pages that live as long as it takes.
///
/// # Errors
/// As [`sysctl`].
pub fn call(op: u64, arguments: [u64; 5]) -> Result<()> {
    let privcmd = File::options().read(true).write(true).open("/dev/xen/privcmd");
    let privcmd = privcmd.context("opening /dev/xen/privcmd: only a driver domain has it")?;
    let call = Hypercall { op, arguments };
    // SAFETY: `call` lives until the ioctl returns.
    if unsafe { libc::ioctl(privcmd.as_raw_fd(), HYPERCALL, &raw const call) } < 0 {
        return Err(io::Error::last_os_error())
            .context("the hypervisor refuses (this agent speaks the interface of Xen 4.17)");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    /// Computed by hand from the headers that are named above.
    #[test]
    fn layouts_are_those_of_the_headers() {
        assert_eq!(size_of::<Hypercall>(), 48);
        assert_eq!(size_of::<Sysctl<u8>>(), 8 + 128);
        assert_eq!(offset_of!(Sysctl<u8>, member), 8);
        assert_eq!(size_of::<Domctl<u8>>(), 16 + 128);
        assert_eq!(offset_of!(Domctl<u8>, domain), 8);
        assert_eq!(offset_of!(Domctl<u8>, member), 16);
    }

    #[test]
    fn what_is_asked_for_is_all_that_is_asked_for() {
        // SAFETY: all of the union was written.
        assert_eq!(unsafe { member(7_u8).room }[1..], [0; 127]);
    }
}
