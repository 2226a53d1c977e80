//! /proc/softirqs: softirqs by kind and CPU. The kernel counts them in 32 bits for each CPU
//! (`kernel_stat.softirqs`), so the total is a sum of differences, never a difference of sums.

use anyhow::{Context, Result, bail};

use super::counters::{Kind, Sample};
use super::{IS_PROCFS_MOUNTED, ProbeKind, Source};
use crate::process::interrupts::columns;
use crate::values::Definition;

const VALUES: &[Definition] = &[
    ("cpu#.*", "softirqs", "softirqs of one kind on one CPU, for example cpu0.NET_RX"),
    ("*", "softirqs", "softirqs of one kind, for example NET_RX"),
];

/// The probe.
pub const KIND: ProbeKind = ProbeKind {
    values: VALUES,
    source: Source::Files(&[("softirqs", IS_PROCFS_MOUNTED)], |texts| parse(&texts[0])),
};

pub fn parse(text: &str) -> Result<Sample> {
    let mut lines = text.lines();
    let cpus = columns(lines.next().unwrap_or_default());
    if cpus.is_empty() {
        bail!("/proc/softirqs does not begin with the names of the CPUs");
    }
    let mut sample = Sample::default();
    for line in lines {
        let Some((kind, counts)) = line.split_once(':') else { continue };
        let kind = kind.trim();
        for (cpu, count) in cpus.iter().zip(counts.split_whitespace()) {
            let count = count
                .parse()
                .with_context(|| format!("/proc/softirqs holds a count {count:?} for {kind}"))?;
            let own = format!("{cpu}.{kind}");
            sample.share(&own, &[&own, kind], count, Kind::Counter32, 1.0);
        }
    }
    Ok(sample)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::counters::difference;
    use super::*;

    pub(crate) const BEFORE: &str = "\
                    CPU0       CPU1       CPU3       
          HI:          0          0          0
       TIMER:       3661       3277       5549
      NET_TX:          4          0          0
      NET_RX: 4294967290          5       4457
";
    const AFTER: &str = "\
                    CPU0       CPU1       CPU3       
          HI:          0          0          0
       TIMER:       3671       3297       5579
      NET_TX:          4          0          0
      NET_RX:          4          6       4467
";

    #[test]
    fn totals_survive_the_end_of_32_bits_on_one_cpu() {
        let (before, after) = (parse(BEFORE).unwrap(), parse(AFTER).unwrap());
        let mut notes = Vec::new();
        let values = difference(&before, &after, &mut notes).unwrap();
        assert_eq!(values["cpu0.NET_RX"], 10.0);
        assert_eq!(values["cpu3.NET_RX"], 10.0);
        assert_eq!(values["NET_RX"], 21.0);
        assert_eq!(values["TIMER"], 60.0);
        assert_eq!(values["HI"], 0.0);
        assert!(notes.is_empty());
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(parse("").is_err());
        assert!(parse("CPU0\nNET_RX: many\n").is_err());
    }
}
