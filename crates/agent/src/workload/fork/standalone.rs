//! `hypertare-agent fork`.

use std::io::{self, Write};

use anyhow::Result;
use hypertare_plan::Fork;
use walk::Mark;

use crate::units;
use crate::workload::standalone;
use crate::workload::{Alone, fork, mark};

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
            return marked(&spec);
        }
        let context = standalone::context("fork", standalone::stop_by_signal()?, || ());
        let outcome = fork::run(&spec, &context)?;
        if self.json {
            return standalone::print_record(&context, outcome);
        }
        let values = &outcome.values;
        let (forks, elapsed_s) = (values["forks"], values["elapsed_s"]);
        writeln!(
            io::stdout(),
            "{forks} forks in {elapsed_s:.3} s: {:.0} a second, each {}, {:.1} page faults",
            forks / elapsed_s,
            units::three_digits(elapsed_s / forks * 1e9),
            (values["minor_faults"] + values["major_faults"]) / forks,
        )?;
        Ok(())
    }
}

/// The work alone, with marks where `elapsed_s` begins and ends.
fn marked(spec: &Fork) -> Result<()> {
    let begin = || mark::report(Mark::Begin);
    let context = standalone::context("fork", standalone::stop_by_signal()?, begin);
    fork::run(spec, &context)?;
    mark::report(Mark::End);
    Ok(())
}
