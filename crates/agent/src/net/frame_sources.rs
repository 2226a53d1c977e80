//! Every way for frames to come in, opened by its name.

use anyhow::Result;
use hypertare_plan::FrameVia;

use super::frames::{FrameSource, Opening, received};
use super::{shared, xdp};

/// # Errors
/// There is no such interface, no permission, or no memory; and what to do.
pub fn open(opening: &Opening) -> Result<Box<dyn FrameSource>> {
    Ok(match opening.via {
        FrameVia::Socket => Box::new(received::Calls::open(opening)?),
        FrameVia::Packet if opening.at_once => Box::new(received::Slots::open(opening)?),
        FrameVia::Packet => Box::new(received::Blocks::open(opening)?),
        FrameVia::Shared => Box::new(shared::Taken::open(opening)?),
        FrameVia::Xdp => Box::new(xdp::Capture::open(opening)?),
    })
}
