//! Starts this agent again as a child in namespaces of its own.

use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rustix::event::{PollFd, PollFlags, poll};

/// What to start, and where.
pub struct Spawn<'a> {
    /// Arguments after the program's name.
    pub arguments: Vec<String>,
    /// `CLONE_NEW*` flags.
    pub namespaces: libc::c_int,
    /// Becomes 0, 1, 2, 3, ... in the child; everything else is closed there.
    pub descriptors: Vec<&'a dyn AsRawFd>,
}

/// A child process. Dropping it neither kills nor awaits it.
pub struct Child {
    pid: libc::pid_t,
    handle: OwnedFd,
    status: Option<Ended>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Exited(i32),
    Killed(i32),
}

impl Spawn<'_> {
    /// Starts the child, and calls `prepare` with its process id before its program begins: the
    /// time to write id maps, bind CPUs and put it into cgroups. If that fails, so does this.
    ///
    /// `clone` is called directly because nothing else starts a process as the first of a PID
    /// namespace; between it and `execveat` the child only makes system calls, since it may be the
    /// copy of a process with threads that hold locks.
    pub fn start(&self, prepare: impl FnOnce(libc::pid_t) -> Result<()>) -> Result<Child> {
        let program = File::open("/proc/self/exe").context("this program's own file")?;
        let arguments: Vec<CString> = ["hypertare-agent"]
            .into_iter()
            .chain(self.arguments.iter().map(String::as_str))
            .map(CString::new)
            .collect::<Result<_, _>>()?;
        let mut pointers: Vec<_> = arguments.iter().map(|argument| argument.as_ptr()).collect();
        pointers.push(std::ptr::null());
        // Copies above the numbers that they are to get, so that placing one never hits another.
        let copies = self
            .descriptors
            .iter()
            .map(|descriptor| copy_above(descriptor.as_raw_fd(), 16))
            .collect::<Result<Vec<_>>>()?;
        let numbers: Vec<RawFd> = copies.iter().map(AsRawFd::as_raw_fd).collect();
        let (gate, mut open_gate) = std::io::pipe()?;
        let ends = (gate.as_raw_fd(), open_gate.as_raw_fd());

        let mut handle: libc::c_int = -1;
        let flags = self.namespaces | libc::CLONE_PIDFD | libc::SIGCHLD;
        // SAFETY: with no stack given, clone works as fork; the child goes on in `become_program`,
        // which only makes system calls and does not return.
        let pid = unsafe {
            libc::syscall(
                libc::SYS_clone,
                flags as libc::c_ulong,
                0usize,
                &raw mut handle,
                0usize,
                0usize,
            )
        };
        match pid {
            -1 => return Err(std::io::Error::last_os_error().into()),
            0 => become_program(program.as_raw_fd(), &pointers, &numbers, ends),
            _ => {}
        }
        // SAFETY: the kernel has just made this descriptor for us.
        let handle = unsafe { OwnedFd::from_raw_fd(handle) };
        let mut child = Child { pid: pid as libc::pid_t, handle, status: None };
        drop(gate);
        let prepared = prepare(child.pid).and_then(|()| Ok(open_gate.write_all(b"g")?));
        if let Err(error) = prepared {
            child.kill();
            child.wait();
            return Err(error);
        }
        Ok(child)
    }
}

fn copy_above(descriptor: RawFd, least: RawFd) -> Result<OwnedFd> {
    // SAFETY: F_DUPFD_CLOEXEC makes a new descriptor, which we then own.
    unsafe {
        match libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, least) {
            -1 => Err(std::io::Error::last_os_error().into()),
            copy => Ok(OwnedFd::from_raw_fd(copy)),
        }
    }
}

fn become_program(
    program: RawFd,
    arguments: &[*const libc::c_char],
    descriptors: &[RawFd],
    (gate, open_gate): (RawFd, RawFd),
) -> ! {
    // SAFETY: system calls only, on descriptors and memory that outlive them.
    unsafe {
        let mut byte = 0u8;
        // Its own copy would keep the gate from ever ending.
        libc::close(open_gate);
        // The other end closed without a byte: the parent failed or died.
        if libc::read(gate, (&raw mut byte).cast(), 1) != 1 {
            libc::_exit(125);
        }
        for (number, &descriptor) in descriptors.iter().enumerate() {
            libc::dup2(descriptor, number as RawFd);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        libc::syscall(
            libc::SYS_execveat,
            program,
            c"".as_ptr(),
            arguments.as_ptr(),
            environ,
            libc::AT_EMPTY_PATH,
        );
        libc::_exit(126)
    }
}

unsafe extern "C" {
    static environ: *const *const libc::c_char;
}

impl Child {
    pub fn pid(&self) -> libc::pid_t {
        self.pid
    }

    /// Readable once the process has ended.
    pub fn handle(&self) -> &OwnedFd {
        &self.handle
    }

    /// Sends SIGKILL; harmless when it has ended.
    pub fn kill(&self) {
        self.signal(libc::SIGKILL);
    }

    pub fn signal(&self, signal: libc::c_int) {
        // SAFETY: no memory is passed; the handle names this process even after its id is reused.
        unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.handle.as_raw_fd(),
                signal,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            );
        }
    }

    pub fn wait(&mut self) -> Ended {
        if let Some(status) = self.status {
            return status;
        }
        let mut status = 0;
        // SAFETY: `status` is ours; the process is our child and was not awaited before.
        while unsafe { libc::waitpid(self.pid, &raw mut status, 0) } == -1 {
            if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
                break;
            }
        }
        *self.status.insert(if libc::WIFSIGNALED(status) {
            Ended::Killed(libc::WTERMSIG(status))
        } else {
            Ended::Exited(libc::WEXITSTATUS(status))
        })
    }

    /// Waits until the deadline at most.
    pub fn wait_until(&mut self, deadline: Instant) -> Option<Ended> {
        if self.status.is_none() && !readable(&self.handle, deadline) {
            return None;
        }
        Some(self.wait())
    }
}

/// Whether the descriptor becomes readable (or its other end closes) before the deadline.
pub fn readable(descriptor: &impl AsFd, deadline: Instant) -> bool {
    loop {
        let left =
            deadline.saturating_duration_since(Instant::now()).min(Duration::from_secs(3600));
        let timeout = rustix::time::Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let mut watched = [PollFd::new(descriptor, PollFlags::IN)];
        match poll(&mut watched, Some(&timeout)) {
            Ok(ready) => return ready > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ended::Exited(status) => write!(f, "ended with status {status}"),
            Ended::Killed(signal) => write!(f, "was killed by {}", signal_name(*signal)),
        }
    }
}

/// `SIGKILL` for 9, and so on.
pub fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        _ => return format!("signal {signal}"),
    };
    name.to_owned()
}

/// Explains a failed start of namespaces: what is in the way on this machine, and what to do.
pub fn explain_refusal(error: &anyhow::Error) -> anyhow::Error {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let reason = if read("/proc/sys/user/max_user_namespaces") == "0" {
        "user.max_user_namespaces is 0; allow them with `sysctl user.max_user_namespaces=15000`"
    } else if read("/proc/sys/kernel/unprivileged_userns_clone") == "0" {
        "kernel.unprivileged_userns_clone is 0; allow them with \
         `sysctl kernel.unprivileged_userns_clone=1`, or run as root"
    } else if read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
        "AppArmor restricts them; allow them with \
         `sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or run as root"
    } else {
        "allow user namespaces for this user (in a container: run it with a seccomp profile that \
         allows unshare and mount), or run as root"
    };
    anyhow!("user namespaces cannot be used here ({error:#}): {reason}")
}
