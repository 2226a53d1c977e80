//! The verbs that are about the agent itself, and how it ends.

pub mod survey;
pub mod values;

use std::io;
use std::process::ExitCode;

use anyhow::Result;
use hypertare_plan::AGENT_PREFIX;

/// A reader that has seen enough (`| head`) is no failure.
pub fn status(outcome: Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{AGENT_PREFIX}{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    kind == Some(io::ErrorKind::BrokenPipe)
}
