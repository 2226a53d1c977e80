//! Asks the processor what it is, again and again: what one exit to a hypervisor costs.
//!
//! CPUID is the instruction of the x86 for which every guest with hardware virtualisation leaves for its
//! hypervisor (Intel SDM 3C, 26.1.2; AMD APM 2, 15.9 where it is intercepted, as KVM does), and KVM answers
//! it by itself. Natively it is some ten cycles of microcode to a few hundred. The question of `vmexit` in
//! kvm-unit-tests.

use anyhow::{Result, bail, ensure};
use hypertare_plan::Cpuid;

use super::clock::{now_ns, to_seconds};
use super::{Alone, Context, Outcome, WorkloadKind};
use crate::units;
use crate::values::Definition;
use crate::workload::standalone;

const MOST: u64 = 1_000_000_000;
/// A stop is looked for after so many: some ms of the dearest exits.
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

/// Leaf 0, the maker's name, of which nothing depends on where it is asked.
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
