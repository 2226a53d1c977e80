//! To come.
use anyhow::{Result, bail};
use hypertare_plan::{StreamReceive, StreamSend};
use super::{Context, Outcome};

pub fn send(_spec: &StreamSend, _context: &Context) -> Result<Outcome> {
    bail!("not there yet")
}

pub fn receive(_spec: &StreamReceive, _context: &Context) -> Result<Outcome> {
    bail!("not there yet")
}
