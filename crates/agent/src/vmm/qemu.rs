//! One QEMU: started, watched, asked and ended. It inherits all it talks through (control channel,
//! QMP, console, TAPs, what it boots) as descriptors, so it leaves nothing in the file system and can be
//! kept from all else ([`super::jail`]); and the kernel kills it when this process ends, however that
//! happens.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hypertare_plan::{Accelerator, Backing, CONSOLE_PREFIX, MAX_CONSOLE_LINES, Pages};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, OFlags, memfd_create};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal};

use super::backing;
use super::command_line::PROGRAM;
use super::console::Tail;
use super::guest_command_line::{self, CHANNEL_FD, FIRST_PORT_FD, INITRAMFS_FD, KERNEL_FD, QMP_FD};
use super::initramfs::concatenate;
use super::jail::{self, Jail, NO_SANDBOX};
use super::paging;
use super::qmp::{Ending, Qmp};
use super::spec::Spec;
use super::{Quit, Vmm, VmmState};
use crate::arch::ARCH;
use crate::process::spawn::readable;
use crate::process::{cpus, wait_until};

/// Lines kept of QEMU's own messages.
const MAX_ERROR_LINES: usize = 10;
/// Until no thread of QEMU's is new.
const LOOKS_FOR_THREADS: u32 = 8;

/// A guest that was asked to end powers off in some 0.1 s; this is for a busy host.
const POWER_OFF_LIMIT: Duration = Duration::from_millis(1500);
const QUIT_LIMIT: Duration = Duration::from_millis(500);
const KILL_LIMIT: Duration = Duration::from_secs(2);
const READER_LIMIT: Duration = Duration::from_secs(2);

/// From the end of QEMU's connections to the end of its process.
const EXIT_LIMIT: Duration = Duration::from_secs(2);

/// A running QEMU. Dropped, it is killed.
pub struct Qemu {
    child: Child,
    pidfd: OwnedFd,
    argv: Vec<String>,
    missing: Vec<String>,
    memory: u64,
    pages: Option<Pages>,
    channel: UnixStream,
    qmp: Qmp,
    printed: Arc<Mutex<Printed>>,
    ended: Option<ExitStatus>,
}

struct Printed {
    console: Tail,
    errors: Tail,
    /// QEMU has ended, and all that it printed is here.
    whole: bool,
}

impl Qemu {
    /// Starts QEMU and returns at once: whether the guest boots is seen on its channel.
    pub fn start(spec: Spec) -> Result<Qemu> {
        check(&spec)?;
        let jail = Jail::new(spec.guest.accelerator, spec.share.is_some())?;
        let mut missing = jail.missing().to_vec();
        let has_sandbox = jail.wants_sandbox() && jail::has_sandbox();
        if jail.wants_sandbox() && !has_sandbox {
            missing.push(NO_SANDBOX.to_owned());
        }
        let words = guest_command_line::words(&spec, has_sandbox)?;
        let argv = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let (channel, qemus_channel) = UnixStream::pair()?;
        let (qmp, qemus_qmp) = UnixStream::pair()?;
        let qmp = Qmp::new(qmp)?;
        let initramfs = match spec.guest.initramfs.as_slice() {
            [one] => jail.open(one)?,
            several => concatenate(several)?,
        };
        let mut inherited = vec![
            (QMP_FD, OwnedFd::from(qemus_qmp)),
            (CHANNEL_FD, qemus_channel.into()),
            (KERNEL_FD, jail.open(&spec.guest.kernel)?.into()),
            (INITRAMFS_FD, initramfs.into()),
        ];
        let behind = spec.ports.into_iter().flat_map(|port| port.way.into_descriptors());
        let disk = spec.disk.map(|disk| disk.file);
        let beside = spec.memory.into_iter().chain(disk).map(OwnedFd::from).chain(spec.files);
        let beside = beside.chain(spec.state.map(OwnedFd::from));
        inherited.extend((FIRST_PORT_FD..).zip(behind.chain(beside)));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        if spec.guest.settings.pages == Some(Pages::Small) {
            let forbid = || Ok(rustix::thread::disable_transparent_huge_pages(true)?);
            // SAFETY: one system call, between fork and exec.
            unsafe { command.pre_exec(forbid) };
        }
        // SAFETY: system calls only, between fork and exec.
        unsafe { command.pre_exec(move || jail.enter()) };
        let (child, pidfd, printed) = spawn_watched(command, inherited)?;
        let (memory, pages) = (spec.guest.memory, spec.guest.settings.pages);
        let ended = None;
        Ok(Qemu { child, pidfd, argv, missing, memory, pages, channel, qmp, printed, ended })
    }
}

