//! The verbs that are about the agent itself, and how it ends.

pub mod survey;
pub mod values;

use std::io;
use std::process::ExitCode;

use agent::process::failed;
use anyhow::Result;

/// A reader that has seen enough (`| head`) is no failure.
pub fn status(outcome: Result<()>) -> ExitCode {
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    if error.downcast_ref().map(io::Error::kind) == Some(io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    failed(&error)
}
