//! Processes of this machine: started in [`namespaces`] of their own ([`spawn`]), accounted for by a
//! [`cgroup`] and with [`weights`], bound to [`cpus`] ([`cpu_list`] is how the kernel writes them), [`hidden`] from those they start, given to
//! end by [`signals`], and what becomes of them when memory runs out ([`shortage`]). Facts of the machine that
//! several rooms ask for: whether it is [`under_xen`], its [`interrupts`], and [`machine_proc`].

pub mod cgroup;
pub mod cpu_list;
pub mod cpus;
pub mod hidden;
pub mod interrupts;
pub mod machine_proc;
pub mod namespaces;
pub mod shortage;
pub mod signals;
pub mod spawn;
pub mod under_xen;
pub mod weights;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use hypertare_plan::AGENT_PREFIX;

/// Says why this process has failed. Nobody may be reading; the exit status says it too.
pub fn failed(error: &anyhow::Error) -> ExitCode {
    let _ = writeln!(io::stderr(), "{AGENT_PREFIX}{error:#}");
    ExitCode::FAILURE
}

/// Looks again after each pause until something is so; false where it is not by the deadline.
pub fn wait_until(deadline: Instant, pause: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    while !is_so() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(pause);
    }
    true
}
