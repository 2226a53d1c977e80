//! What a workload needs that is run without a plan: a stop by signals, a context, and its record.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use hypertare_plan::{Line, Record};

use super::{Context, Outcome};
use crate::emit::Emitter;
pub use crate::standalone::stop_by_signal;

/// ProgramEnvironment of a workload without a plan; warnings go to standard error.
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
