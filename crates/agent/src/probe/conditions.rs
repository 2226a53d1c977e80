//! Under which conditions a phase ran on a machine that is not ours alone: CPU time that others had, time
//! in which somebody waited (PSI, Documentation/accounting/psi.rst), clock speeds.
//!
//! The CPU time of others is the rest: that of the whole machine outside of interrupts and softirqs, which
//! belong to nobody, less that of this run's processes (all of this PID namespace, and those that started
//! it). A process's clock may include interrupts that hit it, so the value is a lower bound. It is in
//! ticks, as /proc/stat is: one phase of some milliseconds shows little, many such phases show enough.

use std::path::Path;

use anyhow::{Context, Result};

use super::counters::{Kind, Sample};
use super::{ProbeContext, ProbeKind, Source, outside, stat, text};
use crate::values::Definition;

const VALUES: &[Definition] = &[
    ("others_s", "s", "CPU time that programs outside of this run had, at the least"),
    ("cpu_pressure_s", "s", "time in which some task of the machine waited for a CPU, ours too"),
    ("memory_pressure_s", "s", "time in which some task waited for memory"),
    ("io_pressure_s", "s", "time in which some task waited for a disk"),
    ("frequency_hz", "Hz", "clock of the CPUs at the end, their mean, of four at most"),
];

/// A kernel may have to measure a clock that was not read lately, which takes a moment.
const MOST_CLOCKS: usize = 4;

/// The probe.
pub const KIND: ProbeKind = ProbeKind { values: VALUES, source: Source::Numbers(sample) };

pub fn sample(probe_context: &ProbeContext) -> Result<Sample> {
    let mut sample = Sample::default();
    let all = worked_ns(&probe_context.proc)?;
    let elsewhere: u64 = probe_context.elsewhere.iter().map(|one| outside::of_cgroup_ns(one)).sum();
    let ours = outside::all_ns(&probe_context.proc)? + starters_ns(probe_context) + elsewhere;
    sample.count("others_s", all.saturating_sub(ours), Kind::Drifting, 1e-9);
    for of in ["cpu", "memory", "io"] {
        pressure(&mut sample, &probe_context.proc, of);
    }
    frequency(&mut sample, &probe_context.sys);
    Ok(sample)
}

/// CPU time of all programs and of the kernel on their behalf.
fn worked_ns(proc: &Path) -> Result<u64> {
    let text = text::read(proc.join("stat")).context("reading /proc/stat")?;
    let modes = ["user_s", "nice_s", "system_s"];
    let entries = stat::parse(&text, super::ticks_per_s())?.entries;
    let worked = entries.iter().filter(|entry| modes.contains(&entry.key.as_str()));
    Ok(worked.map(|entry| entry.raw * outside::tick_ns()).sum())
}

