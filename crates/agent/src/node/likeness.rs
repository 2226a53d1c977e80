//! Gives a guest, which has a kernel of its own, the machine's host name and limits of processes.

use anyhow::{Context, Result};
use hypertare_plan::{Files, LimitedResource, ResourceLimit};
use rustix::process::{Resource, Rlimit, setrlimit};

/// The guest's name, and the limits of this process, which commands inherit.
pub fn take_on(files: &Files) -> Result<()> {
    if let Some(name) = &files.host_name {
        rustix::system::sethostname(name.as_bytes())
            .with_context(|| format!("the guest cannot be called {name}"))?;
    }
    files.limits.iter().try_for_each(limit)
}

/// No process may have more open files than this kernel allows any.
const MOST_OPEN_FILES: &str = "/proc/sys/fs/nr_open";

fn limit(asked: &ResourceLimit) -> Result<()> {
    if let (LimitedResource::OpenFiles, Some(hard)) = (asked.resource, asked.hard) {
        let most =
            std::fs::read_to_string(MOST_OPEN_FILES).ok().and_then(|n| n.trim().parse().ok());
        if most.is_some_and(|most: u64| most < hard) {
            std::fs::write(MOST_OPEN_FILES, hard.to_string())
                .with_context(|| format!("{MOST_OPEN_FILES} cannot be {hard}"))?;
        }
    }
    let resource = match asked.resource {
        LimitedResource::OpenFiles => Resource::Nofile,
        LimitedResource::Processes => Resource::Nproc,
        LimitedResource::PendingSignals => Resource::Sigpending,
        LimitedResource::LockedMemory => Resource::Memlock,
        LimitedResource::Stack => Resource::Stack,
    };
    setrlimit(resource, Rlimit { current: asked.soft, maximum: asked.hard })
        .with_context(|| format!("the machine's limit of {:?} cannot be set", asked.resource))
}
