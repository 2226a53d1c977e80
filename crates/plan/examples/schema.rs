//! Prints the JSON Schema of what crosses the protocol: `schema/` is made of it, by `python -m tests.protocol`. No
//! verb of the agent, which would be half a megabyte larger.

use std::error::Error;

use hypertare_plan::{NumberedOrder, Record, Step, constants};
use schemars::generate::SchemaSettings;
use schemars::{Schema, json_schema};

fn main() -> Result<(), Box<dyn Error>> {
    let schema = match std::env::args().nth(1).as_deref() {
        Some("protocol") => protocol(),
        // Names and limits that both sides have to know.
        Some("constants") => constants(),
        _ => return Err("say which: protocol or constants".into()),
    };
    println!("{}", serde_json::to_string(&schema)?);
    Ok(())
}

/// A line of either side: all in one, for orders and records are made of what plans are made of.
fn protocol() -> Schema {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let lines = [
        generator.subschema_for::<Step>(),
        generator.subschema_for::<NumberedOrder>(),
        generator.subschema_for::<Record>(),
    ];
    json_schema!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Protocol",
        "description": "One line: a `Step` from the controller to the host agent, a `NumberedOrder` from that \
                        to the agent of a node, a `Record` from any agent.",
        "anyOf": lines,
        "$defs": generator.take_definitions(true),
    })
}
