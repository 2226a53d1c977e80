//! How what crosses the protocol is written: one JSON object a line.
//!
//! The code that reads and writes them is made here, once, and not wherever somebody does so: it is a
//! sixth of the agent, and needs to be small rather than quick.

use serde_json::{Result, from_slice, to_vec};

use crate::{Assignment, NumberedOrder, Record, Step};

/// What is a line of its own.
pub trait Line: Sized {
    /// # Errors
    /// The bytes are no such object.
    fn from_line(line: &[u8]) -> Result<Self>;

    /// With the newline.
    ///
    /// # Errors
    /// It holds what JSON cannot, such as a map whose keys are no text.
    fn to_line(&self) -> Result<Vec<u8>>;
}

macro_rules! lines {
    ($($kind:ty),+) => {
        $(impl Line for $kind {
            fn from_line(line: &[u8]) -> Result<Self> {
                from_slice(line)
            }

            fn to_line(&self) -> Result<Vec<u8>> {
                let mut line = to_vec(self)?;
                line.push(b'\n');
                Ok(line)
            }
        })+
    };
}

lines!(Step, NumberedOrder, Assignment, Record);
