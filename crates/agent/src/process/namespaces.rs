//! Namespaces of a process's own: who it is in them, and where it puts what it makes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

/// A directory that every Linux has and no workload needs, so that nothing has to be made on disk
/// to mount memory on. Container engines cover it, too.
pub const SCRATCH: &str = "/sys/firmware";

/// Root maps every id it has onto itself, so that files keep their owners; anyone else is root
/// inside and nobody else.
pub fn map_ids(pid: libc::pid_t) -> Result<()> {
    if rustix::process::geteuid().is_root() && map_all(pid).is_ok() {
        return Ok(());
    }
    let path = |name: &str| format!("/proc/{pid}/{name}");
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    fs::write(path("setgroups"), "deny").context("cannot write setgroups")?;
    fs::write(path("gid_map"), format!("0 {gid} 1")).context("cannot write the map of groups")?;
    fs::write(path("uid_map"), format!("0 {uid} 1")).context("cannot write the map of users")
}

fn map_all(pid: libc::pid_t) -> Result<()> {
    for name in ["gid_map", "uid_map"] {
        let mut identical = String::new();
        for line in fs::read_to_string(format!("/proc/self/{name}"))?.lines() {
            let mut fields = line.split_ascii_whitespace();
            let (Some(first), Some(_), Some(count)) = (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            identical += &format!("{first} {first} {count}\n");
        }
        fs::write(format!("/proc/{pid}/{name}"), identical)?;
    }
    Ok(())
}

/// Memory for what is made on the way, at a place where nobody looks for anything else.
pub fn mount_scratch() -> Result<()> {
    mount("tmpfs", SCRATCH, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"mode=0755")
        .with_context(|| format!("cannot mount memory on {SCRATCH}"))
}

/// What is mounted from here on is seen by nobody outside.
pub fn make_private() -> Result<()> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .context("cannot make the mounts private")
}

/// A directory in the memory at [`SCRATCH`].
pub fn scratch(name: &str) -> Result<PathBuf> {
    let directory = Path::new(SCRATCH).join(name);
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory)
}
