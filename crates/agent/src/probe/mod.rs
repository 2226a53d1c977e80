//! Counters, read before and after something, and their differences.
//!
//! A reading only copies the kernel's text: it is parsed when the second one is there, outside the
//! time that is measured.
//!
//! A probe is a module with a [`ProbeKind`], and a line of the table below, which is all that others know
//! of it.
//!
//! What two readings do not agree on is decided in one place, [`counters`], and reported as a note.

pub mod conditions;
pub mod counters;
pub mod cpu_modes;
pub mod datapath;
pub mod drops;
pub mod hardware;
pub mod interrupts;
pub mod kvm;
pub mod kvm_exits;
mod machine;
pub mod memory;
pub mod napi;
pub mod net_dev;
pub mod net_snmp;
pub mod outside;
mod perf_event;
pub mod polls_traced;
pub mod schedstat;
pub mod softirqs;
pub mod standalone;
pub mod stat;
mod text;
mod threads;
mod tracing;
pub mod vmm_memory;
pub mod vmstat;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use hypertare_plan::{Histogram, Probe, ProbeValues, Values};

use crate::values::{Definition, fits, spelt};
use counters::Sample;
pub use outside::{Outside, Processes, VhostUserBackend};

/// A file of procfs, and why a kernel may lack it.
type File = (&'static str, &'static str);

/// Makes numbers of the texts of a probe's files.
type Parse = fn(&[String]) -> Result<Sample>;

const IS_PROCFS_MOUNTED: &str = "is procfs mounted?";
const HAS_NO_NETWORK: &str = "procfs is not mounted, or the kernel is built without CONFIG_INET";

/// One kind of probe.
pub struct ProbeKind {
    /// What it reports: differences over a phase, unless the meaning says otherwise.
    values: &'static [Definition],
    source: Source,
}

/// Where a probe's counters come from.
enum Source {
    /// Files, whose texts are parsed later, one for each file. They cannot say what is absent.
    Files(&'static [File], Parse),
    /// The counters as they are now.
    Numbers(fn(&ProbeContext) -> Result<Sample>),
    /// What counts only as long as it is set up.
    Watch(fn(&ProbeContext) -> Result<Box<dyn Watch>>),
}

/// What plans call them, and the module of each.
macro_rules! probes {
    ($($probe:ident => $module:ident),+ $(,)?) => {
        pub const ALL: &[Probe] = &[$(Probe::$probe),+];

        fn kind(probe: Probe) -> &'static ProbeKind {
            match probe {
                $(Probe::$probe => &$module::KIND,)+
            }
        }
    };
}

probes! {
    Stat => stat,
    Softirqs => softirqs,
    Interrupts => interrupts,
    NetDev => net_dev,
    Vmstat => vmstat,
    Schedstat => schedstat,
    NetSnmp => net_snmp,
    Outside => outside,
    CpuModes => cpu_modes,
    Napi => napi,
    PollsTraced => polls_traced,
    Drops => drops,
    Kvm => kvm,
    KvmExits => kvm_exits,
    Memory => memory,
    VmmMemory => vmm_memory,
    Datapath => datapath,
    Hardware => hardware,
    Conditions => conditions,
}

/// What a probe reports.
pub fn values(probe: Probe) -> &'static [Definition] {
    kind(probe).values
}

/// The definition of a value by its name.
pub fn definition(probe: Probe, name: &str) -> Option<&'static Definition> {
    values(probe).iter().find(|(pattern, _, _)| fits(pattern.as_bytes(), name.as_bytes()))
}

/// As plans and records spell it.
pub fn name(probe: Probe) -> String {
    spelt(probe)
}

/// Where the probes look.
#[derive(Clone, Debug)]
pub struct ProbeContext {
    /// A procfs; `/proc`, but for tests.
    pub proc: PathBuf,
    /// A sysfs; `/sys`, but for tests.
    pub sys: PathBuf,
    /// One that shows the machine's kernel threads, where `proc` does not.
    pub machine_proc: Option<PathBuf>,
    /// What the probes that are read from outside are about; they are unavailable without it.
    pub outside: Option<Outside>,
    /// Cgroups of this run whose processes `proc` does not show.
    pub elsewhere: Vec<PathBuf>,
}

impl Default for ProbeContext {
    fn default() -> Self {
        ProbeContext {
            proc: PathBuf::from("/proc"),
            sys: PathBuf::from("/sys"),
            machine_proc: None,
            outside: None,
            elsewhere: Vec::new(),
        }
    }
}

