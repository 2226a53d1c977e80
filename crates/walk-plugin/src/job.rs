//! What the plugin is asked to do, and what it answers: JSON files, one in, one out a process.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use walk::{Counts, Processor};

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    pub processors: Vec<serde_json::Value>,
    /// Of every cache, what page tables may hold.
    pub cache_share: f64,
    /// Where results go.
    pub results: PathBuf,
    /// A file of eight bytes: accesses so far, of all processes.
    pub progress: PathBuf,
    /// QEMU and its argument for this plugin, for programs that the command starts.
    pub qemu: PathBuf,
    pub plugin: String,
}

/// What one program of the command did: from its start to its end or its `exec`.
#[derive(Default, Serialize)]
pub struct Answer {
    pub program: String,
    /// Whether all of it was seen; false until its end.
    pub ended: bool,
    pub threads: usize,
    /// Whether the counts are those of its marked parts alone.
    pub marked: bool,
    #[serde(flatten)]
    pub counts: Counts,
}

impl Job {
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    pub fn processors(&self) -> Result<Vec<Processor>, String> {
        self.processors
            .iter()
            .map(|value| {
                let name = value.get("name").and_then(serde_json::Value::as_str).unwrap_or("?");
                Processor::deserialize(value).map_err(|error| format!("{name}: {error}"))
            })
            .collect()
    }
}

impl Answer {
    /// Written beside and renamed, so that a reader never sees half of it.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let said = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = serde_json::to_vec(self).map_err(|error| said(&error))?;
        let beside = path.with_extension("part");
        fs::write(&beside, text).map_err(|error| said(&error))?;
        fs::rename(&beside, path).map_err(|error| said(&error))
    }
}
