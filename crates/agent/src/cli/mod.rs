//! The workloads alone, without a plan: what they measure is printed for people, or as the `result`
//! record that a plan would have given.

pub mod burn;
pub mod command;
pub mod fork;
mod mark;
pub mod ping;
pub mod schema;
pub mod touch;
pub mod values;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use agent::emit::Emitter;
use agent::workload::{Context, Outcome};
use anyhow::{Context as _, Result};
use hypertare_plan::Record;
use signal_hook::consts::{SIGINT, SIGTERM};

/// A reader that has seen enough (`| head`) is no failure.
pub fn status(outcome: Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hypertare-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    kind == Some(io::ErrorKind::BrokenPipe)
}

/// Set by the first Ctrl-C or SIGTERM; the second one ends the process at once.
pub fn stop_by_signal() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()))
            .context("cannot handle signals")?;
    }
    Ok(stop)
}

/// Surroundings of a workload without a plan; warnings go to standard error.
pub fn context(
    task: &str,
    stop: Arc<AtomicBool>,
    ready: impl Fn() + Send + Sync + 'static,
) -> Context {
    Context::new(("", 0, "", task), Arc::new(Emitter::new(io::stderr())), stop, ready)
}

/// The record that a plan would have given, on standard output.
pub fn print_record(context: &Context, outcome: Outcome) -> Result<()> {
    let record = Record::Result(context.result(Ok(outcome)));
    writeln!(io::stdout(), "{}", serde_json::to_string(&record)?)?;
    Ok(())
}

/// A time with three digits, in the unit that suits it.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "us"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let digits = match value {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        assert_eq!(time(950.0), "950 ns");
        assert_eq!(time(12_345.0), "12.3 us");
        assert_eq!(time(1_234_000.0), "1.23 ms");
        assert_eq!(time(2e9), "2.00 s");
    }
}
