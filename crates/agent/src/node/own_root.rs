//! A mount namespace with a directory as its root and nothing else in it. A process that may call chroot
//! again can leave a changed root, because the hidden files are still mounted. It cannot leave this
//! namespace, because nothing else is mounted in it.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, mount_bind_recursive, mount_move, unmount};
use rustix::process::{chdir, chroot, pivot_root};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::mounts::mount_points;
use crate::process::namespaces::make_private;

/// Makes it; it lasts as long as what is given back, or as a process is in it. Later mounts in
/// `root` are not seen there, files are.
pub fn rooted_at(root: &Path) -> Result<OwnedFd> {
    // A thread has namespaces of its own, and ends with them: nobody else is moved.
    let made = std::thread::scope(|scope| scope.spawn(|| make(root)).join());
    made.map_err(|_| anyhow!("the thread that makes it failed"))?
        .context("cannot make a mount namespace for commands")
}

fn make(root: &Path) -> Result<OwnedFd> {
    // SAFETY: neither flag is of descriptors; this thread shares no directory with others after it.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }?;
    make_private()?;
    // A root must be a mount of its own.
    mount_bind_recursive(root, root)?;
    let namespace = File::open("/proc/thread-self/ns/mnt")?;
    chdir(root)?;
    match pivot_root(".", ".") {
        // The old root lies over the new one now.
        Ok(()) => unmount(".", UnmountFlags::DETACH)?,
        Err(Errno::INVAL) => cover(root)?,
        Err(error) => return Err(error).context("cannot change the root"),
    }
    Ok(namespace.into())
}

/// The first root of a kernel, in which a guest's agent is, cannot be left: it is covered, and what
/// else was mounted in it is taken away.
fn cover(root: &Path) -> Result<()> {
    for point in mount_points()?.iter().rev() {
        if !point.starts_with(root) && !root.starts_with(point) {
            // What is mounted below another that went is gone already.
            let _ = unmount(point, UnmountFlags::DETACH);
        }
    }
    mount_move(".", "/")?;
    chroot(".")?;
    Ok(chdir("/")?)
}
