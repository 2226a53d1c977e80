//! The medium of a node's disk. Nothing of it is left however its users end: on this host it is a file without
//! a name, on an experiment's own machine a device that ends with that.

use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

use anyhow::{Context, Result, ensure};
use hypertare_plan::{Disk, DiskFormat};
use rustix::fs::{FallocateFlags, MemfdFlags, OFlags, fallocate, memfd_create};

use super::qcow2;
use crate::boot_contract::is_own_machine;
use crate::own_machine::null_blk::{NullBlk, WriteCache};
use crate::vmm::spec::Medium;

/// Makes a medium that processes of another user can open, as a VMM is.
///
/// # Errors
/// The directory does not exist, has no room, or is on a file system without unnamed files.
pub fn make(disk: &Disk, format: DiskFormat) -> Result<Medium> {
    let bytes = room(disk, format);
    let is_device = is_own_machine() && !disk.is_file;
    ensure!(
        disk.latency_ns == 0 || is_device,
        "only a block device of an emulated machine takes as long as it is asked to"
    );
    let file = if is_device {
        NullBlk::make(bytes, WriteCache::None, disk.latency_ns)?.open()?
    } else {
        make_file(&Disk { bytes, ..disk.clone() })?
    };
    format_as(format, &file, disk.bytes)?;
    Ok(Medium { file, is_device })
}

/// Makes a medium that outlives its node: with a cache of its own, which a power cut empties.
///
/// # Errors
/// This is no machine of an experiment's own, or it cannot have such a disk.
pub fn make_lasting(disk: &Disk, format: DiskFormat) -> Result<NullBlk> {
    ensure!(is_own_machine(), "only an emulated machine has a disk whose power can be cut");
    let device = NullBlk::make(room(disk, format), WriteCache::Volatile, disk.latency_ns)?;
    let file = device.open()?;
    format_as(format, &file, disk.bytes)?;
    file.sync_all().context("the tables of a new disk")?;
    Ok(device)
}

fn room(disk: &Disk, format: DiskFormat) -> u64 {
    match format {
        DiskFormat::Raw => disk.bytes,
        DiskFormat::Qcow2 => qcow2::room(disk.bytes),
    }
}

fn format_as(format: DiskFormat, file: &File, bytes: u64) -> Result<()> {
    match format {
        DiskFormat::Raw => Ok(()),
        DiskFormat::Qcow2 => qcow2::write_empty(file, bytes),
    }
}

fn make_file(disk: &Disk) -> Result<File> {
    let file = match &disk.directory {
        None => {
            memfd_create("disk", MemfdFlags::CLOEXEC).map(File::from).context("a disk in memory")?
        }
        Some(directory) => OpenOptions::new()
            .read(true)
            .write(true)
            .mode(0o600)
            .custom_flags(OFlags::TMPFILE.bits() as i32)
            .open(directory)
            .with_context(|| {
                format!("the file of a disk cannot be made in {}", directory.display())
            })?,
    };
    file.set_permissions(Permissions::from_mode(0o666))?;
    file.set_len(disk.bytes)?;
    // Room for all of it now, and no error during a trial. Memory would be taken at once, so it is not
    // reserved.
    if let Some(directory) = &disk.directory {
        fallocate(&file, FallocateFlags::empty(), 0, disk.bytes).with_context(|| {
            format!("{} has no room for a disk of {} bytes", directory.display(), disk.bytes)
        })?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::path::Path;

    use tempfile::tempdir;

    use super::*;

    fn disk(bytes: u64, directory: Option<std::path::PathBuf>) -> Disk {
        Disk { bytes, directory, is_file: false, write_cache: false, latency_ns: 0 }
    }

    #[test]
    fn it_has_its_size_and_no_name_and_is_found_by_its_descriptor() {
        let directory = tempdir().unwrap();
        for place in [None, Some(directory.path().to_owned())] {
            let file = make_file(&disk(1 << 20, place)).unwrap();
            assert_eq!(file.metadata().unwrap().len(), 1 << 20);
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            let mut again = OpenOptions::new().read(true).write(true).open(path).unwrap();
            again.write_all(b"there").unwrap();
            let mut found = [0; 5];
            (&file).read_exact(&mut found).unwrap();
            assert_eq!(&found, b"there");
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn no_room_and_no_directory_are_said() {
        let directory = tempdir().unwrap();
        let make = |bytes, place: &Path| {
            format!("{:#}", make_file(&disk(bytes, Some(place.to_owned()))).unwrap_err())
        };
        assert!(make(1 << 20, &directory.path().join("none")).contains("cannot be made in"));
        let why = make(1 << 50, directory.path());
        assert!(why.contains("has no room for a disk") || why.contains("File too large"), "{why}");
    }
}
