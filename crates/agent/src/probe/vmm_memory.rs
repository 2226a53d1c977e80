//! Memory of a guest's VMM on its host: what the guest has touched, and what the VMM takes for itself
//! (Documentation/filesystems/proc.rst).

use std::fs;

use anyhow::{Context, Result, ensure};

use super::counters::{Kind, Sample};
use super::memory::kilobytes;
use super::{ProbeContext, ProbeKind, Source, kvm};
use crate::values::Definition;

const VALUES: &[Definition] = &[
    ("rss_bytes_level", "B", "resident set of the VMM at the end, without pages of hugetlb"),
    ("rss_anon_bytes_level", "B", "of that anonymous memory, as a guest's memory mostly is"),
    ("rss_file_bytes_level", "B", "of that mapped files, such as the VMM's own program"),
    ("rss_shmem_bytes_level", "B", "of that shared memory"),
    ("pss_bytes_level", "B", "the same with each page divided among those who have it (KSM, fork)"),
    ("hugetlb_bytes_level", "B", "pages of hugetlb that it has mapped at the end"),
    ("peak_rss_bytes_level", "B", "largest resident set since the VMM began"),
];

/// The probe.
pub const KIND: ProbeKind = ProbeKind { values: VALUES, source: Source::Numbers(sample) };

fn sample(probe_context: &ProbeContext) -> Result<Sample> {
    let vmm = kvm::vmm(probe_context)?;
    ensure!(!vmm.vcpu_tids.is_empty(), "it has no virtual CPUs: it is a container, not a guest");
    let process = probe_context.proc.join(vmm.pid.to_string());
    let status = fs::read_to_string(process.join("status"))
        .with_context(|| format!("process {} has ended", vmm.pid))?;
    // Exact, where `status` may lag; but only for those who may look into the process.
    let rollup = fs::read_to_string(process.join("smaps_rollup"));
    let exact = |name| kilobytes(rollup.as_deref().unwrap_or_default(), name);
    let why_missing = rollup.as_ref().err().map_or_else(
        || "this kernel does not count it".to_owned(),
        |error| format!("smaps_rollup of the VMM cannot be read here ({error})"),
    );
    let mut sample = Sample { identity: Some(format!("process {}", vmm.pid)), ..Sample::default() };
    for (value, found) in [
        ("rss_bytes_level", exact("Rss").or(kilobytes(&status, "VmRSS"))),
        ("rss_anon_bytes_level", kilobytes(&status, "RssAnon")),
        ("rss_file_bytes_level", kilobytes(&status, "RssFile")),
        ("rss_shmem_bytes_level", kilobytes(&status, "RssShmem")),
        // A kernel that has no such line has no such pages.
        ("hugetlb_bytes_level", kilobytes(&status, "HugetlbPages").or(Some(0))),
        ("peak_rss_bytes_level", kilobytes(&status, "VmHWM")),
        ("pss_bytes_level", exact("Pss")),
    ] {
        match found {
            Some(kilobytes) => sample.count(value, kilobytes, Kind::Gauge, 1024.0),
            None => sample.lacks(value, &why_missing),
        }
    }
    Ok(sample)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::counters::difference;
    use super::super::{Outside, Processes};
    use super::*;

    const STATUS: &str = "Name:\tqemu\nVmHWM:\t  300000 kB\nVmRSS:\t  199000 kB\n\
        RssAnon:\t  180000 kB\nRssFile:\t   20000 kB\nRssShmem:\t       0 kB\n\
        HugetlbPages:\t    4096 kB\n";
    const ROLLUP: &str = "5641ab448000-7fff3885d000 ---p 00000000 00:00 0  [rollup]\n\
        Rss:              200000 kB\nPss:              150000 kB\nPss_Anon: 140000 kB\n";

    fn machine(vcpu_tids: Vec<i32>) -> (tempfile::TempDir, ProbeContext) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("77")).unwrap();
        fs::write(root.path().join("77/status"), STATUS).unwrap();
        fs::write(root.path().join("77/smaps_rollup"), ROLLUP).unwrap();
        let processes = Processes { pid: 77, vcpu_tids, ..Processes::default() };
        let probe_context = ProbeContext {
            proc: root.path().to_owned(),
            outside: Some(Outside::Processes(processes)),
            ..ProbeContext::default()
        };
        (root, probe_context)
    }

    pub(crate) fn captured() -> Sample {
        let (_root, probe_context) = machine(vec![78]);
        sample(&probe_context).unwrap()
    }

    #[test]
    fn it_is_what_there_is_at_the_end() {
        let (root, probe_context) = machine(vec![78]);
        let before = sample(&probe_context).unwrap();
        let grown = ROLLUP.replace("200000", "210000");
        fs::write(root.path().join("77/smaps_rollup"), grown).unwrap();
        let after = sample(&probe_context).unwrap();
        let values = difference(&before, &after, &mut Vec::new()).unwrap();
        for (name, kilobytes) in [
            ("rss_bytes_level", 210_000.0),
            ("pss_bytes_level", 150_000.0),
            ("rss_anon_bytes_level", 180_000.0),
            ("hugetlb_bytes_level", 4096.0),
            ("peak_rss_bytes_level", 300_000.0),
        ] {
            assert_eq!(values[name], kilobytes * 1024.0, "{name}");
        }
    }

    #[test]
    fn what_may_not_be_looked_into_says_so_and_has_a_resident_set_all_the_same() {
        let (root, probe_context) = machine(vec![78]);
        fs::remove_file(root.path().join("77/smaps_rollup")).unwrap();
        let sample = sample(&probe_context).unwrap();
        assert!(sample.absent["pss_bytes_level"].contains("cannot be read"));
        let rss = sample.entries.iter().find(|one| one.key == "rss_bytes_level").unwrap();
        assert_eq!(rss.raw, 199_000);
    }

    #[test]
    fn who_has_no_vmm_says_so() {
        let (_root, container) = machine(Vec::new());
        assert!(sample(&container).unwrap_err().to_string().contains("a container"));
        let domain = ProbeContext { outside: Some(Outside::Domain(3)), ..ProbeContext::default() };
        assert!(sample(&domain).unwrap_err().to_string().contains("Xen"));
        let error = sample(&ProbeContext::default()).unwrap_err().to_string();
        assert!(error.contains("no guest, and no container with a cgroup"), "{error}");
    }
}