impl ProbeContext {
    fn outside(&self) -> Result<&Outside> {
        self.outside.as_ref().context(
            "nothing is known of this node from outside: it is no guest, and no container with a cgroup",
        )
    }
}

/// The first of two readings.
pub struct Reading {
    probe_context: ProbeContext,
    /// What counts only while it is asked to, or why it does not.
    watches: BTreeMap<Probe, Result<Box<dyn Watch>, String>>,
    taken: Vec<(Probe, Taken)>,
}

/// Something that has to be set up to be counted. Dropping it takes that away.
pub trait Watch {
    /// Counters beside it that count anyway.
    fn sample(&self) -> Result<Sample> {
        Ok(Sample::default())
    }
    /// What it has counted since it was set up.
    fn counted(&self) -> Result<Counted>;
}

/// What was counted since the first reading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    pub values: Values,
    pub histograms: BTreeMap<String, Histogram>,
    pub notes: Vec<String>,
    pub absent: BTreeMap<String, String>,
}

/// What one probe counted between two readings.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    pub probe: Probe,
    /// Seconds between the two readings of this probe.
    pub elapsed_s: f64,
    /// The differences, or why there are none.
    pub values: Result<Values, String>,
    pub histograms: BTreeMap<String, Histogram>,
    /// What was left out, and why; for a person to read.
    pub notes: Vec<String>,
    /// Values that this machine cannot give, and why.
    pub absent: BTreeMap<String, String>,
}

struct Taken {
    at: Instant,
    captured: Result<Captured, String>,
}

/// What a reading keeps: text as the kernel gave it, or numbers where they come from system calls.
enum Captured {
    Texts(Vec<String>, Parse),
    Sample(Sample),
}

/// Takes the first reading of every probe. A probe that is unavailable is reported by [`Reading::end`].
pub fn begin(probes: &[Probe], probe_context: &ProbeContext) -> Reading {
    let watches = probes.iter().filter_map(|&probe| {
        let Source::Watch(start) = kind(probe).source else { return None };
        Some((probe, start(probe_context).map_err(|error| format!("{error:#}"))))
    });
    let watches = watches.collect();
    let mut reading = Reading { probe_context: probe_context.clone(), watches, taken: Vec::new() };
    reading.taken = probes.iter().map(|&probe| (probe, reading.take(probe))).collect();
    reading
}

impl Reading {
    /// Takes the second reading of all and reports the differences, in the order that was asked for.
    pub fn end(mut self) -> Vec<Measured> {
        let all: Vec<Probe> = self.taken.iter().map(|(probe, _)| *probe).collect();
        self.end_some(&all)
    }

    /// The same for some of them; the others go on.
    pub fn end_some(&mut self, probes: &[Probe]) -> Vec<Measured> {
        let taken = std::mem::take(&mut self.taken);
        let (ending, going_on): (Vec<_>, Vec<_>) =
            taken.into_iter().partition(|(probe, _)| probes.contains(probe));
        self.taken = going_on;
        let after: Vec<Taken> = ending.iter().map(|(probe, _)| self.take(*probe)).collect();
        let measured = ending.into_iter().zip(after).map(|((probe, a), b)| {
            let measured = measure(probe, a, b);
            match self.watches.remove(&probe) {
                Some(Ok(watch)) => measured.with_counted(watch.counted()),
                _ => measured,
            }
        });
        measured.collect()
    }

    /// Whether a probe waits for its second reading.
    pub fn is_open(&self) -> bool {
        !self.taken.is_empty()
    }

    fn take(&self, probe: Probe) -> Taken {
        let captured = match self.watches.get(&probe) {
            Some(Err(why)) => Err(why.clone()),
            Some(Ok(watch)) => {
                watch.sample().map(Captured::Sample).map_err(|error| format!("{error:#}"))
            }
            None => capture(probe, &self.probe_context).map_err(|error| format!("{error:#}")),
        };
        Taken { at: Instant::now(), captured }
    }
}

impl Measured {
    fn with_counted(mut self, counted: Result<Counted>) -> Self {
        match (&mut self.values, counted) {
            (Ok(values), Ok(counted)) => {
                values.extend(counted.values);
                self.histograms = counted.histograms;
                self.notes.extend(counted.notes);
                self.absent.extend(counted.absent);
            }
            (values @ Ok(_), Err(error)) => *values = Err(format!("{error:#}")),
            (Err(_), _) => {}
        }
        self
    }

