//! CPU time of a node as its machine sees it: the VMM with all its threads, what moves its packets beside
//! it (vhost workers, a process of ours), or a container, or any process with its descendants.
//!
//! Where the numbers come from, best first:
//! - The cgroup, where there is one: it holds every process that ever was in it, and the vhost
//!   workers, which the kernel attaches to their owner's cgroup.
//! - Each process's CPU-time clock (clock_getcpuclockid(3)): nanoseconds, exited threads included.
//!   A running thread's part lags by up to one scheduler tick.
//! - Children that were waited for, and the split into user and system: /proc/PID/stat, whose ticks
//!   are 10 ms. `utime` contains `guest_time` already: it is given, never added.
//!
//! A child's time moves to its parent when the parent waits for it, so the sum over the tree keeps it. The
//! time of a child that no process of the tree waits for is lost to the sum; only a cgroup counts it.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::counters::{Kind, Sample};
use super::{ProbeContext, ProbeKind, Source};
use super::{machine, text, ticks_per_s};
use crate::net::vhost;
use crate::process::shortage::number;
use crate::values::Definition;
use crate::xen::{DRIVER_DOMAIN, account};

const VALUES: &[Definition] = &[
    ("cpu_s", "s", "CPU time of everything that makes the node, each part once"),
    ("user_s", "s", "of that in user mode, guest code included"),
    ("system_s", "s", "of that in the kernel"),
    ("guest_s", "s", "CPU time in which a virtual CPU ran guest code (KVM); already in user_s"),
    ("vcpu_s", "s", "CPU time of the virtual CPUs' threads"),
    ("vmm_s", "s", "CPU time of the VMM's other threads and children"),
    ("vhost_s", "s", "CPU time of the vhost workers"),
    (
        "datapath_s",
        "s",
        "CPU time of the process beside the VMM that moves its packets; of one that does so for several \
         guests an equal part for each that is at work",
    ),
    ("cgroup_cpu_s", "s", "CPU time by the node's cgroup; where it is given, cpu_s is the same"),
    (
        "wait_s",
        "s",
        "time in which virtual CPUs were ready to run while the hypervisor ran others; Xen's driver domain",
    ),
    ("memory_bytes", "B", "resident sets at the end, summed: shared pages count in each process"),
    ("peak_memory_bytes", "B", "largest resident set of any one process since it began"),
    ("voluntary_switches", "switches", "context switches by waiting; threads alive at the end"),
    (
        "involuntary_switches",
        "switches",
        "context switches by preemption; threads alive at the end",
    ),
    ("vcpu_switches", "switches", "of both, those of the virtual CPUs' threads"),
    ("vmm_switches", "switches", "of both, those of the VMM's other threads and children"),
];

/// The probe.
pub const KIND: ProbeKind = ProbeKind {
    values: VALUES,
    source: Source::Numbers(|probe_context| probe_context.outside()?.sample(probe_context)),
};

/// Where a node's CPU time is counted.
#[derive(Clone, Debug, PartialEq)]
pub enum Outside {
    Processes(Processes),
    /// A Xen guest: its number.
    Domain(u32),
    /// Of processes that cannot be seen from here: the directory of their cgroup.
    Cgroup(PathBuf),
    /// A process that we did not start, as the machine's own /proc numbers it.
    OfMachine(i32),
}

impl Outside {
    /// What moves its packets beside its VMM.
    pub fn backend(&mut self) -> Option<&mut VhostUserBackend> {
        let Outside::Processes(processes) = self else { return None };
        processes.backend.as_mut()
    }

    /// Reads everything now.
    ///
    /// # Errors
    /// The node has ended, or a part of its CPU time cannot be seen from here: a sum without it
    /// would pass for the cost.
    pub fn sample(&self, probe_context: &ProbeContext) -> Result<Sample> {
        match self {
            Outside::Processes(processes) => processes.sample(probe_context),
            Outside::OfMachine(pid) => {
                let proc = probe_context.machine_proc.as_ref().unwrap_or(&probe_context.proc);
                of_machine(proc, *pid)
            }
            Outside::Cgroup(directory) => {
                let mut sample = Sample::default();
                cgroup_cpu(directory)?.count(&mut sample, &["cpu_s", "cgroup_cpu_s"]);
                Ok(sample)
            }
            Outside::Domain(id) => {
                let mut sample = Sample::default();
                sample.count("cpu_s", account::cpu_ns(*id)?, Kind::Counter, 1e-9);
                if *id == DRIVER_DOMAIN {
                    sample.count("wait_s", account::own_wait_ns()?, Kind::Counter, 1e-9);
                }
                Ok(sample)
            }
        }
    }
}

