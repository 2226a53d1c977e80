//! The machine's own files, as a guest sees them: a read-only 9p share over virtio.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::mount::{MountFlags, mount};

use crate::boot_contract::SHARE_TAG;

/// Where the share is mounted in a guest.
pub const SHARE: &str = "/host";

/// `cache=loose` keeps what was read once, as a disk's file system does: the files do not change
/// under the guest's eyes while it runs. 512000 is the most that 9p's virtio transport takes.
const OPTIONS: &std::ffi::CStr = c"trans=virtio,version=9p2000.L,msize=512000,cache=loose";

/// Mounts the share at [`SHARE`]. Needs a guest that was started with one.
pub fn mount_share() -> Result<&'static Path> {
    fs::create_dir_all(SHARE).with_context(|| format!("making {SHARE}"))?;
    let flags = MountFlags::RDONLY | MountFlags::NODEV | MountFlags::NOATIME;
    mount(SHARE_TAG, SHARE, "9p", flags, Some(OPTIONS)).with_context(|| {
        format!("mounting the machine's files at {SHARE}: was the guest started with a share?")
    })?;
    Ok(Path::new(SHARE))
}
