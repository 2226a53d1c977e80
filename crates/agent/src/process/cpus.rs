//! CPUs of the machine that threads may use. What a thread starts has its own.

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Binds a thread, or the only one of a process, 0 for this one; to any CPU where none is named.
pub fn bind(thread: i32, cpus: &[u32]) -> Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu as usize >= CpuSet::MAX_CPU {
            bail!("there is no CPU {cpu}");
        }
        set.set(cpu as usize);
    }
    sched_setaffinity(Pid::from_raw(thread), &set).with_context(|| {
        format!("cannot be bound to the CPUs {cpus:?}: does the machine have them?")
    })
}

/// Those that a thread may use.
pub fn of(thread: i32) -> Result<Vec<u32>> {
    let set = sched_getaffinity(Pid::from_raw(thread)).context("asking for a thread's CPUs")?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect())
}

/// Those of a process.
pub fn threads(pid: i32) -> Result<Vec<i32>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))
        .with_context(|| format!("the threads of process {pid} cannot be listed"))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.filter_map(|name| name.parse().ok()).collect())
}

/// Keeps this thread from a CPU, and all that it starts meanwhile. It may use it again once this is
/// dropped.
pub struct KeptFrom {
    before: CpuSet,
}

impl KeptFrom {
    pub fn cpu(cpu: u32) -> Result<Self> {
        let before = sched_getaffinity(None).context("asking for a thread's CPUs")?;
        let mut rest = before;
        ensure!(
            (cpu as usize) < CpuSet::MAX_CPU && before.is_set(cpu as usize),
            "there is no CPU {cpu}"
        );
        rest.unset(cpu as usize);
        ensure!(
            rest.count() > 0,
            "the machine has no CPU beside CPU {cpu}, which is for what moves guests' packets"
        );
        sched_setaffinity(None, &rest).with_context(|| {
            format!("cannot be kept from CPU {cpu}, which is for what moves packets")
        })?;
        Ok(KeptFrom { before })
    }
}

impl Drop for KeptFrom {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_starts_is_kept_from_a_cpu_as_well_until_it_is_given_back() {
        std::thread::spawn(|| {
            let all = of(0).unwrap();
            let &[.., last] = &all[..] else { panic!("a machine without CPUs") };
            assert!(KeptFrom::cpu(CpuSet::MAX_CPU as u32).is_err());
            let kept = KeptFrom::cpu(last);
            if all.len() == 1 {
                assert!(kept.is_err());
                return;
            }
            let there = std::thread::spawn(|| of(0).unwrap()).join().unwrap();
            assert_eq!(there, all[..all.len() - 1]);
            drop(kept);
            assert_eq!(of(0).unwrap(), all);
            bind(0, &[last]).unwrap();
            assert_eq!(of(0).unwrap(), [last]);
        })
        .join()
        .unwrap();
    }
}
