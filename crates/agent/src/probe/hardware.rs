//! Counters of the CPUs that the node may use (perf_event_open(2)): everything that runs on them, in
//! the kernel, in user mode and in guests. A counter that this CPU lacks is reported by name with the
//! reason; it is never 0.
//!
//! Cycles of page walks have no name that all CPUs share. Their events by model, from Intel's lists
//! (tools/perf/pmu-events in Linux): WALK_CYCLES and WALK_DURATION count cycles of walks, WALK_ACTIVE
//! cycles with at least one, which is what several walkers at once leave of it.

use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use anyhow::{Context, Result, bail};

use super::perf_event::{self, Attributes};
use super::{Counted, ProbeContext, ProbeKind, Source};
use crate::values::Definition;

/// Of the CPUs that the node may use; everything that runs on them.
const VALUES: &[Definition] = &[
    ("cycles", "cycles", "of the CPUs while they were not idle"),
    ("instructions", "instructions", "carried out"),
    ("dtlb_load_misses", "misses", "reads that missed the data TLB, as the kernel counts them"),
    ("dtlb_store_misses", "misses", "writes that missed the data TLB, as the kernel counts them"),
    ("itlb_misses", "misses", "fetches of code that missed the TLB"),
    ("load_walk_cycles", "cycles", "with a page walk for reads under way"),
    ("store_walk_cycles", "cycles", "with a page walk for writes under way"),
];

/// The probe.
pub const KIND: ProbeKind = ProbeKind {
    values: VALUES,
    source: Source::Watch(|probe_context| Ok(Box::new(Watch::start(probe_context)?))),
};

/// A counter by name, as the kernel is asked for it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Event {
    name: &'static str,
    kind: u32,
    config: u64,
}

const HARDWARE: u32 = 0;
const CACHE: u32 = 3;
const RAW: u32 = 4;
const DATA_TLB: u64 = 3;
const CODE_TLB: u64 = 4;

/// `PERF_TYPE_HW_CACHE`: what, read or write, and its misses.
const fn misses(cache: u64, write: bool) -> u64 {
    cache | (write as u64) << 8 | 1 << 16
}

const EVERYWHERE: [Event; 5] = [
    Event { name: "cycles", kind: HARDWARE, config: 0 },
    Event { name: "instructions", kind: HARDWARE, config: 1 },
    Event { name: "dtlb_load_misses", kind: CACHE, config: misses(DATA_TLB, false) },
    Event { name: "dtlb_store_misses", kind: CACHE, config: misses(DATA_TLB, true) },
    Event { name: "itlb_misses", kind: CACHE, config: misses(CODE_TLB, false) },
];

const WALKS: [&str; 2] = ["load_walk_cycles", "store_walk_cycles"];

/// `event | umask << 8 | cmask << 24` for loads and for stores, by models of Intel's family 6.
const INTEL_WALKS: [(&[u32], [u64; 2]); 5] = [
    // Sandy Bridge
    (&[0x2a, 0x2d], [0x0408, 0x0449]),
    // Ivy Bridge
    (&[0x3a, 0x3e], [0x8408, 0x0449]),
    // Haswell, Broadwell
    (&[0x3c, 0x3f, 0x45, 0x46, 0x3d, 0x47, 0x4f, 0x56], [0x1008, 0x1049]),
    // Skylake to Cascade Lake and Comet Lake, Ice Lake, Tiger Lake
    (
        &[0x4e, 0x5e, 0x55, 0x8e, 0x9e, 0xa5, 0xa6, 0x7d, 0x7e, 0x6a, 0x6c, 0x8c, 0x8d],
        [0x0100_1008, 0x0100_1049],
    ),
    // Sapphire Rapids, Emerald Rapids
    (&[0x8f, 0xcf], [0x0100_1012, 0x0100_1013]),
];

