//! KVM's own counters of one virtual machine, read on its host.
//!
//! Where they come from, best first:
//! - debugfs (kvm/PID-FD): all of them. That needs root of the machine itself.
//! - The binary statistics (KVM_GET_STATS_FD; Documentation/virt/kvm/api.rst, 4.133) of the virtual
//!   CPUs. Only the VMM may ask for a descriptor of them, and QEMU keeps one for each CPU from 8.1 on:
//!   this process then takes a copy of it. QEMU keeps none for the machine as a whole, so KVM's counters
//!   of the machine are absent.
//!
//! Both give the counters that are kept by virtual CPU summed over all of them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::counters::{Kind, Sample};
use super::outside::{Outside, Processes};
use super::tracing::mounted;
use super::{ProbeContext, ProbeKind, Source, machine};
use crate::values::Definition;

/// By the kernel's own names (Documentation/virt/kvm, `kvm_vm_stats_desc`, `kvm_vcpu_stats_desc`).
const VALUES: &[Definition] = &[
    ("pages_4k_level", "pages", "pages of 4 KB that the guest is mapped by at the end"),
    ("pages_2m_level", "pages", "pages of 2 MB that the guest is mapped by at the end"),
    ("pages_1g_level", "pages", "pages of 1 GB that the guest is mapped by at the end"),
    ("*_level", "", "no counter: how much there is at the end, by the kernel's name"),
    ("exits", "exits", "from the guest to the hypervisor"),
    ("halt_exits", "exits", "of those because the guest's CPU had nothing to do"),
    ("pf_taken", "faults", "page faults of the guest that came to the hypervisor"),
    ("pf_fixed", "faults", "of those that it mended by mapping a page"),
    ("pf_guest", "faults", "of those that it passed on to the guest's own kernel"),
    ("tlb_flush", "flushes", "TLB flushes for the guest"),
    ("mmu_shadow_zapped", "pages", "page tables of the hypervisor that were given up"),
    ("mmu_pte_write", "writes", "guest writes to its page tables that were intercepted"),
    ("*_exits", "exits", "from the guest to the hypervisor, of one kind"),
    ("*_ns", "ns", "time by the kernel's name, for example halt_wait_ns"),
    ("*", "events", "events by the kernel's name"),
];

/// The probe.
pub const KIND: ProbeKind = ProbeKind { values: VALUES, source: Source::Numbers(sample) };

const DEBUGFS: &str = "/sys/kernel/debug";
/// Beyond any kernel's statistics of a virtual machine, and of a virtual CPU.
const MOST_BYTES: usize = 1 << 16;
/// What is no counter; debugfs does not report (`kvm_vm_stats_desc`, `kvm_vcpu_stats_desc`).
const LEVELS: [&str; 11] = [
    "pages_4k",
    "pages_2m",
    "pages_1g",
    "lpages",
    "largepages",
    "nx_lpage_splits",
    "mmu_unsync",
    "max_mmu_rmap_size",
    "max_mmu_page_hash_collisions",
    "blocking",
    "guest_mode",
];

/// What KVM counts by machine (`kvm_vm_stats_desc`): the virtual CPUs' statistics have none of it.
const OF_THE_MACHINE: [&str; 15] = [
    "mmu_shadow_zapped",
    "mmu_pte_write",
    "mmu_pde_zapped",
    "mmu_flooded",
    "mmu_recycled",
    "mmu_cache_miss",
    "mmu_unsync_level",
    "pages_4k_level",
    "pages_2m_level",
    "pages_1g_level",
    "nx_lpage_splits_level",
    "remote_tlb_flush",
    "remote_tlb_flush_requests",
    "max_mmu_rmap_size_level",
    "max_mmu_page_hash_collisions_level",
];