/// A VMM or a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Processes {
    /// The VMM, or a container's first process, as this process's PID namespace numbers it. Its
    /// descendants belong to it.
    pub pid: i32,
    /// The VMM's threads that are virtual CPUs, from QMP's `query-cpus-fast`.
    pub vcpu_tids: Vec<i32>,
    /// The directory of a cgroup that holds these processes and no others.
    pub cgroup: Option<PathBuf>,
    /// What moves its packets beside the VMM.
    pub backend: Option<VhostUserBackend>,
}

/// A process that moves packets between guests' rings and TAPs.
#[derive(Clone, Debug, PartialEq)]
pub struct VhostUserBackend {
    pub pid: i32,
    /// How many guests at work it does that for.
    pub guests: u32,
    /// Whether the guest's cgroup has it too.
    pub in_cgroup: bool,
    /// The files with what it counts, one for each card of the guest.
    pub counters: Vec<PathBuf>,
}

/// What /proc/PID/stat reports. Times are in ticks.
pub(super) struct Process {
    pid: i32,
    name: String,
    pub(super) parent: i32,
    user: u64,
    system: u64,
    children_user: u64,
    children_system: u64,
    guest: u64,
    start: u64,
}

impl Process {
    /// CPU time of its own, in steps of a tick: its number may be that of another PID namespace.
    pub(super) fn ticks_ns(&self) -> u64 {
        (self.user + self.system) * tick_ns()
    }
}

/// A process of the machine with its descendants and vhost workers. Their clocks have other numbers in this
/// PID namespace, so that their time is in ticks.
///
/// # Errors
/// It has ended, or uses vhost whose threads the procfs does not show.
fn of_machine(proc: &Path, pid: i32) -> Result<Sample> {
    let processes = scan(proc)?;
    let tree = tree(&processes, pid)?;
    let mut sample = Sample { identity: Some(identity(tree[0])), ..Sample::default() };
    let ticks = |ns: fn(&Process) -> u64| tree.iter().map(|one| ns(one)).sum::<u64>() * tick_ns();
    let mut workers = 0;
    for process in &tree {
        let apart = workers_ns(proc, &processes, process.pid);
        let is_seen = apart > 0 || !worker_threads(proc, process.pid).is_empty();
        ensure!(
            is_seen || !uses_vhost(proc, process.pid),
            "process {} uses vhost, whose kernel threads cannot be seen from here",
            process.pid
        );
        workers += apart;
    }
    let user = ticks(|one| one.user + one.children_user);
    let system = ticks(|one| one.system + one.children_system) + workers;
    Cpu { total: user + system, user, system }.count(&mut sample, &["cpu_s"]);
    sample.count("guest_s", ticks(|one| one.guest), Kind::Drifting, 1e-9);
    memory(&mut sample, proc, &tree);
    Ok(sample)
}

/// A process, first, and its descendants.
fn tree(processes: &[Process], root: i32) -> Result<Vec<&Process>> {
    let root = processes
        .iter()
        .find(|process| process.pid == root)
        .with_context(|| format!("process {root} has ended"))?;
    let mut tree = vec![root];
    let mut known = HashSet::from([root.pid]);
    let mut index = 0;
    while index < tree.len() {
        let parent = tree[index].pid;
        let children = processes.iter().filter(|process| process.parent == parent);
        tree.extend(children.filter(|child| known.insert(child.pid)));
        index += 1;
    }
    Ok(tree)
}

/// What makes it the same process in another reading.
fn identity(process: &Process) -> String {
    format!("process {} started at tick {}", process.pid, process.start)
}

/// CPU time of all processes that a procfs shows, and of those that ended and were waited for.
pub(super) fn all_ns(proc: &Path) -> Result<u64> {
    let processes = scan(proc)?;
    Ok(cpu_of(&processes.iter().collect::<Vec<_>>()).total)
}

