//! Where benches are made: a process that is the first of its own PID namespace, in user, mount,
//! network, IPC and UTS namespaces of its own. When it ends the kernel removes every process, link,
//! TAP and mount; what the kernel does not remove (cgroups) is removed by the process outside, or,
//! should that one be killed, by the one inside.
//!
//! Nothing is made in any file system that outlives the sandbox, so nothing can be left in one.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hypertare_plan::{AGENT_PREFIX, REFUSED};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::mount::{MountFlags, mount};
use rustix::time::Timespec;

use crate::process::cgroup::{self, Scope};
use crate::process::machine_proc;
use crate::process::namespaces::{make_private, map_ids, mount_scratch};
use crate::process::signals::{signal_descriptor, take_signal};
use crate::process::spawn::{Child, Ended, Spawn, explain_refusal};
use crate::xen::keeper::{self, Keeper};

/// How long the inside may take to end in good order.
pub const GRACE: Duration = Duration::from_secs(3);

/// For guests of Xen that are left to be destroyed.
const KEEPER_LIMIT: Duration = Duration::from_secs(60);

/// Descriptor of the inside whose other end closes when the outside ends, however it ends.
const LIFELINE: RawFd = 3;

/// The subcommand that starts the inside. Not for people.
pub const INSIDE: &str = "host-inside";

/// What a command finds when it looks for a network.
#[derive(Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Network {
    /// A network namespace of the sandbox's own, with nothing but what benches make
    #[default]
    Own,
    /// This host's, in which no bench is made
    Host,
}

/// Runs the inside to its end and returns the exit status.
pub fn run(network: Network, reached: bool) -> Result<i32> {
    let scope = Scope::own()?;
    cgroup::sweep();
    let signals = signal_descriptor()?;
    let (lifeline, _held) = std::io::pipe()?;
    let mut keeper = None;
    let mut inside = match start(&scope, (network, reached), lifeline.as_raw_fd(), &mut keeper) {
        Ok(child) => child,
        Err(error) => {
            eprintln!("{AGENT_PREFIX}{:#}", explain_refusal(&error));
            return Ok(REFUSED);
        }
    };
    drop(lifeline);
    let ended = supervise(&mut inside, &signals)?;
    cgroup::remove_scope(&scope);
    if let Some(keeper) = &mut keeper
        && let Err(left) = keeper.await_end(&scope, KEEPER_LIMIT)
    {
        eprintln!("{AGENT_PREFIX}{left:#}");
    }
    Ok(match ended {
        Ended::Exited(status) => status,
        Ended::Killed(signal) => {
            eprintln!("{AGENT_PREFIX}the bench's first process {ended}; everything was removed");
            128 + signal
        }
    })
}

fn start(
    scope: &Scope,
    (network, reached): (Network, bool),
    lifeline: RawFd,
    keeper: &mut Option<Keeper>,
) -> Result<Child> {
    let mut arguments = vec![INSIDE.to_owned(), "--scope".to_owned(), scope.name().to_owned()];
    if reached {
        arguments.push("--reached".to_owned());
    }
    let obstacle = keeper::obstacle();
    let has_xen = obstacle.is_none();
    arguments.extend(obstacle.map(|why| format!("--no-xen={why}")));
    let mut namespaces = libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS;
    if network == Network::Own {
        namespaces |= libc::CLONE_NEWNET;
    } else {
        arguments.push("--network=host".to_owned());
    }
    Spawn { arguments, namespaces, descriptors: vec![&0, &1, &2, &lifeline] }.start(|pid| {
        map_ids(pid)?;
        if has_xen {
            *keeper =
                Some(Keeper::start(scope, pid).context("starting the keeper of Xen's guests")?);
        }
        Ok(())
    })
}