/// # Errors
/// The node is no guest of KVM, or its counters cannot be had here, and why.
pub fn sample(probe_context: &ProbeContext) -> Result<Sample> {
    let vmm = vmm(probe_context)?;
    let descriptors = descriptors(&probe_context.proc, vmm.pid)?;
    let Some((vm, _)) = descriptors.iter().find(|(_, name)| name == "kvm-vm") else {
        bail!("process {} has no virtual machine of KVM", vmm.pid);
    };
    let mut sample = debugfs(probe_context, vmm.pid, *vm)
        .or_else(|error| of_cpus(statistics(vmm.pid, &descriptors), &format!("{error:#}")))?;
    sample.identity = Some(format!("virtual machine {vm} of process {}", vmm.pid));
    Ok(sample)
}

/// The VMM of the node in question.
pub fn vmm(probe_context: &ProbeContext) -> Result<&Processes> {
    match probe_context.outside()? {
        Outside::Processes(processes) => Ok(processes),
        Outside::Domain(_) | Outside::Cgroup(_) => bail!("it is a guest of Xen, not of KVM"),
        Outside::OfMachine(pid) => bail!("process {pid} is a VMM that was there before"),
    }
}

/// The descriptors of a process that are KVM's, by number: `anon_inode:kvm-vcpu:0`.
fn descriptors(proc: &Path, pid: i32) -> Result<Vec<(u32, String)>> {
    let directory = proc.join(format!("{pid}/fd"));
    let entries = fs::read_dir(&directory)
        .with_context(|| format!("cannot look into {}", directory.display()))?;
    let mut found: Vec<(u32, String)> = entries
        .flatten()
        .filter_map(|entry| {
            let target = fs::read_link(entry.path()).ok()?;
            let name = target.to_str()?.strip_prefix("anon_inode:")?;
            let number = entry.file_name().to_str()?.parse().ok()?;
            name.starts_with("kvm-").then(|| (number, name.to_owned()))
        })
        .collect();
    found.sort();
    Ok(found)
}

// -- binary statistics ----------------------------------------------------------------------------

/// The counters of the virtual CPUs, with those of the machine reported as absent.
fn of_cpus(counted: Result<Sample>, no_debugfs: &str) -> Result<Sample> {
    let mut sample = counted.with_context(|| {
        format!("KVM's counters need root of the machine itself ({no_debugfs}), or a QEMU of 8.1 or newer")
    })?;
    for name in OF_THE_MACHINE {
        sample.lacks(
            name,
            format!(
                "KVM counts it by machine, which needs root of the machine itself ({no_debugfs})"
            ),
        );
    }
    Ok(sample)
}

fn statistics(pid: i32, descriptors: &[(u32, String)]) -> Result<Sample> {
    let process = pidfd_open(Pid::from_raw(pid).context("no process")?, PidfdFlags::empty())
        .with_context(|| format!("process {pid} has ended"))?;
    let mut sample = Sample::default();
    let is_statistics = |name: &str| name.starts_with("kvm-vcpu-stats:");
    for (number, name) in descriptors.iter().filter(|(_, name)| is_statistics(name)) {
        let file = pidfd_getfd(&process, *number as i32, PidfdGetfdFlags::empty())
            .with_context(|| format!("cannot take {name} of process {pid}"))?;
        // In one piece: each call takes the numbers anew.
        let mut bytes = vec![0; MOST_BYTES];
        let length = rustix::io::pread(&file, &mut bytes, 0).context("reading KVM's statistics")?;
        add_statistics(&mut sample, name, &bytes[..length])
            .with_context(|| format!("{name} of process {pid}"))?;
    }
    ensure!(
        !sample.entries.is_empty(),
        "process {pid} keeps no descriptor of its virtual CPUs' statistics (KVM_GET_STATS_FD)"
    );
    Ok(sample)
}

const HEADER: usize = 24;
/// A descriptor without its name.
const DESCRIPTOR: usize = 16;

