//! Huge pages and merged pages of a machine: transparent huge pages (THP,
//! Documentation/admin-guide/mm/transhuge.rst), those reserved beforehand (hugetlbpage.rst), and those
//! that KSM keeps once for many (ksm.rst).
//!
//! What happened is a difference; what there is at the end is a level and is named so.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::counters::{Kind, Sample};
use super::{ProbeContext, ProbeKind, Source, threads, vmstat};
use crate::values::Definition;

const VALUES: &[Definition] = &[
    ("ksm_saved_bytes_level", "B", "memory that KSM saves at the end"),
    ("*_bytes_level", "B", "memory of a kind at the end: in huge pages, or saved by KSM"),
    ("*_level", "pages", "pages of a kind at the end: reserved ones of 2 MB, KSM's"),
    ("thp_fault_alloc", "faults", "page faults that got a transparent huge page"),
    (
        "thp_*",
        "events",
        "transparent huge pages, by the kernel's name, for example thp_fault_alloc",
    ),
    ("cow_ksm", "faults", "page faults that copied a page which KSM had merged"),
    ("ksm_full_scans", "scans", "times that ksmd came round all memory that may be merged"),
    ("ksm_pages_scanned", "pages", "pages that ksmd looked at"),
    ("ksm_swpin_copy", "pages", "merged pages copied when they came back from swap"),
    ("khugepaged_full_scans", "scans", "times that khugepaged came round all memory"),
    ("khugepaged_pages_collapsed", "pages", "huge pages that khugepaged made of small ones"),
    ("ksmd_s", "s", "CPU time of ksmd, which merges pages"),
    ("khugepaged_s", "s", "CPU time of khugepaged, which makes huge pages of small ones"),
];

/// The probe.
pub const KIND: ProbeKind = ProbeKind { values: VALUES, source: Source::Numbers(sample) };

/// Files of KSM that say how many pages there are of a kind.
const KSM_LEVELS: [&str; 4] = ["pages_shared", "pages_sharing", "pages_unshared", "pages_volatile"];
const KSM_COUNTERS: [&str; 2] = ["full_scans", "pages_scanned"];

pub fn sample(probe_context: &ProbeContext) -> Result<Sample> {
    let mut sample = Sample::default();
    events(&mut sample, &probe_context.proc)?;
    amounts(&mut sample, &probe_context.proc)?;
    let mm = probe_context.sys.join("kernel/mm");
    reserved(&mut sample, &mm);
    collapsed(&mut sample, &mm);
    ksm(&mut sample, &mm);
    cpu_time(&mut sample, probe_context);
    Ok(sample)
}

/// The kernel's own names: thp_fault_alloc, cow_ksm.
fn events(sample: &mut Sample, proc: &Path) -> Result<()> {
    let text = fs::read_to_string(proc.join("vmstat"))
        .context("reading vmstat (the kernel may be built without CONFIG_VM_EVENT_COUNTERS)")?;
    let all = vmstat::parse(&text)?.entries.into_iter();
    let ours: Vec<_> =
        all.filter(|entry| entry.key.starts_with("thp_") || entry.key.contains("ksm")).collect();
    if !ours.iter().any(|entry| entry.key.starts_with("thp_")) {
        sample.lacks("thp_*", "this kernel is built without CONFIG_TRANSPARENT_HUGEPAGE");
    }
    sample.entries.extend(ours);
    Ok(())
}

fn amounts(sample: &mut Sample, proc: &Path) -> Result<()> {
    let text = fs::read_to_string(proc.join("meminfo")).context("reading meminfo")?;
    for (line, value) in [
        ("AnonHugePages", "anon_huge_bytes_level"),
        ("ShmemHugePages", "shmem_huge_bytes_level"),
        ("FileHugePages", "file_huge_bytes_level"),
    ] {
        match kilobytes(&text, line) {
            Some(kilobytes) => sample.count(value, kilobytes, Kind::Gauge, 1024.0),
            None => sample.lacks(value, format!("/proc/meminfo of this kernel has no {line}")),
        }
    }
    Ok(())
}

/// `AnonHugePages:      2048 kB`
pub fn kilobytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Of 2 MB.
fn reserved(sample: &mut Sample, mm: &Path) {
    let directory = mm.join("hugepages/hugepages-2048kB");
    for (file, value) in [
        ("nr_hugepages", "huge_pages_level"),
        ("free_hugepages", "huge_pages_free_level"),
        ("resv_hugepages", "huge_pages_reserved_level"),
    ] {
        let why = "this kernel reserves no pages of 2 MB (CONFIG_HUGETLB_PAGE, or the CPU)";
        number(sample, &directory.join(file), value, Kind::Gauge, why);
    }
}

fn collapsed(sample: &mut Sample, mm: &Path) {
    let directory = mm.join("transparent_hugepage/khugepaged");
    for file in ["full_scans", "pages_collapsed"] {
        let value = format!("khugepaged_{file}");
        let why = "this kernel is built without CONFIG_TRANSPARENT_HUGEPAGE";
        number(sample, &directory.join(file), &value, Kind::Counter, why);
    }
}

