//! How schemas show paths, which serde writes as text.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// Stands in a schema for a `PathBuf`: text of the format `path`.
pub(crate) struct Path;

impl JsonSchema for Path {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Path".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "path"})
    }
}