/// `source` distinguishes one virtual CPU's numbers from another's.
fn add_statistics(sample: &mut Sample, source: &str, bytes: &[u8]) -> Result<()> {
    ensure!(bytes.len() >= HEADER, "shorter than its header");
    let [_, name_size, count, _, descriptors_at, data_at] =
        [0, 1, 2, 3, 4, 5].map(|index| number32(bytes, 4 * index).unwrap_or(0) as usize);
    for index in 0..count {
        let at = descriptors_at + index * (DESCRIPTOR + name_size);
        let one = bytes.get(at..at + DESCRIPTOR + name_size).context("ends in a descriptor")?;
        let flags = number32(one, 0).unwrap_or(0);
        let values = number32(one, 4).unwrap_or(0) >> 16;
        let name = one[DESCRIPTOR..].split(|&byte| byte == 0).next().unwrap_or_default();
        let name = std::str::from_utf8(name).context("a name is no text")?;
        // A histogram has several.
        if values != 1 {
            continue;
        }
        let at = data_at + number32(one, 8).unwrap_or(0) as usize;
        let value = bytes.get(at..at + 8).context("ends before its numbers")?;
        let value = u64::from_le_bytes(value.try_into()?);
        const CUMULATIVE: u32 = 0;
        add(sample, source, name, value, flags & 0xf != CUMULATIVE);
    }
    Ok(())
}

fn number32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn add(sample: &mut Sample, source: &str, name: &str, value: u64, level: bool) {
    let (value_name, kind) = match level {
        true => (format!("{name}_level"), Kind::Gauge),
        false => (name.to_owned(), Kind::Counter),
    };
    sample.share(&format!("{source} {name}"), &[&value_name], value, kind, 1.0);
}

// -- debugfs --------------------------------------------------------------------------------------

fn debugfs(probe_context: &ProbeContext, pid: i32, vm: u32) -> Result<Sample> {
    let (root, _mount) = mounted(
        "debugfs",
        DEBUGFS,
        "kvm",
        "debugfs is not mounted and cannot be: it takes root and a kernel with CONFIG_DEBUG_FS",
    )?;
    let pid = machine::process(probe_context, pid)?;
    directory(&root.join("kvm").join(format!("{pid}-{vm}")))
}

