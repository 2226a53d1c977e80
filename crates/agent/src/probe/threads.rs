//! CPU time of the kernel's own threads, by their names.

use std::fs;
use std::path::PathBuf;

use super::ProbeContext;
use super::counters::{Kind, Sample};

/// Threads that were found; none where this PID namespace does not show the kernel's.
pub struct Threads(Vec<PathBuf>);

/// Those whose name fits.
pub fn find(probe_context: &ProbeContext, fits: impl Fn(&str) -> bool) -> Threads {
    let proc = probe_context.machine_proc.as_ref().unwrap_or(&probe_context.proc);
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let is_one = |path: &PathBuf| {
        fs::read_to_string(path.join("comm")).is_ok_and(|name| fits(name.trim_end()))
    };
    Threads(entries.map(|entry| entry.path()).filter(is_one).collect())
}

impl Threads {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds what they ran, in seconds, to a value.
    pub fn cpu_time(&self, sample: &mut Sample, value: &str) {
        for thread in &self.0 {
            let text = fs::read_to_string(thread.join("schedstat")).unwrap_or_default();
            let Some(run) = text.split(' ').next().and_then(|ns| ns.parse().ok()) else { continue };
            let key = thread.display().to_string();
            sample.share(&key, &[value], run, Kind::Lifetime, 1e-9);
        }
    }
}
