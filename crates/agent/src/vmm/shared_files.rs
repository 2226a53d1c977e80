//! A directory of the machine that a guest works in: its disk is a file there. It lies in memory that nobody
//! outside of the sandbox sees, so nothing of it is left however its users end.
//!
//! 9p is served by QEMU itself, which has the directory as a descriptor: so it may write there, and nowhere
//! else. virtiofs is served by a process of its own, virtiofsd of QEMU's project, by vhost-user; it ends when
//! QEMU does. It keeps nothing in a cache of its own or of the guest's, as 9p does by default: what is weighed is
//! the path of an operation.
//!
//! Source: QEMU's docs/tools/virtiofsd.rst (version 7.2).

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use hypertare_plan::{FileSharing, VIRTIOFSD};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::boot_contract::FILE_OF_DISK;
use crate::process::namespaces;

/// The directory, and what serves it beside QEMU. Dropped, both are gone.
#[derive(Debug)]
pub struct SharedFiles {
    directory: PathBuf,
    server: Option<Child>,
}

impl SharedFiles {
    /// Makes the directory with the file of a disk of so many bytes, and what QEMU has of it: the directory
    /// itself, or a connection to what serves it.
    ///
    /// # Errors
    /// There is no virtiofsd, or it cannot be started.
    pub fn make(name: &str, bytes: u64, kind: FileSharing) -> Result<(Self, OwnedFd)> {
        let directory = namespaces::scratch(&format!("{name}-files"))?;
        let mut shared = SharedFiles { directory, server: None };
        let at = |path: &Path| format!("making {}", path.display());
        let file = shared.directory.join(FILE_OF_DISK);
        // QEMU is another user.
        fs::set_permissions(&shared.directory, Permissions::from_mode(0o777))?;
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&file)
            .and_then(|made| {
                made.set_permissions(Permissions::from_mode(0o666))?;
                made.set_len(bytes)
            })
            .with_context(|| at(&file))?;
        let descriptor = match kind {
            FileSharing::NineP => File::open(&shared.directory)?.into(),
            FileSharing::Virtiofs => {
                let (server, connection) = serve(&shared.directory)?;
                shared.server = Some(server);
                connection.into()
            }
        };
        Ok((shared, descriptor))
    }

    /// Of the process that serves it beside QEMU, where one does.
    pub fn pid(&self) -> Option<i32> {
        self.server.as_ref().map(|server| server.id().cast_signed())
    }
}

impl Drop for SharedFiles {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// It takes the one connection that is waiting for it already.
fn serve(directory: &Path) -> Result<(Child, UnixStream)> {
    let place = directory.with_extension("socket");
    let listener = UnixListener::bind(&place).context("a socket for virtiofsd")?;
    let connection = UnixStream::connect(&place).context("a connection to virtiofsd")?;
    fs::remove_file(&place)?;
    let mut source = OsString::from("source=");
    source.push(directory);
    source.push(",sandbox=chroot,cache=none,no_writeback,no_posix_lock,no_flock");
    let mut command = Command::new(VIRTIOFSD);
    command.arg(format!("--fd={}", listener.as_raw_fd())).arg("-o").arg(source);
    command.args(["--rlimit-nofile=0", "-f"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let descriptor = listener.as_fd().try_clone_to_owned()?;
    let number = listener.as_raw_fd();
    // SAFETY: system calls only, between fork and exec.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            debug_assert!(descriptor.as_raw_fd() != number);
            let listener = std::os::fd::BorrowedFd::borrow_raw(number);
            fcntl_setfd(listener, FdFlags::empty()).map_err(io::Error::from)
        });
    }
    let server = command.spawn().with_context(|| {
        format!("starting {VIRTIOFSD}, which Debian 12 has in its package qemu-system-common")
    })?;
    Ok((server, connection))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_there_for_others_and_gone_with_the_directory() {
        let Ok((shared, descriptor)) = SharedFiles::make("test", 1 << 20, FileSharing::NineP)
        else {
            // Nobody may write where the sandbox has its memory.
            return;
        };
        let file = Path::new("/proc/self/fd").join(descriptor.as_raw_fd().to_string());
        let found = fs::metadata(file.join(FILE_OF_DISK)).unwrap();
        assert_eq!((found.len(), found.permissions().mode() & 0o777), (1 << 20, 0o666));
        let directory = shared.directory.clone();
        drop(shared);
        assert!(!directory.exists());
    }
}
