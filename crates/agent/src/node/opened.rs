//! Notes which files and directories are opened, by fanotify(7).
//!
//! The marks are on the overlays, for an overlay opens what is below it without notice to anybody.
//! Each file is reported once: after that the kernel passes over it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

/// Events that are taken at once.
const BATCH: usize = 256;

/// A thread that notes opened files until it is asked for them.
pub struct Watch {
    thread: JoinHandle<Result<BTreeSet<PathBuf>>>,
    /// Its end ends the thread.
    stop: OwnedFd,
}

impl Watch {
    /// Looks at every file system that one of the paths is on. Needs `CAP_SYS_ADMIN` in the first
    /// user namespace.
    pub fn begin<'a>(file_systems: impl Iterator<Item = &'a Path>) -> Result<Self> {
        let group = Group::new().context("cannot watch which files are opened")?;
        for path in file_systems {
            group
                .mark(libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM, path)
                .with_context(|| format!("cannot watch {}", path.display()))?;
        }
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC)?;
        let thread = std::thread::spawn(move || group.note_until(stopped.as_fd()));
        Ok(Watch { thread, stop })
    }

    /// What was opened since the beginning.
    pub fn end(self) -> Result<BTreeSet<PathBuf>> {
        drop(self.stop);
        self.thread.join().map_err(|_| anyhow!("the watch on opened files failed"))?
    }
}

struct Group(OwnedFd);

impl Group {
    fn new() -> io::Result<Self> {
        let flags = libc::FAN_CLASS_NOTIF
            | libc::FAN_CLOEXEC
            | libc::FAN_NONBLOCK
            | libc::FAN_UNLIMITED_QUEUE
            | libc::FAN_UNLIMITED_MARKS;
        let how = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_LARGEFILE | libc::O_NOATIME;
        // SAFETY: the call has no pointers.
        match unsafe { libc::fanotify_init(flags, how as libc::c_uint) } {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: it is new, and nobody else's.
            fd => Ok(Group(unsafe { OwnedFd::from_raw_fd(fd) })),
        }
    }

    fn mark(&self, flags: libc::c_uint, path: &Path) -> Result<()> {
        let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
        let mask = libc::FAN_OPEN | libc::FAN_ONDIR;
        // SAFETY: the path is a string that ends with zero and outlives the call.
        let outcome = unsafe {
            libc::fanotify_mark(self.0.as_raw_fd(), flags, mask, libc::AT_FDCWD, path.as_ptr())
        };
        if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error().into()) }
    }

    fn note_until(self, stopped: BorrowedFd) -> Result<BTreeSet<PathBuf>> {
        let mut opened = BTreeSet::new();
        loop {
            let mut polled = [
                PollFd::new(&self.0, PollFlags::IN),
                PollFd::from_borrowed_fd(stopped, PollFlags::IN),
            ];
            match poll(&mut polled, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let last = !polled[1].revents().is_empty();
            while let Some(events) = self.take()? {
                for file in events {
                    opened.extend(self.note(&file));
                }
            }
            if last {
                return Ok(opened);
            }
        }
    }

    /// The files of the next events; none when there are no more for now.
    fn take(&self) -> Result<Option<Vec<OwnedFd>>> {
        const SIZE: usize = size_of::<libc::fanotify_event_metadata>();
        // SAFETY: it is plain numbers, for which zero is valid.
        let mut events: [libc::fanotify_event_metadata; BATCH] = unsafe { std::mem::zeroed() };
        // SAFETY: the buffer is live and as long as is said; any bytes are valid in it.
        let count = unsafe {
            libc::read(self.0.as_raw_fd(), events.as_mut_ptr().cast(), size_of_val(&events))
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EAGAIN) => Ok(None),
                Some(libc::EBADF | libc::EFAULT | libc::EINVAL) => Err(error.into()),
                // A signal came; or the next file could not be opened for us, and its event is spent.
                _ => Ok(Some(Vec::new())),
            };
        }
        // Without FAN_REPORT flags every event is of this one size.
        let files = events[..count as usize / SIZE].iter().filter(|event| event.fd >= 0);
        // SAFETY: the kernel has made each of them for this reader.
        Ok(Some(files.map(|event| unsafe { OwnedFd::from_raw_fd(event.fd) }).collect()))
    }

    /// The path of a file, unless it has been removed. The kernel is asked not to report the file again.
    fn note(&self, file: &OwnedFd) -> Option<PathBuf> {
        let itself = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        // If this fails the file is reported again, which only takes some time.
        let _ = self.mark(
            libc::FAN_MARK_ADD | libc::FAN_MARK_IGNORED_MASK | libc::FAN_MARK_IGNORED_SURV_MODIFY,
            &itself,
        );
        fs::read_link(itself).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the privilege that a guest's agent has, it must say what it could not do.
    #[test]
    fn each_file_and_directory_that_is_opened_is_noted_once() {
        let home = std::env::temp_dir().join(format!("hypertare-opened-{}", std::process::id()));
        fs::create_dir_all(home.join("directory")).unwrap();
        for name in ["before", "meanwhile", "after"] {
            fs::write(home.join(name), "text").unwrap();
        }
        let open = |name: &str| drop(fs::File::open(home.join(name)).unwrap());
        open("before");
        match Watch::begin([home.as_path()].into_iter()) {
            Ok(watch) => {
                for _ in 0..3 {
                    open("meanwhile");
                }
                open("directory");
                let opened = watch.end().unwrap();
                open("after");
                let here: BTreeSet<_> = opened.iter().filter(|p| p.starts_with(&home)).collect();
                let expected = [home.join("directory"), home.join("meanwhile")];
                assert_eq!(here, expected.iter().collect());
            }
            Err(error) => {
                let reported = format!("{error:#}");
                assert!(
                    reported.starts_with("cannot watch") && reported.contains("(os error 1)"),
                    "{reported}"
                );
            }
        }
        fs::remove_dir_all(&home).unwrap();
    }
}
