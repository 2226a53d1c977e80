//! Disks of an experiment's own machine: the kernel's null_blk with its blocks in memory, a block device whose
//! own work is as little as can be. What is weighed on it is the path to a disk.
//!
//! Source: the kernel's Documentation/block/null_blk.rst.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use hypertare_plan::MODULES_DIRECTORY;
use rustix::mount::{MountFlags, mount};

use super::modules::Index;

const CONFIGURED: &str = "/sys/kernel/config";
const MIB: u64 = 1 << 20;

static MADE: AtomicU32 = AtomicU32::new(0);

/// Makes one, which stays until the machine ends.
///
/// # Errors
/// The image lacks the module, or the kernel refuses it.
pub fn make(bytes: u64) -> Result<File> {
    made(bytes).context("a disk in memory (null_blk, which Debian's kernel has)")
}

fn made(bytes: u64) -> Result<File> {
    let devices = Path::new(CONFIGURED).join("nullb");
    if !devices.exists() {
        load()?;
    }
    // Kernels from 6.1 on name the device so; the ones before number it, in order.
    let name = format!("nullb{}", MADE.fetch_add(1, Ordering::Relaxed));
    let configured = devices.join(&name);
    let at = |path: &Path| format!("{}", path.display());
    fs::create_dir(&configured).with_context(|| at(&configured))?;
    let size = bytes.div_ceil(MIB).to_string();
    for (name, value) in [("size", &*size), ("memory_backed", "1"), ("power", "1")] {
        let path = configured.join(name);
        fs::write(&path, value).with_context(|| at(&path))?;
    }
    let device = Path::new("/dev").join(&name);
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).open(&device).with_context(|| at(&device))?;
    file.set_permissions(Permissions::from_mode(0o666))?;
    Ok(file)
}

fn load() -> Result<()> {
    let directory = Path::new(MODULES_DIRECTORY);
    // None of its own: each is made with the size that is asked for.
    Index::read(directory)?.load(directory, "null_blk", "null_blk.nr_devices=0")?;
    if !Path::new(CONFIGURED).join("nullb").exists() {
        mount("configfs", CONFIGURED, "configfs", MountFlags::NOSUID, None)?;
    }
    Ok(())
}
