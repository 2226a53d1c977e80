//! What a workload needs that is run without a plan: a stop by signals, a context, and its record.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use hypertare_plan::{Line, Record};

use super::{Context, Outcome};
use crate::emit::Emitter;
pub use crate::standalone::stop_by_signal;

/// The context of a workload without a plan; warnings go to standard error.
pub fn context(
    task: &str,
    stop: Arc<AtomicBool>,
    ready: impl Fn() + Send + Sync + 'static,
) -> Context {
    Context::new(("", 0, "", task), Arc::new(Emitter::new(io::stderr())), stop, ready)
}

/// Prints what a workload measured: as a text, or as the record that a plan would have given.
pub fn print(
    context: &Context,
    outcome: Outcome,
    as_record: bool,
    text: impl FnOnce(&Outcome) -> String,
) -> Result<()> {
    let shown = match as_record {
        true => Record::Result(context.result(Ok(outcome))).to_line()?,
        false => text(&outcome).into_bytes(),
    };
    Ok(io::stdout().write_all(&shown)?)
}
