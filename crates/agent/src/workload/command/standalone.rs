//! `hypertare-agent command`.

use std::path::PathBuf;

use anyhow::Result;
use hypertare_plan::Command;

use crate::workload::standalone;
use crate::workload::{Alone, Outcome, WorkloadKind};

/// Execute a program and report what it took
#[derive(clap::Args)]
pub struct Arguments {
    /// A shell command to run first, not measured
    #[arg(long, value_name = "COMMAND")]
    prepare: Option<String>,
    /// Directory to run in
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Print the result record, which also holds the last part of the program's output
    #[arg(long)]
    json: bool,
    /// The program and its arguments, after `--`
    #[arg(required = true, last = true)]
    argv: Vec<String>,
}

impl Alone for Arguments {
    fn run(self) -> Result<()> {
        leave_terminal();
        let context = standalone::context("command", standalone::stop_by_signal()?, || ());
        let spec = Command {
            argv: self.argv,
            env: own_environment(),
            cwd: self.cwd,
            in_files: false,
            warmup: false,
            watch_syncs: false,
            tty: false,
            input: None,
            prepare: self.prepare,
        };
        let outcome = spec.run(&context)?;
        standalone::print(&context, outcome, self.json, table)
    }
}

/// Gives the terminal up, so that a program that reads from it fails, as it does in a plan, and is not
/// stopped for ever. Ctrl-C still works: the terminal sends it to the process group.
fn leave_terminal() {
    if let Ok(terminal) = std::fs::File::open("/dev/tty") {
        // SAFETY: takes no argument and touches no memory of this process.
        unsafe { libc::ioctl(std::os::fd::AsRawFd::as_raw_fd(&terminal), libc::TIOCNOTTY) };
    }
}

/// The environment without variables that are not text, which a plan cannot have.
fn own_environment() -> std::collections::BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

fn table(outcome: &Outcome) -> String {
    Command::VALUES
        .iter()
        .filter_map(|&(name, unit, _)| Some((name, unit, outcome.values.get(name)?)))
        .map(|(name, unit, value)| {
            format!("{name:<22} {value:>14} {unit}").trim_end().to_owned() + "\n"
        })
        .collect()
}
