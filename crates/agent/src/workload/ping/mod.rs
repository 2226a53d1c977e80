//! To come.
use anyhow::{Result, bail};
use hypertare_plan::{PingReply, PingRequest};
use super::{Context, Outcome};

pub fn request(_spec: &PingRequest, _context: &Context) -> Result<Outcome> {
    bail!("not there yet")
}

pub fn reply(_spec: &PingReply, _context: &Context) -> Result<Outcome> {
    bail!("not there yet")
}