/// Counters that run, and those that do not, with the reasons.
pub struct Watch {
    /// By name, one on every CPU.
    running: Vec<(&'static str, Vec<OwnedFd>)>,
    absent: Vec<(&'static str, String)>,
}

impl Watch {
    /// # Errors
    /// This kernel counts nothing for this process, and why.
    pub fn start(probe_context: &ProbeContext) -> Result<Self> {
        let set =
            rustix::thread::sched_getaffinity(None).context("asking for this process's CPUs")?;
        let cpus: Vec<usize> =
            (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect();
        let cpuinfo = fs::read_to_string(probe_context.proc.join("cpuinfo")).unwrap_or_default();
        let cpu = Cpu::of(&cpuinfo);
        let mut watch = Watch { running: Vec::new(), absent: Vec::new() };
        let events = EVERYWHERE.into_iter().map(Ok).chain(cpu.walks());
        for event in events {
            match event {
                Ok(event) => watch.add(event, &cpus, &cpu, probe_context)?,
                Err(absent) => watch.absent.push(absent),
            }
        }
        Ok(watch)
    }

    fn add(
        &mut self,
        event: Event,
        cpus: &[usize],
        cpu: &Cpu,
        probe_context: &ProbeContext,
    ) -> Result<()> {
        let counters: io::Result<Vec<OwnedFd>> =
            cpus.iter().map(|&number| open(event, number)).collect();
        let name = event.name;
        let error = match counters {
            Ok(counters) => {
                self.running.push((name, counters));
                return Ok(());
            }
            Err(error) => error,
        };
        perf_event::check_refusal(probe_context, &error)?;
        match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => bail!("too many open files for {name}: {error}"),
            // The kernel says only that there is none.
            Some(libc::ENOENT) => {
                let why = format!("{cpu} has no such counter, or a hypervisor keeps it to itself");
                self.absent.push((name, why));
            }
            _ => self.absent.push((name, format!("{cpu} does not count it ({error})"))),
        }
        Ok(())
    }
}

impl super::Watch for Watch {
    fn counted(&self) -> Result<Counted> {
        let mut counted = Counted::default();
        for (name, why) in &self.absent {
            counted.absent.insert((*name).to_owned(), why.clone());
        }
        for (name, counters) in &self.running {
            let readings = counters.iter().map(read).collect::<io::Result<Vec<_>>>();
            let readings = readings.with_context(|| format!("reading {name}"))?;
            let name = (*name).to_owned();
            if let Some(total) = total(&readings) {
                counted.values.insert(name, total);
            } else {
                counted.absent.insert(name, "others had all of the hardware".to_owned());
            }
        }
        Ok(counted)
    }
}

/// A count, and for how long it was wanted and had the hardware.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reading {
    count: u64,
    wanted_ns: u64,
    had_ns: u64,
}

/// Over all CPUs. Where counters take turns, what was counted stands for the whole time
/// (perf_event_open(2), "time_running"). None where one never had its turn.
fn total(readings: &[Reading]) -> Option<f64> {
    readings
        .iter()
        .map(|reading| match (reading.wanted_ns, reading.had_ns) {
            (wanted, 0) if wanted > 0 => None,
            (_, 0) => Some(0.0),
            (wanted, had) => Some(reading.count as f64 * (wanted as f64 / had as f64)),
        })
        .sum()
}

fn read(counter: &OwnedFd) -> io::Result<Reading> {
    let mut words = [0; 24];
    let mut counter = fs::File::from(counter.try_clone()?);
    counter.read_exact(&mut words)?;
    let word = |index: usize| {
        let bytes = &words[8 * index..8 * index + 8];
        bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    };
    Ok(Reading { count: word(0), wanted_ns: word(1), had_ns: word(2) })
}

/// Everything that runs on one CPU, from now on.
fn open(event: Event, cpu: usize) -> io::Result<OwnedFd> {
    const TIME_WANTED_AND_HAD: u64 = 1 | 2;
    let attributes = Attributes {
        kind: event.kind,
        config: event.config,
        read_format: TIME_WANTED_AND_HAD,
        ..Attributes::default()
    };
    perf_event::open(attributes, cpu)
}

/// What /proc/cpuinfo says of the first CPU.
#[derive(Debug, Default, PartialEq)]
struct Cpu {
    vendor: String,
    family: u32,
    model: u32,
}

impl std::fmt::Display for Cpu {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}, family {}, model {:#x}", self.vendor, self.family, self.model)
    }
}

