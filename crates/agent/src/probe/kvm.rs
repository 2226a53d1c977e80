//! KVM's own counters of one virtual machine, read on its host.
//!
//! Where they come from, best first:
//! - The binary statistics (KVM_GET_STATS_FD; Documentation/virt/kvm/api.rst, 4.133), which tell which
//!   of them are counters and which are levels. Only the VMM may ask for the descriptor, so they are
//!   used where it holds one open: this process then takes a copy of it.
//! - debugfs (kvm/PID-FD), the same numbers as text. That needs root of the machine itself.
//!
//! Both give the counters that are kept by virtual CPU summed over all of them.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::counters::{Kind, Sample};
use super::outside::{Outside, Processes};
use super::tracing::mount_nowhere;
use super::{Surroundings, machine};

const DEBUGFS: &str = "/sys/kernel/debug";
/// Beyond any kernel's statistics of a virtual machine, and of a virtual CPU.
const MOST_BYTES: usize = 1 << 16;
/// What is no counter; debugfs does not tell (`kvm_vm_stats_desc`, `kvm_vcpu_stats_desc`).
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

/// # Errors
/// The node is no guest of KVM, or its counters cannot be had here, and why.
pub fn sample(surroundings: &Surroundings) -> Result<Sample> {
    let vmm = vmm(surroundings)?;
    let descriptors = descriptors(&surroundings.proc, vmm.pid)?;
    let Some((vm, _)) = descriptors.iter().find(|(_, name)| name == "kvm-vm") else {
        bail!("process {} has no virtual machine of KVM", vmm.pid);
    };
    let mut sample = Sample {
        identity: Some(format!("virtual machine {vm} of process {}", vmm.pid)),
        ..Sample::default()
    };
    let given: Vec<_> =
        descriptors.iter().filter(|(_, name)| is_statistics(name)).cloned().collect();
    if given.iter().any(|(_, name)| name == "kvm-vm-stats") {
        return statistics(&mut sample, vmm.pid, &given).map(|()| sample);
    }
    debugfs(&mut sample, surroundings, vmm.pid, *vm).context(
        "its VMM holds no descriptor of KVM's statistics (KVM_GET_STATS_FD), and debugfs cannot \
         be read",
    )?;
    Ok(sample)
}

