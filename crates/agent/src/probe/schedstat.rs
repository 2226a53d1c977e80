//! /proc/schedstat: how long tasks ran, and how long they waited to run, by CPU. Format:
//! Documentation/scheduler/sched-stats.rst; the times are nanoseconds.

use anyhow::{Context, Result, bail};

use super::counters::{Kind, Sample};
use super::{ProbeKind, Source};
use crate::values::Definition;

/// Each also by CPU: `cpu0.run_s`.
const VALUES: &[Definition] = &[
    ("*run_s", "s", "time that tasks ran"),
    ("*wait_s", "s", "time that tasks were ready and waited for a CPU"),
    ("*timeslices", "slices", "times that a task got the CPU"),
];

/// The probe.
pub const KIND: ProbeKind = ProbeKind {
    values: VALUES,
    source: Source::Files(
        &[("schedstat", "the kernel is built without CONFIG_SCHEDSTATS")],
        |texts| parse(&texts[0]),
    ),
};

/// Versions before 15 count other things in these columns.
const FIRST_VERSION: u32 = 15;
/// Columns after the CPU's name.
const RUN: usize = 6;
const WAIT: usize = 7;
const TIMESLICES: usize = 8;

pub fn parse(text: &str) -> Result<Sample> {
    let version = text.lines().next().and_then(|line| line.strip_prefix("version "));
    let version: u32 = version
        .and_then(|version| version.trim().parse().ok())
        .context("/proc/schedstat does not begin with its version")?;
    if version < FIRST_VERSION {
        bail!("/proc/schedstat has version {version}; {FIRST_VERSION} or later is understood");
    }
    let mut sample = Sample::default();
    for line in text.lines().filter(|line| line.starts_with("cpu")) {
        let mut words = line.split_whitespace();
        let cpu = words.next().unwrap_or_default();
        let numbers: Vec<u64> = words
            .map(|word| word.parse().with_context(|| format!("/proc/schedstat holds {word:?}")))
            .collect::<Result<_>>()?;
        let [run, wait, timeslices] = [RUN, WAIT, TIMESLICES].map(|column| numbers.get(column));
        let (Some(&run), Some(&wait), Some(&timeslices)) = (run, wait, timeslices) else {
            bail!("/proc/schedstat has {} numbers for {cpu}, fewer than 9", numbers.len());
        };
        for (name, raw, scale) in
            [("run_s", run, 1e-9), ("wait_s", wait, 1e-9), ("timeslices", timeslices, 1.0)]
        {
            let own = format!("{cpu}.{name}");
            sample.share(&own, &[&own, name], raw, Kind::Counter, scale);
        }
    }
    Ok(sample)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::counters::difference;
    use super::*;

    pub(crate) const VERSION_15_BEFORE: &str = "\
version 15
timestamp 4295500000
cpu0 0 0 0 0 0 0 5000000000 1000000000 700
domain0 00000003 0 0 0 0 0 0 0 0
cpu1 0 0 0 0 0 0 2000000000 0 10
";
    const VERSION_15_AFTER: &str = "\
version 15
timestamp 4295500250
cpu0 0 0 0 0 0 0 5500000000 1250000000 720
domain0 00000003 0 0 0 0 0 0 0 0
cpu1 0 0 0 0 0 0 3000000000 0 11
";

    #[test]
    fn run_and_wait_time_in_seconds() {
        let before = parse(VERSION_15_BEFORE).unwrap();
        let after = parse(VERSION_15_AFTER).unwrap();
        let values = difference(&before, &after, &mut Vec::new()).unwrap();
        assert_eq!(values["cpu0.run_s"], 0.5);
        assert_eq!(values["run_s"], 1.5);
        assert_eq!(values["wait_s"], 0.25);
        assert_eq!(values["timeslices"], 21.0);
    }

    #[test]
    fn an_unknown_version_is_refused() {
        assert!(parse("version 14\ncpu0 1 2 3\n").unwrap_err().to_string().contains("14"));
        assert!(parse("cpu0 1 2 3\n").is_err());
        assert!(parse("version 15\ncpu0 1 2 3\n").is_err());
    }
}
