//! An interface's directory in a sysfs of the right network namespace.
//!
//! A sysfs shows the interfaces of the network namespace in which it was mounted. After a change of
//! namespace /sys still shows the old one's, where a name like `eth0` means another interface: a write
//! would change the wrong one.

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use super::link::{Link, Links};

/// The directory, and the mount that keeps it reachable.
pub struct InterfaceDirectory {
    path: PathBuf,
    _mount: Option<OwnedFd>,
}

impl InterfaceDirectory {
    /// Finds the interface in /sys if that is of this network namespace, else in a sysfs mounted for
    /// this purpose alone and attached nowhere.
    pub fn find(interface: &str) -> Result<Self> {
        let links = Links::open()?;
        links.get(interface)?;
        if shows(Path::new("/sys"), &links.list()?) {
            let path = Path::new("/sys/class/net").join(interface);
            return Ok(InterfaceDirectory { path, _mount: None });
        }
        let mount = mount().context(
            "/sys shows another network namespace's interfaces, and none of this one could be \
             mounted: mount a sysfs after entering the network namespace",
        )?;
        let root = format!("/proc/self/fd/{}", mount.as_raw_fd());
        let path = Path::new(&root).join("class/net").join(interface);
        Ok(InterfaceDirectory { path, _mount: Some(mount) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Whether a sysfs shows exactly these links: names, indices and MAC addresses.
fn shows(sysfs: &Path, links: &[Link]) -> bool {
    let read = |name: &str, file: &str| {
        let text = std::fs::read_to_string(sysfs.join("class/net").join(name).join(file));
        text.map(|text| text.trim().to_owned()).unwrap_or_default()
    };
    let Ok(entries) = std::fs::read_dir(sysfs.join("class/net")) else { return false };
    // Modules like bonding put files of their own there.
    let directories = entries.flatten().filter(|entry| entry.path().is_dir());
    let shown: BTreeSet<String> =
        directories.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let known: BTreeSet<String> = links.iter().map(|link| link.name.clone()).collect();
    shown == known
        && links.iter().all(|link| {
            read(&link.name, "ifindex") == link.index.to_string()
                && read(&link.name, "address") == link.mac
        })
}

/// A sysfs of this thread's network namespace (fsopen(2), Linux 5.2).
fn mount() -> rustix::io::Result<OwnedFd> {
    let context = rustix::mount::fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}
