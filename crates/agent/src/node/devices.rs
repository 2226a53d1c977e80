//! `/dev` as commands see it: the devices that every program may count on, and no other of this
//! machine's. Whose root is root of the machine's files could open every disk by its device.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::mount::{MountFlags, mount, mount_bind};

use crate::boot_contract::DISK_VARIABLE;

use super::mounts::INERT;

/// They hold nothing that outlives their reader; a terminal is the reader's own, if it has any.
const OF_EVERY_PROGRAM: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

const HOME: &str = "/dev";

/// Pseudo terminals of one's own: the machine's are of people who work at them. With the group of
/// terminals where this namespace has it.
const TERMINALS: [&std::ffi::CStr; 2] =
    [c"newinstance,ptmxmode=0666,mode=0620,gid=5", c"newinstance,ptmxmode=0666,mode=0620"];

/// Shows them in `to`, which is made, with those of `more` that were asked for.
///
/// # Errors
/// One that was asked for is not there, or is no device.
pub fn show(to: &Path, more: &[PathBuf]) -> Result<()> {
    fs::create_dir(to)?;
    mount("tmpfs", to, "tmpfs", INERT, Some(c"size=64k,mode=0755"))
        .context("cannot mount memory for devices")?;
    for name in OF_EVERY_PROGRAM {
        // A machine without one has none to show: programs are used to that.
        let device = Path::new(HOME).join(name);
        if device.exists() {
            show_one(&device, &to.join(name))?;
        }
    }
    for device in more {
        show_asked(device, to)?;
    }
    // A process's disk is a descriptor, which commands inherit.
    if let Some(disk) = std::env::var_os(DISK_VARIABLE).map(PathBuf::from)
        && disk.starts_with(HOME)
    {
        show_asked(&disk, to)?;
    }
    for (name, target) in LINKS {
        symlink(target, to.join(name))?;
    }
    let terminals = to.join("pts");
    fs::create_dir(&terminals)?;
    let quiet = MountFlags::NOSUID | MountFlags::NOEXEC;
    let mut tried =
        TERMINALS.iter().map(|options| mount("devpts", &terminals, "devpts", quiet, *options));
    tried.find(Result::is_ok).context("cannot mount pseudo terminals")??;
    let shared = to.join("shm");
    fs::create_dir(&shared)?;
    let inert = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", &shared, "tmpfs", inert, Some(c"mode=1777"))
        .context("cannot mount memory on /dev/shm")?;
    // POSIX message queues of this namespace; a kernel may lack them.
    let queues = to.join("mqueue");
    fs::create_dir(&queues)?;
    let _ = mount("mqueue", &queues, "mqueue", INERT, None);
    Ok(())
}

fn show_asked(device: &Path, to: &Path) -> Result<()> {
    let name = device.display();
    let Ok(within) = device.strip_prefix(HOME) else {
        bail!("{name} is not below {HOME}: name a device as {HOME}/NAME")
    };
    let metadata = fs::metadata(device).with_context(|| {
        format!("there is no device {name} (a guest has those of its own kernel, not this host's)")
    })?;
    if !metadata.file_type().is_char_device() && !metadata.file_type().is_block_device() {
        bail!("{name} is no device");
    }
    let shown = to.join(within);
    if let Some(directory) = shown.parent() {
        fs::create_dir_all(directory)?;
    }
    if shown.exists() { Ok(()) } else { show_one(device, &shown) }
}

/// A device cannot be made in a user namespace; one that is there can be shown at another place.
fn show_one(device: &Path, to: &Path) -> Result<()> {
    File::create(to)?;
    mount_bind(device, to).with_context(|| format!("cannot show {}", device.display()))
}