impl Vmm for Qemu {
    fn channel(&self) -> &UnixStream {
        &self.channel
    }

    fn missing_walls(&self) -> &[String] {
        &self.missing
    }

    fn handle(&self) -> Result<OwnedFd> {
        Ok(self.pidfd.try_clone()?)
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn describe(&mut self) -> Result<VmmState> {
        let version = self.qmp.version()?;
        let kvm = self.qmp.kvm_enabled()?;
        Ok(VmmState {
            accelerator: if kvm { Accelerator::Kvm } else { Accelerator::Tcg },
            version,
            cpu_threads: self.qmp.cpu_threads()?,
            argv: self.argv.clone(),
        })
    }

    fn backing(&self) -> Result<Option<Backing>> {
        let found = backing::read(self.pid().as_raw_nonzero().get(), self.memory);
        match self.pages {
            None => Ok(found.ok()),
            Some(asked) => {
                let found = found?;
                backing::check(&found, asked)?;
                Ok(Some(found))
            }
        }
    }

    fn pin(&mut self, cpus: &[u32]) -> Result<()> {
        if cpus.is_empty() {
            return Ok(());
        }
        let threads = self.qmp.cpu_threads()?;
        if threads.len() != cpus.len() {
            bail!("{} virtual CPUs cannot be bound to {} CPUs", threads.len(), cpus.len());
        }
        for (thread, &cpu) in threads.into_iter().zip(cpus) {
            cpus::bind(thread, &[cpu]).context("a virtual CPU")?;
        }
        Ok(())
    }

    fn bind_own_threads(&mut self, cpu: u32) -> Result<()> {
        let mut seen = self.qmp.cpu_threads()?;
        let pid = self.pid().as_raw_nonzero().get();
        // One that was not bound yet may have started another meanwhile.
        for _ in 0..LOOKS_FOR_THREADS {
            let mut others = cpus::threads(pid)?;
            others.retain(|thread| !seen.contains(thread));
            if others.is_empty() {
                return Ok(());
            }
            for &thread in &others {
                let bound = cpus::bind(thread, &[cpu]);
                // It may have ended: QEMU's workers do when they are idle.
                if cpus::threads(pid)?.contains(&thread) {
                    bound.context("a thread of QEMU's")?;
                }
            }
            seen.extend(others);
        }
        bail!("QEMU starts threads faster than they can be bound to a CPU")
    }

    fn save(&mut self, limit: Duration) -> Result<File> {
        let state = memfd_create("state", MemfdFlags::CLOEXEC)?;
        self.qmp.save(state.as_fd(), limit)?;
        let mut state = File::from(state);
        // The descriptor that QEMU was given has the same position.
        state.rewind()?;
        Ok(state)
    }

    fn console_tail(&self) -> Vec<String> {
        self.printed().console.lines()
    }

    fn failure(&mut self) -> Option<String> {
        let mut channel = [PollFd::new(&self.channel, PollFlags::RDHUP)];
        let has_ended = matches!(poll(&mut channel, Some(&Timespec::default())), Ok(1..));
        if has_ended {
            self.wait(EXIT_LIMIT);
        }
        match self.status() {
            Some(status) => Some(self.explain(status)),
            None => self.panic(),
        }
    }

    fn quit(&mut self) -> Result<Quit> {
        // Both fail only when the other end has gone already.
        let _ = self.channel.shutdown(Shutdown::Both);
        if self.wait(POWER_OFF_LIMIT) {
            return Ok(Quit::PoweredOff);
        }
        let _ = self.qmp.quit();
        if self.wait(QUIT_LIMIT) {
            return Ok(Quit::Asked);
        }
        self.kill()?;
        Ok(Quit::Killed)
    }

    fn await_end(&mut self, limit: Duration) -> bool {
        self.wait(limit)
    }
}

impl Qemu {
    fn kill(&mut self) -> Result<()> {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
        if !self.wait(KILL_LIMIT) {
            bail!("QEMU (process {}) does not end, not even when killed", self.child.id());
        }
        Ok(())
    }

