//! /proc/stat: CPU time by mode, context switches, forks and interrupts. Format: proc_stat(5),
//! Documentation/filesystems/proc.rst.
//!
//! `guest` and `guest_nice` are already inside `user` and `nice`: the kernel adds a guest's time to
//! both. They are given, and never added up.

use anyhow::{Context, Result, bail};

use super::counters::{Kind, Sample};
use super::{IS_PROCFS_MOUNTED, ProbeKind, Source, ticks_per_s};
use crate::values::Definition;

/// Each time also by CPU: `cpu0.busy_s`.
const VALUES: &[Definition] = &[
    ("*user_s", "s", "CPU time in user mode, guests included"),
    ("*guest_nice_s", "s", "CPU time of niced guests; already in nice_s"),
    ("*nice_s", "s", "CPU time in user mode at low priority, guests included"),
    ("*system_s", "s", "CPU time in the kernel"),
    ("*idle_s", "s", "CPU time without anything to do"),
    ("*iowait_s", "s", "CPU time without anything to do but wait for a disk; unreliable (proc(5))"),
    ("*softirq_s", "s", "CPU time in softirqs"),
    ("*irq_s", "s", "CPU time in interrupts"),
    ("*steal_s", "s", "time in which the hypervisor ran others though this CPU had work"),
    ("*guest_s", "s", "CPU time of guests; already in user_s"),
    ("*busy_s", "s", "CPU time in which it ran: user, nice, system, irq and softirq"),
    ("context_switches", "switches", "context switches of all CPUs"),
    ("forks", "processes", "processes and threads begun"),
    ("interrupts", "interrupts", "interrupts served"),
];

/// The probe.
pub const KIND: ProbeKind = ProbeKind {
    values: VALUES,
    source: Source::Files(&[("stat", IS_PROCFS_MOUNTED)], |texts| parse(&texts[0], ticks_per_s())),
};

const MODES: [&str; 10] = [
    "user_s",
    "nice_s",
    "system_s",
    "idle_s",
    "iowait_s",
    "irq_s",
    "softirq_s",
    "steal_s",
    "guest_s",
    "guest_nice_s",
];
/// What the CPU did: not idle, iowait or steal, in which it did nothing, nor the two that are inside
/// user and nice.
const BUSY: [usize; 5] = [0, 1, 2, 5, 6];

/// Times are in ticks, of which a second has `ticks_per_s`.
pub fn parse(text: &str, ticks_per_s: u64) -> Result<Sample> {
    let mut sample = Sample::default();
    for line in text.lines() {
        let Some((key, rest)) = line.split_once(' ') else { continue };
        match key {
            "ctxt" => sample.count("context_switches", first(rest)?, Kind::Counter, 1.0),
            "processes" => sample.count("forks", first(rest)?, Kind::Counter, 1.0),
            "intr" => sample.count("interrupts", first(rest)?, Kind::Counter, 1.0),
            "cpu" => times(&mut sample, "", rest, ticks_per_s)?,
            _ if key.starts_with("cpu") => {
                times(&mut sample, &format!("{key}."), rest, ticks_per_s)?;
            }
            _ => {}
        }
    }
    if sample.entries.is_empty() {
        bail!("/proc/stat holds nothing that is known");
    }
    Ok(sample)
}

fn first(rest: &str) -> Result<u64> {
    let number = rest.split_whitespace().next().unwrap_or_default();
    number.parse().with_context(|| format!("/proc/stat holds {number:?} where a number should be"))
}

fn times(sample: &mut Sample, prefix: &str, rest: &str, ticks_per_s: u64) -> Result<()> {
    let ticks: Vec<u64> = rest
        .split_whitespace()
        .take(MODES.len())
        .map(|word| word.parse().with_context(|| format!("/proc/stat holds a time {word:?}")))
        .collect::<Result<_>>()?;
    let scale = 1.0 / ticks_per_s as f64;
    for (mode, &ticks) in MODES.iter().zip(&ticks) {
        sample.count(&format!("{prefix}{mode}"), ticks, Kind::Drifting, scale);
    }
    let busy = BUSY.iter().filter_map(|&mode| ticks.get(mode)).sum();
    sample.count(&format!("{prefix}busy_s"), busy, Kind::Drifting, scale);
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::counters::difference;
    use super::*;

    pub(crate) const LINUX_6_18_BEFORE: &str = "\
cpu  9769 10 3230 373015 1955 0 128 517 1000 0
cpu0 2189 10 606 94121 115 0 41 128 1000 0
cpu1 1926 0 600 94465 63 0 22 94 0 0
intr 593333 0 0 12 0
ctxt 800841
btime 1795219909
processes 11115
procs_running 2
procs_blocked 0
softirq 2370056 0 27174 8 2034875 67923 0 3036 47070 120979 68991
";
    const LINUX_6_18_AFTER: &str = "\
cpu  9869 10 3260 373115 1954 1 130 520 1090 0
cpu0 2289 10 606 94121 114 1 43 131 1090 0
cpu1 1926 0 630 94565 63 0 22 94 0 0
intr 593433 0 0 112 0
ctxt 801841
btime 1795219909
processes 11120
procs_running 1
procs_blocked 0
softirq 2370056 0 27174 8 2034875 67923 0 3036 47070 120979 68991
";

    #[test]
    fn differences_are_seconds_and_guest_time_counts_once() {
        let before = parse(LINUX_6_18_BEFORE, 100).unwrap();
        let after = parse(LINUX_6_18_AFTER, 100).unwrap();
        let values = difference(&before, &after, &mut Vec::new()).unwrap();
        let is = |name: &str, value: f64| {
            assert!((values[name] - value).abs() < 1e-9, "{name} is {}", values[name]);
        };
        is("user_s", 1.0);
        is("guest_s", 0.9);
        is("system_s", 0.3);
        is("iowait_s", 0.0);
        is("steal_s", 0.03);
        // user 1.00 + system 0.30 + irq 0.01 + softirq 0.02, and not what was stolen
        is("busy_s", 1.33);
        is("cpu0.busy_s", 1.03);
        is("cpu1.busy_s", 0.3);
        is("cpu1.idle_s", 1.0);
        is("context_switches", 1000.0);
        is("forks", 5.0);
        is("interrupts", 100.0);
    }

    #[test]
    fn an_old_kernel_has_fewer_modes() {
        // Linux 2.6.10: no steal, no guest.
        let sample = parse("cpu  1 2 3 4 5 6 7\ncpu0 1 2 3 4 5 6 7\nctxt 9\n", 100).unwrap();
        let busy = sample.entries.iter().find(|entry| entry.key == "busy_s").unwrap();
        assert_eq!(busy.raw, 1 + 2 + 3 + 6 + 7);
        assert!(!sample.entries.iter().any(|entry| entry.key == "guest_s"));
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(parse("cpu  1 x 3\n", 100).is_err());
        assert!(parse("", 100).is_err());
    }
}
