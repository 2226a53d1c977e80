//! Executes a program and measures it.
//!
//! The program is started by `posix_spawn`, which shares the agent's memory with the child until it
//! becomes the program (vfork), so that nothing of the agent is copied in the measured time. One
//! trace remains: the kernel counts the memory of the agent at that moment into the peak of the
//! program. A peak that is no larger than the agent's own few megabytes is not known, and not reported.
//!
//! It must be executed in a process of its own: every child of the process is ended with it.

mod listeners;
mod serve;
pub mod standalone;
mod standard;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier, Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};
use hypertare_plan::Command;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use rustix::time::Timespec;

use super::clock::{STOP_NS, now_ns, to_seconds};
use super::output::{self, Stream};
use super::{Context, Outcome, WorkloadKind, descendants, syncs, usage};
use crate::values::Definition;
use standard::Standard;

/// Searched when the plan gives no PATH.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// From asking a command to end to killing it.
const GRACE_NS: u64 = 500_000_000;

/// Bytes of a resident set that the kernel may not have added up yet, because it counts them per CPU.
const COUNTED_LATE: i64 = 256 << 10;

/// Lines of a failed command's output that its error repeats.
const ERROR_LINES: usize = 10;

impl WorkloadKind for Command {
    const VALUES: &'static [Definition] = &[
        ("elapsed_s", "s", "from before the start of the program to after its end was seen"),
        ("user_s", "s", "CPU time in user mode of the program and all it waited for"),
        ("system_s", "s", "CPU time in the kernel of the program and all it waited for"),
        ("minor_faults", "faults", "page faults served without reading a disk"),
        ("major_faults", "faults", "page faults that had to read"),
        ("voluntary_switches", "switches", "context switches by waiting"),
        ("involuntary_switches", "switches", "context switches by preemption"),
        (
            "peak_memory_bytes",
            "B",
            "largest resident set of any one process; absent below a few MB",
        ),
        ("exit_status", "", "exit status of the program"),
        (
            "syncs",
            "calls",
            "calls that wait for a disk, in a run that is not counted; absent otherwise",
        ),
    ];

    /// Executes the command, after what prepares it. Its environment is exactly the plan's, with a PATH
    /// if the plan has none: the size of an environment alone can move a measurement (Mytkowicz et al.,
    /// ASPLOS 2009), so it is the same on every platform. Whatever the command leaves running is killed.
    ///
    /// Fails when the command cannot be started, ends with another status than 0, is ended by a signal,
    /// or is stopped.
    fn run(&self, context: &Context) -> Result<Outcome> {
        leaving_nothing(|| prepare_and_measure(self, context))
    }
}

/// Does this work, and then kills all processes that its programs leave behind.
fn leaving_nothing(work: impl FnOnce() -> Result<Outcome>) -> Result<Outcome> {
    descendants::adopt()?;
    let outcome = work();
    let left = descendants::left();
    let ended = descendants::end();
    let mut outcome = outcome?;
    ended?;
    if !left.is_empty() {
        outcome.text.insert("left".to_owned(), left.join("\n"));
    }
    Ok(outcome)
}

fn prepare_and_measure(spec: &Command, context: &Context) -> Result<Outcome> {
    let environment = ProgramEnvironment::new(&spec.env, spec.cwd.as_deref())?;
    if let Some(prepare) = &spec.prepare {
        let shell = ["/bin/sh", "-c", prepare].map(str::to_owned);
        environment
            .execute(&shell, &Given::default(), context, |_| ())
            .and_then(Ended::check)
            .context("prepare command failed")?;
    }
    // Looked for only now: the program may be what was prepared.
    let given = Given { input: spec.input.as_deref(), tty: spec.tty };
    let before = syncs::seen();
    let ended = environment.execute(&spec.argv, &given, context, |_| context.ready())?;
    let mut outcome = ended.check()?.outcome();
    if let (Some(before), Some(after)) = (before, syncs::seen()) {
        outcome.set("syncs", (after - before) as f64);
    }
    Ok(outcome)
}

/// What one program is given: a file as its standard input, or a terminal.
#[derive(Default)]
struct Given<'a> {
    input: Option<&'a Path>,
    tty: bool,
}

/// The environment that all programs of a task have in common.
struct ProgramEnvironment {
    environment: Vec<CString>,
    path: String,
    /// Absolute, so that it means the same before and after changing to it.
    cwd: PathBuf,
}

