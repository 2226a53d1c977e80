//! Xen's own programs, run with a limit: a tool stack that hangs must not hang the run.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use hypertare_plan::XEN_RELEASE;

use crate::process::shortage::{Shortage, expose_this_process};
use crate::process::wait_until;

/// What a tool may say.
const MOST_OUTPUT: u64 = 1 << 20;
/// In what libxl says of removing what it could not make.
const REMOVAL: &str = "destroy";
/// Of those, a hotplug script's are the first, and what `xl` makes of them comes after.
const MOST_LINES: usize = 6;
const STEP: Duration = Duration::from_millis(5);

/// Runs a tool to its end.
///
/// # Errors
/// It cannot be started, takes longer than the limit, or fails: with the first lines it said, and with
/// what is known where something was killed for want of memory. (That the hypervisor has none left for a
/// guest is another matter.)
pub fn run(program: &str, arguments: &[&str], limit: Duration) -> Result<String> {
    let shortage = Shortage::of_machine();
    run_unexplained(program, arguments, limit).map_err(|error| match shortage.explain("") {
        Some(why) => anyhow!("{why}; {error:#}"),
        None => error,
    })
}

fn run_unexplained(program: &str, arguments: &[&str], limit: Duration) -> Result<String> {
    let what = || format!("{program} {}", arguments.join(" "));
    let mut child =
        start(program, arguments).with_context(|| format!("cannot start {}", what()))?;
    let output = follow(child.stdout.take());
    let errors = follow(child.stderr.take());
    let Some(status) = await_end(&mut child, limit)? else {
        bail!("{} took longer than {} s", what(), limit.as_secs())
    };
    let said = |reader: thread::JoinHandle<String>| reader.join().unwrap_or_default();
    let (output, errors) = (said(output), said(errors));
    if status.success() {
        return Ok(output);
    }
    // What went wrong first is the reason for the rest.
    let lines = errors.lines().chain(output.lines()).filter(|line| !line.trim().is_empty());
    let lines = lines.filter(|line| !line.contains(REMOVAL)).take(MOST_LINES);
    let said = lines.collect::<Vec<_>>().join("; ");
    let said = if said.is_empty() { "it said nothing" } else { &said };
    bail!("{} failed ({status}): {said}", what())
}

/// Where Debian keeps what belongs to one release of Xen.
fn directory() -> String {
    format!("/usr/lib/xen-{XEN_RELEASE}/bin")
}

fn start(program: &str, arguments: &[&str]) -> std::io::Result<Child> {
    let directory = directory();
    let path = format!("{directory}:{}", std::env::var("PATH").unwrap_or_default());
    let own = format!("{directory}/{program}");
    let program = if std::path::Path::new(&own).exists() { own } else { program.to_owned() };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("PATH", path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // Where memory runs out a tool must go, so that somebody is left to say so.
    // SAFETY: only a file is opened, read or written; memory is taken in the child of a process whose
    // allocator the C library makes usable after fork.
    unsafe { command.pre_exec(|| expose_this_process().map_err(std::io::Error::other)) };
    command.spawn()
}

/// Read while it runs: a tool that says much must not wait for a reader.
fn follow(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(pipe) = pipe {
            let _ = pipe.take(MOST_OUTPUT).read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    })
}

fn await_end(child: &mut Child, limit: Duration) -> Result<Option<std::process::ExitStatus>> {
    let has_ended = || !matches!(child.try_wait(), Ok(None));
    if !wait_until(Instant::now() + limit, STEP, has_ended) {
        child.kill()?;
        child.wait()?;
        return Ok(None);
    }
    Ok(child.try_wait()?)
}

/// Starts a program that stays: nothing of it is waited for or read.
pub fn start_daemon(program: &str, arguments: &[&str]) -> Result<()> {
    let status = Command::new(format!("{}/{program}", directory()))
        .args(arguments)
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start {program}"))?;
    if !status.success() {
        bail!("{program} failed ({status})");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn what_a_tool_says_comes_back() {
        assert_eq!(run("echo", &["a", "b"], LIMIT).unwrap(), "a b\n");
    }

    #[test]
    fn a_failure_says_what_the_tool_said() {
        let script = "echo out; for n in one 'cannot destroy it' two; do echo $n >&2; done; exit 3";
        let error = run("sh", &["-c", script], LIMIT).unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.ends_with(": one; two; out"), "{error}");
        let error = run("sh", &["-c", "exit 1"], LIMIT).unwrap_err().to_string();
        assert!(error.contains("it said nothing"), "{error}");
        let error = format!("{:#}", run("no-such-tool", &[], LIMIT).unwrap_err());
        assert!(error.contains("cannot start no-such-tool"), "{error}");
    }

    #[test]
    fn a_tool_that_hangs_is_ended() {
        let began = Instant::now();
        let error = run("sleep", &["60"], Duration::from_millis(50)).unwrap_err().to_string();
        assert!(error.contains("took longer") && began.elapsed() < LIMIT, "{error}");
    }
}