/// CPU time of a cgroup; nothing where it is gone.
pub(super) fn of_cgroup_ns(directory: &Path) -> u64 {
    cgroup_cpu(directory).map_or(0, |cpu| cpu.total)
}

/// One process, by its number or as `self`.
pub(super) fn one(proc: &Path, pid: &str) -> Option<Process> {
    parse_stat(&text::read(proc.join(pid).join("stat")).ok()?)
}

/// Nanoseconds of CPU time.
struct Cpu {
    total: u64,
    user: u64,
    system: u64,
}

impl Cpu {
    /// `names` are the values that all of it adds to.
    fn count(&self, sample: &mut Sample, names: &[&str]) {
        sample.share("cpu_s", names, self.total, Kind::Drifting, 1e-9);
        sample.count("user_s", self.user, Kind::Drifting, 1e-9);
        sample.count("system_s", self.system, Kind::Drifting, 1e-9);
    }
}

impl Processes {
    fn sample(&self, probe_context: &ProbeContext) -> Result<Sample> {
        let proc = &probe_context.proc;
        let processes = scan(proc)?;
        let tree = tree(&processes, self.pid)?;
        let mut sample = Sample { identity: Some(identity(tree[0])), ..Sample::default() };
        let mut cpu = cpu_of(&tree);
        self.split(&mut sample, probe_context, &processes, &mut cpu)?;
        match &self.cgroup {
            Some(directory) => {
                cgroup_cpu(directory)?.count(&mut sample, &["cpu_s", "cgroup_cpu_s"]);
            }
            None => cpu.count(&mut sample, &["cpu_s"]),
        }
        self.add_mover(&mut sample, &processes)?;
        let guest = tree.iter().map(|process| process.guest).sum::<u64>() * tick_ns();
        sample.count("guest_s", guest, Kind::Drifting, 1e-9);
        memory(&mut sample, proc, &tree);
        tree.iter().for_each(|process| self.switches(&mut sample, proc, process));
        Ok(sample)
    }

    /// Splits a VMM's time into virtual CPUs, vhost workers and the rest. Workers outside the
    /// process (before Linux 6.4 they are kernel threads) are added to `cpu`.
    fn split(
        &self,
        sample: &mut Sample,
        probe_context: &ProbeContext,
        processes: &[Process],
        cpu: &mut Cpu,
    ) -> Result<()> {
        if self.vcpu_tids.is_empty() {
            return Ok(());
        }
        let proc = &probe_context.proc;
        let mut rest = cpu.total;
        for &tid in &self.vcpu_tids {
            // A virtual CPU that was unplugged takes `vcpu_s` with it: the note says so.
            let Some(ns) = thread_ns(proc, self.pid, tid) else { continue };
            rest = rest.saturating_sub(ns);
            sample.share(&format!("vcpu {tid}"), &["vcpu_s"], ns, Kind::Drifting, 1e-9);
        }
        let inside: Vec<u64> = worker_threads(proc, self.pid);
        let outside = self.kernel_workers(probe_context, processes)?;
        if inside.is_empty() && outside == 0 && uses_vhost(proc, self.pid) {
            let why = format!(
                "process {} uses vhost, but its kernel threads cannot be seen from here: give it a \
                 cgroup, or run where the kernel's threads are visible (no PID namespace)",
                self.pid
            );
            // Without a cgroup the sum would lack them; with one the split does.
            ensure!(self.cgroup.is_some(), "{why}");
            sample.lacks("vhost_s", why);
        } else {
            let vhost = inside.iter().sum::<u64>() + outside;
            sample.count("vhost_s", vhost, Kind::Drifting, 1e-9);
        }
        rest = rest.saturating_sub(inside.iter().sum());
        sample.count("vmm_s", rest, Kind::Drifting, 1e-9);
        cpu.total += outside;
        cpu.system += outside;
        Ok(())
    }

