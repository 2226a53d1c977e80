//! Disks of guests: blkback in the driver domain serves a block device of its own to blkfront in a guest.
//! libxl runs the hotplug script before it connects the two, with the disk's place in the store in the
//! environment, and blkback waits until that names the device by its numbers.
//!
//! Source: Xen's docs/man/xl-disk-configuration.5.pod, its tools/hotplug/Linux/block, and the kernel's
//! drivers/block/xen-blkback/xenbus.c for what they expect of one.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use hypertare_plan::{MODULES_PARAMETER, XEN_BLOCK_SCRIPT};
use rustix::fs::{major, minor};

use super::store::Store;
use super::vif::report;
use crate::boot_contract::DISK_PARAMETER;
use crate::vmm::spec::Medium;

/// How its guest knows the disk.
const NAME: &str = "xvda";
const FRONTEND: &str = "xen_blkfront";

/// What Xen's tools run when a guest's disk comes or goes
#[derive(clap::Args)]
pub struct Arguments {
    /// The script, as its interpreter takes it
    #[arg(hide = true)]
    script: String,
    /// `add` or `remove`
    what: String,
}

/// # Errors
/// The environment is not that of a hotplug script, or there is no such device. The tools read the reason
/// from the store, and `xl create` reports it.
pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.what != "add" {
        return Ok(());
    }
    let backend = std::env::var("XENBUS_PATH").context("XENBUS_PATH is not in the environment")?;
    let mut store = Store::open()?;
    let read = store.read(&format!("{backend}/params"));
    let named = read.and_then(|path| {
        let numbers = numbers(Path::new(&path.unwrap_or_default()))?;
        store.write(&format!("{backend}/physical-device"), &numbers)
    });
    report(&mut store, &backend, named)
}

/// A device's numbers as blkback reads them.
fn numbers(device: &Path) -> Result<String> {
    let at = || device.display().to_string();
    let found = fs::metadata(device).with_context(at)?;
    ensure!(found.file_type().is_block_device(), "{} is no block device", at());
    Ok(format!("{:x}:{:x}", major(found.rdev()), minor(found.rdev())))
}

/// Where the medium of a guest's disk is.
///
/// # Errors
/// It is a file, which blkback cannot serve.
pub fn device(medium: &Medium) -> Result<PathBuf> {
    ensure!(
        medium.is_device,
        "the disk of a guest of Xen stands on a block device, and this is a file"
    );
    let descriptor = format!("/proc/self/fd/{}", medium.file.as_raw_fd());
    fs::read_link(&descriptor).with_context(|| format!("reading {descriptor}"))
}

/// A disk in the form of xl-disk-configuration(5). The device comes last: all that follows is its name.
pub fn text(device: &Path) -> String {
    format!("format=raw,vdev={NAME},access=w,script={XEN_BLOCK_SCRIPT},target={}", device.display())
}

/// By which the guest's kernel and its agent find it.
pub fn kernel_arguments() -> [String; 2] {
    [format!("{MODULES_PARAMETER}{FRONTEND}"), format!("{DISK_PARAMETER}/dev/{NAME}")]
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn what_is_no_block_device_is_refused() {
        let error = numbers(Path::new("/dev/null")).unwrap_err().to_string();
        assert_eq!(error, "/dev/null is no block device");
        assert!(numbers(Path::new("/no/device")).is_err());
        let medium = Medium { file: File::open("/dev/null").unwrap(), is_device: false };
        assert!(device(&medium).unwrap_err().to_string().contains("and this is a file"));
        let medium = Medium { file: File::open("/dev/null").unwrap(), is_device: true };
        assert_eq!(device(&medium).unwrap(), Path::new("/dev/null"));
    }
}
