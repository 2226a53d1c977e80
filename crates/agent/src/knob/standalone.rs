//! `hypertare-agent knob`: shows knobs without a plan. It turns none, because nothing would put them back.

use std::io::{self, Write};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use super::{ALL, Setting};
use crate::net::ethtool;

/// Look at the settings that a study can change.
#[derive(Args, Debug)]
pub struct KnobArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Print every knob of an interface as it is, or why it is not available here.
    Show { interface: String },
}

pub fn run(args: &KnobArgs) -> Result<()> {
    let Verb::Show { interface } = &args.verb;
    let state = ethtool::state(interface)?;
    let mut out = Vec::new();
    writeln!(out, "{:<24} {}", "driver", state.driver.as_deref().unwrap_or("unknown"))?;
    writeln!(out, "{:<24} {} receive, {} transmit", "queues", state.rx_queues, state.tx_queues)?;
    for (name, knob) in ALL.iter().flat_map(|kind| kind.shown(interface)) {
        let value = match Setting::of(&knob).and_then(|setting| setting.probe()) {
            Ok(value) if value.is_empty() => "none".to_owned(),
            Ok(value) => value,
            Err(error) => format!("not available here: {error:#}"),
        };
        writeln!(out, "{name:<24} {value}")?;
    }
    io::stdout().write_all(&out).context("writing to the standard output")
}