impl ProgramEnvironment {
    fn new(given: &BTreeMap<String, String>, cwd: Option<&Path>) -> Result<Self> {
        let mut env: BTreeMap<&str, &str> = BTreeMap::from([("PATH", DEFAULT_PATH)]);
        env.extend(given.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        if let Some(name) = env.keys().find(|name| name.is_empty() || name.contains('=')) {
            bail!("`{name}` cannot be the name of an environment variable");
        }
        let environment = env
            .iter()
            .map(|(name, value)| c_string(format!("{name}={value}")))
            .collect::<Result<_>>()?;
        let cwd = std::path::absolute(cwd.unwrap_or(Path::new(".")))
            .context("the agent's own directory is gone")?;
        if !cwd.is_dir() {
            bail!("the directory {} to run in does not exist", cwd.display());
        }
        Ok(ProgramEnvironment { environment, path: env["PATH"].to_owned(), cwd })
    }

    /// The file that a program's name means, found before anything is measured.
    fn find(&self, name: &str) -> Result<PathBuf> {
        if name.is_empty() {
            bail!("the command is empty");
        }
        if name.contains('/') {
            let file = self.cwd.join(name);
            return match executable(&file) {
                Ok(()) => Ok(file),
                Err(Errno::NOENT | Errno::NOTDIR) => bail!("{} does not exist", file.display()),
                Err(_) => bail!("{} is not an executable file", file.display()),
            };
        }
        let files: Vec<PathBuf> =
            self.path.split(':').map(|directory| self.cwd.join(directory).join(name)).collect();
        if let Some(file) = files.iter().find(|file| executable(file).is_ok()) {
            return Ok(file.clone());
        }
        match files.iter().find(|file| file.is_file()) {
            Some(file) => bail!("{} is not an executable file", file.display()),
            None => bail!("`{name}` was not found in any directory of PATH ({})", self.path),
        }
    }

    /// Executes a program to its end; `started` is called once it runs.
    fn execute(
        &self,
        argv: &[String],
        given: &Given,
        context: &Context,
        started: impl Fn(Pid),
    ) -> Result<Ended> {
        let Some(name) = argv.first() else { bail!("the command is empty") };
        let file = self.find(name)?;
        let (standard, (stdout, stderr)) = match given.tty {
            true => standard::terminal()?,
            false => {
                standard::files(&self.cwd.join(given.input.unwrap_or(Path::new("/dev/null"))))?
            }
        };
        let (end_read, end_write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let spawn = Spawn::new(&file, argv, &self.environment, &self.cwd, standard)?;
        let child = Mutex::new(None);
        let mut keeper = Keeper { stdout, stderr, context, child: &child, reported_at: None };
        std::thread::scope(|scope| {
            // Runs before the clock does, so that its start is not in what is measured.
            let runs = Arc::new(Barrier::new(2));
            let at_start = runs.clone();
            let keeper = scope.spawn(move || {
                at_start.wait();
                keeper.keep(&end_read);
                keeper
            });
            runs.wait();
            let measured = measure(spawn, &child, started);
            // The caller kills the processes that still hold the pipes, after the last look into them.
            drop(end_write);
            let Ok(keeper) = keeper.join() else { bail!("the output's reader failed") };
            let (status, usage, elapsed_ns) =
                measured.with_context(|| format!("{} cannot be executed", file.display()))?;
            Ok(Ended {
                name: name.clone(),
                status,
                usage,
                elapsed_ns,
                stopped: keeper.reported_at.is_some(),
                stdout: keeper.stdout.text(),
                stderr: keeper.stderr.text(),
            })
        })
    }
}

fn executable(file: &Path) -> Result<(), Errno> {
    rustix::fs::access(file, rustix::fs::Access::EXEC_OK)?;
    if file.is_file() { Ok(()) } else { Err(Errno::ACCESS) }
}

/// The measured part: from before the program is started until its end is seen.
fn measure(
    spawn: Spawn,
    child: &Mutex<Option<Pid>>,
    started: impl Fn(Pid),
) -> std::io::Result<(i32, libc::rusage, u64)> {
    let begin = now_ns();
    let pid = spawn.spawn()?;
    *lock(child) = Some(pid);
    started(pid);
    // Without reaping it, so that its number stays its own until nobody can signal it any more.
    let seen = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(Errno::INTR) = waitid(WaitId::Pid(pid), seen) {}
    let elapsed_ns = now_ns() - begin;
    // Until here the output's pipes had a writer on this side, too: when the program closed them by
    // ending, that did not wake their reader, right beside the wakeup that is measured.
    drop(spawn);
    let mut child = lock(child);
    *child = None;
    let (pid, mut status) = (pid.as_raw_nonzero().get(), 0);
    // SAFETY: `rusage` is plain numbers, for which zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live variables of the right type.
    while unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) } < 0 {
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok((status, usage, elapsed_ns))
}

fn lock(child: &Mutex<Option<Pid>>) -> std::sync::MutexGuard<'_, Option<Pid>> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Beside the program: takes in its output, and ends it when asked to.
struct Keeper<'a> {
    stdout: Stream,
    stderr: Stream,
    context: &'a Context,
    child: &'a Mutex<Option<Pid>>,
    /// When the program was asked to end.
    reported_at: Option<u64>,
}

