//! Packets per poll of every interface, counted in the kernel by a histogram on its own tracepoint,
//! napi:napi_poll (Documentation/trace/histogram.rst), in a tracing instance of this probe's own; the
//! hardware interrupts of those interfaces; and the CPU time of ksoftirqd. Softirqs and the time in
//! them are the probes `softirqs` and `stat`.
//!
//! The tracepoint is of the machine: an interface of the same name in another network namespace is
//! counted too. Tracing needs root of the machine itself, not of a container.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hypertare_plan::{Histogram, Values};
use rustix::fs::FlockOperation;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use super::Surroundings;
use super::counters::{Kind, Sample};
use super::interrupts::lines;
use crate::net::{Links, interrupts};

const TRACING: &str = "/sys/kernel/tracing";
const EVENT: &str = "events/napi/napi_poll";
const PREFIX: &str = "hypertare-";
/// Every trigger is looked at in every poll.
const MOST_INTERFACES: usize = 16;

/// The histograms while they are counted.
pub struct Watch {
    instance: Instance,
    interfaces: Vec<Watched>,
    /// Of ksoftirqd's threads.
    threads: Vec<PathBuf>,
    proc: PathBuf,
}

struct Watched {
    name: String,
    interrupts: Vec<u32>,
}

/// A tracing instance. It counts nothing else, and what is in it goes with it.
struct Instance {
    path: PathBuf,
    _lock: OwnedFd,
    _mount: Option<OwnedFd>,
}

impl Watch {
    /// # Errors
    /// The kernel cannot count polls here, and why.
    pub fn start(surroundings: &Surroundings) -> Result<Self> {
        let names = interfaces()?;
        let instance = Instance::make()?;
        for name in &names {
            instance.count_polls(name)?;
        }
        let interfaces = names.into_iter().map(|name| {
            // Links of software have none.
            let interrupts = interrupts::of_interface(&name).unwrap_or_default();
            Watched { name, interrupts }
        });
        let proc = surroundings.proc.clone();
        let threads = softirq_threads(surroundings.machine_proc.as_ref().unwrap_or(&proc));
        Ok(Watch { instance, interfaces: interfaces.collect(), threads, proc })
    }

    /// What counts on whether it is watched or not.
    pub fn sample(&self) -> Result<Sample> {
        let text = fs::read_to_string(self.proc.join("interrupts"));
        let mut sample = self.interrupts(&text.context("reading the interrupts")?);
        for thread in &self.threads {
            let text = fs::read_to_string(thread.join("schedstat")).unwrap_or_default();
            let Some(run) = text.split(' ').next().and_then(|ns| ns.parse().ok()) else { continue };
            let key = thread.display().to_string();
            sample.share(&key, &["ksoftirqd_s"], run, Kind::Counter, 1e-9);
        }
        Ok(sample)
    }

    fn interrupts(&self, text: &str) -> Sample {
        let mut sample = Sample::default();
        for watched in self.interfaces.iter().filter(|watched| !watched.interrupts.is_empty()) {
            let name = format!("{}.interrupts", watched.name);
            for line in lines(text) {
                let Some(number) = line.number() else { continue };
                if watched.interrupts.contains(&number) {
                    for (cpu, &count) in line.counts().iter().enumerate() {
                        let key = format!("{name} {number} {cpu}");
                        sample.share(&key, &[&name], count, Kind::Counter32, 1.0);
                    }
                }
            }
        }
        sample
    }

    /// Polls so far: values, histograms, notes.
    pub fn polls(&self) -> Result<Polls> {
        let path = self.instance.path.join(EVENT).join("hist");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {path:?}"))?;
        let found = parse(&text)?;
        let mut polls = Polls::default();
        if self.threads.is_empty() {
            let why = "no ksoftirqd can be seen from this PID namespace: its CPU time is unknown";
            polls.notes.push(why.to_owned());
        }
        for Watched { name, .. } in &self.interfaces {
            polls.add(name, found.get(name).cloned().unwrap_or_default());
        }
        Ok(polls)
    }
}

/// What the histograms say.
#[derive(Debug, Default, PartialEq)]
pub struct Polls {
    pub values: Values,
    pub histograms: BTreeMap<String, Histogram>,
    pub notes: Vec<String>,
}

/// One interface's: polls by packets, and polls that found no room.
#[derive(Clone, Debug, Default, PartialEq)]
struct Counted {
    by_packets: BTreeMap<u64, u64>,
    dropped: u64,
}

impl Polls {
    fn add(&mut self, interface: &str, counted: Counted) {
        let polls: u64 = counted.by_packets.values().sum();
        let packets: u64 = counted.by_packets.iter().map(|(packets, polls)| packets * polls).sum();
        self.values.insert(format!("{interface}.polls"), polls as f64);
        self.values.insert(format!("{interface}.polled_packets"), packets as f64);
        let buckets: Vec<(u64, u64)> = counted.by_packets.into_iter().collect();
        if !buckets.is_empty() {
            let histogram = Histogram { unit: "packets".to_owned(), buckets };
            self.histograms.insert(format!("{interface}.packets_per_poll"), histogram);
        }
        if counted.dropped > 0 {
            let dropped = counted.dropped;
            self.notes.push(format!("{dropped} polls of {interface} had no room in the histogram"));
        }
    }
}