    /// Waits for QEMU's end, and returns whether it has come.
    fn wait(&mut self, limit: Duration) -> bool {
        readable(&self.pidfd, Instant::now() + limit) && self.status().is_some()
    }

    fn status(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = match self.child.try_wait() {
                Ok(status) => status,
                // Reaped by someone else: that it ended is all that is left to know.
                Err(_) => Some(ExitStatus::from_raw(0)),
            };
        }
        self.ended
    }

    fn explain(&mut self, status: ExitStatus) -> String {
        await_whole(&self.printed);
        if let Some(panic) = self.panic() {
            return panic;
        }
        if let Some(signal) = status.signal() {
            return format!("QEMU was killed by signal {signal}");
        }
        if !status.success() {
            let errors = self.printed().errors.lines().join("; ");
            return format!("QEMU ended with {status}: {errors}");
        }
        match self.qmp.ending() {
            Some(Ending::Shutdown { guest: true, reason }) if reason == "guest-reset" => {
                format!("the guest restarted, unasked{}", self.last_words())
            }
            Some(Ending::Shutdown { guest: true, .. }) => {
                format!("the guest powered off, unasked{}", self.last_words())
            }
            Some(Ending::Shutdown { reason, .. }) => format!("QEMU was asked to end ({reason})"),
            Some(Ending::Panicked) | None => "QEMU ended".into(),
        }
    }

    /// The last line of an init that could not go on: it prints the reason before it ends the guest, and
    /// the kernel prints more after that.
    fn last_words(&self) -> String {
        let lines = self.console_tail();
        let by_agent = lines.iter().rfind(|line| line.starts_with(CONSOLE_PREFIX));
        match by_agent.or(lines.last()) {
            Some(line) => format!("; it printed last: {line}"),
            None => String::new(),
        }
    }

    fn panic(&mut self) -> Option<String> {
        if let Some(line) = self.printed().console.panic() {
            return Some(format!("the guest panicked: {line}"));
        }
        let reported = self.qmp.ending() == Some(&Ending::Panicked);
        reported.then(|| "the guest panicked".into())
    }

    fn printed(&self) -> MutexGuard<'_, Printed> {
        lock(&self.printed)
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        if self.status().is_none() {
            let _ = self.kill();
        }
    }
}

fn check(spec: &Spec) -> Result<()> {
    let guest = spec.guest;
    // Of files QEMU would complain as well, but later and in other words.
    check_readable("kernel", &guest.kernel)?;
    if guest.initramfs.is_empty() {
        bail!("guest {} has no initramfs", spec.node.name);
    }
    guest.initramfs.iter().try_for_each(|path| check_readable("initramfs", path))?;
    // Of memory it would be found out only from what the guest does.
    if let Some(asked) = guest.settings.paging {
        if guest.accelerator == Accelerator::Tcg {
            bail!("nested and shadow page tables are KVM's, but the guest is to be emulated (tcg)");
        }
        paging::check(asked)?;
    }
    backing::check_machine(guest.settings.pages, guest.memory)
}

fn check_readable(what: &str, path: &Path) -> Result<()> {
    File::open(path).with_context(|| format!("the guest's {what} {path:?} cannot be read"))?;
    Ok(())
}

