//! What the driver domain starts before its first guest: the store in which the domains find each
//! other, dom0's own entries in it, and the consoles.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::mount::{MountFlags, mount};

use super::tools;

const DIRECTORIES: [&str; 4] = ["/run/xen", "/run/xenstored", "/run/lock", "/run/xen-hotplug"];
const LIMIT: Duration = Duration::from_secs(60);

/// # Errors
/// The kernel lacks Xen's file system, or a tool fails.
pub fn start() -> Result<()> {
    mount("xenfs", "/proc/xen", "xenfs", MountFlags::NOSUID, None)
        .context("mounting xenfs: is the module xenfs in the image?")?;
    for directory in DIRECTORIES {
        fs::create_dir_all(directory).with_context(|| format!("making {directory}"))?;
    }
    tools::start_daemon("xenstored", &["--pid-file", "/run/xen/xenstored.pid"])?;
    tools::run("xen-init-dom0", &[], LIMIT)?;
    tools::start_daemon("xenconsoled", &["--log=none", "--pid-file=/run/xen/xenconsoled.pid"])
}