impl Keeper<'_> {
    fn keep(&mut self, end: &OwnedFd) {
        let slice = Timespec { tv_sec: 0, tv_nsec: STOP_NS as i64 };
        let mut ended = false;
        while !ended {
            // A failed wait (no memory) is a short one: the streams do not block.
            ended = output::wait([&self.stdout, &self.stderr], end, &slice).unwrap_or(false);
            self.stdout.take_in();
            self.stderr.take_in();
            if self.context.stopped() {
                self.stop();
            }
        }
    }

    fn stop(&mut self) {
        let child = lock(self.child);
        let Some(pid) = *child else { return };
        match self.reported_at {
            None => {
                let _ = kill_process_group(pid, Signal::TERM);
                self.reported_at = Some(now_ns());
            }
            Some(reported_at) if now_ns() - reported_at >= GRACE_NS => {
                // The program itself is among them.
                let _ = descendants::kill_own();
            }
            Some(_) => {}
        }
    }
}

/// Everything that `posix_spawn` needs, made before the clock is read.
struct Spawn {
    file: CString,
    /// Owns what `argv_pointers` points to; likewise the environment's below.
    _argv: Vec<CString>,
    argv_pointers: Vec<*mut libc::c_char>,
    environment_pointers: Vec<*mut libc::c_char>,
    actions: libc::posix_spawn_file_actions_t,
    attributes: libc::posix_spawnattr_t,
    /// Closed here with the rest.
    _standard: Standard,
}

impl Spawn {
    fn new(
        file: &Path,
        argv: &[String],
        environment: &[CString],
        cwd: &Path,
        standard: Standard,
    ) -> Result<Self> {
        let file = c_string(file.as_os_str().as_bytes())?;
        let cwd = c_string(cwd.as_os_str().as_bytes())?;
        let argv: Vec<CString> =
            argv.iter().map(|argument| c_string(argument.as_str())).collect::<Result<_>>()?;
        // SAFETY: both are initialised by their own functions before anything else uses them, and
        // destroyed once, by `drop`. `addchdir_np` copies the path.
        let (actions, attributes) = unsafe {
            let mut actions = std::mem::zeroed();
            check(libc::posix_spawn_file_actions_init(&raw mut actions))?;
            let own_session = give(&raw mut actions, &standard)?;
            check(libc::posix_spawn_file_actions_addchdir_np(&raw mut actions, cwd.as_ptr()))?;
            (actions, attributes(own_session)?)
        };
        Ok(Spawn {
            file,
            argv_pointers: pointers(&argv),
            _argv: argv,
            environment_pointers: pointers(environment),
            actions,
            attributes,
            _standard: standard,
        })
    }

    #[inline]
    fn spawn(&self) -> std::io::Result<Pid> {
        let mut pid = 0;
        // SAFETY: the pointers end with null and point to strings that outlive the call: `self`
        // owns the arguments, and the caller's surroundings the environment.
        let error = unsafe {
            libc::posix_spawn(
                &raw mut pid,
                self.file.as_ptr(),
                &raw const self.actions,
                &raw const self.attributes,
                self.argv_pointers.as_ptr(),
                self.environment_pointers.as_ptr(),
            )
        };
        check(error)?;
        Pid::from_raw(pid).ok_or_else(|| std::io::Error::other("posix_spawn gave no process"))
    }
}

impl Drop for Spawn {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, destroyed only here.
        unsafe {
            libc::posix_spawn_file_actions_destroy(&raw mut self.actions);
            libc::posix_spawnattr_destroy(&raw mut self.attributes);
        }
    }
}

/// Puts the standard input, output and error into place. Returns whether they are a terminal, which needs a
/// session of its own: the first terminal that a session's leader opens becomes the session's.
///
/// # Safety
/// The actions are initialised.
unsafe fn give(
    actions: *mut libc::posix_spawn_file_actions_t,
    standard: &Standard,
) -> std::io::Result<bool> {
    // SAFETY: as above; the name is copied.
    unsafe {
        match standard {
            Standard::Files(files) => {
                for (target, source) in (0..).zip(files) {
                    let source = source.as_raw_fd();
                    check(libc::posix_spawn_file_actions_adddup2(actions, source, target))?;
                }
                Ok(false)
            }
            Standard::Terminal { name, .. } => {
                let name = name.as_ptr();
                check(libc::posix_spawn_file_actions_addopen(actions, 0, name, libc::O_RDWR, 0))?;
                for target in 1..3 {
                    check(libc::posix_spawn_file_actions_adddup2(actions, 0, target))?;
                }
                Ok(true)
            }
        }
    }
}