type Watched = (Child, OwnedFd, Arc<Mutex<Printed>>);

/// Spawns QEMU from a thread of its own, which then reads what it prints until its end. The thread
/// that spawns must live as long as QEMU: the signal at its parent's death comes when the *thread*
/// ends.
fn spawn_watched(command: Command, inherited: Vec<(RawFd, OwnedFd)>) -> Result<Watched> {
    let (reported, spawned) = mpsc::channel();
    let watch = move || {
        let (outcome, watch) = match spawn(command, inherited) {
            Ok((watched, watch)) => (Ok(watched), Some(watch)),
            Err(error) => (Err(error), None),
        };
        // Whoever asked has gone: QEMU goes with this thread.
        if reported.send(outcome).is_ok()
            && let Some(watch) = watch
        {
            watch.run();
        }
    };
    thread::Builder::new().name("vmm".into()).spawn(watch)?;
    spawned.recv().context("the thread that starts QEMU died")?
}

fn spawn(mut command: Command, inherited: Vec<(RawFd, OwnedFd)>) -> Result<(Watched, Watch)> {
    let (console, qemus_console) = output_pipe()?;
    let (errors, qemus_errors) = output_pipe()?;
    command.stdin(Stdio::null()).stdout(qemus_console).stderr(qemus_errors);
    // Ctrl-C on the terminal is for whoever decides to end the VM, not for QEMU.
    command.process_group(0);
    let held = inherit(&mut command, &inherited)?;
    let child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => anyhow::anyhow!(
            "{PROGRAM} is not installed, and guests need it: on Debian install {}",
            ARCH.qemu_package
        ),
        _ => anyhow::Error::from(error).context(format!("starting {PROGRAM}")),
    })?;
    // The command holds the other ends of the pipes; open, they would never end.
    drop((command, held, inherited));
    let pidfd = rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    let printed = Arc::new(Mutex::new(Printed {
        console: Tail::new(MAX_CONSOLE_LINES),
        errors: Tail::new(MAX_ERROR_LINES),
        whole: false,
    }));
    let watch = Watch { console, errors, pidfd: pidfd.try_clone()?, printed: printed.clone() };
    Ok(((child, pidfd, printed), watch))
}

/// A pipe whose reading end never blocks.
fn output_pipe() -> Result<(File, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&read, OFlags::NONBLOCK)?;
    Ok((read.into(), write))
}

