//! `hypertare-agent values`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use agent::values::ALL;
use anyhow::Result;
use serde::Serialize;

/// Tell every value that the workloads report, with unit and meaning
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

fn json() -> Result<String> {
    let definitions: BTreeMap<&str, Vec<Definition>> = ALL
        .iter()
        .map(|&(workload, values)| {
            let definition = |&(name, unit, meaning)| Definition { name, unit, meaning };
            (workload, values.iter().map(definition).collect())
        })
        .collect();
    Ok(serde_json::to_string_pretty(&definitions)? + "\n")
}

fn table() -> String {
    let mut text = String::new();
    for (workload, values) in ALL {
        text += &format!("{workload}\n");
        for (name, unit, meaning) in *values {
            text += &format!("  {name:<22} {unit:<9} {meaning}\n");
        }
    }
    text
}
