//! Exits of a KVM guest by reason, and its page faults by error code: histograms of the kernel's own
//! tracepoints kvm:kvm_exit and kvm:kvm_page_fault, of the threads of its virtual CPUs alone. The
//! names of the reasons are those of the running kernel, which its description of the event holds:
//! one table for VMX and one for SVM.
//!
//! Each exit takes a little longer for it, so it is a probe of its own.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use hypertare_plan::Histogram;

use super::kvm::vmm;
use super::tracing::{Counts, Instance, histograms};
use super::{Counted, ProbeContext, ProbeKind, Source, machine};
use crate::values::Definition;

const VALUES: &[Definition] = &[
    ("exits_*", "exits", "exits by the kernel's name for their reason, for example exits_npf"),
    (
        "page_faults",
        "faults",
        "page faults of the guest that came to the hypervisor, MMIO included",
    ),
];

/// The probe.
pub const KIND: ProbeKind = ProbeKind {
    values: VALUES,
    source: Source::Watch(|probe_context| Ok(Box::new(Watch::start(probe_context)?))),
};

const EXIT: &str = "kvm/kvm_exit";
const FAULT: &str = "kvm/kvm_page_fault";
const VMX: u64 = 1;
/// Bits of VMX that are no reason.
const VMX_REASON: u64 = 0xffff;

pub struct Watch {
    instance: Instance,
    names: Names,
}

impl Watch {
    /// # Errors
    /// The node is no guest of KVM, or the kernel cannot count its exits here, and why.
    pub fn start(probe_context: &ProbeContext) -> Result<Self> {
        let vmm = vmm(probe_context)?;
        let threads = machine::threads(probe_context, vmm.pid, &vmm.vcpu_tids)?;
        ensure!(!threads.is_empty(), "no thread of process {} can be seen", vmm.pid);
        let instance = Instance::make(&[EXIT, FAULT])?;
        let names = Names::of(&instance.format(EXIT)?);
        instance.count(EXIT, &trigger("exit_reason,isa", &threads))?;
        instance.count(FAULT, &trigger("error_code", &threads))?;
        Ok(Watch { instance, names })
    }
}

fn trigger(keys: &str, threads: &[i32]) -> String {
    let own: Vec<String> = threads.iter().map(|tid| format!("common_pid == {tid}")).collect();
    format!("hist:keys={keys} if {}", own.join(" || "))
}

impl super::Watch for Watch {
    fn counted(&self) -> Result<Counted> {
        let mut counted = Counted::default();
        exits(&mut counted, &self.names, &histograms(&self.instance.histogram(EXIT)?)?)?;
        faults(&mut counted, &histograms(&self.instance.histogram(FAULT)?)?)?;
        Ok(counted)
    }
}

fn exits(counted: &mut Counted, names: &Names, found: &[Counts]) -> Result<()> {
    note_dropped(counted, "exits", found);
    for row in found.iter().flat_map(|counts| &counts.rows) {
        let key = |name: &str| row.keys.get(name).context("an exit without its reason");
        let name = format!("exits_{}", names.of_exit(*key("isa")?, *key("exit_reason")?));
        *counted.values.entry(name).or_insert(0.0) += row.hits as f64;
    }
    Ok(())
}

fn faults(counted: &mut Counted, found: &[Counts]) -> Result<()> {
    note_dropped(counted, "page faults", found);
    let mut by_code: BTreeMap<u64, u64> = BTreeMap::new();
    for row in found.iter().flat_map(|counts| &counts.rows) {
        let code = row.keys.get("error_code").context("a page fault without its error code")?;
        *by_code.entry(*code).or_insert(0) += row.hits;
    }
    counted.values.insert("page_faults".to_owned(), by_code.values().sum::<u64>() as f64);
    let buckets: Vec<(u64, u64)> = by_code.into_iter().collect();
    if !buckets.is_empty() {
        let histogram = Histogram { unit: "error code".to_owned(), buckets };
        counted.histograms.insert("page_faults".to_owned(), histogram);
    }
    Ok(())
}

fn note_dropped(counted: &mut Counted, what: &str, found: &[Counts]) {
    let dropped: u64 = found.iter().map(|counts| counts.dropped).sum();
    if dropped > 0 {
        counted.notes.push(format!("{dropped} {what} had no room in the histogram"));
    }
}

/// Reasons by number, of VMX and of SVM.
#[derive(Debug, Default)]
struct Names {
    vmx: BTreeMap<u64, String>,
    svm: BTreeMap<u64, String>,
}

impl Names {
    /// From the event's `print fmt`, where VMX's table stands first:
    /// `(REC->isa == 1) ? __print_symbolic(REC->exit_reason & 0xffff, { 0, "EXCEPTION_NMI" }, ...) :
    /// __print_symbolic(REC->exit_reason, { 0x000, "read_cr0" }, { 0x040 + 0, "DE excp" }, ...)`.
    fn of(format: &str) -> Self {
        let mut tables = format.split("__print_symbolic(").skip(1).map(table);
        Names { vmx: tables.next().unwrap_or_default(), svm: tables.next().unwrap_or_default() }
    }

    fn of_exit(&self, isa: u64, reason: u64) -> String {
        let (table, reason) = match isa {
            VMX => (&self.vmx, reason & VMX_REASON),
            _ => (&self.svm, reason),
        };
        table.get(&reason).cloned().unwrap_or_else(|| format!("{reason:#x}"))
    }
}

