//! Packets per poll of every interface; the hardware interrupts of those interfaces; and the CPU time of
//! ksoftirqd. Softirqs and the time in them are the probes `softirqs` and `stat`.
//!
//! Polls are counted by `hypertare_napi`, the project's own module (`kernel/`), as long as its file is
//! open: this takes some twenty instructions a poll. Without the module they are not counted in a weighed
//! phase, because the kernel's own tracepoint takes enough time to change the result: see
//! [`super::polls_traced`].

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hypertare_plan::{Histogram, NAPI_MODULE};

use super::counters::{Kind, Sample};
use super::threads::{self, Threads};
use super::{Counted, ProbeContext, ProbeKind, Source};
use crate::net::{Links, interrupts};
use crate::own_machine::napi_module;
use crate::process::interrupts::lines;
use crate::values::Definition;

/// By interface: `eth0.polls`; with them the histogram `eth0.packets_per_poll`.
const VALUES: &[Definition] = &[
    ("*.polls", "polls", "times that the driver was polled"),
    ("*.polled_packets", "packets", "received in these polls"),
    ("*.interrupts", "interrupts", "hardware interrupts of the interface, or of its shared line"),
    ("ksoftirqd_s", "s", "CPU time of ksoftirqd on all CPUs: softirqs put off to a thread"),
];

/// The probe.
pub const KIND: ProbeKind = ProbeKind {
    values: VALUES,
    source: Source::Watch(|probe_context| Ok(Box::new(Watch::start(probe_context)?))),
};

/// The tracepoint has a trigger for each, and looks at all of them in every poll.
const MOST_INTERFACES: usize = 16;

/// Below procfs. The module counts as long as somebody has it open.
const POLLS_FILE: &str = "hypertare_napi_polls";

/// The module's count, open; or why there is none.
struct Module(Result<File, String>);

impl Module {
    fn read(&self) -> Result<BTreeMap<String, Polls>> {
        let Ok(mut file) = self.0.as_ref() else { return Ok(BTreeMap::new()) };
        let mut text = String::new();
        file.rewind()?;
        file.read_to_string(&mut text).context(
            "reading the polls that were counted (ESTALE: a driver has set its NIC up anew meanwhile, and \
             those after it are in no count)",
        )?;
        parse_module(&text)
    }

    /// What a reader of the numbers has to know.
    fn note(&self) -> Option<String> {
        let why = self.0.as_ref().err()?;
        Some(format!(
            "polls were not counted, for {NAPI_MODULE} is not to be had: {why}; the kernel's own \
             tracepoint, which takes microseconds of each, counts them in warm-ups alone (design.warmup), \
             on a host's own kernel where the study names its probes"
        ))
    }
}

/// Opens the module's count, which begins with it.
///
/// # Errors
/// The module cannot be loaded here, and why.
pub(super) fn open_module(proc: &Path) -> Result<File> {
    napi_module::ensure_loaded()?;
    let path = proc.join(POLLS_FILE);
    File::open(&path).with_context(|| format!("opening {path:?}"))
}

/// A line for each interface: `eth0 0:40 1:12 64:3`, polls by their packets.
fn parse_module(text: &str) -> Result<BTreeMap<String, Polls>> {
    let interface = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let name = words.next()?.to_owned();
        let buckets = words.map(|word| {
            let (packets, polls) = word.split_once(':')?;
            Some((packets.parse().ok()?, polls.parse().ok()?))
        });
        let by_packets = buckets.collect::<Option<_>>()?;
        Some((name, Polls { by_packets, dropped: 0 }))
    };
    let read =
        |line| interface(line).with_context(|| format!("{POLLS_FILE} has the line {line:?}"));
    text.lines().map(read).collect()
}

/// The histograms while they are counted.
pub struct Watch {
    module: Module,
    /// Polls before the phase: another reader may have the module count already.
    before: BTreeMap<String, Polls>,
    interfaces: Vec<Watched>,
    ksoftirqd: Threads,
    proc: PathBuf,
}

struct Watched {
    name: String,
    interrupts: Vec<u32>,
}

