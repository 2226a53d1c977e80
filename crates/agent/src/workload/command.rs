//! To come.
use anyhow::{Result, bail};
use hypertare_plan::Command;
use super::{Context, Outcome};

pub fn run(_spec: &Command, _context: &Context) -> Result<Outcome> {
    bail!("not there yet")
}
