//! The kernel's own histograms of its tracepoints (Documentation/trace/histogram.rst), in a tracing
//! instance of a probe's own, which goes with the probe and takes its triggers with it.
//!
//! Tracing needs root of the machine itself, not of a container.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::FlockOperation;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

const TRACING: &str = "/sys/kernel/tracing";
const PREFIX: &str = "hypertare-";

/// A tracing instance. It counts nothing else, and what is in it goes with it.
pub struct Instance {
    path: PathBuf,
    _lock: OwnedFd,
    _mount: Option<OwnedFd>,
}

impl Instance {
    /// An instance for these events, named as `napi/napi_poll`.
    ///
    /// # Errors
    /// The kernel lacks one, or may not be asked from here.
    pub fn make(events: &[&str]) -> Result<Self> {
        let (tracing, mount) = mounted(
            "tracefs",
            TRACING,
            "events",
            "the tracing file system is not mounted and cannot be: this needs root of the machine \
             itself and a kernel with CONFIG_TRACING",
        )?;
        for event in events {
            if !tracing.join("events").join(event).exists() {
                bail!(
                    "the kernel has no tracepoint {}: it is built without CONFIG_TRACING, or its \
                     module is not loaded",
                    event.replace('/', ":")
                );
            }
        }
        remove_abandoned(&tracing.join("instances"));
        let path = tracing.join("instances").join(format!("{PREFIX}{:016x}", random()?));
        fs::create_dir(&path).with_context(|| format!("making the tracing instance {path:?}"))?;
        let lock: OwnedFd = File::open(&path)?.into();
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        Ok(Instance { path, _lock: lock, _mount: mount })
    }

    /// Begins to count, by a trigger of the kernel's form.
    pub fn count(&self, event: &str, trigger: &str) -> Result<()> {
        fs::write(self.file(event, "trigger"), trigger).with_context(|| {
            format!("asking for {trigger:?} (the kernel may be built without CONFIG_HIST_TRIGGERS)")
        })
    }

    /// What was counted so far, for [`histograms`].
    pub fn histogram(&self, event: &str) -> Result<String> {
        self.read(event, "hist")
    }

    /// How the kernel describes the event and prints it.
    pub fn format(&self, event: &str) -> Result<String> {
        self.read(event, "format")
    }

    fn read(&self, event: &str, name: &str) -> Result<String> {
        let path = self.file(event, name);
        fs::read_to_string(&path).with_context(|| format!("reading {path:?}"))
    }

    fn file(&self, event: &str, name: &str) -> PathBuf {
        self.path.join("events").join(event).join(name)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // One that stays is removed by the next probe.
        let _ = fs::remove_dir(&self.path);
    }
}

/// A file system of the kernel's own: where it is mounted as usual, by a file that it then has, else mounted for
/// this purpose alone.
pub fn mounted(
    kind: &str,
    usual: &str,
    file: &str,
    refused: &'static str,
) -> Result<(PathBuf, Option<OwnedFd>)> {
    if Path::new(usual).join(file).exists() {
        return Ok((usual.into(), None));
    }
    let mount = mount_nowhere(kind).context(refused)?;
    Ok((format!("/proc/self/fd/{}", mount.as_raw_fd()).into(), Some(mount)))
}

/// A file system of the kernel's own, attached nowhere: it goes with the descriptor.
fn mount_nowhere(kind: &str) -> rustix::io::Result<OwnedFd> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Instances whose probe was killed: it held their lock.
fn remove_abandoned(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let Some(directory) = ours.then(|| File::open(entry.path()).ok()).flatten() else {
            continue;
        };
        let flock = FlockOperation::NonBlockingLockExclusive;
        if rustix::fs::flock(&directory, flock).is_ok() {
            drop(directory);
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .context("getting a random number")?;
    Ok(u64::from_ne_bytes(bytes))
}

/// What one trigger counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    pub trigger: String,
    pub rows: Vec<Row>,
    /// Events that found no room.
    pub dropped: u64,
}

/// Events with the same keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub keys: BTreeMap<String, u64>,
    pub hits: u64,
}

/// The text of a `hist` file: one histogram for each trigger.
pub fn histograms(text: &str) -> Result<Vec<Counts>> {
    let mut found: Vec<Counts> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(trigger) = line.strip_prefix("# trigger info: ") {
            found.push(Counts { trigger: trigger.to_owned(), ..Counts::default() });
        } else if let Some(counts) = found.last_mut() {
            add(counts, line).with_context(|| format!("a histogram has the line {line:?}"))?;
        }
    }
    Ok(found)
}

/// `{ exit_reason:       1024, isa:          2 } hitcount:       1234`, or among the totals
/// `Dropped: 0`.
fn add(counts: &mut Counts, line: &str) -> Result<()> {
    if let Some(dropped) = line.strip_prefix("Dropped:") {
        counts.dropped = dropped.trim().parse()?;
    } else if let Some(rest) = line.strip_prefix('{') {
        let (keys, hits) = rest.split_once("} hitcount:").context("no count")?;
        let keys = keys.split(',').map(key).collect::<Result<_>>()?;
        counts.rows.push(Row { keys, hits: hits.trim().parse()? });
    }
    Ok(())
}

fn key(text: &str) -> Result<(String, u64)> {
    let (name, value) = text.split_once(':').context("no key")?;
    Ok((name.trim().to_owned(), value.trim().parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux 6.1, as `cat hist` prints it.
    const TWO_KEYS: &str = "\
# event histogram
#
# trigger info: hist:keys=exit_reason,isa:vals=hitcount:sort=hitcount:size=2048 [active]
#

{ exit_reason:        100, isa:          2 } hitcount:          4
{ exit_reason:       1024, isa:          2 } hitcount:       9315

Totals:
    Hits: 9319
    Entries: 2
    Dropped: 1
";

    #[test]
    fn rows_have_every_key() {
        let [counts] = &histograms(TWO_KEYS).unwrap()[..] else { panic!() };
        let keys = BTreeMap::from([("exit_reason".to_owned(), 1024), ("isa".to_owned(), 2)]);
        assert_eq!(counts.rows[1], Row { keys, hits: 9315 });
        assert_eq!((counts.rows.len(), counts.dropped), (2, 1));
        assert!(counts.trigger.starts_with("hist:keys=exit_reason,isa"));
    }

    #[test]
    fn a_broken_histogram_is_an_error() {
        for broken in ["hitcount:       many", "hit: 3", "hitcount:"] {
            let text = TWO_KEYS.replace("hitcount:          4", broken);
            assert!(histograms(&text).is_err(), "{broken}");
        }
        assert_eq!(histograms("").unwrap(), []);
    }
}
