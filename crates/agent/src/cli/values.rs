//! `hypertare-agent values`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use agent::values::{ALL, Definition as Value, PROBES};
use anyhow::Result;
use hypertare_plan::Probe;
use serde::Serialize;

/// Tell every value that the workloads and the probes report, with unit and meaning
#[derive(clap::Args)]
pub struct Arguments {
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Definition {
    name: &'static str,
    unit: &'static str,
    meaning: &'static str,
}

pub fn main(arguments: &Arguments) -> Result<()> {
    let text = if arguments.json { json()? } else { table() };
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// In a probe's names `*` stands for any text and `#` for a number.
#[derive(Serialize)]
struct Definitions {
    tasks: BTreeMap<&'static str, Vec<Definition>>,
    probes: BTreeMap<String, Vec<Definition>>,
}

fn json() -> Result<String> {
    let tasks = ALL.iter().map(|&(workload, values)| (workload, defined(values))).collect();
    let probes = PROBES.iter().map(|&(probe, values)| (name(probe), defined(values))).collect();
    Ok(serde_json::to_string_pretty(&Definitions { tasks, probes })? + "\n")
}

fn defined(values: &'static [Value]) -> Vec<Definition> {
    values.iter().map(|&(name, unit, meaning)| Definition { name, unit, meaning }).collect()
}

/// As plans and records spell it.
fn name(probe: Probe) -> String {
    match serde_json::to_value(probe) {
        Ok(serde_json::Value::String(name)) => name,
        _ => format!("{probe:?}"),
    }
}

fn table() -> String {
    let probes = PROBES.iter().map(|&(probe, values)| (format!("probe {}", name(probe)), values));
    let tasks = ALL.iter().map(|&(workload, values)| (workload.to_owned(), values));
    let mut text = String::new();
    for (title, values) in tasks.chain(probes) {
        text += &format!("{title}\n");
        for (name, unit, meaning) in values {
            text += &format!("  {name:<22} {unit:<9} {meaning}\n");
        }
    }
    text
}
