use std::process::ExitCode;

use agent::guest;
use clap::{Parser, Subcommand};

/// The agent of hypertare: makes benches, executes plans, emits records.
#[derive(Parser)]
#[command(name = "hypertare-agent", version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Boot one guest, print the records that tell how it went, and end it
    Guest(guest::boot::Boot),
}

fn main() -> ExitCode {
    if guest::init::is_init() {
        guest::init::main();
    }
    match Cli::parse().verb {
        Verb::Guest(options) => guest::boot::main(&options),
    }
}
