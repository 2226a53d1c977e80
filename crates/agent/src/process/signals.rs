//! Signals that mean "end", read from a descriptor.

use std::os::fd::{FromRawFd, OwnedFd};

use anyhow::{Context, Result};

/// Blocks the signals that mean "end", for this thread and those it starts, and gives a descriptor
/// from which they are read instead.
pub fn signal_descriptor() -> Result<OwnedFd> {
    // SAFETY: the set is initialised before use; signalfd makes a descriptor that we then own.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        match libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC) {
            -1 => Err(std::io::Error::last_os_error()).context("cannot watch for signals"),
            descriptor => Ok(OwnedFd::from_raw_fd(descriptor)),
        }
    }
}

/// Reads one signal; waits for it if none is there.
pub fn take_signal(signals: &OwnedFd) -> Option<libc::c_int> {
    let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
    let read = rustix::io::read(signals, &mut info).ok()?;
    // The signal's number is the structure's first field.
    (read == info.len()).then(|| i32::from_ne_bytes([info[0], info[1], info[2], info[3]]))
}
