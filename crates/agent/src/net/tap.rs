//! TAPs: links whose other end is a file, for a VMM.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Result, anyhow};

use super::link::check_name;

const TUN: &str = "/dev/net/tun";
/// `_IOW('T', 202, int)` of linux/if_tun.h; the C library has no name for it.
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;

/// Makes a tap in this thread's network namespace, down, and gives the file of each of its queues:
/// the VMM reads and writes frames there, each after a virtio-net header, without which there would
/// be no offloads. The tap goes when the last copy of the last file is closed. The files are closed on exec,
/// so whoever hands them to a VMM has to allow it.
///
/// # Errors
/// /dev/net/tun is missing or may not be used, and what to do.
pub fn create(name: &str, count: u32) -> Result<Vec<OwnedFd>> {
    let several = if count > 1 { libc::IFF_MULTI_QUEUE } else { 0 };
    (0..count).map(|_| attach(name, several)).collect()
}

/// A queue of the tap of this name; the first queue makes the tap.
fn attach(name: &str, more: libc::c_int) -> Result<OwnedFd> {
    check_name(name)?;
    let file = open()?;
    // SAFETY: ifreq is plain data, for which zeroes are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | more;
    request.ifr_ifru.ifru_flags = flags as i16;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which lives on this stack.
    if unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &mut request) } < 0 {
        return Err(refused(name, Error::last_os_error()));
    }
    Ok(file.into())
}

fn open() -> Result<File> {
    OpenOptions::new().read(true).write(true).open(TUN).map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow!(
            "{TUN} is not there: load the module (`modprobe tun`), or, in a container, give it the \
             device (`--device {TUN}`)"
        ),
        ErrorKind::PermissionDenied => anyhow!(
            "{TUN} may not be opened by this user: run as root, or allow it with \
             `chmod 0666 {TUN}` (each user can then make taps in network namespaces of their own \
             only)"
        ),
        _ if error.raw_os_error() == Some(libc::ENODEV) => {
            anyhow!("{TUN} has no driver behind it: load the module (`modprobe tun`)")
        }
        _ => anyhow::Error::new(error).context(format!("opening {TUN}")),
    })
}

fn refused(name: &str, error: Error) -> anyhow::Error {
    match error.raw_os_error() {
        Some(libc::EPERM) => anyhow!(
            "the tap {name} may not be made here: this needs CAP_NET_ADMIN in the network \
             namespace; enter a user and a network namespace of your own first"
        ),
        Some(libc::EBUSY) => anyhow!("the tap {name} is in use by another process"),
        Some(libc::EINVAL) => anyhow!("{name} exists and is not a tap of this kind"),
        _ => anyhow::Error::new(error).context(format!("making the tap {name}")),
    }
}
