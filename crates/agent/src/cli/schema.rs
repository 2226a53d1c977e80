//! `hypertare-agent schema`.

use std::io::{self, Write};

use anyhow::Result;
use hypertare_plan::{NumberedOrder, Record, Step, constants};
use schemars::schema_for;

/// Print the JSON Schema of one line of what crosses the seam
#[derive(clap::Args)]
pub struct Arguments {
    of: Of,
}

#[derive(Clone, clap::ValueEnum)]
enum Of {
    /// A plan, which the controller writes to the host agent
    Plan,
    /// An order, which the host agent writes to the agent of a node
    Order,
    /// A record, which every agent writes
    Record,
    /// Names and limits that both sides have to know
    Constants,
}

pub fn main(arguments: &Arguments) -> Result<()> {
    let schema = match arguments.of {
        Of::Plan => schema_for!(Step),
        Of::Order => schema_for!(NumberedOrder),
        Of::Record => schema_for!(Record),
        Of::Constants => constants(),
    };
    writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&schema)?)?;
    Ok(())
}
