//! Mounts that a view of the files is made of.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::mount::{MountFlags, mount, mount_bind, mount_bind_recursive, mount_remount};

/// What is neither a program nor a device.
pub const INERT: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// Mounts a file system of the kernel's own, in a directory that is made where there is none.
pub fn mount_new(kind: &str, to: &Path) -> Result<()> {
    if !to.is_dir() {
        fs::create_dir(to)?;
    }
    mount(kind, to, kind, INERT, None).with_context(|| format!("cannot mount {kind}"))
}

/// A file or directory as it is, but not to be written to. What is mounted below it is not shown.
pub fn bind_read_only(from: &Path, to: &Path) -> Result<()> {
    mount_bind(from, to)?;
    make_read_only(to)
}

/// The same with what is mounted below it, none of which can be written to either.
pub fn bind_all_read_only(from: &Path, to: &Path) -> Result<()> {
    mount_bind_recursive(from, to)?;
    let points = mount_points()?;
    points.iter().filter(|point| point.starts_with(to)).try_for_each(|point| make_read_only(point))
}

/// A mount that came from a more privileged namespace keeps the flags that it has: they must be
/// given again.
pub fn make_read_only(path: &Path) -> Result<()> {
    let held = rustix::fs::statvfs(path)?.f_flag;
    let mut flags = MountFlags::BIND | MountFlags::RDONLY;
    for (held_flag, flag) in [
        (rustix::fs::StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (rustix::fs::StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (rustix::fs::StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (rustix::fs::StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (rustix::fs::StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ] {
        if held.contains(held_flag) {
            flags |= flag;
        }
    }
    mount_remount(path, flags, c"").with_context(|| format!("cannot make {path:?} read-only"))
}

/// Covers what is there with nothing, so that it can be neither read nor written.
pub fn mask(path: &Path) -> Result<()> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    let masked = if metadata.is_dir() {
        let flags = INERT | MountFlags::RDONLY;
        mount("tmpfs", path, "tmpfs", flags, Some(c"size=4k,mode=0555"))
    } else {
        mount_bind("/dev/null", path)
    };
    masked.with_context(|| format!("cannot cover {}", path.display()))
}

/// Where something is mounted in this mount namespace, in the order in which it was.
pub fn mount_points() -> Result<Vec<PathBuf>> {
    let text = fs::read("/proc/thread-self/mountinfo").context("cannot read what is mounted")?;
    Ok(parse(&text))
}

/// Fifth field of each line of mountinfo, with `\040` and the like decoded.
fn parse(mountinfo: &[u8]) -> Vec<PathBuf> {
    mountinfo
        .split(|&byte| byte == b'\n')
        .filter_map(|line| line.split(|&byte| byte == b' ').nth(4))
        .map(|field| OsString::from_vec(decoded(field)).into())
        .collect()
}

fn decoded(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let code = (first == b'\\').then(|| after.get(..3)).flatten();
        let byte = code
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_decoded() {
        let found = parse(b"24 1 254:0 / / rw - ext4 a rw\n25 24 0:1 / /a\\040b\\134 rw - x");
        assert_eq!(found, [Path::new("/"), Path::new("/a b\\")]);
    }
}
