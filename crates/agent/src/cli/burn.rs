//! `hypertare-agent burn`.

use std::io::{self, Write};

use agent::alone;
use agent::workload::burn;
use anyhow::Result;
use hypertare_plan::Burn;

/// Use a share of CPUs
#[derive(clap::Args)]
pub struct Arguments {
    /// Of one CPU, for each thread; 0 to 1
    #[arg(long, default_value_t = 1.0)]
    share: f64,
    /// Seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    time: f64,
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: u32,
    /// Print the result record
    #[arg(long)]
    json: bool,
}

pub fn main(arguments: &Arguments) -> Result<()> {
    let context = alone::context("burn", alone::stop_by_signal()?, || ());
    let spec =
        Burn { share: arguments.share, duration_s: arguments.time, threads: arguments.threads };
    let outcome = burn::run(&spec, &context)?;
    if arguments.json {
        return alone::print_record(&context, outcome);
    }
    let values = &outcome.values;
    writeln!(
        io::stdout(),
        "{:.3} s of CPU time in {:.3} s: {:.1} % of one CPU for each thread, {} loops",
        values["used_s"],
        values["elapsed_s"],
        100.0 * values["share"],
        values["loops"],
    )?;
    Ok(())
}