    /// CPU time of kernel threads `vhost-PID`, children of kthreadd, in nanoseconds. The number is that
    /// of the first PID namespace, and in another one they are not seen.
    fn kernel_workers(&self, probe_context: &ProbeContext, processes: &[Process]) -> Result<u64> {
        let Some(machine) = &probe_context.machine_proc else {
            return Ok(workers_ns(&probe_context.proc, processes, self.pid));
        };
        if !uses_vhost(&probe_context.proc, self.pid) {
            return Ok(0);
        }
        let number = machine::process(probe_context, self.pid)?;
        Ok(workers_ns(machine, &scan(machine)?, number))
    }

    /// Adds its part of the process that moves its packets beside the VMM.
    fn add_mover(&self, sample: &mut Sample, processes: &[Process]) -> Result<()> {
        if self.vcpu_tids.is_empty() {
            return Ok(());
        }
        let Some(backend) = &self.backend else {
            sample.count("datapath_s", 0, Kind::Drifting, 1e-9);
            return Ok(());
        };
        let process =
            processes.iter().find(|process| process.pid == backend.pid).with_context(|| {
                format!("process {}, which moves its packets, has ended", backend.pid)
            })?;
        let cpu = cpu_of(&[process]);
        let scale = 1e-9 / f64::from(backend.guests.max(1));
        let counted = backend.in_cgroup && self.cgroup.is_some();
        let names: &[&str] = if counted { &["datapath_s"] } else { &["datapath_s", "cpu_s"] };
        sample.share("datapath", names, cpu.total, Kind::Drifting, scale);
        if !counted {
            sample.share("datapath user", &["user_s"], cpu.user, Kind::Drifting, scale);
            sample.share("datapath system", &["system_s"], cpu.system, Kind::Drifting, scale);
        }
        Ok(())
    }

    fn switches(&self, sample: &mut Sample, proc: &Path, process: &Process) {
        for tid in threads(proc, process.pid) {
            let status = text::read(proc.join(format!("{}/task/{tid}/status", process.pid)));
            let status = status.unwrap_or_default();
            let part = match self.vcpu_tids.as_slice() {
                [] => None,
                vcpus if vcpus.contains(&tid) => Some("vcpu_switches"),
                _ => Some("vmm_switches"),
            };
            for (name, line) in [
                ("voluntary_switches", "voluntary_ctxt_switches:"),
                ("involuntary_switches", "nonvoluntary_ctxt_switches:"),
            ] {
                if let Some(count) = number(&status, line) {
                    let names: Vec<&str> = std::iter::once(name).chain(part).collect();
                    let key = format!("{name} {tid} of {} {}", process.pid, process.start);
                    sample.share(&key, &names, count, Kind::Lifetime, 1.0);
                }
            }
        }
    }
}

fn scan(proc: &Path) -> Result<Vec<Process>> {
    let entries = fs::read_dir(proc).with_context(|| format!("reading {}", proc.display()))?;
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    // A process that ends between the listing and the reading is simply not there.
    Ok(pids
        .filter_map(|pid| parse_stat(&text::read(proc.join(format!("{pid}/stat"))).ok()?))
        .collect())
}

/// proc_pid_stat(5). The name may hold anything, so it ends at the last parenthesis.
fn parse_stat(text: &str) -> Option<Process> {
    let (pid, rest) = text.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // proc_pid_stat(5) numbers from 1, and the state is its third.
    let number = |field: usize| fields.get(field - 3)?.parse::<i64>().ok();
    let ticks = |field: usize| number(field).map(|ticks| ticks.max(0) as u64);
    Some(Process {
        pid: pid.parse().ok()?,
        name: name.to_owned(),
        parent: number(4)?.try_into().ok()?,
        user: ticks(14)?,
        system: ticks(15)?,
        children_user: ticks(16)?,
        children_system: ticks(17)?,
        start: ticks(22)?,
        guest: ticks(43).unwrap_or(0) + ticks(44).unwrap_or(0),
    })
}

fn cpu_of(processes: &[&Process]) -> Cpu {
    let sum = |ns: fn(&Process) -> u64| processes.iter().map(|process| ns(process)).sum();
    // From the process's clock; if it has just ended, from the ticks that were read while it lived.
    let own_ns = |p: &Process| clock_ns(p.pid).unwrap_or_else(|| p.ticks_ns());
    Cpu {
        total: processes.iter().map(|p| own_ns(p)).sum::<u64>()
            + sum(|p| (p.children_user + p.children_system) * tick_ns()),
        user: sum(|p| (p.user + p.children_user) * tick_ns()),
        system: sum(|p| (p.system + p.children_system) * tick_ns()),
    }
}

