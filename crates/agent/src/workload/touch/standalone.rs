//! `hypertare-agent touch`.

use std::io::{self, Write};

use anyhow::Result;
use hypertare_plan::{Pages, Touch};
use walk::Mark;

use crate::units;
use crate::workload::standalone;
use crate::workload::{Alone, mark, touch};

/// Read memory in random order, each read after the one before
#[derive(clap::Args)]
pub struct Arguments {
    /// The working set, for example 64M
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = units::parse_size)]
    memory: u64,
    /// Pages of the working set [default: as the kernel has it]
    #[arg(long)]
    pages: Option<Size>,
    /// End after so many reads, in place of a time
    #[arg(long, value_name = "N", conflicts_with = "time")]
    count: Option<u64>,
    /// Seconds after which to end [default: 2]
    #[arg(long, value_name = "SECONDS")]
    time: Option<f64>,
    /// Print the result record
    #[arg(long)]
    json: bool,
    /// Print nothing: for who counts what a program does, so that it does the same each time
    #[arg(long, conflicts_with = "json")]
    quiet: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Size {
    #[value(name = "4K")]
    Small,
    #[value(name = "2M")]
    Huge,
    Thp,
}

impl Alone for Arguments {
    fn run(self) -> Result<()> {
        if self.quiet {
            return marked(&spec(&self));
        }
        let context = standalone::context("touch", standalone::stop_by_signal()?, || ());
        let outcome = touch::run(&spec(&self), &context)?;
        if self.json {
            return standalone::print_record(&context, outcome);
        }
        let values = &outcome.values;
        let (accesses, elapsed_s) = (values["accesses"], values["elapsed_s"]);
        writeln!(
            io::stdout(),
            "{accesses} reads in {elapsed_s:.3} s: {:.2} million a second, each {}; {:.0} % of the \
             memory is in pages of 2 MB",
            accesses / elapsed_s / 1e6,
            units::three_digits(elapsed_s / accesses * 1e9),
            100.0 * values["huge_bytes"] / values["memory_bytes"],
        )?;
        Ok(())
    }
}

/// The work alone, with marks where `elapsed_s` begins and ends.
fn marked(spec: &Touch) -> Result<()> {
    let begin = || mark::report(Mark::Begin);
    let context = standalone::context("touch", standalone::stop_by_signal()?, begin);
    let _worked = touch::work(spec, &context)?;
    mark::report(Mark::End);
    Ok(())
}

fn spec(arguments: &Arguments) -> Touch {
    let pages = arguments.pages.map(|size| match size {
        Size::Small => Pages::Small,
        Size::Huge => Pages::Huge,
        Size::Thp => Pages::Transparent,
    });
    let duration_s = match arguments.count {
        Some(_) => None,
        None => Some(arguments.time.unwrap_or(2.0)),
    };
    Touch { memory: arguments.memory, pages, count: arguments.count, duration_s }
}