impl Cpu {
    fn of(cpuinfo: &str) -> Self {
        let value = |name: &str| {
            let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
            let found = lines.find(|(key, _)| key.trim() == name);
            found.map(|(_, value)| value.trim()).unwrap_or_default()
        };
        Cpu {
            vendor: value("vendor_id").to_owned(),
            family: value("cpu family").parse().unwrap_or(0),
            model: value("model").parse().unwrap_or(0),
        }
    }

    /// Its events for the cycles of page walks, or why there are none.
    fn walks(&self) -> Vec<Result<Event, (&'static str, String)>> {
        let known = INTEL_WALKS.iter().find(|(models, _)| {
            (self.vendor.as_str(), self.family) == ("GenuineIntel", 6)
                && models.contains(&self.model)
        });
        let why = match self.vendor.as_str() {
            "AuthenticAMD" => "AMD's CPUs count page walks, not their cycles".to_owned(),
            _ => format!("{self} has no event for it that is known here"),
        };
        let one = |index: usize| {
            let name = WALKS[index];
            let (_, configs) = known.ok_or_else(|| (name, why.clone()))?;
            Ok(Event { name, kind: RAW, config: configs[index] })
        };
        (0..WALKS.len()).map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Watch as _;
    use super::*;

    const CPUINFO: &str = "\
processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 106
model name\t: Intel(R) Xeon(R) Processor @ 2.90GHz

processor\t: 1
vendor_id\t: GenuineIntel
model\t\t: 1
";

    #[test]
    fn walks_are_counted_by_what_the_model_has() {
        let cpu = Cpu::of(CPUINFO);
        assert_eq!(cpu, Cpu { vendor: "GenuineIntel".into(), family: 6, model: 0x6a });
        let loads = Event { name: "load_walk_cycles", kind: RAW, config: 0x0100_1008 };
        assert_eq!(cpu.walks()[0], Ok(loads));
        let amd = Cpu { vendor: "AuthenticAMD".into(), family: 25, model: 1 };
        let (name, why) = amd.walks()[1].clone().unwrap_err();
        assert!(name == "store_walk_cycles" && why.contains("not their cycles"), "{why}");
        let other = Cpu { model: 0x97, ..cpu }.walks()[0].clone().unwrap_err().1;
        assert!(other.contains("model 0x97") && other.contains("known here"), "{other}");
        assert!(Cpu::of("").walks().iter().all(Result::is_err));
    }

    #[test]
    fn counters_that_take_turns_stand_for_the_whole_time() {
        let reading = |count, wanted_ns, had_ns| Reading { count, wanted_ns, had_ns };
        assert_eq!(total(&[reading(100, 10, 5), reading(7, 10, 10)]), Some(207.0));
        assert_eq!(total(&[reading(0, 10, 0)]), None);
        assert_eq!(total(&[reading(0, 0, 0)]), Some(0.0));
    }

    /// What this machine has depends on it; what it lacks is named, and nothing is both.
    #[test]
    fn every_counter_is_a_value_or_absent_with_a_reason() {
        let watch = match Watch::start(&ProbeContext::default()) {
            Ok(watch) => watch,
            Err(error) => return assert!(error.to_string().contains("perf"), "{error:#}"),
        };
        let counted = watch.counted().unwrap();
        for name in EVERYWHERE.map(|event| event.name).into_iter().chain(WALKS) {
            let (there, absent) = (counted.values.get(name), counted.absent.get(name));
            assert!(there.is_some() != absent.is_some(), "{name}: {there:?}, {absent:?}");
            assert!(there.is_none_or(|&count| count >= 0.0));
            assert!(absent.is_none_or(|why| !why.is_empty()));
        }
    }
}
