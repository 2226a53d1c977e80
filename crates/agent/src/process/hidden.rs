//! A process that its children cannot look into.

use anyhow::{Context, Result};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Closes this process's descriptors and memory to all processes without CAP_SYS_PTRACE, which no command
/// has: the program under test must not be able to change records (`/proc/PID/fd`, `/proc/PID/mem`, ptrace,
/// pidfd_getfd, process_vm_writev). An exec undoes this, so each process hides itself, once its id maps are
/// written.
pub fn hide_this_process() -> Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("cannot hide this process")
}
