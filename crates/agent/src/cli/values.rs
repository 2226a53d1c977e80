//! `hypertare-agent values`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use agent::values::Definition as Value;
use agent::{host, probe, workload};
use anyhow::Result;
use serde::Serialize;

/// List every value that the workloads and the probes report, with unit and meaning
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
    tasks: BTreeMap<String, Vec<Definition>>,
    probes: BTreeMap<String, Vec<Definition>>,
    life: Vec<Definition>,
}

fn json() -> Result<String> {
    let tasks =
        workload::values().into_iter().map(|(name, values)| (name, defined(values))).collect();
    let probes =
        probe::ALL.iter().map(|&one| (probe::name(one), defined(probe::values(one)))).collect();
    let life = defined(host::VALUES_OF_A_LIFE);
    Ok(serde_json::to_string_pretty(&Definitions { tasks, probes, life })? + "\n")
}

fn defined(values: &'static [Value]) -> Vec<Definition> {
    values.iter().map(|&(name, unit, meaning)| Definition { name, unit, meaning }).collect()
}

fn table() -> String {
    let probes =
        probe::ALL.iter().map(|&one| (format!("probe {}", probe::name(one)), probe::values(one)));
    let tasks = workload::values().into_iter();
    let life = [("life".to_owned(), host::VALUES_OF_A_LIFE)];
    let mut text = String::new();
    for (title, values) in tasks.chain(life).chain(probes) {
        text += &format!("{title}\n");
        for (name, unit, meaning) in values {
            text += &format!("  {name:<22} {unit:<9} {meaning}\n");
        }
    }
    text
}
