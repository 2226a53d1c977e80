use std::process::ExitCode;

use agent::{knob, probe};
use clap::{Parser, Subcommand};

/// The agent of hypertare, which is useful alone too.
#[derive(Parser)]
#[command(name = "hypertare-agent", version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Probe(probe::alone::ProbeArgs),
    Knob(knob::alone::KnobArgs),
}

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Probe(args) => probe::alone::run(&args),
        Verb::Knob(args) => knob::alone::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hypertare-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}
