//! `hypertare-agent touch`.

use anyhow::Result;
use hypertare_plan::{Pages, Touch};

use crate::units;
use crate::workload::standalone;
use crate::workload::{Alone, WorkloadKind, mark, touch};

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
            return mark::around("touch", |context| touch::work(&spec(&self), context));
        }
        let context = standalone::context("touch", standalone::stop_by_signal()?, || ());
        let outcome = spec(&self).run(&context)?;
        standalone::print(&context, outcome, self.json, |outcome| {
            let (accesses, elapsed_s) = (outcome.value("accesses"), outcome.value("elapsed_s"));
            format!(
                "{accesses} reads in {elapsed_s:.3} s: {:.2} million a second, each {}; {:.0} % of the \
                 memory is in pages of 2 MB\n",
                accesses / elapsed_s / 1e6,
                units::three_digits(elapsed_s / accesses * 1e9),
                100.0 * outcome.value("huge_bytes") / outcome.value("memory_bytes"),
            )
        })
    }
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