/// The pairs up to the end of the call.
fn table(text: &str) -> BTreeMap<u64, String> {
    let mut table = BTreeMap::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        // A bracket that closes without a pair in it ends the call.
        if before.contains(')') {
            break;
        }
        let Some((pair, after)) = after.split_once('}') else { break };
        rest = after;
        let Some((number, name)) = pair.split_once(',') else { continue };
        if let Some(number) = sum(number) {
            table.insert(number, plain(name));
        }
    }
    table
}

/// `0x040 + 14`; the kernel keeps reasons in 32 bits.
fn sum(text: &str) -> Option<u64> {
    text.split('+').try_fold(0, |sum, term| {
        let term = term.trim().trim_matches(['(', ')']).trim();
        let number = match term.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex.trim_end_matches(['u', 'U', 'l', 'L']), 16),
            None => term.trim_end_matches(['u', 'U', 'l', 'L']).parse(),
        };
        Some(sum + u64::from(number.ok()? as u32))
    })
}

/// `"PF excp"` as `pf_excp`.
fn plain(name: &str) -> String {
    let name = name.trim().trim_matches('"').to_lowercase();
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Linux 6.1's, with some of its reasons.
    const FORMAT: &str = r##"name: kvm_exit
ID: 1419
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;

	field:unsigned int exit_reason;	offset:8;	size:4;	signed:0;
	field:u32 isa;	offset:24;	size:4;	signed:0;

print fmt: "vcpu %u reason %s%s%s rip 0x%lx info1 0x%016llx info2 0x%016llx intr_info 0x%08x error_code 0x%08x", REC->vcpu_id, (REC->isa == 1) ? __print_symbolic(REC->exit_reason & 0xffff, { 0, "EXCEPTION_NMI" }, { 10, "CPUID" }, { 48, "EPT_VIOLATION" }, { 75, "NOTIFY" }) : __print_symbolic(REC->exit_reason, { 0x000, "read_cr0" }, { 0x040 + 0, "DE excp" }, { 0x040 + 14, "PF excp" }, { 0x072, "cpuid" }, { 0x400, "npf" }, { 0x80000001, "vmgexit_mmio_read" }, { -1, "invalid_guest_state" }), (REC->isa == 1 && REC->exit_reason & ~0xffff) ? " " : "", (REC->isa == 1) ? __print_flags(REC->exit_reason & ~0xffff, " ", { 0x80000000, "FAILED_VMENTRY" }) : "", REC->guest_rip, REC->info1, REC->info2, REC->intr_info, REC->error_code
"##;

    const EXITS: &str = "\
# event histogram
#
# trigger info: hist:keys=exit_reason,isa:vals=hitcount:sort=hitcount:size=2048 if common_pid == 87 [active]
#

{ exit_reason:        114, isa:          2 } hitcount:         35
{ exit_reason:         78, isa:          2 } hitcount:      64675
{ exit_reason:        999, isa:          2 } hitcount:          1

Totals:
    Hits: 64711
    Entries: 3
    Dropped: 0
";

    const FAULTS: &str = "\
# event histogram
#
# trigger info: hist:keys=error_code:vals=hitcount:sort=hitcount:size=2048 if common_pid == 87 [active]
#

{ error_code:          7 } hitcount:       1188
{ error_code:          6 } hitcount:      53007
{ error_code: 4294967310 } hitcount:          2

Totals:
    Hits: 54197
    Entries: 3
    Dropped: 4
";

    pub(crate) fn captured() -> Counted {
        let mut counted = Counted::default();
        exits(&mut counted, &Names::of(FORMAT), &histograms(EXITS).unwrap()).unwrap();
        faults(&mut counted, &histograms(FAULTS).unwrap()).unwrap();
        counted
    }

    #[test]
    fn reasons_have_the_names_of_the_running_kernel() {
        let names = Names::of(FORMAT);
        for (isa, reason, name) in [
            (1, 48, "ept_violation"),
            (1, 0x8000_0030, "ept_violation"),
            (1, 75, "notify"),
            (1, 76, "0x4c"),
            (2, 0x400, "npf"),
            (2, 0x40, "de_excp"),
            (2, 0x4e, "pf_excp"),
            (2, 0x8000_0001, "vmgexit_mmio_read"),
            (2, 0xffff_ffff, "invalid_guest_state"),
            (2, 48, "0x30"),
        ] {
            assert_eq!(names.of_exit(isa, reason), name);
        }
        assert_eq!((names.vmx.len(), names.svm.len()), (4, 7));
        // A kernel that says it otherwise leaves numbers.
        assert_eq!(Names::of("print fmt: \"%u\", REC->x").of_exit(2, 0x400), "0x400");
    }

    #[test]
    fn exits_and_faults_are_counted_by_their_keys() {
        let counted = captured();
        assert_eq!(counted.values["exits_cpuid"], 35.0);
        assert_eq!(counted.values["exits_pf_excp"], 64_675.0);
        assert_eq!(counted.values["exits_0x3e7"], 1.0);
        assert_eq!(counted.values["page_faults"], 54_197.0);
        let buckets = &counted.histograms["page_faults"].buckets;
        assert_eq!(buckets, &[(6, 53_007), (7, 1188), (4_294_967_310, 2)]);
        assert_eq!(counted.notes, ["4 page faults had no room in the histogram"]);
    }

    #[test]
    fn only_the_guests_own_threads_are_counted() {
        assert_eq!(trigger("error_code", &[87]), "hist:keys=error_code if common_pid == 87");
        let two = trigger("exit_reason,isa", &[5, 6]);
        assert!(two.ends_with("if common_pid == 5 || common_pid == 6"), "{two}");
    }
}