/// Waits for the end. Once the controller is gone or a signal came, the inside has a short time to
/// end by itself (it notices the controller's end on its own), and is then killed.
fn supervise(inside: &mut Child, signals: &OwnedFd) -> Result<Ended> {
    let stdin = std::io::stdin();
    let mut deadline: Option<Instant> = None;
    loop {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = left.map(Timespec::try_from).transpose()?;
        // Its input is watched for hanging up only: what comes in is the inside's to read.
        let input = if deadline.is_some() { signals.as_fd() } else { stdin.as_fd() };
        let mut watched = [
            PollFd::new(inside.handle(), PollFlags::IN),
            PollFd::new(signals, PollFlags::IN),
            PollFd::from_borrowed_fd(input, PollFlags::RDHUP),
        ];
        match poll(&mut watched, timeout.as_ref()) {
            Ok(0) => {
                inside.kill();
                return Ok(inside.wait());
            }
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error).context("cannot wait for the bench's first process"),
        }
        let seen = watched.map(|descriptor| descriptor.revents());
        if !seen[0].is_empty() {
            return Ok(inside.wait());
        }
        if !seen[1].is_empty()
            && let Some(signal) = take_signal(signals)
        {
            inside.signal(signal);
            deadline.get_or_insert_with(|| Instant::now() + GRACE);
        }
        if seen[2].intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR) {
            deadline.get_or_insert_with(|| Instant::now() + GRACE);
        }
    }
}

/// First thing inside: become independent of the terminal, and arrange mounts and `/proc`.
pub fn enter() -> Result<OwnedFd> {
    // SAFETY: the outside has put it there; nobody else owns this number.
    let lifeline = unsafe { OwnedFd::from_raw_fd(LIFELINE) };
    rustix::io::fcntl_setfd(&lifeline, rustix::io::FdFlags::CLOEXEC)
        .context("this subcommand is started by `hypertare-agent host` only")?;
    // Ctrl-C in a terminal reaches the outside, which passes it on.
    let _ = rustix::process::setsid();
    make_private()?;
    // Keys of whoever started this are of no concern to what runs here: it gets a session keyring of its
    // own. (That of the user is another one in each user namespace, keyrings(7).)
    const KEYCTL_JOIN_SESSION_KEYRING: libc::c_int = 1;
    // SAFETY: no name is passed. It fails where the kernel has no keys, and there is nothing to leave.
    unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0usize) };
    // Its own files are read by whoever may read them anyway.
    if let Ok(machine) = fs::File::open("/proc") {
        machine_proc::keep(machine);
    }
    mount(
        "proc",
        "/proc",
        "proc",
        MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC,
        None,
    )
    .context(
        "cannot mount /proc; in a container, start that with \
             `--security-opt systempaths=unconfined`",
    )?;
    mount_scratch()?;
    Ok(lifeline)
}

/// Ends this process, and with it everything in its PID namespace, some time after the outside has
/// gone, however busy or stuck the rest of it is.
pub fn watch_lifeline(lifeline: OwnedFd, ended: impl Fn() + Send + 'static) {
    std::thread::spawn(move || {
        let mut byte = [0u8];
        while rustix::io::read(&lifeline, &mut byte) == Err(rustix::io::Errno::INTR) {}
        ended();
        std::thread::sleep(GRACE);
        // SAFETY: ends the process without running anything of it, which may be what is stuck.
        unsafe { libc::_exit(1) };
    });
}

/// Last thing inside: kills what still runs, waits for it, and removes the cgroups in case that the
/// outside cannot any more.
pub fn leave(scope: &Scope) {
    kill_all_others(Duration::from_secs(1));
    cgroup::remove_scope(scope);
}

/// Kills every other process of this PID namespace and awaits them. Only for its first process;
/// for any other it would mean everything that the user may kill.
pub fn kill_all_others(limit: Duration) {
    if std::process::id() != 1 {
        return;
    }
    // SAFETY: no memory is passed. From the first process of a PID namespace, -1 means every other
    // process in it.
    unsafe { libc::kill(-1, libc::SIGKILL) };
    let deadline = Instant::now() + limit;
    loop {
        // SAFETY: no status is asked for.
        match unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } {
            -1 => return,
            0 if Instant::now() > deadline => return,
            0 => std::thread::sleep(Duration::from_millis(1)),
            _ => {}
        }
    }
}