/// Those that may poll, by their own count: they are up and not the loopback.
fn interfaces() -> Result<Vec<String>> {
    let up = Links::open()?.list()?.into_iter().filter(|link| link.up && link.name != "lo");
    Ok(up.map(|link| link.name).filter(|name| !name.contains('"')).take(MOST_INTERFACES).collect())
}

fn softirq_threads(proc: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let is_one = |path: &PathBuf| {
        fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with("ksoftirqd/"))
    };
    entries.map(|entry| entry.path()).filter(is_one).collect()
}

impl Instance {
    fn make() -> Result<Self> {
        let (tracing, mount) = tracing()?;
        if !tracing.join(EVENT).exists() {
            bail!(
                "the kernel has no tracepoint napi:napi_poll: it is built without CONFIG_TRACING"
            );
        }
        remove_abandoned(&tracing.join("instances"));
        let path = tracing.join("instances").join(format!("{PREFIX}{:016x}", random()?));
        fs::create_dir(&path).with_context(|| format!("making the tracing instance {path:?}"))?;
        let lock: OwnedFd = File::open(&path)?.into();
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        Ok(Instance { path, _lock: lock, _mount: mount })
    }

    fn count_polls(&self, interface: &str) -> Result<()> {
        let trigger = format!("hist:keys=work if dev_name == \"{interface}\"");
        let path = self.path.join(EVENT).join("trigger");
        fs::write(&path, &trigger).with_context(|| {
            format!("asking for {trigger:?} (the kernel may be built without CONFIG_HIST_TRIGGERS)")
        })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // One that stays is removed by the next probe.
        let _ = fs::remove_dir(&self.path);
    }
}

/// The tracing file system: as it is mounted, else mounted for this purpose alone and attached
/// nowhere.
fn tracing() -> Result<(PathBuf, Option<OwnedFd>)> {
    if Path::new(TRACING).join("events").exists() {
        return Ok((TRACING.into(), None));
    }
    let mount = mount().context(
        "the tracing file system is not mounted and cannot be: this needs root of the machine \
         itself and a kernel with CONFIG_TRACING",
    )?;
    Ok((format!("/proc/self/fd/{}", mount.as_raw_fd()).into(), Some(mount)))
}

fn mount() -> rustix::io::Result<OwnedFd> {
    let context = rustix::mount::fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
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

/// One histogram for each trigger; its filter names the interface.
fn parse(text: &str) -> Result<BTreeMap<String, Counted>> {
    let mut found = BTreeMap::new();
    let mut current: Option<&mut Counted> = None;
    for line in text.lines() {
        if let Some(trigger) = line.strip_prefix("# trigger info: ") {
            current = filtered(trigger).map(|name| found.entry(name).or_default());
        } else if let Some(counted) = current.as_deref_mut() {
            count(counted, line).with_context(|| format!("a histogram has the line {line:?}"))?;
        }
    }
    Ok(found)
}

fn filtered(trigger: &str) -> Option<String> {
    let (_, rest) = trigger.split_once("dev_name == \"")?;
    Some(rest.split_once('"')?.0.to_owned())
}

/// `{ work:         64 } hitcount:       1234`, or among the totals `Dropped: 0`.
fn count(counted: &mut Counted, line: &str) -> Result<()> {
    let line = line.trim();
    if let Some(dropped) = line.strip_prefix("Dropped:") {
        counted.dropped = dropped.trim().parse()?;
    } else if let Some(rest) = line.strip_prefix("{ work:") {
        let (packets, polls) = rest.split_once("} hitcount:").context("no count")?;
        counted.by_packets.insert(packets.trim().parse()?, polls.trim().parse()?);
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const TWO: &str = "\
# event histogram
#
# trigger info: hist:keys=work:vals=hitcount:sort=hitcount:size=2048 if dev_name == \"eth1\" [active]
#


Totals:
    Hits: 0
    Entries: 0
    Dropped: 0
# event histogram
#
# trigger info: hist:keys=work:vals=hitcount:sort=hitcount:size=2048 if dev_name == \"eth0\" [active]
#

{ work:         64 } hitcount:          3
{ work:          1 } hitcount:         12
{ work:          0 } hitcount:         40

Totals:
    Hits: 55
    Entries: 3
    Dropped: 2
";

    pub(crate) fn polls() -> Polls {
        let mut polls = Polls::default();
        for (name, counted) in parse(TWO).unwrap() {
            polls.add(&name, counted);
        }
        polls
    }

    #[test]
    fn every_trigger_is_its_interfaces() {
        let polls = polls();
        assert_eq!(
            (polls.values["eth0.polls"], polls.values["eth0.polled_packets"]),
            (55.0, 204.0)
        );
        assert_eq!(polls.values["eth1.polls"], 0.0);
        let buckets = &polls.histograms["eth0.packets_per_poll"].buckets;
        assert_eq!(buckets, &[(0, 40), (1, 12), (64, 3)]);
        assert!(!polls.histograms.contains_key("eth1.packets_per_poll"));
        assert_eq!(polls.notes, ["2 polls of eth0 had no room in the histogram"]);
    }

    #[test]
    fn a_broken_histogram_is_an_error() {
        assert!(parse(&TWO.replace("hitcount:          3", "hitcount: many")).is_err());
    }
}
