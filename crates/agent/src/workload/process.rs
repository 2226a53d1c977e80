//! The process that executes one task, seen from both sides: `hypertare-agent task` is the inside,
//! [`spawn`] starts it from the agent of a node.
//!
//! In: one JSON line on standard input, an [`Assignment`]. The line `stop`, or the input's end, ends
//! the task in good order. Out: records on standard output, the last of them a `result`. A byte on
//! the descriptor that `--ready-fd` names says that a background task is ready.

use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};
use hypertare_plan::{MAX_LINE, Record, Task};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use super::confine::{self, Confinement};
use super::{Context, descendants, execute};
use crate::emit::Emitter;
use crate::process::shortage::expose_this_process;

/// What a task's process is told to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assignment {
    pub trial: u64,
    pub phase: String,
    pub task: Task,
}

/// Executes one task, told on standard input
#[derive(clap::Args)]
pub struct Arguments {
    /// Descriptor to write one byte to when a background task is ready
    #[arg(long, value_name = "N")]
    ready_fd: Option<RawFd>,
    /// Descriptor of the mount namespace to be confined to before the task begins
    #[arg(long, value_name = "N")]
    namespace_fd: Option<RawFd>,
    /// Confine it as common runtimes of containers do
    #[arg(long, requires = "namespace_fd")]
    as_container: bool,
}

/// The inside. Status 2 when there was nothing sensible to do; a task that failed is a result.
pub fn main(arguments: &Arguments) -> ExitCode {
    match prepare(arguments) {
        Ok((assignment, ready)) => run(assignment, ready),
        Err(error) => {
            eprintln!("hypertare-agent task: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn prepare(arguments: &Arguments) -> Result<(Assignment, Option<OwnedFd>)> {
    let ready = take_over("--ready-fd", arguments.ready_fd)?;
    let namespace = take_over("--namespace-fd", arguments.namespace_fd)?;
    let assignment = read_assignment(io::stdin().lock())?;
    expose_this_process()?;
    if let Some(namespace) = namespace {
        confine::enter(namespace, arguments.as_container)?;
    }
    Ok((assignment, ready))
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
    serde_json::from_slice(&line).context("the assignment is malformed")
}

fn run(assignment: Assignment, ready: Option<OwnedFd>) -> ExitCode {
    let stop = Arc::new(AtomicBool::new(false));
    let emitter = Arc::new(Emitter::stdout());
    let Assignment { trial, phase, task } = assignment;
    let name = (task.node.as_str(), trial, phase.as_str(), task.id.as_str());
    let ready = Mutex::new(ready);
    let context = Context::new(name, emitter.clone(), stop.clone(), move || say_ready(&ready));
    std::thread::spawn(move || watch(io::stdin().lock(), &stop));
    let result = execute(&task, &context);
    match emitter.emit(&Record::Result(result)) {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody reads: nobody misses it.
        Err(_) => ExitCode::FAILURE,
    }
}

fn say_ready(ready: &Mutex<Option<OwnedFd>>) {
    let ready = ready.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(fd) = ready {
        let _ = File::from(fd).write_all(b"1");
    }
}

/// Sets `stop` at the line `stop` or the end of the input. Other lines are passed over, and none is
/// kept, however long.
fn watch(mut input: impl BufRead, stop: &AtomicBool) {
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut input).take(64).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) if line.trim_ascii() == b"stop" => break,
            Ok(_) => {}
        }
    }
    stop.store(true, Ordering::Relaxed);
}

/// A task's process, from outside.
pub struct Child {
    process: std::process::Child,
    input: Option<ChildStdin>,
    /// Its records, one a line, until it closes them by ending.
    pub records: ChildStdout,
    /// A byte comes when a background task is ready; the end without one means that it never was.
    pub ready: File,
}

/// Starts the process of one task, and tells it what to do. It may be confined; a `command` then needs
/// /proc where it is, by which it cleans up after itself.
///
/// Standard error is this process's own: what comes there is not part of any result.
pub fn spawn(assignment: &Assignment, confinement: Option<Confinement>) -> Result<Child> {
    spawn_from(Path::new("/proc/self/exe"), assignment, confinement)
}

/// The same from another process than the agent's own.
pub fn spawn_from(
    agent: &Path,
    assignment: &Assignment,
    confinement: Option<Confinement>,
) -> Result<Child> {
    let mut line = serde_json::to_vec(assignment)?;
    line.push(b'\n');
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
    drop(ready_write);
    let (Some(mut input), Some(records)) = (process.stdin.take(), process.stdout.take()) else {
        bail!("a task's process has no pipes");
    };
    // A process that is gone already tells so by the end of its records.
    let _ = input.write_all(&line);
    Ok(Child { process, input: Some(input), records, ready: File::from(ready) })
}

impl Child {
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Readable once the process has ended.
    pub fn handle(&self) -> io::Result<OwnedFd> {
        let pid = Pid::from_child(&self.process);
        Ok(rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?)
    }

    /// Asks the task to end. Its result follows; a command is killed if it takes too long.
    pub fn stop(&mut self) {
        // The end of its input says the same as the line, and cannot block.
        self.input = None;
    }

    /// Kills the process and all that it has started. There is no result then.
    pub fn kill(&mut self) -> Result<()> {
        descendants::kill_with(Pid::from_child(&self.process))
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

    #[test]
    fn the_watcher_heeds_stop_and_the_end_only() {
        let after = |input: &[u8]| {
            let stop = AtomicBool::new(false);
            let mut input = input;
            watch(&mut input, &stop);
            (stop.into_inner(), input.len())
        };
        assert_eq!(after(b"stop\nrest"), (true, 4));
        assert_eq!(after(b"halt\nstop\n"), (true, 0));
        assert_eq!(after(&[b'x'; 1000]), (true, 0));
    }
}
