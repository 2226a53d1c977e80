//! vhost-net: the machine's kernel moves packets between a guest's rings and a TAP.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;

use anyhow::{Context, Result, anyhow, ensure};

use crate::process::cpus::threads;

const DEVICE: &str = "/dev/vhost-net";

/// A handle for one pair of queues. The kernel's thread that serves them ends with it.
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

/// Whether a thread of this name serves some process; its name has the process's number in the first PID
/// namespace.
pub fn is_worker(name: &str) -> bool {
    name.strip_prefix("vhost-").is_some_and(|pid| pid.parse::<u32>().is_ok())
}

/// The kernel's threads that serve a process of this PID namespace: threads of the process since Linux 6.4,
/// of the kernel before, and those have names with the process's number in the first PID namespace.
///
/// # Errors
/// There are none, or none that can be seen from here.
pub fn workers(pid: i32) -> Result<Vec<i32>> {
    let own = format!("vhost-{pid}");
    let name = |directory: &str| {
        let text = fs::read_to_string(format!("{directory}/comm")).unwrap_or_default();
        text.trim_end().to_owned()
    };
    let mut workers = threads(pid)?;
    workers.retain(|thread| is_worker(&name(&format!("/proc/{pid}/task/{thread}"))));
    if workers.is_empty() {
        let entries = fs::read_dir("/proc").context("listing the kernel's threads")?;
        let numbers =
            entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        workers = numbers.filter(|number: &i32| name(&format!("/proc/{number}")) == own).collect();
    }
    ensure!(
        !workers.is_empty(),
        "the kernel's threads {own}, which move its packets, cannot be seen"
    );
    Ok(workers)
}