    /// As the record that crosses the protocol. The notes are the caller's to log.
    pub fn record(&self, node: &str, trial: u64, phase: &str) -> ProbeValues {
        ProbeValues {
            node: node.to_owned(),
            trial,
            phase: phase.to_owned(),
            probe: self.probe,
            elapsed_s: self.elapsed_s,
            values: self.values.clone().unwrap_or_default(),
            histograms: self.histograms.clone(),
            unavailable: self.values.as_ref().err().cloned(),
            absent: self.absent.clone(),
        }
    }
}

fn capture(probe: Probe, probe_context: &ProbeContext) -> Result<Captured> {
    match kind(probe).source {
        Source::Files(files, parse) => {
            let texts = files.iter().map(|(name, why)| read(&probe_context.proc, name, why));
            Ok(Captured::Texts(texts.collect::<Result<_>>()?, parse))
        }
        Source::Numbers(sample) => sample(probe_context).map(Captured::Sample),
        Source::Watch(_) => Ok(Captured::Sample(Sample::default())),
    }
}

fn read(proc: &Path, name: &str, why_missing: &str) -> Result<String> {
    let path = proc.join(name);
    text::read(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            anyhow::anyhow!("{} is not there: {why_missing}", path.display())
        }
        _ => anyhow::Error::new(error).context(format!("reading {}", path.display())),
    })
}

fn measure(probe: Probe, before: Taken, after: Taken) -> Measured {
    let elapsed_s = after.at.duration_since(before.at).as_secs_f64();
    let sample = |captured| match captured {
        Captured::Sample(sample) => Ok(sample),
        Captured::Texts(texts, parse) => parse(&texts).map_err(|error| format!("{error:#}")),
    };
    let mut notes = Vec::new();
    let absent = match &after.captured {
        Ok(Captured::Sample(sample)) => sample.absent.clone(),
        _ => BTreeMap::new(),
    };
    let before = before.captured.and_then(sample);
    let values = before.and_then(|before| {
        counters::difference(&before, &after.captured.and_then(sample)?, &mut notes)
    });
    Measured { probe, elapsed_s, values, histograms: BTreeMap::new(), notes, absent }
}