fn clock_ns(pid: i32) -> Option<u64> {
    let mut clock: libc::clockid_t = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls write one value to a place that lives on this stack.
    let failed = unsafe {
        libc::clock_getcpuclockid(pid, &raw mut clock) != 0
            || libc::clock_gettime(clock, &raw mut time) != 0
    };
    (!failed).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Of one thread: in nanoseconds from schedstat, where the kernel keeps it, else in ticks.
fn thread_ns(proc: &Path, pid: i32, tid: i32) -> Option<u64> {
    let thread = proc.join(format!("{pid}/task/{tid}"));
    let schedstat = text::read(thread.join("schedstat")).unwrap_or_default();
    let run: Option<u64> = schedstat.split_whitespace().next().and_then(|ns| ns.parse().ok());
    // A kernel that has the file but keeps no account says `0 0 0`.
    if let Some(run) = run.filter(|&run| run > 0) {
        return Some(run);
    }
    parse_stat(&text::read(thread.join("stat")).ok()?).map(|stat| stat.ticks_ns())
}

/// vhost workers that are threads of their owner, as they are since Linux 6.4. Their names hold the
/// owner's PID in the first PID namespace, which need not be ours.
fn worker_threads(proc: &Path, pid: i32) -> Vec<u64> {
    let is_worker = |tid: &i32| {
        let name = text::read(proc.join(format!("{pid}/task/{tid}/comm")));
        name.is_ok_and(|name| vhost::is_worker(name.trim_end()))
    };
    let workers = threads(proc, pid).filter(is_worker);
    workers.filter_map(|tid| thread_ns(proc, pid, tid)).collect()
}

fn threads(proc: &Path, pid: i32) -> impl Iterator<Item = i32> {
    machine::numbers(&proc.join(format!("{pid}/task")))
}

/// Of the kernel threads that serve the process of this number.
fn workers_ns(proc: &Path, processes: &[Process], pid: i32) -> u64 {
    let name = format!("vhost-{pid}");
    let workers = processes.iter().filter(|process| process.name == name && process.parent == 2);
    workers.map(|one| thread_ns(proc, one.pid, one.pid).unwrap_or_else(|| one.ticks_ns())).sum()
}

/// Whether a process has a handle of vhost's.
fn uses_vhost(proc: &Path, pid: i32) -> bool {
    let files = fs::read_dir(proc.join(format!("{pid}/fd"))).into_iter().flatten().flatten();
    files
        .filter_map(|file| fs::read_link(file.path()).ok())
        .any(|target| target.to_str().is_some_and(|target| target.starts_with("/dev/vhost-")))
}

fn cgroup_cpu(directory: &Path) -> Result<Cpu> {
    let text = text::read(directory.join("cpu.stat")).unwrap_or_default();
    let ns = |key| Some(number(&text, key)? * 1000);
    let (total, user, system) = (ns("usage_usec"), ns("user_usec"), ns("system_usec"));
    let cpu = || Some(Cpu { total: total?, user: user?, system: system? });
    cpu().with_context(|| {
        format!(
            "the cgroup {} does not account for CPU time: its cpu.stat has no usage_usec",
            directory.display()
        )
    })
}

fn memory(sample: &mut Sample, proc: &Path, tree: &[&Process]) {
    let (mut resident, mut peak) = (0, 0);
    for process in tree {
        let status = text::read(proc.join(format!("{}/status", process.pid)));
        let status = status.unwrap_or_default();
        resident += number(&status, "VmRSS:").unwrap_or(0) * 1024;
        peak = peak.max(number(&status, "VmHWM:").unwrap_or(0) * 1024);
    }
    sample.count("memory_bytes", resident, Kind::Gauge, 1.0);
    sample.count("peak_memory_bytes", peak, Kind::Gauge, 1.0);
}

pub(super) fn tick_ns() -> u64 {
    1_000_000_000 / ticks_per_s()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use hypertare_plan::Values;

    use super::super::counters::difference;
    use super::*;

    /// Above any kernel's pid_max, so that no clock of a real process is asked.
    const VMM: i32 = 90_000_000;

    /// A captured machine: a VMM with a virtual CPU, an I/O thread and vhost, and an older kernel's
    /// vhost thread. Times of a process: user, system, children's, in ticks.
    fn machine(root: &Path, scale: u64) {
        let write = |path: String, text: String| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let stat = |pid: i32, name: &str, parent: i32, times: [u64; 4], guest: u64| {
            let [user, system, children_user, children_system] = times.map(|time| time * scale);
            format!(
                "{pid} ({name}) S {parent} 1 1 0 -1 0 9 9 9 9 {user} {system} {children_user} \
                 {children_system} 20 0 3 0 777 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 17 0 0 0 0 {} 0\n",
                guest * scale
            )
        };
        let status = "VmHWM:\t 2048 kB\nVmRSS:\t 1024 kB\n".to_owned();
        write(format!("{VMM}/stat"), stat(VMM, "qemu (a) b", 1, [100, 50, 0, 0], 60));
        write(format!("{VMM}/status"), status);
        let child = VMM + 50;
        write(format!("{child}/stat"), stat(child, "helper", VMM, [4, 1, 3, 2], 0));
        write(format!("{child}/status"), "VmHWM:\t 512 kB\nVmRSS:\t 512 kB\n".into());
        let (vcpu, io, vhost) = (VMM + 1, VMM + 2, VMM + 3);
        write(format!("{VMM}/task/{vcpu}/comm"), "CPU 0/KVM\n".into());
        write(format!("{VMM}/task/{vcpu}/schedstat"), format!("{} 5 6\n", 900_000_000 * scale));
        write(format!("{VMM}/task/{io}/comm"), "IO iothread0\n".into());
        write(format!("{VMM}/task/{vhost}/comm"), "vhost-4711\n".into());
        write(format!("{VMM}/task/{vhost}/schedstat"), "0 0 0\n".into());
        write(format!("{VMM}/task/{vhost}/stat"), stat(vhost, "vhost-4711", 1, [0, 20, 0, 0], 0));
        for tid in [vcpu, io] {
            let switches = format!(
                "voluntary_ctxt_switches:\t{}\nnonvoluntary_ctxt_switches:\t{}\n",
                10 * scale,
                scale
            );
            write(format!("{VMM}/task/{tid}/status"), switches);
        }
        let backend = VMM + 80;
        write(format!("{backend}/stat"), stat(backend, "hypertare-agent", 1, [3, 5, 0, 0], 0));
        let kernel = VMM + 70;
        write(format!("{kernel}/stat"), stat(kernel, &format!("vhost-{VMM}"), 2, [0, 7, 0, 0], 0));
    }

    fn at(proc: &Path) -> ProbeContext {
        ProbeContext { proc: proc.to_owned(), ..ProbeContext::default() }
    }

    fn differences(outside: &Processes) -> Values {
        let root = tempfile::tempdir().unwrap();
        machine(root.path(), 1);
        let before = outside.sample(&at(root.path())).unwrap();
        machine(root.path(), 2);
        let after = outside.sample(&at(root.path())).unwrap();
        let mut notes = Vec::new();
        let values = difference(&before, &after, &mut notes).unwrap();
        assert!(notes.is_empty(), "{notes:?}");
        values
    }

    #[test]
    fn every_part_of_a_vmm_counts_once() {
        let outside = Processes { pid: VMM, vcpu_tids: vec![VMM + 1], ..Processes::default() };
        let values = differences(&outside);
        let is = |name: &str, value: f64| {
            assert!((values[name] - value).abs() < 1e-9, "{name} is {}", values[name]);
        };
        // The process 1.50, its child 0.05 and the grandchildren 0.05 that it waited for, the
        // kernel's vhost thread 0.07.
        is("cpu_s", 1.67);
        is("user_s", 1.07);
        is("system_s", 0.6);
        is("guest_s", 0.6);
        is("vcpu_s", 0.9);
        is("vhost_s", 0.27);
        // 1.60 - 0.90 of the virtual CPU - 0.20 of the worker that is a thread.
        is("vmm_s", 0.5);
        assert!((values["vcpu_s"] + values["vhost_s"] + values["vmm_s"] - 1.67).abs() < 1e-9);
        is("memory_bytes", 1536.0 * 1024.0);
        is("peak_memory_bytes", 2048.0 * 1024.0);
        is("voluntary_switches", 20.0);
        is("involuntary_switches", 2.0);
        is("vcpu_switches", 11.0);
        is("vmm_switches", 11.0);
    }

    #[test]
    fn a_process_of_the_machine_counts_with_its_descendants_and_its_kernel_threads() {
        let root = tempfile::tempdir().unwrap();
        machine(root.path(), 1);
        let outside = Outside::OfMachine(VMM);
        let seen =
            ProbeContext { machine_proc: Some(root.path().to_owned()), ..ProbeContext::default() };
        let before = outside.sample(&seen).unwrap();
        machine(root.path(), 2);
        let after = outside.sample(&seen).unwrap();
        let values = difference(&before, &after, &mut Vec::new()).unwrap();
        // As it is counted of a VMM of ours.
        for (name, value) in [("cpu_s", 1.67), ("user_s", 1.07), ("system_s", 0.6)] {
            assert!((values[name] - value).abs() < 1e-9, "{name} is {}", values[name]);
        }
        assert_eq!(values["memory_bytes"], 1536.0 * 1024.0);
        let gone = Outside::OfMachine(VMM - 1).sample(&seen).unwrap_err().to_string();
        assert!(gone.contains("has ended"), "{gone}");
        // Without its kernel threads the sum would pass for the whole.
        fs::remove_dir_all(root.path().join(format!("{}", VMM + 70))).unwrap();
        fs::remove_dir_all(root.path().join(format!("{VMM}/task/{}", VMM + 3))).unwrap();
        fs::create_dir(root.path().join(format!("{VMM}/fd"))).unwrap();
        let link = root.path().join(format!("{VMM}/fd/9"));
        std::os::unix::fs::symlink("/dev/vhost-net", link).unwrap();
        assert!(outside.sample(&seen).unwrap_err().to_string().contains("uses vhost"));
    }

    #[test]
    fn a_cgroup_counts_for_all() {
        let cgroup = tempfile::tempdir().unwrap();
        let text = "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n";
        fs::write(cgroup.path().join("cpu.stat"), text).unwrap();
        let cpu = cgroup_cpu(cgroup.path()).unwrap();
        assert_eq!((cpu.total, cpu.user, cpu.system), (2_500_000_000, 2_000_000_000, 500_000_000));

        let outside =
            Processes { pid: VMM, cgroup: Some(cgroup.path().to_owned()), ..Processes::default() };
        let values = differences(&outside);
        assert_eq!((values["cpu_s"], values["cgroup_cpu_s"]), (0.0, 0.0));
        assert!(!values.contains_key("vmm_s"));

        fs::write(cgroup.path().join("cpu.stat"), "nr_periods 0\n").unwrap();
        let error = cgroup_cpu(cgroup.path()).err().unwrap().to_string();
        assert!(error.contains("no usage_usec"), "{error}");
    }

    #[test]
    fn what_moves_packets_beside_a_vmm_is_in_the_sum_once() {
        let backend = |guests, in_cgroup| {
            Some(VhostUserBackend { pid: VMM + 80, guests, in_cgroup, counters: vec![] })
        };
        let of = |backend, cgroup: Option<&Path>| {
            let cgroup = cgroup.map(Path::to_owned);
            differences(&Processes { pid: VMM, vcpu_tids: vec![VMM + 1], cgroup, backend })
        };
        let alone = of(None, None);
        assert_eq!(alone["datapath_s"], 0.0);
        let (own, shared) = (of(backend(1, true), None), of(backend(2, false), None));
        assert!(own["datapath_s"] > 0.0);
        assert!((own["cpu_s"] - alone["cpu_s"] - own["datapath_s"]).abs() < 1e-9);
        assert!((shared["datapath_s"] - own["datapath_s"] / 2.0).abs() < 1e-9);
        assert!((shared["cpu_s"] - alone["cpu_s"] - shared["datapath_s"]).abs() < 1e-9);
        let sum = own["vcpu_s"] + own["vhost_s"] + own["vmm_s"] + own["datapath_s"];
        assert!((sum - own["cpu_s"]).abs() < 1e-9);

        let cgroup = tempfile::tempdir().unwrap();
        let text = "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n";
        fs::write(cgroup.path().join("cpu.stat"), text).unwrap();
        let held = of(backend(1, true), Some(cgroup.path()));
        assert_eq!(held["cpu_s"], 0.0, "its cgroup stood still");
        assert!(held["datapath_s"] > 0.0);
    }

    #[test]
    fn vhost_out_of_sight_is_refused() {
        let root = tempfile::tempdir().unwrap();
        machine(root.path(), 1);
        fs::remove_dir_all(root.path().join(format!("{}", VMM + 70))).unwrap();
        fs::remove_dir_all(root.path().join(format!("{VMM}/task/{}", VMM + 3))).unwrap();
        let outside = Processes { pid: VMM, vcpu_tids: vec![VMM + 1], ..Processes::default() };
        assert!(outside.sample(&at(root.path())).is_ok());
        fs::create_dir(root.path().join(format!("{VMM}/fd"))).unwrap();
        let link = root.path().join(format!("{VMM}/fd/9"));
        std::os::unix::fs::symlink("/dev/vhost-net", link).unwrap();
        assert!(outside.sample(&at(root.path())).unwrap_err().to_string().contains("cgroup"));
    }

    /// Uses this thread's CPU for so long by the thread's own clock.
    fn burn(ns: u64) {
        let used = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        };
        let end = used() + ns;
        while used() < end {}
    }

    #[test]
    fn a_thread_is_reported_apart_and_one_that_ended_is_not_lost() {
        use std::sync::mpsc::channel;
        let (born, birth) = channel();
        let (go, wait) = channel();
        let (done, end) = channel();
        let worker = std::thread::spawn(move || {
            born.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            wait.recv().unwrap();
            burn(60_000_000);
            done.send(()).unwrap();
            wait.recv().unwrap();
        });
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let outside =
            Processes { pid, vcpu_tids: vec![birth.recv().unwrap()], ..Processes::default() };
        let before = outside.sample(&ProbeContext::default()).unwrap();
        go.send(()).unwrap();
        std::thread::spawn(|| burn(60_000_000)).join().unwrap();
        end.recv().unwrap();
        // Asleep, so that the kernel's account of it is complete.
        std::thread::sleep(Duration::from_millis(5));
        let after = outside.sample(&ProbeContext::default()).unwrap();
        go.send(()).unwrap();
        worker.join().unwrap();

        let values = difference(&before, &after, &mut Vec::new()).unwrap();
        assert!((0.055..0.085).contains(&values["vcpu_s"]), "{values:?}");
        // Other tests of this process count here too, so there is no upper bound.
        assert!(values["vmm_s"] > 0.055, "{values:?}");
        let parts = values["vcpu_s"] + values["vmm_s"] + values["vhost_s"];
        assert!((parts - values["cpu_s"]).abs() < 0.001, "{values:?}");
    }

    struct Running(Child);

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_real_process_is_seen_with_the_child_it_waited_for() {
        // The shell waits for a child that counts, then counts no more.
        let script =
            "read go; (i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done); echo done; read end";
        let mut child = Running(
            Command::new("/bin/sh")
                .args(["-c", script])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let outside = Processes { pid: child.0.id() as i32, ..Processes::default() };
        let proc = &ProbeContext::default();
        let before = outside.sample(proc).unwrap();
        let started = Instant::now();
        std::io::Write::write_all(child.0.stdin.as_mut().unwrap(), b"go\n").unwrap();
        let mut said = [0; 5];
        std::io::Read::read_exact(child.0.stdout.as_mut().unwrap(), &mut said).unwrap();
        let elapsed = started.elapsed();
        let after = outside.sample(proc).unwrap();
        let values = difference(&before, &after, &mut Vec::new()).unwrap();
        let cpu = values["cpu_s"];
        assert!(cpu >= 0.01 && cpu <= elapsed.as_secs_f64() + 0.03, "{cpu} s of {elapsed:?}");
        assert!(values["peak_memory_bytes"] > 1e5);

        drop(child);
        std::thread::sleep(Duration::from_millis(1));
        assert!(outside.sample(proc).unwrap_err().to_string().contains("has ended"));
    }
}
