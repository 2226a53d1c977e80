//! The system calls that common runtimes of containers allow. A command in a container has the same filter
//! as a user's: it pays the same cost, and is refused the same calls.
//!
//! Source: the default profile of Docker and Podman (moby, `profiles/seccomp/default.json`, at commit
//! 00f3d18, 2025), for x86-64 and for the capabilities that a container's root has by default. There a
//! program of 32 bits may be executed; here it is ended, for the filter knows one architecture.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use libc::*;
use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule};

use crate::arch::ARCH;

/// Calls that are allowed with any arguments.
#[rustfmt::skip]
const ALLOWED: [c_long; 295] = [
    SYS_accept, SYS_accept4, SYS_access, SYS_adjtimex, SYS_alarm, SYS_bind, SYS_brk, SYS_capget,
    SYS_capset, SYS_chdir, SYS_chmod, SYS_chown, SYS_clock_adjtime, SYS_clock_getres,
    SYS_clock_gettime, SYS_clock_nanosleep, SYS_close, SYS_close_range, SYS_connect,
    SYS_copy_file_range, SYS_creat, SYS_dup, SYS_dup2, SYS_dup3, SYS_epoll_create,
    SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_ctl_old, SYS_epoll_pwait, SYS_epoll_pwait2,
    SYS_epoll_wait, SYS_epoll_wait_old, SYS_eventfd, SYS_eventfd2, SYS_execve, SYS_execveat,
    SYS_exit, SYS_exit_group, SYS_faccessat, SYS_faccessat2, SYS_fadvise64, SYS_fallocate,
    SYS_fanotify_mark, SYS_fchdir, SYS_fchmod, SYS_fchmodat, SYS_fchown, SYS_fchownat, SYS_fcntl,
    SYS_fdatasync, SYS_fgetxattr, SYS_flistxattr, SYS_flock, SYS_fork, SYS_fremovexattr,
    SYS_fsetxattr, SYS_fstat, SYS_fstatfs, SYS_fsync, SYS_ftruncate, SYS_futex, SYS_futex_waitv,
    SYS_futimesat, SYS_getcwd, SYS_getdents, SYS_getdents64, SYS_getegid, SYS_geteuid, SYS_getgid,
    SYS_getgroups, SYS_getitimer, SYS_getpeername, SYS_getpgid, SYS_getpgrp, SYS_getpid,
    SYS_getppid, SYS_getpriority, SYS_getrandom, SYS_getresgid, SYS_getresuid, SYS_getrlimit,
    SYS_get_robust_list, SYS_getrusage, SYS_getsid, SYS_getsockname, SYS_getsockopt,
    SYS_get_thread_area, SYS_gettid, SYS_gettimeofday, SYS_getuid, SYS_getxattr,
    SYS_inotify_add_watch, SYS_inotify_init, SYS_inotify_init1, SYS_inotify_rm_watch,
    SYS_io_cancel, SYS_ioctl, SYS_io_destroy, SYS_io_getevents, SYS_io_pgetevents, SYS_ioprio_get, SYS_ioprio_set,
    SYS_io_setup, SYS_io_submit, SYS_io_uring_enter, SYS_io_uring_register, SYS_io_uring_setup,
    SYS_kill, SYS_landlock_add_rule, SYS_landlock_create_ruleset, SYS_landlock_restrict_self,
    SYS_lchown, SYS_lgetxattr, SYS_link, SYS_linkat, SYS_listen, SYS_listxattr, SYS_llistxattr,
    SYS_lremovexattr, SYS_lseek, SYS_lsetxattr, SYS_lstat, SYS_madvise, SYS_membarrier,
    SYS_memfd_create, SYS_memfd_secret, SYS_mincore, SYS_mkdir, SYS_mkdirat, SYS_mknod,
    SYS_mknodat, SYS_mlock, SYS_mlock2, SYS_mlockall, SYS_mmap, SYS_mprotect, SYS_mq_getsetattr,
    SYS_mq_notify, SYS_mq_open, SYS_mq_timedreceive, SYS_mq_timedsend, SYS_mq_unlink, SYS_mremap,
    SYS_msgctl, SYS_msgget, SYS_msgrcv, SYS_msgsnd, SYS_msync, SYS_munlock, SYS_munlockall,
    SYS_munmap, SYS_name_to_handle_at, SYS_nanosleep, SYS_newfstatat, SYS_open, SYS_openat,
    SYS_openat2, SYS_pause, SYS_pidfd_open, SYS_pidfd_send_signal, SYS_pipe, SYS_pipe2,
    SYS_pkey_alloc, SYS_pkey_free, SYS_pkey_mprotect, SYS_poll, SYS_ppoll, SYS_prctl, SYS_pread64,
    SYS_preadv, SYS_preadv2, SYS_prlimit64, SYS_process_mrelease, SYS_pselect6, SYS_pwrite64,
    SYS_pwritev, SYS_pwritev2, SYS_read, SYS_readahead, SYS_readlink, SYS_readlinkat, SYS_readv,
    SYS_recvfrom, SYS_recvmmsg, SYS_recvmsg, SYS_remap_file_pages, SYS_removexattr, SYS_rename,
    SYS_renameat, SYS_renameat2, SYS_restart_syscall, SYS_rmdir, SYS_rseq, SYS_rt_sigaction,
    SYS_rt_sigpending, SYS_rt_sigprocmask, SYS_rt_sigqueueinfo, SYS_rt_sigreturn,
    SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_rt_tgsigqueueinfo, SYS_sched_getaffinity,
    SYS_sched_getattr, SYS_sched_getparam, SYS_sched_get_priority_max, SYS_sched_get_priority_min,
    SYS_sched_getscheduler, SYS_sched_rr_get_interval, SYS_sched_setaffinity, SYS_sched_setattr,
    SYS_sched_setparam, SYS_sched_setscheduler, SYS_sched_yield, SYS_seccomp, SYS_select,
    SYS_semctl, SYS_semget, SYS_semop, SYS_semtimedop, SYS_sendfile, SYS_sendmmsg, SYS_sendmsg,
    SYS_sendto, SYS_setfsgid, SYS_setfsuid, SYS_setgid, SYS_setgroups, SYS_setitimer, SYS_setpgid,
    SYS_setpriority, SYS_setregid, SYS_setresgid, SYS_setresuid, SYS_setreuid, SYS_setrlimit,
    SYS_set_robust_list, SYS_setsid, SYS_setsockopt, SYS_set_thread_area, SYS_set_tid_address,
    SYS_setuid, SYS_setxattr, SYS_shmat, SYS_shmctl, SYS_shmdt, SYS_shmget, SYS_shutdown,
    SYS_sigaltstack, SYS_signalfd, SYS_signalfd4, SYS_socketpair, SYS_splice, SYS_stat, SYS_statfs,
    SYS_statx, SYS_symlink, SYS_symlinkat, SYS_sync, SYS_sync_file_range, SYS_syncfs, SYS_sysinfo,
    SYS_tee, SYS_tgkill, SYS_time, SYS_timer_create, SYS_timer_delete, SYS_timer_getoverrun,
    SYS_timer_gettime, SYS_timer_settime, SYS_timerfd_create, SYS_timerfd_gettime,
    SYS_timerfd_settime, SYS_times, SYS_tkill, SYS_truncate, SYS_umask, SYS_uname, SYS_unlink,
    SYS_unlinkat, SYS_utime, SYS_utimensat, SYS_utimes, SYS_vfork, SYS_vmsplice, SYS_wait4,
    SYS_waitid, SYS_write, SYS_writev, SYS_process_vm_readv, SYS_process_vm_writev, SYS_ptrace,
    SYS_arch_prctl, SYS_modify_ldt, SYS_chroot, SYS_getcpu,
];

