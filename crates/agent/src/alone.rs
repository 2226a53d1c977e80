//! What a workload needs that is run without a plan: a stop by signals, surroundings, and its record.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use hypertare_plan::{Line, Record};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::emit::Emitter;
use crate::workload::{Context, Outcome};

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
    io::stdout().write_all(&record.to_line()?)?;
    Ok(())
}
