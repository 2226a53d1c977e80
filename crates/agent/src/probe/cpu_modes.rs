//! In which mode the machine's CPUs worked, and for whom: samples by the kernel's own clock
//! (perf_event_open(2), PERF_COUNT_SW_CPU_CLOCK), each with its mode and its thread.
//!
//! On each CPU several clocks run whose periods have no multiple in common. In virtual time one clock alone
//! keeps step with work that repeats: the kernel's tick of 4 ms found a guest at a fifth or at three fifths of
//! the time in three boots of the same work.
//!
//! A virtual CPU is a thread that was found in a guest at least once; the other threads of its process are
//! its VMM's. A sample that falls due while interrupts are off is taken where they are switched on again.
//! So KVM's work with interrupts off, to enter and to leave a guest, counts as the guest's.

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, OwnedFd};
use std::{fs, io};

use anyhow::{Context, Result, bail, ensure};

use super::perf_event::{self, Attributes};
use super::{Counted, ProbeContext, ProbeKind, Source};
use crate::net::frames::memory::Shared;
use crate::process::cpu_list::parse_list;
use crate::values::Definition;

const VALUES: &[Definition] = &[
    ("guest_user", "samples", "of guests in user mode"),
    ("guest_kernel", "samples", "of guests in their kernels"),
    ("vcpu_user", "samples", "of virtual CPUs' threads in the VMM's own code"),
    ("vcpu_kernel", "samples", "of virtual CPUs' threads in the machine's kernel, KVM included"),
    ("vmm_user", "samples", "of VMMs' other threads in user mode"),
    ("vmm_kernel", "samples", "of VMMs' other threads in the machine's kernel"),
    ("other_user", "samples", "of all other threads in user mode"),
    ("other_kernel", "samples", "of all other threads in the machine's kernel"),
];

/// The probe.
pub const KIND: ProbeKind = ProbeKind {
    values: VALUES,
    source: Source::Watch(|probe_context| Ok(Box::new(Watch::start(probe_context)?))),
};

/// Of the clocks of a CPU: some 690 samples a second together.
const PERIODS_NS: [u64; 5] = [5_003_021, 6_180_353, 7_639_333, 9_442_721, 11_671_711];

/// `PERF_TYPE_SOFTWARE`, whose event 0 is a CPU's clock.
const SOFTWARE: u32 = 1;
/// `PERF_SAMPLE_IP` and `PERF_SAMPLE_TID`.
const ADDRESS_AND_THREAD: u64 = 1 | 2;
const EXCLUDE_IDLE: u64 = 1 << 7;

/// `PERF_RECORD_SAMPLE`
const SAMPLE: u32 = 9;
/// Of a record's `misc`: `PERF_RECORD_MISC_CPUMODE_MASK`, and two of its modes. Which of the two it is KVM of
/// Linux 6.1 says by where the guest was when its CPU's thread was last preempted: its address says it.
const MODE: u32 = 7;
const GUEST_KERNEL: u32 = 4;
const GUEST_USER: u32 = 5;
/// Of the upper half of an address: a kernel's addresses are in the upper half of all (x86-64).
const KERNELS: u32 = 1 << 31;

const PAGE: usize = 4096;
/// Of samples, of one CPU; a power of two.
const ROOM: usize = 1 << 20;
const RECORD: usize = 24;
/// Where the first page of the ring says how much was written.
const HEAD: usize = 1024;

pub struct Watch {
    cpus: Vec<Clocks>,
}

/// Of one CPU, with the ring that all of them write to.
struct Clocks {
    clocks: Vec<OwnedFd>,
    ring: Shared,
}

impl Watch {
    /// # Errors
    /// The kernel takes no samples for this process, and why.
    pub fn start(probe_context: &ProbeContext) -> Result<Self> {
        let online = fs::read_to_string(probe_context.sys.join("devices/system/cpu/online"))
            .context("reading which CPUs are online")?;
        let cpus = parse_list(&online)?.into_iter().map(|cpu| Clocks::start(cpu as usize));
        let cpus = cpus.collect::<io::Result<_>>();
        if let Err(error) = &cpus {
            perf_event::check_refusal(probe_context, error)?;
        }
        Ok(Watch { cpus: cpus.context("taking samples of what the CPUs do")? })
    }
}