impl Watch {
    /// # Errors
    /// The interfaces cannot be listed, or the module's count not be read.
    pub fn start(probe_context: &ProbeContext) -> Result<Self> {
        let module = Module(open_module(&probe_context.proc).map_err(|error| format!("{error:#}")));
        let interfaces = interfaces()?.into_iter().map(|name| {
            // Links of software have none.
            let interrupts = interrupts::of_interface(&name).unwrap_or_default();
            Watched { name, interrupts }
        });
        let ksoftirqd = threads::find(probe_context, |name| name.starts_with("ksoftirqd/"));
        let proc = probe_context.proc.clone();
        let interfaces = interfaces.collect();
        let before = module.read()?;
        Ok(Watch { module, before, interfaces, ksoftirqd, proc })
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
}

impl super::Watch for Watch {
    /// What counts on whether it is watched or not.
    fn sample(&self) -> Result<Sample> {
        let text = fs::read_to_string(self.proc.join("interrupts"));
        let mut sample = self.interrupts(&text.context("reading the interrupts")?);
        self.ksoftirqd.cpu_time(&mut sample, "ksoftirqd_s");
        Ok(sample)
    }

    /// Polls so far.
    fn counted(&self) -> Result<Counted> {
        let found = self.module.read()?;
        let mut counted = Counted::default();
        counted.notes.extend(self.module.note());
        if self.ksoftirqd.is_empty() {
            let why = "no ksoftirqd can be seen from this PID namespace: its CPU time is unknown";
            counted.notes.push(why.to_owned());
        }
        let is_counted = self.module.0.is_ok();
        for Watched { name, .. } in self.interfaces.iter().filter(|_| is_counted) {
            let after = found.get(name).cloned().unwrap_or_default();
            add(&mut counted, name, after.since(self.before.get(name)));
        }
        Ok(counted)
    }
}

/// One interface's: polls by packets, and polls that found no room.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Polls {
    pub(super) by_packets: BTreeMap<u64, u64>,
    pub(super) dropped: u64,
}

impl Polls {
    fn since(mut self, before: Option<&Self>) -> Self {
        for (packets, polls) in before.iter().flat_map(|before| &before.by_packets) {
            if let Some(all) = self.by_packets.get_mut(packets) {
                *all = all.saturating_sub(*polls);
            }
        }
        self.by_packets.retain(|_, polls| *polls > 0);
        self
    }
}

pub(super) fn add(counted: &mut Counted, interface: &str, polls: Polls) {
    let count: u64 = polls.by_packets.values().sum();
    let packets: u64 = polls.by_packets.iter().map(|(packets, polls)| packets * polls).sum();
    counted.values.insert(format!("{interface}.polls"), count as f64);
    counted.values.insert(format!("{interface}.polled_packets"), packets as f64);
    let buckets: Vec<(u64, u64)> = polls.by_packets.into_iter().collect();
    if !buckets.is_empty() {
        let histogram = Histogram { unit: "packets".to_owned(), buckets };
        counted.histograms.insert(format!("{interface}.packets_per_poll"), histogram);
    }
    if polls.dropped > 0 {
        let dropped = polls.dropped;
        counted.notes.push(format!("{dropped} polls of {interface} had no room in the histogram"));
    }
}

/// Those that may poll, by their own count: they are up and not the loopback.
pub(super) fn interfaces() -> Result<Vec<String>> {
    let up = Links::open()?.list()?.into_iter().filter(|link| link.up && link.name != "lo");
    Ok(up.map(|link| link.name).filter(|name| !name.contains('"')).take(MOST_INTERFACES).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modules_lines_are_read() {
        let found = parse_module("eth0 0:40 1:12 64:3\neth1\n").unwrap();
        assert_eq!(found["eth0"].by_packets, BTreeMap::from([(0, 40), (1, 12), (64, 3)]));
        assert_eq!(found["eth1"], Polls::default());
        for broken in ["eth0 1\n", "eth0 1:x\n", "eth0 -1:2\n", "\n"] {
            assert!(parse_module(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn polls_before_are_not_of_the_phase() {
        let read = |text| parse_module(text).unwrap().remove("eth0").unwrap();
        let since = read("eth0 0:5 1:12 2:4").since(Some(&read("eth0 0:5 1:10")));
        assert_eq!(since.by_packets, BTreeMap::from([(1, 2), (2, 4)]));
    }
}
