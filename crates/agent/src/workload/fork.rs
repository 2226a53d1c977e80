//! Forks, executes, waits: the extreme of work that makes and removes page tables.
//!
//! Method: the process part of lmbench's `lat_proc exec` (McVoy & Staelin, USENIX 1996). In addition the
//! executed program writes to memory, as a short-lived process of a build does. The fork is the C library's
//! own, which copies the page tables, as `vfork` and `posix_spawn` do not.

mod child;
pub mod standalone;

use std::io;

use anyhow::{Context as _, Result, bail, ensure};
use hypertare_plan::Fork;

use super::clock::{now_ns, to_seconds};
use super::usage::Usage;
use super::{Context, Outcome, WorkloadKind};
use crate::values::Definition;
use child::Program;

/// More would not fit into any machine's process numbers and patience.
const MOST_FORKS: u64 = 1_000_000_000;

impl WorkloadKind for Fork {
    const VALUES: &'static [Definition] = &[
        ("elapsed_s", "s", "from before the first fork to the end of the last program"),
        ("forks", "processes", "programs that were executed and ended"),
        ("touched_bytes", "B", "memory that each of them wrote to, one byte a page of 4 KB"),
        ("minor_faults", "faults", "page faults of the programs and of their parent"),
        ("major_faults", "faults", "of those that had to read a disk"),
        ("user_s", "s", "CPU time in user mode of the programs and of their parent"),
        ("system_s", "s", "CPU time in the kernel of the programs and of their parent"),
    ];

    /// Executes the program `count` times, one after the other.
    ///
    /// Fails when a program cannot be executed or does not end well, and when it is stopped: half the
    /// work must not count as a fast trial.
    fn run(&self, context: &Context) -> Result<Outcome> {
        ensure!(
            (1..=MOST_FORKS).contains(&self.count),
            "count is {}, but must be from 1 to {MOST_FORKS}",
            self.count
        );
        let program = Program::new(self.touch)?;
        context.ready();
        let before = Usage::now();
        let begin = now_ns();
        for done in 0..self.count {
            if context.stopped() {
                bail!("stopped after {done} of {} forks", self.count);
            }
            execute(&program).with_context(|| format!("fork {} of {}", done + 1, self.count))?;
        }
        let elapsed_s = to_seconds(now_ns() - begin);
        let usage = Usage::now().since(&before);
        let mut outcome = Outcome::default();
        outcome
            .set("elapsed_s", elapsed_s)
            .set("forks", self.count as f64)
            .set("touched_bytes", program.touched() as f64);
        usage.report(&mut outcome);
        Ok(outcome)
    }
}

/// One program, from fork to end.
fn execute(program: &Program) -> Result<()> {
    // SAFETY: the child calls nothing but `execveat` and `_exit`, which may be called after the
    // fork of a process with several threads.
    let pid = match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()).context("cannot fork"),
        // SAFETY: see above; the child ends here.
        0 => unsafe {
            program.execute();
            libc::_exit(*libc::__errno_location())
        },
        pid => pid,
    };
    let mut status = 0;
    // SAFETY: the pointer is to a live variable of the right type.
    while unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error).context("cannot wait for the program");
        }
    }
    match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
        (true, 0) => Ok(()),
        (true, error) => Err(io::Error::from_raw_os_error(error))
            .context("the program cannot be executed (is vm.memfd_noexec set?)"),
        (false, _) => bail!(
            "the program was ended by signal {}: is there memory for what it touches?",
            libc::WTERMSIG(status)
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::emit::Emitter;

    fn context(stop: bool) -> Context {
        let emitter = Arc::new(Emitter::new(io::sink()));
        let stop = Arc::new(AtomicBool::new(stop));
        Context::new(("node", 1, "phase", "task"), emitter, stop, || {})
    }

    #[test]
    fn nonsense_is_refused_and_a_stop_is_no_result() {
        let fork = |count, touch, stop| Fork { count, touch }.run(&context(stop)).unwrap_err();
        assert!(fork(0, 0, false).to_string().contains("count"));
        assert!(fork(1, u64::MAX, false).to_string().contains("touch"));
        assert_eq!(fork(3, 0, true).to_string(), "stopped after 0 of 3 forks");
    }
}
