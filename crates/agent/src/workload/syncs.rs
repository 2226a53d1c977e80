//! Counts the calls of a command that wait for a disk: fsync and similar ones, and openings of files with
//! O_DIRECT or O_SYNC. The command's files are in memory, where such a call takes no time, and the reader
//! of its results should know.
//!
//! The kernel notifies this process of each such call (seccomp_unotify(2)), which lets it continue. That
//! costs the call microseconds, so it is for runs that are not counted. Calls by io_uring(7), of programs
//! of 32 bits, and openat2(2), whose flags are in memory, are not seen.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{
    BPF_ABS, BPF_JA, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter,
    sock_fprog,
};

use crate::arch::ARCH;

/// Calls of this process and of those that it started.
static SEEN: AtomicU64 = AtomicU64::new(0);
static WATCHED: std::sync::OnceLock<()> = std::sync::OnceLock::new();

const DIRECT_OR_SYNC: u32 = (libc::O_DIRECT | libc::O_SYNC | libc::O_DSYNC) as u32;

/// Offsets in `seccomp_data`: the call's number, its architecture, and its arguments' low halves.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const fn argument(number: u32) -> u32 {
    16 + 8 * number
}

/// Filters the calls of this thread and of all that it starts; returns the descriptor for the kernel's
/// notices. The caller must be able to administer its user namespace. `None` where the kernel cannot
/// notify, or another filter of the thread does so already: then no call is seen, which is no error.
pub fn filter() -> Option<OwnedFd> {
    let mut program = program();
    let given = sock_fprog { len: program.len().try_into().ok()?, filter: program.as_mut_ptr() };
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    // SAFETY: the kernel copies the instructions, which outlive the call, and gives a new descriptor.
    unsafe {
        let fd = libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const given,
        );
        (fd >= 0).then(|| OwnedFd::from_raw_fd(fd as i32))
    }
}

/// The distance of a jump is the number of instructions that it skips.
fn program() -> [sock_filter; 19] {
    let instruction = |code: u32, k, jt, jf| sock_filter { code: code as u16, jt, jf, k };
    let statement = |code, k| instruction(code, k, 0, 0);
    let jump = |code, k, yes, no| instruction(BPF_JMP | code | BPF_K, k, yes, no);
    let load = |offset| statement(BPF_LD | BPF_W | BPF_ABS, offset);
    let is = |number: libc::c_long, yes, no| jump(BPF_JEQ, number as u32, yes, no);
    [
        load(ARCHITECTURE),
        jump(BPF_JEQ, ARCH.audit, 0, 15),
        load(NUMBER),
        is(libc::SYS_fsync, 14, 0),
        is(libc::SYS_fdatasync, 13, 0),
        is(libc::SYS_sync, 12, 0),
        is(libc::SYS_syncfs, 11, 0),
        is(libc::SYS_sync_file_range, 10, 0),
        is(libc::SYS_msync, 2, 0),
        is(libc::SYS_open, 3, 0),
        is(libc::SYS_openat, 4, 6),
        load(argument(2)),
        jump(BPF_JSET, libc::MS_SYNC as u32, 5, 4),
        load(argument(1)),
        statement(BPF_JMP | BPF_JA, 1),
        load(argument(2)),
        jump(BPF_JSET, DIRECT_OR_SYNC, 1, 0),
        statement(BPF_RET | BPF_K, libc::SECCOMP_RET_ALLOW),
        statement(BPF_RET | BPF_K, libc::SECCOMP_RET_USER_NOTIF),
    ]
}

/// Counts from now on, in a thread that ends with this process.
pub fn count(asked_by: OwnedFd) {
    let _ = WATCHED.set(());
    std::thread::spawn(move || while answer(&asked_by) {});
}

/// The number of calls; `None` where they were not watched.
pub fn seen() -> Option<u64> {
    WATCHED.get().map(|()| SEEN.load(Ordering::Relaxed))
}

/// Counts one call and lets it continue; false when no process with the filter is left.
fn answer(asked_by: &OwnedFd) -> bool {
    // SAFETY: plain numbers, for which zero is valid, as the kernel wants them.
    let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is the one of this request, and lives.
    let got = unsafe {
        libc::ioctl(asked_by.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut asked)
    };
    if got < 0 {
        let error = std::io::Error::last_os_error().raw_os_error();
        // Its caller was killed meanwhile, or a signal came.
        return matches!(error, Some(libc::ENOENT | libc::EINTR));
    }
    SEEN.fetch_add(1, Ordering::Relaxed);
    let mut reported = libc::seccomp_notif_resp {
        id: asked.id,
        val: 0,
        error: 0,
        flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
    };
    // SAFETY: as above. A caller that is gone needs no answer.
    unsafe { libc::ioctl(asked_by.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut reported) };
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter as the kernel does: the instructions that it consists of.
    fn verdict(number: libc::c_long, arguments: [u32; 3]) -> u32 {
        let program = program();
        let (mut place, mut value) = (0, 0);
        loop {
            let one = program[place];
            place += 1;
            let code = u32::from(one.code);
            if code == BPF_LD | BPF_W | BPF_ABS {
                value = match one.k {
                    NUMBER => number as u32,
                    ARCHITECTURE => ARCH.audit,
                    offset => arguments[((offset - 16) / 8) as usize],
                };
            } else if code == BPF_JMP | BPF_JA {
                place += one.k as usize;
            } else if code == BPF_RET | BPF_K {
                return one.k;
            } else {
                let holds =
                    if code & BPF_JSET == BPF_JSET { value & one.k != 0 } else { value == one.k };
                place += usize::from(if holds { one.jt } else { one.jf });
            }
        }
    }

    #[test]
    fn what_waits_for_a_disk_is_asked_about_and_nothing_else() {
        let direct = libc::O_DIRECT as u32;
        let dsync = libc::O_DSYNC as u32;
        for (number, arguments) in [
            (libc::SYS_fsync, [0; 3]),
            (libc::SYS_fdatasync, [0; 3]),
            (libc::SYS_sync, [0; 3]),
            (libc::SYS_syncfs, [0; 3]),
            (libc::SYS_sync_file_range, [0; 3]),
            (libc::SYS_msync, [0, 0, libc::MS_SYNC as u32]),
            (libc::SYS_open, [0, direct, 0]),
            (libc::SYS_openat, [0, 0, dsync]),
            (libc::SYS_openat, [0, 0, libc::O_SYNC as u32 | libc::O_CREAT as u32]),
        ] {
            assert_eq!(verdict(number, arguments), libc::SECCOMP_RET_USER_NOTIF, "{number}");
        }
        for (number, arguments) in [
            (libc::SYS_read, [direct; 3]),
            (libc::SYS_msync, [0, 0, libc::MS_ASYNC as u32]),
            (libc::SYS_open, [direct, libc::O_CREAT as u32, direct]),
            (libc::SYS_openat, [direct, direct, libc::O_CREAT as u32]),
        ] {
            assert_eq!(verdict(number, arguments), libc::SECCOMP_RET_ALLOW, "{number}");
        }
    }
}
