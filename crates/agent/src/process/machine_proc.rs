//! The /proc of whoever started the bench's first process, where that is not this one's.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::OnceLock;

static MACHINE_PROC: OnceLock<OwnedFd> = OnceLock::new();

/// Before another one is mounted in its place.
pub fn keep(machine: File) {
    let _ = MACHINE_PROC.set(machine.into());
}

/// None where nothing was kept.
pub fn path() -> Option<PathBuf> {
    let machine = MACHINE_PROC.get()?;
    Some(format!("/proc/self/fd/{}", machine.as_raw_fd()).into())
}
