//! /proc/vmstat: memory events, under the kernel's own names.
//!
//! The file mixes events, which only rise, with amounts (`nr_free_pages`), which rise and fall.
//! Amounts are left out: their difference is not what happened between. `pgpgin` and `pgpgout` are
//! KiB, all others are events or pages.

use anyhow::{Result, bail};

use super::counters::{Kind, Sample};
use super::{ProbeKind, Source};
use crate::values::Definition;

const VALUES: &[Definition] = &[
    ("pgpgin", "KiB", "read from block devices"),
    ("pgpgout", "KiB", "written to block devices"),
    ("pgfault", "faults", "page faults, those that needed no disk too"),
    ("*", "events", "memory events by the kernel's name, for example pgfault; some are pages"),
];

/// The probe.
pub const KIND: ProbeKind = ProbeKind {
    values: VALUES,
    source: Source::Files(
        &[("vmstat", "the kernel is built without CONFIG_VM_EVENT_COUNTERS, or no procfs")],
        |texts| parse(&texts[0]),
    ),
};

/// Names that look like amounts and are events (`enum node_stat_item` and mm/vmstat.c).
const EVENTS: [&str; 8] = [
    "nr_dirtied",
    "nr_written",
    "nr_throttled_written",
    "nr_vmscan_write",
    "nr_vmscan_immediate_reclaim",
    "nr_foll_pin_acquired",
    "nr_foll_pin_released",
    "nr_tlb_",
];

pub fn parse(text: &str) -> Result<Sample> {
    let mut sample = Sample::default();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(' ') else { continue };
        let Ok(value) = value.trim().parse() else {
            bail!("/proc/vmstat holds {value:?} for {name}");
        };
        let is_amount = name.starts_with("nr_") || name == "workingset_nodes";
        if !is_amount || EVENTS.iter().any(|event| name.starts_with(event)) {
            sample.count(name, value, Kind::Counter, 1.0);
        }
    }
    Ok(sample)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::counters::difference;
    use super::*;

    pub(crate) const BEFORE: &str = "\
nr_free_pages 1199662
nr_dirtied 738039
workingset_nodes 16878
workingset_refault_file 311587
pgpgin 2327229
pswpin 0
pgfault 9947577
pgmajfault 1751
thp_fault_alloc 3
cow_ksm 0
nr_unstable 0
";

    #[test]
    fn events_are_kept_and_amounts_left_out() {
        let after = BEFORE
            .replace("nr_free_pages 1199662", "nr_free_pages 5")
            .replace("pgfault 9947577", "pgfault 9947600")
            .replace("pgmajfault 1751", "pgmajfault 1752")
            .replace("nr_dirtied 738039", "nr_dirtied 738040");
        let mut notes = Vec::new();
        let values =
            difference(&parse(BEFORE).unwrap(), &parse(&after).unwrap(), &mut notes).unwrap();
        assert_eq!(values["pgfault"], 23.0);
        assert_eq!(values["pgmajfault"], 1.0);
        assert_eq!(values["nr_dirtied"], 1.0);
        assert_eq!(values["thp_fault_alloc"], 0.0);
        assert!(!values.contains_key("nr_free_pages"));
        assert!(!values.contains_key("nr_unstable"));
        assert!(!values.contains_key("workingset_nodes"));
        assert!(notes.is_empty());
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(parse("pgfault many\n").is_err());
    }
}
