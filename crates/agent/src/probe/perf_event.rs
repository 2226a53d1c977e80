//! Events of a CPU that the kernel counts or samples (perf_event_open(2)).

use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use anyhow::{Result, bail};

use super::ProbeContext;

const PARANOID: &str = "kernel/perf_event_paranoid";

/// The first version of `struct perf_event_attr`, which every kernel takes.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Attributes {
    pub kind: u32,
    /// Is set when it is opened.
    pub size: u32,
    pub config: u64,
    pub sample_period: u64,
    pub sample_type: u64,
    pub read_format: u64,
    pub flags: u64,
    pub wakeup_events: u32,
    pub breakpoint: u32,
    pub config1: u64,
}

/// Of everything that runs on one CPU, from now on.
pub fn open(attributes: Attributes, cpu: usize) -> io::Result<OwnedFd> {
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    let attributes = Attributes { size: size_of::<Attributes>() as u32, ..attributes };
    // SAFETY: the attributes live, have the size they name, and are only read; the others are numbers.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            -1 as libc::pid_t,
            cpu as libc::c_int,
            -1 as libc::c_int,
            CLOSE_ON_EXEC,
        )
    };
    match i32::try_from(fd) {
        // SAFETY: it was opened just now, for this purpose alone.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// # Errors
/// Why the kernel opens no event for this process, if that is what an error of [`open`] says.
pub fn check_refusal(probe_context: &ProbeContext, error: &io::Error) -> Result<()> {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => bail!("this kernel is built without CONFIG_PERF_EVENTS"),
        Some(libc::EACCES | libc::EPERM) => {
            let path = probe_context.proc.join("sys").join(PARANOID);
            let level = fs::read_to_string(path).unwrap_or_default();
            bail!(
                "the kernel does not let this process count what all do on its CPUs ({error}): \
                 kernel.perf_event_paranoid is {:?}; it has to be 0 or less, or hypertare needs \
                 root of the machine itself",
                level.trim()
            )
        }
        _ => Ok(()),
    }
}
