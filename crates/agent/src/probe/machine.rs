//! Numbers of processes as the machine's first PID namespace has them, which is how the kernel's own
//! files (tracefs, debugfs) name them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::ProbeContext;

/// The machine's number of a process of this PID namespace.
pub fn process(probe_context: &ProbeContext, pid: i32) -> Result<i32> {
    let Some(machine) = &probe_context.machine_proc else { return Ok(pid) };
    let own =
        fs::read_link(probe_context.proc.join("self/ns/pid")).context("reading /proc/self")?;
    numbers(machine)
        .find(|number| {
            let process = machine.join(number.to_string());
            innermost(&process) == Some(pid)
                && fs::read_link(process.join("ns/pid")).is_ok_and(|namespace| namespace == own)
        })
        .with_context(|| format!("process {pid} cannot be seen from the machine's own /proc"))
}

/// The machine's numbers of threads of a process; of all its threads where none are named.
pub fn threads(probe_context: &ProbeContext, pid: i32, wanted: &[i32]) -> Result<Vec<i32>> {
    let proc = probe_context.machine_proc.as_ref().unwrap_or(&probe_context.proc);
    let tasks = proc.join(process(probe_context, pid)?.to_string()).join("task");
    let is_wanted = |number: &i32| {
        let own = innermost(&tasks.join(number.to_string()));
        own.is_some_and(|own| wanted.is_empty() || wanted.contains(&own))
    };
    Ok(numbers(&tasks).filter(is_wanted).collect())
}

/// Of the processes or threads that a directory of a procfs lists.
pub fn numbers(directory: &Path) -> impl Iterator<Item = i32> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Its number in the innermost PID namespace that it is in: the last of `NSpid: 1234 17`.
fn innermost(process: &Path) -> Option<i32> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_here_has_its_own_number_and_threads() {
        let own = std::process::id() as i32;
        let here = ProbeContext::default();
        let seen = ProbeContext { machine_proc: Some("/proc".into()), ..ProbeContext::default() };
        assert_eq!(process(&here, own).unwrap(), own);
        assert_eq!(process(&seen, own).unwrap(), own);
        assert_eq!(threads(&seen, own, &[own]).unwrap(), [own]);
        assert!(threads(&here, own, &[]).unwrap().contains(&own));
        assert!(process(&seen, i32::MAX).unwrap_err().to_string().contains("cannot be seen"));
    }
}
