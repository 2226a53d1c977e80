//! Disks of an emulated machine: the kernel's null_blk with its blocks in memory, a block device that does
//! as little work as possible. So the cost of the path to a disk is measured.
//!
//! Source: the kernel's Documentation/block/null_blk.rst.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use rustix::mount::{MountFlags, mount};

use super::modules;

const CONFIGURED: &str = "/sys/kernel/config";
const MIB: u64 = 1 << 20;
/// Of `irqmode`: an operation ends so many nanoseconds after it came in, any number of them at once.
const BY_TIMER: &str = "2";

static MADE: AtomicU32 = AtomicU32::new(0);

/// Whether a disk keeps what is written in a cache that loses it with the power, until it is flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteCache {
    None,
    /// As large as the disk: nothing leaves it but by being flushed.
    Volatile,
}

/// A disk, which stays until the machine ends or it is removed.
#[derive(Debug)]
pub struct NullBlk {
    name: String,
}

impl NullBlk {
    /// One whose operations take so long beside the processor's own work.
    ///
    /// # Errors
    /// The image lacks the module, or the kernel refuses it.
    pub fn make(bytes: u64, cache: WriteCache, latency_ns: u64) -> Result<Self> {
        Self::made(bytes, cache, latency_ns)
            .context("a disk in memory (null_blk, which Debian's kernel has)")
    }

    fn made(bytes: u64, cache: WriteCache, latency_ns: u64) -> Result<Self> {
        let configfs = Path::new(CONFIGURED).join("nullb");
        if !configfs.exists() {
            // None of its own: each is made with the size that is asked for.
            modules::load("null_blk", "null_blk.nr_devices=0")?;
        }
        if !configfs.exists() {
            mount("configfs", CONFIGURED, "configfs", MountFlags::NOSUID, None)?;
        }
        // Kernels from 6.1 on name the device so; the ones before number it, in order.
        let name = format!("nullb{}", MADE.fetch_add(1, Ordering::Relaxed));
        let disk = NullBlk { name };
        let configured = disk.configured();
        fs::create_dir(&configured).with_context(|| at(&configured))?;
        let mebibytes = bytes.div_ceil(MIB);
        disk.set("size", &mebibytes.to_string())?;
        disk.set("memory_backed", "1")?;
        if cache == WriteCache::Volatile {
            // One more: a full cache writes some of it out.
            disk.set("cache_size", &(mebibytes + 1).to_string())?;
        }
        if latency_ns > 0 {
            disk.set("irqmode", BY_TIMER)?;
            disk.set("completion_nsec", &latency_ns.to_string())?;
        }
        disk.set("power", "1")?;
        Ok(disk)
    }

    /// For whoever works on it, which may be another user's process: a VMM is.
    ///
    /// # Errors
    /// It is not there any more.
    pub fn open(&self) -> Result<File> {
        let device = Path::new("/dev").join(&self.name);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).open(&device).with_context(|| at(&device))?;
        file.set_permissions(Permissions::from_mode(0o666))?;
        Ok(file)
    }

    /// Takes the disk's power and gives it back: what the kernel holds of it and what is in its cache is gone,
    /// what was flushed is there. Nobody may have it open.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn cut_power(&self) -> Result<()> {
        self.set("power", "0")?;
        self.set("power", "1")
    }

    /// # Errors
    /// The kernel refuses it.
    pub fn remove(self) -> Result<()> {
        let configured = self.configured();
        fs::remove_dir(&configured).with_context(|| at(&configured))
    }

    fn configured(&self) -> PathBuf {
        Path::new(CONFIGURED).join("nullb").join(&self.name)
    }

    fn set(&self, name: &str, value: &str) -> Result<()> {
        let path = self.configured().join(name);
        fs::write(&path, value).with_context(|| at(&path))
    }
}

fn at(path: &Path) -> String {
    path.display().to_string()
}
