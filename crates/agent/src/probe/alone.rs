//! `hypertare-agent probe`: the probes without a plan.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use hypertare_plan::Probe;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};

use super::{Measured, Outside, Surroundings, begin};
use crate::values::probe_definition;

/// Read counters, wait, read them again, print the differences.
#[derive(Args, Debug)]
pub struct ProbeArgs {
    /// stat, softirqs, interrupts, net_dev, vmstat, schedstat, net_snmp, outside.
    #[arg(value_parser = parse_probe, default_values = ["stat", "softirqs", "net_dev"])]
    probes: Vec<Probe>,
    /// Seconds between the two readings.
    #[arg(long, default_value_t = 1.0)]
    time: f64,
    /// The process that `outside` is about, with its descendants.
    #[arg(long)]
    pid: Option<i32>,
    /// One JSON object a line, as in a run's records.
    #[arg(long)]
    json: bool,
    /// Also print what did not change.
    #[arg(long)]
    all: bool,
}

pub fn run(args: &ProbeArgs) -> Result<()> {
    ensure!(
        args.time.is_finite() && (0.0..=86_400.0).contains(&args.time),
        "--time {} is not a number of seconds between 0 and 86400",
        args.time
    );
    let outside = args.pid.map(|pid| Outside { pid, ..Outside::default() });
    let surroundings = Surroundings { outside, ..Surroundings::default() };
    let reading = begin(&args.probes, &surroundings);
    std::thread::sleep(Duration::from_secs_f64(args.time));
    let measured = reading.end();
    let mut out = io::stdout().lock();
    let written =
        if args.json { json(&measured, &mut out) } else { table(&measured, args, &mut out) };
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("writing to the standard output"),
    }
}

fn parse_probe(name: &str) -> Result<Probe, Error> {
    let name: StrDeserializer<Error> = name.into_deserializer();
    Probe::deserialize(name)
}

fn json(measured: &[Measured], out: &mut impl Write) -> io::Result<()> {
    for measured in measured {
        serde_json::to_writer(&mut *out, &measured.record("", 0, ""))?;
        writeln!(out)?;
    }
    Ok(())
}

fn table(measured: &[Measured], args: &ProbeArgs, out: &mut impl Write) -> io::Result<()> {
    for measured in measured {
        writeln!(out, "{:?} over {:.3} s", measured.probe, measured.elapsed_s)?;
        match &measured.values {
            Err(reason) => writeln!(out, "  not available: {reason}")?,
            Ok(values) => {
                for (name, &value) in values.iter().filter(|(_, value)| args.all || **value != 0.0)
                {
                    let unit =
                        probe_definition(measured.probe, name).map_or("", |(_, unit, _)| unit);
                    let digits = if value.fract() == 0.0 { 0 } else { 3 };
                    writeln!(out, "  {name:<32} {value:>16.digits$} {unit}")?;
                }
            }
        }
        for note in &measured.notes {
            writeln!(out, "  {note}")?;
        }
    }
    Ok(())
}
