//! vhost-net: the machine's kernel moves packets between a guest's rings and a TAP.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;

use anyhow::{Result, anyhow};

const DEVICE: &str = "/dev/vhost-net";

/// A handle for one pair of queues. With it goes the kernel's thread that serves them.
///
/// # Errors
/// The device is missing or may not be used, and what to do.
pub fn open() -> Result<OwnedFd> {
    OpenOptions::new().read(true).write(true).open(DEVICE).map(File::into).map_err(|error| {
        match error.kind() {
            ErrorKind::NotFound => anyhow!(
                "{DEVICE} is not there: as root modprobe vhost_net, or, in a container, give it the \
                 device (--device {DEVICE}); or take sut.datapath = \"qemu\" or \"vhost-user\""
            ),
            ErrorKind::PermissionDenied => anyhow!(
                "{DEVICE} may not be opened by this user: as root chmod 0666 {DEVICE}, or add the \
                 user to its group (kvm); or take sut.datapath = \"qemu\" or \"vhost-user\""
            ),
            _ => anyhow::Error::new(error).context(format!("opening {DEVICE}")),
        }
    })
}
