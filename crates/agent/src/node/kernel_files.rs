//! `/proc` and `/sys` as commands see them: to be read. Most of what can be written there is a
//! setting of the whole machine, and root of a user namespace is root to these files.
//!
//! Whoever has no `CAP_SYS_ADMIN` can neither write to what is read-only nor mount it anew: in a
//! user namespace of its own it gets these mounts with their flags locked, and the kernel refuses it
//! another proc or sysfs, for neither is to be seen as a whole here (mount_namespaces(7)).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};

use super::mounts::{bind_all_read_only, bind_read_only, make_read_only, mask, mount_new};

/// Files of /proc that container runtimes hide: the list of Docker and Podman, moby's `oci/defaults.go`.
const MASKED_IN_CONTAINERS: [&str; 9] = [
    "acpi",
    "asound",
    "kcore",
    "keys",
    "latency_stats",
    "sched_debug",
    "scsi",
    "timer_list",
    "timer_stats",
];

const MASKED_OF_SYS: [&str; 2] = ["firmware", "devices/virtual/powercap"];

/// A proc of this PID namespace. What belongs to a process can be written by that process; what
/// belongs to the machine cannot be.
pub fn show_proc(to: &Path, as_container: bool) -> Result<()> {
    mount_new("proc", to)?;
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        let (path, metadata) = (entry.path(), entry.metadata()?);
        let is_process = entry.file_name().as_encoded_bytes()[0].is_ascii_digit();
        let is_setting = metadata.is_dir() || (metadata.is_file() && metadata.mode() & 0o222 != 0);
        if is_setting && !is_process {
            bind_read_only(&path, &path)
                .with_context(|| format!("cannot make {} read-only", entry.path().display()))?;
        }
    }
    if as_container {
        MASKED_IN_CONTAINERS.iter().try_for_each(|name| mask(&to.join(name)))?;
    }
    Ok(())
}

/// A sysfs of this network namespace; where none can be mounted the machine's.
pub fn show_sys(to: &Path, as_container: bool) -> Result<()> {
    let is_own = mount_new("sysfs", to).is_ok();
    if is_own {
        make_read_only(to)?;
    } else {
        bind_all_read_only(Path::new("/sys"), to).context("cannot show /sys")?;
        // The agent's own memory is mounted there: see `namespaces::SCRATCH`.
        mask(&to.join("firmware"))?;
    }
    if as_container {
        MASKED_OF_SYS.iter().try_for_each(|name| mask(&to.join(name)))?;
    }
    Ok(())
}

/// A process that makes a user namespace may mount the cgroups that its new cgroup namespace shows. Their
/// files belong to the user who started this run, so the process could make groups that stay. The limit of
/// zero holds for this user namespace and all below it.
pub fn forbid_cgroup_namespaces() -> Result<()> {
    match fs::write("/proc/sys/user/max_cgroup_namespaces", "0") {
        // The kernel has none.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done.context("cannot forbid cgroup namespaces"),
    }
}