/// Clock ticks a second in which procfs counts CPU time (100 on every common architecture).
fn ticks_per_s() -> u64 {
    // SAFETY: sysconf has no preconditions.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).ok().filter(|&ticks| ticks > 0).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), files);
        root
    }

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn two_readings_make_differences_in_the_order_asked_for() {
        let root = root(&[("vmstat", "pgfault 100\nnr_free_pages 7\n"), ("stat", "ctxt 5\n")]);
        let probe_context =
            ProbeContext { proc: root.path().to_owned(), ..ProbeContext::default() };
        let reading = begin(&[Probe::Vmstat, Probe::Schedstat, Probe::Stat], &probe_context);
        write(root.path(), &[("vmstat", "pgfault 142\nnr_free_pages 3\n"), ("stat", "ctxt 9\n")]);
        let measured = reading.end();

        let probes: Vec<Probe> = measured.iter().map(|m| m.probe).collect();
        assert_eq!(probes, [Probe::Vmstat, Probe::Schedstat, Probe::Stat]);
        assert_eq!(measured[0].values, Ok(Values::from([("pgfault".to_owned(), 42.0)])));
        assert!(measured[1].values.as_ref().unwrap_err().contains("CONFIG_SCHEDSTATS"));
        assert_eq!(measured[2].values, Ok(Values::from([("context_switches".to_owned(), 4.0)])));
    }

    #[test]
    fn some_end_while_others_go_on() {
        let root = root(&[("vmstat", "pgfault 100\n"), ("stat", "ctxt 5\n")]);
        let probe_context =
            ProbeContext { proc: root.path().to_owned(), ..ProbeContext::default() };
        let mut reading = begin(&[Probe::Vmstat, Probe::Stat], &probe_context);
        write(root.path(), &[("vmstat", "pgfault 142\n"), ("stat", "ctxt 9\n")]);
        let first = reading.end_some(&[Probe::Stat]);
        assert_eq!(first[0].values, Ok(Values::from([("context_switches".to_owned(), 4.0)])));
        assert!(first.len() == 1 && reading.is_open());
        write(root.path(), &[("vmstat", "pgfault 150\n")]);
        let last = reading.end_some(&[Probe::Vmstat, Probe::Stat]);
        assert_eq!(last[0].values, Ok(Values::from([("pgfault".to_owned(), 50.0)])));
        assert!(last.len() == 1 && !reading.is_open());
    }

    #[test]
    fn the_record_of_an_unavailable_probe_gives_the_reason() {
        let measured = begin(&[Probe::Outside], &ProbeContext::default()).end();
        let record = measured[0].record("sut", 3, "send");
        assert!(record.values.is_empty());
        assert!(record.unavailable.unwrap().contains("no guest, and no container with a cgroup"));
    }

    #[test]
    fn every_probe_but_outside_works_here_or_says_why_not() {
        let probes = [
            Probe::Stat,
            Probe::Softirqs,
            Probe::Interrupts,
            Probe::NetDev,
            Probe::Vmstat,
            Probe::Schedstat,
            Probe::NetSnmp,
        ];
        for measured in begin(&probes, &ProbeContext::default()).end() {
            match measured.values {
                Ok(values) => {
                    assert!(values.values().all(|value| *value >= 0.0), "{:?}", measured.probe);
                }
                Err(reason) => assert!(reason.contains("is not there"), "{reason}"),
            }
        }
    }

    #[test]
    fn names_find_their_own_definition() {
        let unit = |probe, name| definition(probe, name).map(|(_, unit, _)| *unit);
        let meaning = |name| definition(Probe::Stat, name).map(|(_, _, meaning)| *meaning);
        assert_eq!(unit(Probe::NetDev, "eth0.100.rx_bytes"), Some("B"));
        assert_eq!(unit(Probe::Vmstat, "pgpgin"), Some("KiB"));
        assert_eq!(unit(Probe::Vmstat, "pgactivate"), Some("events"));
        assert_eq!(unit(Probe::Vmstat, "pgfault"), Some("faults"));
        assert_eq!(unit(Probe::Stat, "nothing_of_the_kind"), None);
        assert_eq!(meaning("cpu3.irq_s"), Some("CPU time in interrupts"));
        assert_eq!(meaning("softirq_s"), Some("CPU time in softirqs"));
    }

    #[test]
    fn every_value_has_a_definition() {
        let (texts, mut names) = (every_text(), Vec::new());
        for (probe, text) in texts {
            let Source::Files(_, parse) = kind(probe).source else { panic!("{probe:?}") };
            let sample = parse(&text).unwrap();
            let values = counters::difference(&sample, &sample, &mut Vec::new()).unwrap();
            names.extend(values.into_keys().map(|name| (probe, name)));
        }
        let traced = polls_traced::tests::polls().values.into_keys();
        names.extend(traced.map(|name| (Probe::PollsTraced, name)));
        names.push((Probe::Napi, "eth0.interrupts".to_owned()));
        names.push((Probe::Napi, "ksoftirqd_s".to_owned()));
        let drops = drops::tests::captured(1, 1).entries.into_iter().flat_map(|entry| entry.names);
        names.extend(drops.map(|name| (Probe::Drops, name)));
        for (probe, sample) in [
            (Probe::Kvm, kvm::tests::captured()),
            (Probe::Memory, memory::tests::captured()),
            (Probe::VmmMemory, vmm_memory::tests::captured()),
            (Probe::Datapath, datapath::tests::captured()),
            (Probe::Conditions, conditions::tests::captured()),
        ] {
            let all = sample.entries.into_iter().flat_map(|entry| entry.names);
            names.extend(all.map(|name| (probe, name)));
        }
        let exits = kvm_exits::tests::captured().values;
        names.extend(exits.into_keys().map(|name| (Probe::KvmExits, name)));
        let modes = cpu_modes::tests::captured().values;
        names.extend(modes.into_keys().map(|name| (Probe::CpuModes, name)));
        assert!(names.len() > 50);
        for (probe, name) in names {
            assert!(definition(probe, &name).is_some(), "{probe:?} {name}");
        }
    }

    fn every_text() -> Vec<(Probe, Vec<String>)> {
        let one = |text: &str| vec![text.to_owned()];
        vec![
            (Probe::Stat, one(stat::tests::LINUX_6_18_BEFORE)),
            (Probe::Softirqs, one(softirqs::tests::BEFORE)),
            (Probe::Interrupts, one(interrupts::tests::LINUX_6_18)),
            (Probe::NetDev, one(net_dev::tests::BEFORE)),
            (Probe::Vmstat, one(vmstat::tests::BEFORE)),
            (Probe::Schedstat, one(schedstat::tests::VERSION_15_BEFORE)),
            (
                Probe::NetSnmp,
                [net_snmp::tests::SNMP, net_snmp::tests::NETSTAT, net_snmp::tests::SOFTNET]
                    .map(str::to_owned)
                    .to_vec(),
            ),
        ]
    }
}