/// The VMM of the node in question.
pub fn vmm(surroundings: &Surroundings) -> Result<&Processes> {
    match surroundings.outside()? {
        Outside::Processes(processes) => Ok(processes),
        Outside::Domain(_) => bail!("it is a guest of Xen, not of KVM"),
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

fn is_statistics(name: &str) -> bool {
    name == "kvm-vm-stats" || name.starts_with("kvm-vcpu-stats:")
}

// -- binary statistics ----------------------------------------------------------------------------

fn statistics(sample: &mut Sample, pid: i32, given: &[(u32, String)]) -> Result<()> {
    let process = pidfd_open(Pid::from_raw(pid).context("no process")?, PidfdFlags::empty())
        .with_context(|| format!("process {pid} has ended"))?;
    for (number, name) in given {
        let file = pidfd_getfd(&process, *number as i32, PidfdGetfdFlags::empty())
            .with_context(|| format!("cannot take {name} of process {pid}"))?;
        add_statistics(sample, name, &read_all(&file)?)
            .with_context(|| format!("{name} of process {pid}"))?;
    }
    Ok(())
}

/// In one piece: each call takes the numbers anew.
fn read_all(file: &OwnedFd) -> Result<Vec<u8>> {
    let mut bytes = vec![0; MOST_BYTES];
    let length = rustix::io::pread(file, &mut bytes, 0).context("reading KVM's statistics")?;
    bytes.truncate(length);
    Ok(bytes)
}

const HEADER: usize = 24;
/// A descriptor without its name.
const DESCRIPTOR: usize = 16;

/// `source` tells one virtual CPU's numbers from another's.
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

fn debugfs(sample: &mut Sample, surroundings: &Surroundings, pid: i32, vm: u32) -> Result<()> {
    let (root, _mount) = mounted()?;
    let pid = machine::process(surroundings, pid)?;
    let directory = root.join("kvm").join(format!("{pid}-{vm}"));
    add_directory(sample, &directory)
}

/// debugfs as it is mounted, else mounted for this purpose alone.
fn mounted() -> Result<(PathBuf, Option<OwnedFd>)> {
    if Path::new(DEBUGFS).join("kvm").exists() {
        return Ok((DEBUGFS.into(), None));
    }
    let mount = mount_nowhere("debugfs").context(
        "it is not mounted and cannot be: this needs root of the machine itself and a kernel with \
         CONFIG_DEBUG_FS",
    )?;
    Ok((format!("/proc/self/fd/{}", mount.as_raw_fd()).into(), Some(mount)))
}

fn add_directory(sample: &mut Sample, directory: &Path) -> Result<()> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("listing {}", directory.display()))?;
    let mut any = false;
    for entry in entries.flatten().filter(|entry| entry.path().is_file()) {
        let name = entry.file_name();
        let (Some(name), Ok(text)) = (name.to_str(), fs::read_to_string(entry.path())) else {
            continue;
        };
        // Some of the files are tables.
        let Ok(value) = text.trim().parse() else { continue };
        add(sample, "", name, value, LEVELS.contains(&name));
        any = true;
    }
    ensure!(any, "{} holds no counters", directory.display());
    Ok(())
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

    fn taken(exits: [u64; 2], pages_2m: u64) -> Sample {
        let mut sample = Sample::default();
        let vm = statistics_of(&[("mmu_shadow_zapped", 0, &[7]), ("pages_2m", 1, &[pages_2m])]);
        add_statistics(&mut sample, "kvm-vm-stats", &vm).unwrap();
        for (cpu, exits) in exits.into_iter().enumerate() {
            let stats: &[(&str, u32, &[u64])] = &[
                ("halt_poll_success_hist", 4, &[1, 2, 3]),
                ("exits", 0, &[exits]),
                ("halt_wait_ns", 0x20, &[5]),
            ];
            let source = format!("kvm-vcpu-stats:{cpu}");
            add_statistics(&mut sample, &source, &statistics_of(stats)).unwrap();
        }
        sample
    }

    pub(crate) fn captured() -> Sample {
        taken([1, 2], 3)
    }

    #[test]
    fn counters_are_differences_over_all_cpus_and_levels_are_levels() {
        let values = difference(&taken([10, 20], 9), &taken([15, 22], 4), &mut Vec::new()).unwrap();
        assert_eq!((values["exits"], values["pages_2m_level"]), (7.0, 4.0));
        assert_eq!((values["mmu_shadow_zapped"], values["halt_wait_ns"]), (0.0, 0.0));
        assert!(!values.contains_key("halt_poll_success_hist"));
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
        for (name, text) in
            [("exits", "11572\n"), ("pages_4k", "16306\n"), ("mmu_rmaps_stat", "Rmap_Count: 0\n")]
        {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let mut sample = Sample::default();
        add_directory(&mut sample, folder.path()).unwrap();
        let mut names: Vec<_> = sample.entries.iter().flat_map(|entry| &entry.names).collect();
        names.sort();
        assert_eq!(names, ["exits", "pages_4k_level"]);
        fs::remove_file(folder.path().join("exits")).unwrap();
        fs::remove_file(folder.path().join("pages_4k")).unwrap();
        let error = add_directory(&mut Sample::default(), folder.path()).unwrap_err().to_string();
        assert!(error.contains("holds no counters"), "{error}");
    }

    #[test]
    fn what_is_no_guest_of_kvm_says_so() {
        let of = |outside| Surroundings { outside, ..Surroundings::default() };
        let own = Processes { pid: std::process::id() as i32, ..Processes::default() };
        for (surroundings, why) in [
            (of(None), "neither a guest nor a container"),
            (of(Some(Outside::Domain(1))), "guest of Xen"),
            (of(Some(Outside::Processes(own))), "no virtual machine of KVM"),
        ] {
            let error = sample(&surroundings).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