/// A process group of its own, no signal blocked, none ignored: Rust ignores SIGPIPE, and the program that
/// started the agent may have ignored others (`nohup`, a shell's `&`). Only those are reset, because each
/// costs the child a system call of the measured time.
///
/// Not a session of its own: the kernel makes a scheduling group for every session (autogroup),
/// which took some 80 us of the measured time and put the program in competition with its own
/// reader. The task's process has the session instead, unless the program has a terminal.
///
/// # Safety
/// The result must be destroyed by `posix_spawnattr_destroy`.
unsafe fn attributes(own_session: bool) -> std::io::Result<libc::posix_spawnattr_t> {
    let apart =
        if own_session { libc::POSIX_SPAWN_SETSID.into() } else { libc::POSIX_SPAWN_SETPGROUP };
    let flags = apart | libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK;
    // SAFETY: every set and the attributes are initialised before use.
    unsafe {
        let mut attributes = std::mem::zeroed();
        check(libc::posix_spawnattr_init(&raw mut attributes))?;
        let mut signals = std::mem::zeroed();
        libc::sigemptyset(&raw mut signals);
        check(libc::posix_spawnattr_setsigmask(&raw mut attributes, &raw const signals))?;
        for signal in (1..=libc::SIGRTMAX()).filter(|&signal| is_ignored(signal)) {
            libc::sigaddset(&raw mut signals, signal);
        }
        check(libc::posix_spawnattr_setsigdefault(&raw mut attributes, &raw const signals))?;
        check(libc::posix_spawnattr_setflags(&raw mut attributes, flags as libc::c_short))?;
        Ok(attributes)
    }
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: `sigaction` is plain numbers; the call only fills it in, and refuses what is no signal
    // of ours to ask about.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

fn pointers(strings: &[CString]) -> Vec<*mut libc::c_char> {
    let end = std::iter::once(std::ptr::null_mut());
    strings.iter().map(|string| string.as_ptr().cast_mut()).chain(end).collect()
}

fn c_string(text: impl Into<Vec<u8>>) -> Result<CString> {
    let text = text.into();
    let shown = String::from_utf8_lossy(&text).into_owned();
    CString::new(text).with_context(|| format!("{shown:?} holds a zero byte"))
}

fn check(error: libc::c_int) -> std::io::Result<()> {
    if error == 0 { Ok(()) } else { Err(std::io::Error::from_raw_os_error(error)) }
}

/// A program that has ended.
struct Ended {
    name: String,
    status: i32,
    usage: libc::rusage,
    elapsed_ns: u64,
    stopped: bool,
    stdout: String,
    stderr: String,
}

impl Ended {
    /// Anything but status 0 is an error: half the work must not count as a fast trial.
    fn check(self) -> Result<Self> {
        if self.stopped {
            bail!("stopped");
        }
        if self.status == 0 {
            return Ok(self);
        }
        bail!("`{}` {}{}", self.name, self.how(), self.last_lines());
    }

    /// How it has ended.
    fn how(&self) -> String {
        if !libc::WIFSIGNALED(self.status) {
            return format!("ended with exit status {}", libc::WEXITSTATUS(self.status));
        }
        let signal = libc::WTERMSIG(self.status);
        let name = signal_hook::low_level::signal_name(signal)
            .map_or_else(|| format!("signal {signal}"), str::to_owned);
        format!("was killed by {name}")
    }

    /// The last lines of standard error, or of standard output when standard error is empty.
    fn last_lines(&self) -> String {
        let (name, text) = match self.stderr.trim().is_empty() {
            false => ("standard error", self.stderr.trim_end()),
            true => ("standard output", self.stdout.trim_end()),
        };
        if text.trim().is_empty() {
            return " and printed nothing".to_owned();
        }
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(ERROR_LINES)..];
        format!("; the end of its {name}:\n{}", last.join("\n"))
    }

    fn outcome(self) -> Outcome {
        let mut outcome = Outcome::default();
        let usage = &self.usage;
        outcome
            .set("elapsed_s", to_seconds(self.elapsed_ns))
            .set("user_s", seconds(usage.ru_utime))
            .set("system_s", seconds(usage.ru_stime))
            .set("minor_faults", usage.ru_minflt as f64)
            .set("major_faults", usage.ru_majflt as f64)
            .set("voluntary_switches", usage.ru_nvcsw as f64)
            .set("involuntary_switches", usage.ru_nivcsw as f64)
            .set("exit_status", f64::from(libc::WEXITSTATUS(self.status)));
        let peak = usage.ru_maxrss * 1024;
        if peak > usage::peak_memory_bytes() + COUNTED_LATE {
            outcome.set("peak_memory_bytes", peak as f64);
        }
        outcome.text = self.text();
        outcome
    }

    /// The last part of its output.
    fn text(self) -> BTreeMap<String, String> {
        BTreeMap::from([("stdout".to_owned(), self.stdout), ("stderr".to_owned(), self.stderr)])
    }
}

fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}
