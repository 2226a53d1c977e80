//! /proc/interrupts: interrupts by the name that the driver gave (`virtio0-input.0`, `eth0`) or by
//! the architecture's short name (`LOC`). Layout: `show_interrupts` in kernel/irq/proc.c.
//!
//! The kernel counts each interrupt on each CPU in 32 bits. Interrupts of one name are added up.

use anyhow::{Result, bail};

use super::counters::{Kind, Sample};
use super::{IS_PROCFS_MOUNTED, ProbeKind, Source};
use crate::process::interrupts::{columns, lines};
use crate::values::Definition;

const VALUES: &[Definition] = &[(
    "*",
    "interrupts",
    "interrupts by the driver's name for them (virtio0-input.0) or the architecture's (LOC)",
)];

/// The probe.
pub const KIND: ProbeKind = ProbeKind {
    values: VALUES,
    source: Source::Files(&[("interrupts", IS_PROCFS_MOUNTED)], |texts| parse(&texts[0])),
};

pub fn parse(text: &str) -> Result<Sample> {
    let cpus = columns(text.lines().next().unwrap_or_default());
    if cpus.is_empty() {
        bail!("/proc/interrupts does not begin with the names of the CPUs");
    }
    let mut sample = Sample::default();
    for line in lines(text) {
        let name = line.name();
        for (index, &count) in line.counts().iter().enumerate() {
            // ERR and MIS have one count for the machine.
            let cpu = if line.counts().len() == 1 { "" } else { &cpus[index] };
            let key = format!("{} {name} {cpu}", line.id);
            sample.share(&key, &[&name], count, Kind::Counter32, 1.0);
        }
    }
    Ok(sample)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::counters::difference;
    use super::*;

    pub(crate) const LINUX_6_18: &str = "\
           CPU0       CPU1       
 26:          0         12  IO-APIC   4-edge      ttyS0
 28:          7          1  IO-APIC  11-fasteoi 
 38:          0       5064 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
 39:       3575          0 PCI-MSIX-0000:00:03.0   2-edge      virtio2-output.0
NMI:          0          0   Non-maskable interrupts
LOC:      65501      42105   Local timer interrupts
ERR:          3
";
    // A Debian 12 guest with two e1000 on a shared line, and an ARM machine.
    const SHARED: &str = "\
            CPU0
  11:       4711   IO-APIC  11-fasteoi   eth0, eth1
";
    const ARM: &str = "\
           CPU0       CPU1
 13:       1122       3344     GICv3  27 Level     arch_timer
 47:        100          0     GICv3  79 Edge      virtio0
IPI0:      5555       6666       Rescheduling interrupts
";

    #[test]
    fn names_come_from_drivers_and_architecture() {
        let names: Vec<String> = lines(LINUX_6_18).map(|line| line.name()).collect();
        let expected =
            ["ttyS0", "irq28", "virtio2-input.0", "virtio2-output.0", "NMI", "LOC", "ERR"];
        assert_eq!(names, expected);
        let shared: Vec<String> = lines(SHARED).map(|line| line.name()).collect();
        assert_eq!(shared, ["eth0, eth1"]);
        let arm: Vec<String> = lines(ARM).map(|line| line.name()).collect();
        assert_eq!(arm, ["arch_timer", "virtio0", "IPI0"]);
    }

    #[test]
    fn counts_add_up_over_cpus_and_over_lines_of_one_name() {
        let text = |a: u32, b: u32| {
            format!(
                "  CPU0 CPU1\n 30: {a} 1 PCI-MSI 1-edge      eth0\n 31: 5 {b} PCI-MSI 2-edge      eth0\n"
            )
        };
        let before = parse(&text(u32::MAX, 10)).unwrap();
        let after = parse(&text(1, 13)).unwrap();
        let values = difference(&before, &after, &mut Vec::new()).unwrap();
        assert_eq!(values["eth0"], 5.0);
    }

    #[test]
    fn the_error_count_is_of_the_machine() {
        let mut notes = Vec::new();
        let before = parse(LINUX_6_18).unwrap();
        let after = parse(&LINUX_6_18.replace("ERR:          3", "ERR:          4")).unwrap();
        let values = difference(&before, &after, &mut notes).unwrap();
        assert_eq!(values["ERR"], 1.0);
        assert_eq!(values["LOC"], 0.0);
        assert!(notes.is_empty());
    }

    #[test]
    fn a_table_without_cpus_is_an_error() {
        assert!(parse("").is_err());
    }
}
