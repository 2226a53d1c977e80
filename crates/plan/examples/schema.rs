//! Prints the JSON Schema of one line of what crosses the seam: `schema/` is made of it, by
//! `python -m tests.protocol`. No verb of the agent, which would be half a megabyte larger.

use std::error::Error;

use hypertare_plan::{NumberedOrder, Record, Step, constants};
use schemars::schema_for;

fn main() -> Result<(), Box<dyn Error>> {
    let side = std::env::args().nth(1).unwrap_or_default();
    let schema = match side.as_str() {
        // What the controller writes to the host agent.
        "plan" => schema_for!(Step),
        // What the host agent writes to the agent of a node.
        "order" => schema_for!(NumberedOrder),
        // What every agent writes.
        "record" => schema_for!(Record),
        // Names and limits that both sides have to know.
        "constants" => constants(),
        _ => return Err("say which: plan, order, record or constants".into()),
    };
    println!("{}", serde_json::to_string(&schema)?);
    Ok(())
}