fn ksm(sample: &mut Sample, mm: &Path) {
    let directory = mm.join("ksm");
    let why = "this kernel is built without CONFIG_KSM, or is too old to count it";
    for file in KSM_LEVELS {
        let value = format!("ksm_{file}_level");
        number(sample, &directory.join(file), &value, Kind::Gauge, why);
    }
    for file in KSM_COUNTERS {
        number(sample, &directory.join(file), &format!("ksm_{file}"), Kind::Counter, why);
    }
    // "How much is being saved" (ksm.rst): each of these has a page of its own no more.
    match read(&directory.join("pages_sharing")) {
        Some(pages) => {
            let page_bytes = rustix::param::page_size() as f64;
            sample.count("ksm_saved_bytes_level", pages, Kind::Gauge, page_bytes);
        }
        None => sample.lacks("ksm_saved_bytes_level", why),
    }
}

fn cpu_time(sample: &mut Sample, probe_context: &ProbeContext) {
    for name in ["ksmd", "khugepaged"] {
        let threads = threads::find(probe_context, |thread| thread == name);
        let value = format!("{name}_s");
        if threads.is_empty() {
            let why =
                "no such kernel thread: it is not needed, or not seen from this PID namespace";
            sample.lacks(&value, why);
        }
        threads.cpu_time(sample, &value);
    }
}

fn number(sample: &mut Sample, path: &Path, value: &str, kind: Kind, why_missing: &str) {
    match read(path) {
        Some(raw) => sample.count(value, raw, kind, 1.0),
        None => sample.lacks(value, why_missing),
    }
}

fn read(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::counters::difference;
    use super::*;

    /// Linux 6.1: as many of the lines as matter here.
    const VMSTAT: &str = "\
nr_free_pages 1199662
nr_anon_transparent_hugepages 3
pgfault 9947577
ksm_swpin_copy 0
cow_ksm 12
thp_fault_alloc 30
thp_fault_fallback 1
thp_collapse_alloc 2
thp_split_page 0
";
    const MEMINFO: &str = "\
MemTotal:        2006020 kB
AnonHugePages:      6144 kB
ShmemHugePages:        0 kB
HugePages_Total:       8
";

    fn machine() -> (tempfile::TempDir, ProbeContext) {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/vmstat", VMSTAT);
        write("proc/meminfo", MEMINFO);
        write("proc/30/comm", "ksmd\n");
        write("proc/30/schedstat", "2000000000 77 9\n");
        write("proc/31/comm", "ksoftirqd/0\n");
        let mm = "sys/kernel/mm";
        write(&format!("{mm}/hugepages/hugepages-2048kB/nr_hugepages"), "8\n");
        write(&format!("{mm}/hugepages/hugepages-2048kB/free_hugepages"), "5\n");
        write(&format!("{mm}/hugepages/hugepages-2048kB/resv_hugepages"), "0\n");
        for (file, text) in [
            ("pages_shared", "100"),
            ("pages_sharing", "900"),
            ("pages_unshared", "40"),
            ("pages_volatile", "3"),
            ("full_scans", "7"),
        ] {
            write(&format!("{mm}/ksm/{file}"), text);
        }
        let probe_context = ProbeContext {
            proc: root.path().join("proc"),
            sys: root.path().join("sys"),
            ..ProbeContext::default()
        };
        (root, probe_context)
    }

    pub(crate) fn captured() -> Sample {
        let (_root, probe_context) = machine();
        sample(&probe_context).unwrap()
    }

    #[test]
    fn events_are_differences_and_amounts_are_levels() {
        let (root, probe_context) = machine();
        let before = sample(&probe_context).unwrap();
        let write = |name: &str, text: &str| fs::write(root.path().join(name), text).unwrap();
        write("proc/vmstat", &VMSTAT.replace("cow_ksm 12", "cow_ksm 15"));
        write("proc/30/schedstat", "2500000000 80 9\n");
        write("sys/kernel/mm/ksm/pages_sharing", "1000\n");
        write("sys/kernel/mm/ksm/full_scans", "9\n");
        let after = sample(&probe_context).unwrap();
        let mut notes = Vec::new();
        let values = difference(&before, &after, &mut notes).unwrap();
        for (name, value) in [
            ("cow_ksm", 3.0),
            ("thp_fault_alloc", 0.0),
            ("anon_huge_bytes_level", 6_291_456.0),
            ("huge_pages_level", 8.0),
            ("huge_pages_free_level", 5.0),
            ("ksm_full_scans", 2.0),
            ("ksm_pages_sharing_level", 1000.0),
            ("ksm_saved_bytes_level", 4_096_000.0),
            ("ksmd_s", 0.5),
        ] {
            assert_eq!(values[name], value, "{name}");
        }
        assert!(!values.contains_key("pgfault"));
        // What this kernel lacks is named, and is no zero.
        for name in ["file_huge_bytes_level", "ksm_pages_scanned", "khugepaged_full_scans"] {
            assert!(!values.contains_key(name) && after.absent.contains_key(name), "{name}");
        }
        assert!(after.absent["khugepaged_s"].contains("PID namespace"));
        assert!(notes.is_empty(), "{notes:?}");
    }

    #[test]
    fn a_kernel_without_any_of_it_says_so() {
        let (root, probe_context) = machine();
        fs::remove_dir_all(root.path().join("sys")).unwrap();
        fs::write(root.path().join("proc/vmstat"), "pgfault 1\n").unwrap();
        let sample = sample(&probe_context).unwrap();
        assert!(sample.absent["thp_*"].contains("CONFIG_TRANSPARENT_HUGEPAGE"));
        assert!(sample.absent["ksm_saved_bytes_level"].contains("CONFIG_KSM"));
    }

    #[test]
    fn this_machine_reports_its_own() {
        let sample = sample(&ProbeContext::default()).unwrap();
        assert!(sample.entries.len() + sample.absent.len() > 10, "{sample:?}");
    }
}
