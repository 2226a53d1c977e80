//! The process that executes one task, seen from both sides: `hypertare-agent task` is the inside,
//! [`spawn`] starts it from the agent of a node.
//!
//! In: one JSON line on standard input, an [`Assignment`]. The line `stop`, or the input's end, ends
//! the task in good order. Out: records on standard output, the last of them a `result`. On the
//! descriptor that `--ready-fd` names, one byte says that it waits for its assignment, and another one
//! that a background task is ready; of a task that prepares a third one, that its work is done.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hypertare_plan::{Assignment, Line, MAX_LINE, Record, Workload};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Pid;
use rustix::time::Timespec;

use super::confine::{self, Confinement};
use super::orders::Orders;
use super::{Context, descendants, execute, syncs};
use crate::emit::Emitter;
use crate::process::hidden::hide_this_process;
use crate::process::shortage::expose_this_process;

/// Written to the ready descriptor when the process waits for its assignment.
const WAITS: u8 = b'w';
/// Written to the ready descriptor when the task is ready, or has done its work.
const READY: u8 = b'r';

/// Executes one task, which it reads from standard input
#[derive(clap::Args)]
pub struct Arguments {
    /// Descriptor to write a byte to when it waits for the task, and when a background task is ready
    #[arg(long, value_name = "N")]
    ready_fd: Option<RawFd>,
    /// Descriptor of the mount namespace to be confined to before the task begins
    #[arg(long, value_name = "N")]
    namespace_fd: Option<RawFd>,
    /// Confine it as common runtimes of containers do
    #[arg(long, requires = "namespace_fd")]
    as_container: bool,
}

