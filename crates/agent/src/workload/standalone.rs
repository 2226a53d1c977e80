//! Needs of a workload that runs without a plan: a stop by signals, a context, and its output.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use hypertare_plan::{Line, Record};
use serde::de::DeserializeOwned;

use super::{Context, Outcome};
use crate::emit::Emitter;
pub use crate::standalone::stop_by_signal;

/// A parser of some of a plan's choices, which have dashes for underscores on a command line.
pub fn choice<T>(names: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    let parse = |name: String| serde_json::from_value(name.replace('-', "_").into());
    PossibleValuesParser::new(names).try_map(parse)
}

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
