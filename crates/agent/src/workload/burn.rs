//! To come.
use anyhow::{Result, bail};
use hypertare_plan::Burn;
use super::{Context, Outcome};

pub fn run(_spec: &Burn, _context: &Context) -> Result<Outcome> {
    bail!("not there yet")
}