fn directory(path: &Path) -> Result<Sample> {
    let entries = fs::read_dir(path).with_context(|| format!("listing {}", path.display()))?;
    let mut sample = Sample::default();
    for entry in entries.flatten().filter(|entry| entry.path().is_file()) {
        let name = entry.file_name();
        let (Some(name), Ok(text)) = (name.to_str(), fs::read_to_string(entry.path())) else {
            continue;
        };
        // Some of the files are tables, and of a histogram there is one number of many.
        let (false, Ok(value)) = (name.ends_with("_hist"), text.trim().parse()) else { continue };
        add(&mut sample, "", name, value, LEVELS.contains(&name));
    }
    ensure!(!sample.entries.is_empty(), "{} holds no counters", path.display());
    Ok(sample)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::counters::difference;
    use super::*;

    /// As the kernel lays it out: header, id, descriptors, data.
    fn statistics_of(stats: &[(&str, u32, &[u64])]) -> Vec<u8> {
        const NAME: usize = 48;
        let descriptors_at = HEADER + NAME;
        let data_at = descriptors_at + stats.len() * (DESCRIPTOR + NAME);
        let mut bytes = Vec::new();
        for word in [0, NAME, stats.len(), HEADER, descriptors_at, data_at] {
            bytes.extend((word as u32).to_le_bytes());
        }
        bytes.resize(descriptors_at, 0);
        let mut offset = 0u32;
        for (name, kind, values) in stats {
            bytes.extend(kind.to_le_bytes());
            bytes.extend(0i16.to_le_bytes());
            bytes.extend((values.len() as u16).to_le_bytes());
            bytes.extend(offset.to_le_bytes());
            bytes.extend(0u32.to_le_bytes());
            let end = bytes.len() + NAME;
            bytes.extend(name.as_bytes());
            bytes.resize(end, 0);
            offset += 8 * values.len() as u32;
        }
        for value in stats.iter().flat_map(|(_, _, values)| *values) {
            bytes.extend(value.to_le_bytes());
        }
        bytes
    }

    fn taken(exits: [u64; 2], blocking: u64) -> Sample {
        let mut sample = Sample::default();
        for (cpu, exits) in exits.into_iter().enumerate() {
            let stats: &[(&str, u32, &[u64])] = &[
                ("halt_poll_success_hist", 4, &[1, 2, 3]),
                ("exits", 0, &[exits]),
                ("halt_wait_ns", 0x20, &[5]),
                ("blocking", 1, &[blocking]),
            ];
            let source = format!("kvm-vcpu-stats:{cpu}");
            add_statistics(&mut sample, &source, &statistics_of(stats)).unwrap();
        }
        sample
    }

    /// What either way of counting gives, so that [`crate::values`] is held to both.
    pub(crate) fn captured() -> Sample {
        let mut sample = taken([1, 2], 1);
        for name in OF_THE_MACHINE {
            sample.count(name, 1, Kind::Gauge, 1.0);
        }
        sample
    }

    #[test]
    fn counters_are_differences_over_all_cpus_and_levels_are_levels() {
        let values = difference(&taken([10, 20], 1), &taken([15, 22], 0), &mut Vec::new()).unwrap();
        assert_eq!((values["exits"], values["halt_wait_ns"]), (7.0, 0.0));
        assert_eq!(values["blocking_level"], 0.0);
        assert!(!values.contains_key("halt_poll_success_hist"));
    }

    #[test]
    fn what_virtual_cpus_do_not_count_is_absent_and_says_why() {
        let sample = of_cpus(Ok(taken([1, 2], 0)), "Permission denied").unwrap();
        let why = &sample.absent["mmu_shadow_zapped"];
        assert!(why.contains("root") && why.contains("Permission denied"), "{why}");
        let names: Vec<_> = sample.entries.iter().flat_map(|entry| &entry.names).collect();
        assert!(names.contains(&&"exits".to_owned()));
        assert!(names.iter().all(|name| !sample.absent.contains_key(*name)));
    }

    #[test]
    fn without_root_and_without_statistics_both_are_named() {
        let nothing = statistics(std::process::id() as i32, &[(7, "kvm-vm".into())]);
        let error = format!("{:#}", of_cpus(nothing, "Permission denied").unwrap_err());
        for part in ["root", "Permission denied", "QEMU of 8.1", "KVM_GET_STATS_FD"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn statistics_that_end_early_are_an_error() {
        let whole = statistics_of(&[("exits", 0, &[1])]);
        for length in 0..whole.len() {
            let mut sample = Sample::default();
            assert!(add_statistics(&mut sample, "vm", &whole[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn debugfs_gives_the_same_names() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("vcpu0")).unwrap();
        for (name, text) in [
            ("exits", "11572\n"),
            ("pages_4k", "16306\n"),
            ("mmu_rmaps_stat", "Rmap_Count: 0\n"),
            ("halt_wait_hist", "3\n"),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let sample = directory(folder.path()).unwrap();
        let mut names: Vec<_> = sample.entries.iter().flat_map(|entry| &entry.names).collect();
        names.sort();
        assert_eq!(names, ["exits", "pages_4k_level"]);
        fs::remove_file(folder.path().join("exits")).unwrap();
        fs::remove_file(folder.path().join("pages_4k")).unwrap();
        let error = directory(folder.path()).unwrap_err().to_string();
        assert!(error.contains("holds no counters"), "{error}");
    }

    #[test]
    fn what_is_no_guest_of_kvm_says_so() {
        let of = |outside| ProbeContext { outside, ..ProbeContext::default() };
        let own = Processes { pid: std::process::id() as i32, ..Processes::default() };
        for (probe_context, why) in [
            (of(None), "no guest, and no container with a cgroup"),
            (of(Some(Outside::Domain(1))), "guest of Xen"),
            (of(Some(Outside::Processes(own))), "no virtual machine of KVM"),
        ] {
            let error = sample(&probe_context).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
