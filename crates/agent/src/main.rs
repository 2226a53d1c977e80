use std::process::ExitCode;

use agent::workload::stream;
use anyhow::Result;
use clap::{Parser, Subcommand};

/// Makes benches, executes plans, emits records; and single workloads as tools alone.
#[derive(Parser)]
#[command(name = "hypertare-agent", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Stream(stream::cli::Args),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hypertare-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Stream(args) => stream::cli::main(args),
    }
}