/// Gives descriptors to a command under fixed numbers, and has the kernel kill it when the calling
/// thread ends. What is given back is to be held until the command was spawned.
fn inherit(command: &mut Command, inherited: &[(RawFd, OwnedFd)]) -> Result<Vec<OwnedFd>> {
    let above = inherited.iter().map(|(number, _)| number + 1).max().unwrap_or(0);
    let held = occupy(above)?;
    // Moved out of the way of the numbers that they, or others of them, are to have.
    let moved = inherited
        .iter()
        .map(|(number, fd)| Ok((*number, fcntl_dupfd_cloexec(fd, above)?)))
        .collect::<io::Result<Vec<_>>>()?;
    let parent = rustix::process::getpid();
    let prepare = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may have died before that.
        if rustix::process::getppid() != Some(parent) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        for (number, fd) in &moved {
            // SAFETY: the number is this child's own until it executes QEMU; `into_raw_fd` below
            // keeps it from being closed here.
            let mut target = unsafe { OwnedFd::from_raw_fd(*number) };
            let done = rustix::io::dup2(fd, &mut target);
            let _ = target.into_raw_fd();
            done?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes system calls only; it does not allocate.
    unsafe { command.pre_exec(prepare) };
    Ok(held)
}

/// Takes every free number below `above`. Otherwise the pipe by which the standard library reports that a
/// program could not be executed could get one of them, and be overwritten.
fn occupy(above: RawFd) -> Result<Vec<OwnedFd>> {
    let mut held = vec![OwnedFd::from(File::open("/dev/null")?)];
    while held[held.len() - 1].as_raw_fd() < above {
        held.push(fcntl_dupfd_cloexec(&held[0], 0)?);
    }
    Ok(held)
}

/// Reads what QEMU prints, so that it never waits for a reader.
struct Watch {
    console: File,
    errors: File,
    pidfd: OwnedFd,
    printed: Arc<Mutex<Printed>>,
}

impl Watch {
    fn run(mut self) {
        loop {
            let ended = self.wait();
            let console = drain(&mut self.console, |text| lock(&self.printed).console.push(text));
            let errors = drain(&mut self.errors, |text| lock(&self.printed).errors.push(text));
            if ended {
                lock(&self.printed).whole = true;
                return;
            }
            if console == Flow::Ended || errors == Flow::Ended {
                // Nothing more to read from one of them, which poll would report for ever.
                readable(&self.pidfd, Instant::now() + Duration::from_millis(20));
            }
        }
    }

    /// Waits until there is something to read; returns whether QEMU has ended.
    fn wait(&self) -> bool {
        let mut polled = [
            PollFd::new(&self.pidfd, PollFlags::IN),
            PollFd::new(&self.console, PollFlags::IN),
            PollFd::new(&self.errors, PollFlags::IN),
        ];
        // Interrupted: nothing is there to read, which the caller finds out.
        let _ = poll(&mut polled, None);
        polled[0].revents().contains(PollFlags::IN)
    }
}

#[derive(PartialEq)]
enum Flow {
    Open,
    Ended,
}

fn drain(from: &mut File, mut take: impl FnMut(&[u8])) -> Flow {
    let mut chunk = [0; 16 << 10];
    // Bounded, because a guest may print as fast as it is read.
    for _ in 0..64 {
        match from.read(&mut chunk) {
            Ok(0) => return Flow::Ended,
            Ok(count) => take(&chunk[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Flow::Open,
            Err(_) => return Flow::Ended,
        }
    }
    Flow::Open
}

fn lock(printed: &Mutex<Printed>) -> MutexGuard<'_, Printed> {
    printed.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until what QEMU printed before its end was read, but not for ever: on a busy host its reader
/// may come to it later than whoever notices the end.
fn await_whole(printed: &Mutex<Printed>) {
    let deadline = Instant::now() + READER_LIMIT;
    wait_until(deadline, Duration::from_millis(1), || lock(printed).whole);
}

#[cfg(test)]
mod tests {

    use super::*;

    /// A program in QEMU's place shows what a child gets, and that all it prints is read.
    #[test]
    fn a_child_has_its_descriptors_and_never_waits_for_a_reader() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (other, others) = UnixStream::pair().unwrap();
        let mut command = Command::new("sh");
        let script = "seq 200000; echo low >&3; echo high >&7; echo wrong >&2; exit 3";
        command.args(["-c", script]);
        let inherited = vec![(7, others.into()), (3, theirs.into())];
        let (mut child, pidfd, printed) = spawn_watched(command, inherited).unwrap();
        let mut text = String::new();
        (&ours).read_to_string(&mut text).unwrap();
        assert_eq!(text, "low\n");
        text.clear();
        (&other).read_to_string(&mut text).unwrap();
        assert_eq!(text, "high\n");
        assert!(readable(&pidfd, Instant::now() + Duration::from_secs(30)));
        assert_eq!(child.wait().unwrap().code(), Some(3));
        await_whole(&printed);
        assert_eq!(lock(&printed).errors.lines(), ["wrong"]);
        assert_eq!(lock(&printed).console.lines().last().unwrap(), "200000");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let command = Command::new("/there/is/no/such/program");
        let (_near, far) = UnixStream::pair().unwrap();
        let error = spawn_watched(command, vec![(3, far.into())]).err().unwrap().to_string();
        assert!(error.contains("is not installed"), "{error}");
    }
}
