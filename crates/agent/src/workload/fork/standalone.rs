//! `hypertare-agent fork`.

use anyhow::Result;
use hypertare_plan::Fork;

use crate::units;
use crate::workload::standalone;
use crate::workload::{Alone, WorkloadKind, mark};

/// Fork, execute a program that writes to memory, wait for its end, again and again
#[derive(clap::Args)]
pub struct Arguments {
    /// How often
    #[arg(long, value_name = "N", default_value_t = 300)]
    count: u64,
    /// Memory that each program writes to, for example 1M
    #[arg(long, value_name = "BYTES", default_value = "1M", value_parser = units::parse_size)]
    touch: u64,
    /// Print the result record
    #[arg(long)]
    json: bool,
    /// Print nothing: for who counts what a program does, so that it does the same each time
    #[arg(long, conflicts_with = "json")]
    quiet: bool,
}

impl Alone for Arguments {
    fn run(self) -> Result<()> {
        let spec = Fork { count: self.count, touch: self.touch };
        if self.quiet {
            return mark::around("fork", |context| spec.run(context).map(drop));
        }
        let context = standalone::context("fork", standalone::stop_by_signal()?, || ());
        let outcome = spec.run(&context)?;
        standalone::print(&context, outcome, self.json, |outcome| {
            let (forks, elapsed_s) = (outcome.value("forks"), outcome.value("elapsed_s"));
            format!(
                "{forks} forks in {elapsed_s:.3} s: {:.0} a second, each {}, {:.1} page faults\n",
                forks / elapsed_s,
                units::three_digits(elapsed_s / forks * 1e9),
                (outcome.value("minor_faults") + outcome.value("major_faults")) / forks,
            )
        })
    }
}
