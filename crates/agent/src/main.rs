//! The command line. Each verb is one file in `cli`, or the module whose process it starts.

mod cli;

use std::process::ExitCode;

use agent::workload::process;
use clap::{Parser, Subcommand};

/// hypertare's agent: makes benches and executes plans; its workloads also work alone
#[derive(Parser)]
#[command(name = "hypertare-agent", version)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Task(process::Arguments),
    Ping(cli::ping::Arguments),
    Burn(cli::burn::Arguments),
    Command(cli::command::Arguments),
    Values(cli::values::Arguments),
    Schema(cli::schema::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().verb {
        Verb::Task(arguments) => return process::main(&arguments),
        Verb::Ping(arguments) => cli::ping::main(&arguments),
        Verb::Burn(arguments) => cli::burn::main(&arguments),
        Verb::Command(arguments) => cli::command::main(arguments),
        Verb::Values(arguments) => cli::values::main(&arguments),
        Verb::Schema(arguments) => cli::schema::main(&arguments),
    };
    cli::status(outcome)
}
