//! The command line. Each verb is one file in `cli`, or of the module whose process it starts.

#![warn(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod cli;

use std::process::ExitCode;

use agent::workload::{self, process};
use agent::{datapath, emulated, host, init, knob, node, probe, vmm, xen};
use clap::{Args, FromArgMatches, Parser, Subcommand};

/// hypertare's agent: makes benches and executes plans; its workloads also work alone
#[derive(Parser)]
#[command(name = "hypertare-agent", version)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make benches and carry out a plan: steps on standard input, records on standard output
    Host(host::Arguments),
    #[command(name = host::sandbox::INSIDE, hide = true)]
    HostInside(host::InsideArguments),
    #[command(hide = true)]
    Node(node::Arguments),
    Task(process::Arguments),
    /// Boot one guest, print the records that report how it went, and end it
    Guest(vmm::boot::Boot),
    Emulate(Box<emulated::Emulate>),
    #[command(name = emulated::INSIDE, hide = true)]
    EmulateInside(emulated::Inside),
    #[command(hide = true)]
    XenVif(xen::vif::Arguments),
    #[command(hide = true)]
    XenBlock(xen::block::Arguments),
    #[command(name = xen::keeper::VERB, hide = true)]
    XenKeeper(xen::keeper::Arguments),
    #[command(name = datapath::VERB, hide = true)]
    Datapath(datapath::Arguments),
    #[command(name = knob::keeper::VERB, hide = true)]
    KeepSettings(knob::keeper::Arguments),
    Probe(probe::standalone::ProbeArgs),
    Knob(knob::standalone::KnobArgs),
    #[command(flatten)]
    Workload(workload::Verb),
    Survey(cli::survey::Arguments),
    Values(cli::values::Arguments),
}

/// Of the verb `task`. Every trial waits until its process has read its command line, and to make the
/// parser of all verbs takes longer than all else that it does before its command.
fn of_task() -> Option<process::Arguments> {
    let mut words = std::env::args_os().skip(1).peekable();
    if words.peek()? != "task" {
        return None;
    }
    let parser = clap::Command::new("task").bin_name("hypertare-agent task");
    let found = process::Arguments::augment_args(parser).get_matches_from(words);
    Some(process::Arguments::from_arg_matches(&found).unwrap_or_else(|error| error.exit()))
}

fn main() -> ExitCode {
    if init::is_init() {
        init::main();
    }
    if let Some(arguments) = of_task() {
        return process::main(&arguments);
    }
    let outcome = match Arguments::parse().verb {
        Verb::Host(arguments) => return host::main(&arguments),
        Verb::HostInside(arguments) => return host::inside(&arguments),
        Verb::Node(arguments) => return node::main(arguments),
        Verb::Task(arguments) => return process::main(&arguments),
        Verb::Guest(arguments) => return vmm::boot::main(&arguments),
        Verb::Emulate(arguments) => return emulated::main(&arguments),
        Verb::EmulateInside(arguments) => return emulated::inside(&arguments),
        Verb::XenKeeper(arguments) => return xen::keeper::main(&arguments),
        Verb::Datapath(arguments) => return datapath::main(&arguments),
        Verb::KeepSettings(arguments) => knob::keeper::main(&arguments),
        Verb::XenVif(arguments) => xen::vif::run(&arguments),
        Verb::XenBlock(arguments) => xen::block::run(&arguments),
        Verb::Probe(arguments) => probe::standalone::run(&arguments),
        Verb::Knob(arguments) => knob::standalone::run(&arguments),
        Verb::Workload(verb) => verb.run(),
        Verb::Survey(arguments) => cli::survey::main(&arguments),
        Verb::Values(arguments) => cli::values::main(&arguments),
    };
    cli::status(outcome)
}