impl Clocks {
    fn start(cpu: usize) -> io::Result<Self> {
        let clocks = PERIODS_NS.map(|sample_period| {
            let attributes = Attributes {
                kind: SOFTWARE,
                sample_period,
                sample_type: ADDRESS_AND_THREAD,
                flags: EXCLUDE_IDLE,
                ..Attributes::default()
            };
            perf_event::open(attributes, cpu)
        });
        let clocks = clocks.into_iter().collect::<io::Result<Vec<_>>>()?;
        let (first, rest) = clocks.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let ring = Shared::map(first, PAGE + ROOM)?;
        for clock in rest {
            asked(clock, SET_OUTPUT, first.as_raw_fd())?;
        }
        Ok(Clocks { clocks, ring })
    }
}

/// `PERF_EVENT_IOC_DISABLE`, `PERF_EVENT_IOC_SET_OUTPUT`
const DISABLE: libc::c_ulong = 0x2401;
const SET_OUTPUT: libc::c_ulong = 0x2405;

fn asked(clock: &OwnedFd, request: libc::c_ulong, argument: libc::c_int) -> io::Result<()> {
    // SAFETY: neither request reads or writes memory of this process.
    match unsafe { libc::ioctl(clock.as_raw_fd(), request as _, argument) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl super::Watch for Watch {
    fn counted(&self) -> Result<Counted> {
        let mut samples = Vec::new();
        for cpu in &self.cpus {
            let mut clocks = cpu.clocks.iter();
            clocks
                .try_for_each(|clock| asked(clock, DISABLE, 0))
                .context("ending the samples of a CPU")?;
            let written = cpu.ring.load(HEAD) as usize;
            // A sample that finds no room is lost, and such losses are not random.
            ensure!(
                written + RECORD <= ROOM,
                "a CPU has room for {} samples, and the phase was longer: shorten it",
                ROOM / RECORD
            );
            samples.extend(parse(cpu.ring.bytes(PAGE, written))?);
        }
        Ok(counted(&samples))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Kernel,
    User,
    GuestKernel,
    GuestUser,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    mode: Mode,
    process: u32,
    thread: u32,
}

/// Records of a `struct perf_event_header` (type, misc, size), and of a sample address, process and thread.
fn parse(mut bytes: &[u8]) -> Result<Vec<Sample>> {
    let mut samples = Vec::new();
    while let Some((header, _)) = bytes.split_first_chunk::<8>() {
        let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let kind = word(0);
        let (misc, size) = (header[4], u16::from_le_bytes([header[6], header[7]]).into());
        ensure!(size >= 8 && size <= bytes.len(), "a record of {size} bytes among the samples");
        if kind == Some(SAMPLE)
            && let (Some(address), Some(process), Some(thread)) = (word(12), word(16), word(20))
        {
            let mode = match u32::from(misc) & MODE {
                1 => Mode::Kernel,
                2 => Mode::User,
                GUEST_KERNEL | GUEST_USER if address & KERNELS != 0 => Mode::GuestKernel,
                GUEST_KERNEL | GUEST_USER => Mode::GuestUser,
                other => bail!("a sample in the mode {other}, which is not known"),
            };
            samples.push(Sample { mode, process, thread });
        }
        bytes = &bytes[size..];
    }
    Ok(samples)
}

fn counted(samples: &[Sample]) -> Counted {
    let in_guest = |sample: &&Sample| matches!(sample.mode, Mode::GuestKernel | Mode::GuestUser);
    let vcpus: BTreeSet<u32> = samples.iter().filter(in_guest).map(|one| one.thread).collect();
    let vmms: BTreeSet<u32> = samples.iter().filter(in_guest).map(|one| one.process).collect();
    let name = |sample: &Sample| {
        let whose = if vcpus.contains(&sample.thread) {
            ["vcpu_user", "vcpu_kernel"]
        } else if vmms.contains(&sample.process) {
            ["vmm_user", "vmm_kernel"]
        } else {
            ["other_user", "other_kernel"]
        };
        match sample.mode {
            Mode::GuestUser => "guest_user",
            Mode::GuestKernel => "guest_kernel",
            Mode::User => whose[0],
            Mode::Kernel => whose[1],
        }
    };
    let mut counted = Counted::default();
    for (name, ..) in VALUES {
        counted.values.insert((*name).to_owned(), 0.0);
    }
    for sample in samples {
        *counted.values.entry(name(sample).to_owned()).or_default() += 1.0;
    }
    counted
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::Watch as _;
    use super::*;

    fn record(kind: u32, misc: u16, words: &[u32]) -> Vec<u8> {
        let size = 8 + 4 * words.len() as u16;
        let header = [kind.to_le_bytes().to_vec(), [misc, size].map(u16::to_le_bytes).concat()];
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        header.concat().into_iter().chain(words).collect()
    }

    const USERS: [u32; 2] = [0x0040_1000, 0];
    const KERNELS: [u32; 2] = [0x8100_0000, 0xffff_ffff];

    fn sample(misc: u16, address: [u32; 2], process: u32, thread: u32) -> Vec<u8> {
        record(SAMPLE, misc, &[address[0], address[1], process, thread])
    }

    /// A VMM, process 70, with the virtual CPU 71 and the thread 72; a program 80; the kernel's own thread.
    fn samples() -> Vec<Sample> {
        let records = [
            // Of a guest the address counts.
            sample(4, USERS, 70, 71),
            sample(5, KERNELS, 70, 71),
            sample(1, KERNELS, 70, 71),
            // Bits beside the mode: the instruction is exact.
            sample(1 | 1 << 14, KERNELS, 70, 72),
            sample(2, USERS, 70, 72),
            sample(2, USERS, 70, 71),
            // Throttled: none of a thread.
            record(5, 0, &[0, 0, 0, 0, 0, 0]),
            sample(2, USERS, 80, 80),
            sample(1, KERNELS, u32::MAX, u32::MAX),
            sample(4, KERNELS, 70, 71),
        ];
        parse(&records.concat()).unwrap()
    }

    pub(crate) fn captured() -> Counted {
        counted(&samples())
    }

    #[test]
    fn a_sample_is_of_whoever_ran() {
        let values = captured().values;
        let is = |name: &str, count: f64| assert_eq!(values[name], count, "{name}");
        is("guest_user", 1.0);
        is("guest_kernel", 2.0);
        for name in
            ["vcpu_user", "vcpu_kernel", "vmm_user", "vmm_kernel", "other_user", "other_kernel"]
        {
            is(name, 1.0);
        }
        assert_eq!(values.values().sum::<f64>(), samples().len() as f64);
    }

    #[test]
    fn what_is_no_record_is_an_error() {
        for broken in [sample(3, USERS, 1, 1), vec![9, 0, 0, 0, 1, 0, 4, 0]] {
            assert!(parse(&broken).is_err(), "{broken:?}");
        }
        let whole = sample(2, USERS, 1, 1);
        assert!(parse(&whole[..12]).is_err());
        assert_eq!(parse(&[]).unwrap(), []);
    }

    #[test]
    fn a_loop_in_user_mode_is_found_there() {
        // Without the right to it the reason is said.
        let watch = match Watch::start(&ProbeContext::default()) {
            Ok(watch) => watch,
            Err(error) => return assert!(!error.to_string().is_empty()),
        };
        let begin = std::time::Instant::now();
        while begin.elapsed() < std::time::Duration::from_millis(200) {
            std::hint::black_box(begin);
        }
        let values = watch.counted().unwrap().values;
        let all: f64 = values.values().sum();
        assert!(values["other_user"] > 0.0 && all >= values["other_user"], "{values:?}");
    }
}
