//! `hypertare-agent probe`: the probes without a plan.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use hypertare_plan::Probe;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};

use super::{ALL, Measured, Outside, ProbeContext, Processes, begin, definition, name};

/// Read counters, wait, read them again, print the differences.
#[derive(Args, Debug)]
pub struct ProbeArgs {
    #[arg(help = ALL.iter().copied().map(name).collect::<Vec<_>>().join(", "), value_parser = parse_probe, default_values = ["stat", "softirqs", "net_dev"])]
    probes: Vec<Probe>,
    /// Seconds between the two readings.
    #[arg(long, default_value_t = 1.0)]
    time: f64,
    /// The process that `outside`, `cpu_modes`, `kvm`, `kvm_exits` and `vmm_memory` are about, with its descendants.
    #[arg(long)]
    pid: Option<i32>,
    /// Threads of that process that are virtual CPUs.
    #[arg(long = "vcpu", requires = "pid")]
    vcpus: Vec<i32>,
    /// The cgroup of that process, a directory.
    #[arg(long, requires = "pid")]
    cgroup: Option<PathBuf>,
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
    let outside = args.pid.map(|pid| {
        let (vcpu_tids, cgroup) = (args.vcpus.clone(), args.cgroup.clone());
        Outside::Processes(Processes { pid, vcpu_tids, cgroup, backend: None })
    });
    let probe_context = ProbeContext { outside, ..ProbeContext::default() };
    let reading = begin(&args.probes, &probe_context);
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
                    let unit = definition(measured.probe, name).map_or("", |(_, unit, _)| unit);
                    let digits = if value.fract() == 0.0 { 0 } else { 3 };
                    writeln!(out, "  {name:<32} {value:>16.digits$} {unit}")?;
                }
            }
        }
        for (name, histogram) in &measured.histograms {
            writeln!(out, "  {name}, {}: how often", histogram.unit)?;
            for (value, count) in &histogram.buckets {
                writeln!(out, "  {value:>32} {count:>16}")?;
            }
        }
        for (name, why) in &measured.absent {
            writeln!(out, "  {name:<32} {:>16} {why}", "absent")?;
        }
        for note in &measured.notes {
            writeln!(out, "  {note}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::Parser;
    use hypertare_plan::ProbeValues;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: ProbeArgs,
    }

    fn parse(words: &[&str]) -> Result<ProbeArgs, clap::Error> {
        let words = ["probe"].iter().chain(words);
        Cli::try_parse_from(words).map(|cli| cli.args)
    }

    #[test]
    fn probes_have_their_names_of_the_plan() {
        let args = parse(&["net_snmp", "stat", "--time", "0.5"]).unwrap();
        assert_eq!((args.probes, args.time), (vec![Probe::NetSnmp, Probe::Stat], 0.5));
        let error = parse(&["nets"]).unwrap_err().to_string();
        assert!(error.contains("net_snmp"), "{error}");
        let endless = parse(&["--time", "inf"]).unwrap();
        assert!(run(&endless).unwrap_err().to_string().contains("between 0 and 86400"));
    }

    #[test]
    fn output_is_records_or_a_table_with_units() {
        let measured = [
            Measured {
                probe: Probe::Stat,
                elapsed_s: 1.0,
                values: Ok([("busy_s".to_owned(), 0.25), ("forks".to_owned(), 0.0)].into()),
                histograms: BTreeMap::new(),
                notes: vec!["a note".to_owned()],
                absent: [("steal_s".to_owned(), "nobody steals".to_owned())].into(),
            },
            Measured {
                probe: Probe::Schedstat,
                elapsed_s: 1.0,
                values: Err("no such thing".to_owned()),
                histograms: BTreeMap::new(),
                notes: vec![],
                absent: BTreeMap::new(),
            },
        ];
        let mut out = Vec::new();
        json(&measured, &mut out).unwrap();
        let lines: Vec<ProbeValues> = String::from_utf8(out)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines[0].values["busy_s"], 0.25);
        assert_eq!(lines[1].unavailable.as_deref(), Some("no such thing"));

        let mut out = Vec::new();
        table(&measured, &parse(&[]).unwrap(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("0.250 s\n") && text.contains("a note"), "{text}");
        assert!(text.contains("absent nobody steals"), "{text}");
        assert!(text.contains("not available: no such thing") && !text.contains("forks"), "{text}");
    }
}
