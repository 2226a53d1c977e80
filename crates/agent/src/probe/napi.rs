//! Packets per poll of every interface; the hardware interrupts of those interfaces; and the CPU time of
//! ksoftirqd. Softirqs and the time in them are the probes `softirqs` and `stat`.
//!
//! Polls are counted in the kernel, and by one of two:
//! - `hypertare_napi`, the project's own module (`kernel/`), as long as its file is open: some twenty
//!   instructions a poll.
//! - Where it is not to be had, a histogram on the kernel's tracepoint napi:napi_poll
//!   (Documentation/trace/histogram.rst), in a tracing instance of this probe's own. That takes several
//!   microseconds of each poll, which is enough to change what is measured: a note says so. The
//!   tracepoint is of the machine: an interface of the same name in another network namespace is counted
//!   too. Tracing needs root of the machine itself, not of a container.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hypertare_plan::{Histogram, NAPI_MODULE};

use super::counters::{Kind, Sample};
use super::threads::{self, Threads};
use super::tracing::{Instance, Row, histograms};
use super::{Counted, ProbeContext, ProbeKind};
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
pub struct Counters;

impl ProbeKind for Counters {
    fn values(&self) -> &'static [Definition] {
        VALUES
    }

    fn watch(&self, probe_context: &ProbeContext) -> Option<Result<Box<dyn super::Watch>>> {
        super::watched(Watch::start(probe_context))
    }
}

const EVENT: &str = "napi/napi_poll";
/// Every trigger is looked at in every poll.
const MOST_INTERFACES: usize = 16;

/// Below procfs. The module counts as long as somebody has it open.
const POLLS_FILE: &str = "hypertare_napi_polls";

/// Who counts the polls.
enum Counter {
    Module(File),
    /// With the reason why the module does not.
    Tracepoint(Instance, String),
}

impl Counter {
    fn start(proc: &Path, names: &[String]) -> Result<Self> {
        match open_module(proc) {
            Ok(file) => Ok(Counter::Module(file)),
            Err(error) => {
                let instance = Instance::make(&[EVENT])?;
                for name in names {
                    let trigger = format!("hist:keys=work if dev_name == \"{name}\"");
                    instance.count(EVENT, &trigger)?;
                }
                Ok(Counter::Tracepoint(instance, format!("{error:#}")))
            }
        }
    }

    fn read(&self) -> Result<BTreeMap<String, Polls>> {
        match self {
            Counter::Module(file) => {
                let mut text = String::new();
                let mut file = file;
                file.rewind()?;
                file.read_to_string(&mut text).context(
                    "reading the polls that were counted (ESTALE: a driver has set its NIC up anew \
                     meanwhile, and those after it are in no count)",
                )?;
                parse_module(&text)
            }
            Counter::Tracepoint(instance, _) => parse(&instance.histogram(EVENT)?),
        }
    }

    /// What a reader of the numbers has to know of how they were counted.
    fn note(&self) -> Option<String> {
        let Counter::Tracepoint(_, why) = self else { return None };
        Some(format!(
            "polls were counted by the kernel's own tracepoint, which takes microseconds of each poll, so \
             that low NAPI weights achieve less; {NAPI_MODULE} takes next to nothing, but: {why}"
        ))
    }
}

fn open_module(proc: &Path) -> Result<File> {
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
    counter: Counter,
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
    /// The kernel cannot count polls here, and why.
    pub fn start(probe_context: &ProbeContext) -> Result<Self> {
        let names = interfaces()?;
        let counter = Counter::start(&probe_context.proc, &names)?;
        let interfaces = names.into_iter().map(|name| {
            // Links of software have none.
            let interrupts = interrupts::of_interface(&name).unwrap_or_default();
            Watched { name, interrupts }
        });
        let ksoftirqd = threads::find(probe_context, |name| name.starts_with("ksoftirqd/"));
        let proc = probe_context.proc.clone();
        let interfaces = interfaces.collect();
        let before = counter.read()?;
        Ok(Watch { counter, before, interfaces, ksoftirqd, proc })
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
        let found = self.counter.read()?;
        let mut counted = Counted::default();
        counted.notes.extend(self.counter.note());
        if self.ksoftirqd.is_empty() {
            let why = "no ksoftirqd can be seen from this PID namespace: its CPU time is unknown";
            counted.notes.push(why.to_owned());
        }
        for Watched { name, .. } in &self.interfaces {
            let after = found.get(name).cloned().unwrap_or_default();
            add(&mut counted, name, after.since(self.before.get(name)));
        }
        Ok(counted)
    }
}

/// One interface's: polls by packets, and polls that found no room.
#[derive(Clone, Debug, Default, PartialEq)]
struct Polls {
    by_packets: BTreeMap<u64, u64>,
    dropped: u64,
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

fn add(counted: &mut Counted, interface: &str, polls: Polls) {
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
fn interfaces() -> Result<Vec<String>> {
    let up = Links::open()?.list()?.into_iter().filter(|link| link.up && link.name != "lo");
    Ok(up.map(|link| link.name).filter(|name| !name.contains('"')).take(MOST_INTERFACES).collect())
}

/// One histogram for each trigger; its filter names the interface.
fn parse(text: &str) -> Result<BTreeMap<String, Polls>> {
    let mut found = BTreeMap::new();
    for histogram in histograms(text)? {
        let Some(name) = filtered(&histogram.trigger) else { continue };
        let polls: &mut Polls = found.entry(name).or_default();
        polls.dropped = histogram.dropped;
        for Row { keys, hits } in &histogram.rows {
            polls
                .by_packets
                .insert(*keys.get("work").context("a poll without its packets")?, *hits);
        }
    }
    Ok(found)
}

fn filtered(trigger: &str) -> Option<String> {
    let (_, rest) = trigger.split_once("dev_name == \"")?;
    Some(rest.split_once('"')?.0.to_owned())
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

    pub(crate) fn polls() -> Counted {
        let mut counted = Counted::default();
        for (name, polls) in parse(TWO).unwrap() {
            add(&mut counted, &name, polls);
        }
        counted
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

    #[test]
    fn a_broken_histogram_is_an_error() {
        assert!(parse(&TWO.replace("hitcount:          3", "hitcount: many")).is_err());
    }
}