/// The inside. The status is 2 when it has no usable assignment; a failed task is a result.
pub fn main(arguments: &Arguments) -> ExitCode {
    match prepare(arguments) {
        Ok((assignment, orders, ready)) => run(assignment, orders, ready),
        Err(error) => {
            eprintln!("hypertare-agent task: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn prepare(arguments: &Arguments) -> Result<(Assignment, Orders, Option<OwnedFd>)> {
    let ready = take_over("--ready-fd", arguments.ready_fd)?;
    let namespace = take_over("--namespace-fd", arguments.namespace_fd)?;
    if let Some(ready) = &ready {
        // Without a reader nobody needs to know.
        let _ = rustix::io::write(ready, &[WAITS]);
    }
    let mut input =
        BufReader::new(File::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?));
    let assignment = read_assignment(&mut input)?;
    expose_this_process()?;
    let watch_syncs =
        matches!(&assignment.task.workload, Workload::Command(command) if command.watch_syncs);
    let mut asked_by = None;
    if let Some(namespace) = namespace {
        asked_by = confine::enter(namespace, arguments.as_container, watch_syncs)?;
    }
    hide_this_process()?;
    // No thread before now: the namespaces of a process with several cannot be changed.
    asked_by.into_iter().for_each(syncs::count);
    Ok((assignment, Orders::new(input), ready))
}

/// An inherited descriptor becomes this process's own and nobody else's.
fn take_over(option: &str, number: Option<RawFd>) -> Result<Option<OwnedFd>> {
    let Some(number) = number else { return Ok(None) };
    // SAFETY: the call itself reports a number that is no open descriptor.
    let owned = number > 2 && unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == 0;
    if !owned {
        bail!("{option} {number} is not an open descriptor above 2");
    }
    // SAFETY: it is open, and given to this process for this purpose alone.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(number) }))
}

fn read_assignment(input: impl BufRead) -> Result<Assignment> {
    let mut line = Vec::new();
    input
        .take(MAX_LINE as u64 + 1)
        .read_until(b'\n', &mut line)
        .context("cannot read the assignment")?;
    if line.is_empty() {
        bail!("standard input ended before an assignment came");
    }
    if line.len() > MAX_LINE {
        bail!("the assignment is longer than {MAX_LINE} bytes");
    }
    Assignment::from_line(&line).context("the assignment is malformed")
}

fn run(assignment: Assignment, orders: Orders, ready: Option<OwnedFd>) -> ExitCode {
    let stop = Arc::new(AtomicBool::new(false));
    let emitter = Arc::new(Emitter::stdout());
    let Assignment { trial, phase, task } = assignment;
    let name = (task.node.as_str(), trial, phase.as_str(), task.id.as_str());
    let mut context = Context::new(name, emitter.clone(), stop.clone(), move || {
        if let Some(fd) = &ready {
            let _ = rustix::io::write(fd, &[READY]);
        }
    });
    if matches!(task.workload, Workload::Command(_) | Workload::Serve(_)) {
        // A thread less to start before each command.
        context = context.heeding(orders);
    } else {
        let (go, word) = channel();
        context = context.awaiting(word);
        std::thread::spawn(move || {
            // A workload that does not prepare its work does not wait for the word to begin.
            orders.await_stop(|| {
                let _ = go.send(());
            });
            stop.store(true, Ordering::Relaxed);
        });
    }
    let result = execute(&task, &context);
    match emitter.emit(&Record::Result(result)) {
        Ok(()) => ExitCode::SUCCESS,
        // Without a reader nobody misses the result.
        Err(_) => ExitCode::FAILURE,
    }
}

/// A task's process, from outside.
pub struct Child {
    process: std::process::Child,
    input: Option<ChildStdin>,
    /// Its records, one a line, until it closes them by ending.
    pub records: ChildStdout,
    pub ready: Ready,
}

/// The end of the ready descriptor that reports how far a task's process is.
pub struct Ready(File);

impl Ready {
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Ready)
    }

    /// Waits until a background task is ready; false when it never will be.
    pub fn is_ready(&mut self) -> bool {
        self.comes(READY)
    }

    fn comes(&mut self, wanted: u8) -> bool {
        let mut byte = [0];
        loop {
            match self.0.read(&mut byte) {
                Ok(0) => return false,
                Ok(_) if byte == [wanted] => return true,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }
}

/// Starts the process of one task, and hands the assignment over. It may be confined; a `command` then
/// needs /proc in its view, by which it cleans up after itself.
///
/// Standard error is this process's own, and part of no result.
pub fn spawn(assignment: &Assignment, confinement: Option<Confinement>) -> Result<Child> {
    spawn_from(Path::new("/proc/self/exe"), assignment, confinement)
}

/// The same with the agent's program at another place than this process's own.
pub fn spawn_from(
    agent: &Path,
    assignment: &Assignment,
    confinement: Option<Confinement>,
) -> Result<Child> {
    let mut child = start(agent, confinement)?;
    child.assign(assignment)?;
    Ok(child)
}

/// Starts a process for a task that is not known yet, and returns once it waits for its assignment.
pub fn spare(confinement: Option<Confinement>, limit: Duration) -> Result<Child> {
    let mut child = start(Path::new("/proc/self/exe"), confinement)?;
    let limit = Timespec::try_from(limit).ok();
    let mut watched = [PollFd::new(&child.ready.0, PollFlags::IN)];
    let waits =
        poll(&mut watched, limit.as_ref()).is_ok_and(|count| count > 0) && child.ready.comes(WAITS);
    if !waits {
        child.discard();
        bail!("a task's process does not get ready");
    }
    Ok(child)
}

fn start(agent: &Path, confinement: Option<Confinement>) -> Result<Child> {
    let (ready, ready_write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let number = ready_write.as_fd().as_raw_fd();
    let mut command = Command::new(agent);
    command.arg0("hypertare-agent").args(["task", "--ready-fd", &number.to_string()]);
    let namespace = confinement.map(|one| one.namespace.as_raw_fd());
    if let Some(number) = namespace {
        command.args(["--namespace-fd", &number.to_string()]);
    }
    if confinement.is_some_and(|one| one.as_container) {
        command.arg("--as-container");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    // In the child alone: no other process that is started meanwhile may inherit the descriptors.
    // A session of its own keeps terminals away from what the task starts.
    // SAFETY: between fork and exec only system calls are made, which is safe there.
    unsafe {
        command.pre_exec(move || {
            let inherit = |number| libc::fcntl(number, libc::F_SETFD, 0) == 0;
            let inherited = inherit(number) && namespace.is_none_or(inherit);
            if inherited && libc::setsid() >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        });
    }
    let mut process = command.spawn().context("cannot start a task's process")?;
    let (Some(input), Some(records)) = (process.stdin.take(), process.stdout.take()) else {
        bail!("a task's process has no pipes");
    };
    Ok(Child { process, input: Some(input), records, ready: Ready(File::from(ready)) })
}

impl Child {
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Hands the assignment over, once.
    pub fn assign(&mut self, assignment: &Assignment) -> Result<()> {
        self.say(&assignment.to_line()?);
        Ok(())
    }

    fn say(&mut self, line: &[u8]) {
        if let Some(input) = &mut self.input {
            // A process that is gone already shows so by the end of its records.
            let _ = input.write_all(line);
        }
    }

    /// Readable once the process has ended.
    pub fn handle(&self) -> io::Result<OwnedFd> {
        Ok(rustix::process::pidfd_open(self.pid(), rustix::process::PidfdFlags::empty())?)
    }

    /// Has it begin the work that it has prepared.
    pub fn go(&mut self) {
        self.say(b"go\n");
    }

    /// Asks the task to end. Its result follows; a command is killed if it takes too long.
    pub fn stop(&mut self) {
        // The end of its input says the same as the line, and cannot block.
        self.input = None;
    }

    /// Kills the process and all that it has started. There is no result then.
    pub fn kill(&mut self) -> Result<()> {
        descendants::kill_with(self.pid())
    }

    /// Whether it is still running.
    pub fn lives(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// Ends a process that was given nothing to do.
    pub fn discard(mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Waits for its end. `std` closes the input for that: it is a [`Child::stop`], too.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.stop();
        self.process.wait()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_is_read_or_refused_with_a_reason() {
        let good = br#"{"trial":1,"phase":"p","task":{"id":"t","node":"n",
            "workload":{"type":"burn","share":0.5,"duration_s":1}}}"#;
        let line: Vec<u8> = good.iter().copied().filter(|&byte| byte != b'\n').collect();
        assert_eq!(read_assignment(&line[..]).unwrap().task.id, "t");
        for (bad, word) in [
            (&b""[..], "ended"),
            (b"\n", "malformed"),
            (b"{}\n", "trial"),
            (b"{\"trial\":1,\"phase\":\"p\",\"x\":1}\n", "unknown field"),
            (&vec![b' '; MAX_LINE + 10], "longer"),
            (b"\xff\xfe\n", "malformed"),
        ] {
            let error = format!("{:#}", read_assignment(bad).unwrap_err());
            assert!(error.contains(word), "{error}");
        }
    }
}
