//! Executes CPUID again and again, to measure the cost of one exit to a hypervisor.
//!
//! Every x86 guest with hardware virtualisation exits to its hypervisor for CPUID (Intel SDM 3C, 26.1.2;
//! AMD APM 2, 15.9, where it is intercepted, as KVM does), and KVM answers it without its VMM. Natively it
//! takes some ten to a few hundred cycles of microcode. `vmexit` of kvm-unit-tests measures the same.

use anyhow::{Result, bail, ensure};
use hypertare_plan::Cpuid;

use super::clock::{now_ns, to_seconds};
use super::{Alone, Context, Outcome, WorkloadKind};
use crate::units;
use crate::values::Definition;
use crate::workload::standalone;

const MOST: u64 = 1_000_000_000;
/// CPUIDs between two looks for a stop: some milliseconds of the most expensive exits.
const AT_ONCE: u64 = 1000;

impl WorkloadKind for Cpuid {
    const VALUES: &'static [Definition] = &[
        ("elapsed_s", "s", "from before the first CPUID to after the last"),
        ("cpuids", "instructions", "CPUID instructions that were executed"),
    ];

    /// Fails when it is stopped: half the work must not count as a fast trial.
    fn run(&self, context: &Context) -> Result<Outcome> {
        ensure!(
            (1..=MOST).contains(&self.count),
            "count is {}: it must be from 1 to {MOST}",
            self.count
        );
        context.ready();
        let begin = now_ns();
        let mut done = 0;
        while done < self.count {
            if context.stopped() {
                bail!("stopped after {done} of {} CPUIDs", self.count);
            }
            let now = AT_ONCE.min(self.count - done);
            (0..now).for_each(|_| ask());
            done += now;
        }
        let elapsed_s = to_seconds(now_ns() - begin);
        Ok(Outcome::of([("elapsed_s", elapsed_s), ("cpuids", done as f64)]))
    }
}

/// Leaf 0, the maker's name, whose answer does not depend on the CPU that executes it.
fn ask() {
    // SAFETY: CPUID changes these four registers only; LLVM keeps RBX for itself, so it is put back.
    unsafe {
        std::arch::asm!(
            "mov {kept}, rbx",
            "cpuid",
            "mov rbx, {kept}",
            kept = out(reg) _,
            inout("eax") 0 => _,
            out("ecx") _,
            out("edx") _,
            options(nomem, nostack, preserves_flags),
        );
    }
}

/// Execute CPUID, for which a guest leaves for its hypervisor, again and again
#[derive(clap::Args)]
pub struct Arguments {
    /// How often
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    count: u64,
    /// Print the result record
    #[arg(long)]
    json: bool,
}

impl Alone for Arguments {
    fn run(self) -> Result<()> {
        let context = standalone::context("cpuid", standalone::stop_by_signal()?, || ());
        let outcome = Cpuid { count: self.count }.run(&context)?;
        standalone::print(&context, outcome, self.json, |outcome| {
            let (count, elapsed_s) = (outcome.value("cpuids"), outcome.value("elapsed_s"));
            let each = units::three_digits(elapsed_s / count * 1e9);
            format!("{count} CPUIDs in {elapsed_s:.3} s: {each} each\n")
        })
    }
}