#[expect(non_upper_case_globals, reason = "libc lacks it, and writes such names so")]
const SYS_io_pgetevents: c_long = 333;

/// Flags of clone(2) that make namespaces.
const NEW_NAMESPACES: u64 = 0x7E02_0000;

/// Execution domains that personality(2) may choose: Linux, with and without the old addresses of
/// `SHORT_INODE` and `UNAME26`; and the question which one it is.
const PERSONALITIES: [u64; 5] = [0, 0x8, 0x2_0000, 0x2_0008, 0xFFFF_FFFF];

/// Whether the kernel has filters.
pub fn can_be_filtered() -> bool {
    // SAFETY: no memory is passed.
    unsafe { prctl(PR_GET_SECCOMP) == 0 }
}

/// Filters the calls of this thread, which must be able to administer its user namespace, and of all that
/// it starts.
pub fn filter() -> Result<()> {
    let refused = SeccompAction::Errno(EPERM as u32);
    install(rules()?, refused, SeccompAction::Allow)?;
    // Its flags are in memory, where a filter cannot look: programs are to take clone(2).
    let absent = SeccompAction::Errno(ENOSYS as u32);
    install(BTreeMap::from([(SYS_clone3, vec![])]), SeccompAction::Allow, absent)
}

fn rules() -> Result<BTreeMap<c_long, Vec<SeccompRule>>> {
    let mut rules: BTreeMap<_, _> =
        ALLOWED.into_iter().chain([SYS_clone3]).map(|number| (number, vec![])).collect();
    let no_namespaces = SeccompCondition::new(0, Dword, MaskedEq(NEW_NAMESPACES), 0)?;
    rules.insert(SYS_clone, vec![SeccompRule::new(vec![no_namespaces])?]);
    // Sockets to the machine below this one.
    let not_vsock = SeccompCondition::new(0, Dword, Ne, AF_VSOCK as u64)?;
    rules.insert(SYS_socket, vec![SeccompRule::new(vec![not_vsock])?]);
    let one_of = PERSONALITIES
        .map(|domain| SeccompRule::new(vec![SeccompCondition::new(0, Dword, Eq, domain)?]));
    rules.insert(SYS_personality, one_of.into_iter().collect::<Result<_, _>>()?);
    Ok(rules)
}