/// Of whoever started this PID namespace, and whoever started that one: the agent's outside and the
/// controller, which this /proc does not show.
fn starters_ns(probe_context: &ProbeContext) -> u64 {
    let Some(machine) = &probe_context.machine_proc else { return 0 };
    let starter = outside::one(machine, "self").map(|own| own.parent);
    let Some(starter) = starter.and_then(|pid| outside::one(machine, &pid.to_string())) else {
        return 0;
    };
    let controller = outside::one(machine, &starter.parent.to_string());
    [Some(starter), controller].iter().flatten().map(outside::Process::ticks_ns).sum()
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=40566376`, in microseconds.
fn pressure(sample: &mut Sample, proc: &Path, of: &str) {
    let name = format!("{of}_pressure_s");
    let text = text::read(proc.join("pressure").join(of));
    let total = text.ok().and_then(|text| {
        let some = text.lines().find(|line| line.starts_with("some "))?;
        some.rsplit_once("total=")?.1.trim().parse::<u64>().ok()
    });
    match total {
        Some(us) => sample.count(&name, us, Kind::Counter, 1e-6),
        None => sample.lacks(&name, "this kernel has no PSI (CONFIG_PSI, psi=1)"),
    }
}

fn frequency(sample: &mut Sample, sys: &Path) {
    let clock = |n| sys.join(format!("devices/system/cpu/cpu{n}/cpufreq/scaling_cur_freq"));
    let khz: Vec<u64> =
        (0..MOST_CLOCKS).filter_map(|n| text::read(clock(n)).ok()?.trim().parse().ok()).collect();
    if khz.is_empty() {
        sample.lacks("frequency_hz", "this machine does not show its CPUs' clocks");
        return;
    }
    let mean = khz.iter().sum::<u64>() / khz.len() as u64;
    sample.count("frequency_hz", mean, Kind::Gauge, 1000.0);
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;

    use super::super::counters::difference;
    use super::*;

    /// A machine of 10 s of work, of which this run's two processes had `own` ticks.
    fn machine(worked: u64, own: u64, waited_us: u64) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let stat = format!("cpu  {worked} 0 0 500 0 77 88 0 0 0\nctxt 5\n");
        let process = |pid: u32, ticks: u64| {
            // A number that no process has: its ticks are what there is to go by.
            format!("{pid} (a) b) S 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 3 0 20 0 1 0 9 0 0\n")
        };
        let files = [
            ("proc/stat", stat),
            ("proc/2000000001/stat", process(2_000_000_001, own)),
            ("proc/2000000002/stat", process(2_000_000_002, 5)),
            ("proc/pressure/cpu", format!("some avg10=0.00 total={waited_us}\nfull total=9\n")),
            ("proc/pressure/memory", "some avg10=0.00 total=7\n".to_owned()),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2000000\n".to_owned()),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3000000\n".to_owned()),
        ];
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn sampled(root: &Path) -> Sample {
        let place = ProbeContext {
            proc: root.join("proc"),
            sys: root.join("sys"),
            ..ProbeContext::default()
        };
        sample(&place).unwrap()
    }

    pub(crate) fn captured() -> Sample {
        sampled(machine(1000, 100, 0).path())
    }

    #[test]
    fn others_had_what_is_left() {
        let before = sampled(machine(1000, 100, 1_000_000).path());
        let after = sampled(machine(1300, 180, 1_250_000).path());
        let values = difference(&before, &after, &mut Vec::new()).unwrap();
        let is = |name: &str, value: f64| {
            assert!((values[name] - value).abs() < 1e-6, "{name} is {}", values[name]);
        };
        // 3 s of work and not what interrupts took, of which this run had 0.8.
        is("others_s", 2.2);
        is("cpu_pressure_s", 0.25);
        is("frequency_hz", 2.5e9);
        assert!(after.absent["io_pressure_s"].contains("CONFIG_PSI"));
    }

    #[test]
    fn a_run_that_had_more_than_all_leaves_others_nothing() {
        let before = sampled(machine(1000, 100, 0).path());
        let after = sampled(machine(1010, 120, 0).path());
        assert_eq!(difference(&before, &after, &mut Vec::new()).unwrap()["others_s"], 0.0);
    }

    #[test]
    fn a_busy_program_beside_is_seen() {
        let mut busy =
            std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        // A /proc that shows the machine's work and no process: everybody is somebody else.
        let root = tempfile::tempdir().unwrap();
        let others = || {
            fs::copy("/proc/stat", root.path().join("stat")).unwrap();
            let place = ProbeContext { proc: root.path().to_owned(), ..ProbeContext::default() };
            sample(&place).unwrap()
        };
        let before = others();
        let began = std::time::Instant::now();
        let mut seen = 0.0;
        while seen < 0.2 && began.elapsed().as_secs() < 60 {
            std::thread::yield_now();
            seen = difference(&before, &others(), &mut Vec::new()).unwrap()["others_s"];
        }
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert!(seen >= 0.2, "{seen}");
    }
}