/// The crate's own function would also forbid new privileges, but users' containers may run set-uid
/// programs.
fn install(
    rules: BTreeMap<c_long, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<()> {
    let filter = SeccompFilter::new(rules, otherwise, matched, ARCH.filtered)?;
    let mut program: BpfProgram = filter.try_into()?;
    let given = sock_fprog {
        len: program.len().try_into().context("the filter of system calls is too long")?,
        // The crate's instruction is the kernel's, field by field.
        filter: program.as_mut_ptr().cast(),
    };
    // SAFETY: the kernel copies the instructions, which outlive the call.
    match unsafe { syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &raw const given) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()).context("cannot filter system calls"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_listed_once() {
        let mut sorted = ALLOWED;
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(!ALLOWED.contains(&SYS_mount) && !ALLOWED.contains(&SYS_unshare));
    }

    /// In a process of its own: a filter cannot be taken off.
    #[test]
    fn what_is_listed_works_and_what_is_not_is_refused() {
        if !can_be_filtered() {
            return;
        }
        // SAFETY: the child makes system calls only, and ends by one.
        let child = unsafe { fork() };
        if child == 0 {
            // SAFETY: as above; it allocates, but no other thread of this process holds the lock of
            // the allocator for long: the parent's copy is waited for by nobody.
            unsafe {
                prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
                let filtered = filter().is_ok();
                let is_allowed = syscall(SYS_getppid) > 0 && syscall(SYS_personality, 0) >= 0;
                let is_refused = syscall(SYS_unshare, CLONE_NEWUSER) == -1
                    && *__errno_location() == EPERM
                    && syscall(SYS_socket, AF_VSOCK, SOCK_STREAM, 0) == -1
                    && *__errno_location() == EPERM;
                let is_absent = syscall(SYS_clone3, 0, 0) == -1 && *__errno_location() == ENOSYS;
                let all = [filtered, is_allowed, is_refused, is_absent];
                _exit(all.iter().position(|holds| !holds).map_or(0, |first| first as i32 + 1))
            }
        }
        let mut status = 0;
        // SAFETY: the status is ours, the child is this process's.
        assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
        assert_eq!((WIFEXITED(status), WEXITSTATUS(status)), (true, 0));
    }
}
