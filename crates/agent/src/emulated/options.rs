//! What an emulated machine is to be, as its command names it.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use hypertare_plan::NicModel;
use walk::Processor;

use crate::units::parse_size;
use crate::vmm::command_line::is_mac;

/// 10 ms: CPUs that are further apart have nothing in common any more.
const MOST_QUANTUM: u64 = 10_000_000;

/// Frames that a virtio-net's ring holds.
const MOST_BURST: u32 = 256;

/// Run an emulated machine on the plan in its initramfs
#[derive(Args, Clone, Debug)]
pub struct Emulate {
    /// Uncompressed kernel (vmlinux), or a bzImage, which boots more slowly
    #[arg(long)]
    pub kernel: PathBuf,
    /// Archives, loaded one after the other: one with this agent as /init, one with /plan.jsonl
    #[arg(long, required = true)]
    pub initramfs: Vec<PathBuf>,
    /// Xen, as an uncompressed ELF file: the kernel is then the driver domain's
    #[arg(long)]
    pub hypervisor: Option<PathBuf>,
    /// Memory of Xen's driver domain
    #[arg(long, default_value = "512M", value_parser = parse_size)]
    pub driver_memory: u64,
    /// Virtual CPUs of Xen's driver domain
    #[arg(long, default_value_t = 1)]
    pub driver_cpus: u32,
    /// Bind each of them to a CPU, from the first on
    #[arg(long)]
    pub driver_bound: bool,
    /// Xen's scheduler
    #[arg(long, value_enum, default_value_t = Scheduler::Credit)]
    pub scheduler: Scheduler,
    /// Where its records go
    #[arg(long, default_value = "/dev/stdout")]
    pub records: PathBuf,
    /// Where what it prints goes
    #[arg(long, default_value = "/dev/null")]
    pub console: PathBuf,
    #[arg(long, value_enum, default_value_t = Clock::Virtual)]
    pub clock: Clock,
    /// An instruction takes 2^SHIFT ns of virtual time
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=10))]
    pub shift: u32,
    /// What its random numbers come from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Memory: bytes, or with K, M or G
    #[arg(long, default_value = "512M", value_parser = parse_size)]
    pub memory: u64,
    #[arg(long, default_value_t = 1)]
    pub cpus: u32,
    /// The emulator of virtual time, to start in place of the distribution's QEMU, which has one CPU
    #[arg(long)]
    pub emulator: Option<PathBuf>,
    /// Directory with the libraries (lib) and the firmware (firmware) that the emulator is to use in
    /// place of this host's
    #[arg(long, requires = "emulator")]
    pub runtime: Option<PathBuf>,
    /// Nanoseconds of virtual time that its CPUs may be apart
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=MOST_QUANTUM))]
    pub quantum: u64,
    /// A processor whose TLBs and page walks take virtual time, as JSON of what `hypertare walk` reads
    #[arg(long, value_parser = parse_processor)]
    pub walks: Option<Processor>,
    /// Of each of its caches, what page tables may hold
    #[arg(long, default_value_t = 0.25)]
    pub cache_share: f64,
    /// Its look-ups and references take so many times their cycles
    #[arg(long, default_value_t = 1.0)]
    pub walk_cost: f64,
    /// QEMU's CPU model
    #[arg(long)]
    pub cpu_model: Option<String>,
    /// A NIC, MODEL=MAC or MODEL=MAC@HUB; those on the hub of the same number (0 when none is given)
    /// hear each other; may be repeated
    #[arg(long, value_parser = parse_nic)]
    pub nic: Vec<Nic>,
    /// At most so many frames leave a virtio-net in so many nanoseconds, as FRAMES/NANOSECONDS
    #[arg(long, value_parser = parse_line)]
    pub line: Option<LinePace>,
    /// A further kernel module to load
    #[arg(long)]
    pub module: Vec<String>,
    /// Appended to the kernel's command line
    #[arg(long, allow_hyphen_values = true)]
    pub kernel_arg: Vec<String>,
    /// Seconds of the machine's own clock after which it ends
    #[arg(long, default_value_t = 3600)]
    pub limit: u64,
    /// Print QEMU's command line as JSON, and run nothing
    #[arg(long)]
    pub show: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Clock {
    Virtual,
    Wall,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scheduler {
    Credit,
    Credit2,
}

#[derive(Clone, Debug)]
pub struct Nic {
    pub model: NicModel,
    pub mac: String,
    pub hub: u8,
}

/// How a NIC sends that is an end of a line of a limited rate: QEMU's own timer takes a burst of frames
/// out of its ring, time and again. It needs nothing of the machine's CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinePace {
    pub frames: u32,
    pub every_ns: u32,
}

fn parse_line(text: &str) -> Result<LinePace, String> {
    let parsed = text.split_once('/').and_then(|(frames, every)| {
        let line = LinePace { frames: frames.parse().ok()?, every_ns: every.parse().ok()? };
        ((1..=MOST_BURST).contains(&line.frames) && line.every_ns > 0).then_some(line)
    });
    parsed.ok_or_else(|| format!("{text:?} is no line; write it like 5/1025333"))
}

fn parse_processor(text: &str) -> Result<Processor, String> {
    serde_json::from_str(text).map_err(|why| format!("this describes no processor: {why}"))
}

fn parse_nic(text: &str) -> Result<Nic, String> {
    let (model, place) = text.split_once('=').ok_or("write it like e1000=52:54:00:77:00:01")?;
    let (mac, hub) = place.split_once('@').unwrap_or((place, "0"));
    let hub = hub.parse().map_err(|_| format!("{hub:?} is no hub's number, 0 to 255"))?;
    let model = serde_json::from_value(model.into())
        .map_err(|_| format!("there is no NIC model {model:?}"))?;
    if !is_mac(mac) {
        return Err(format!("{mac:?} is no MAC address, write it like 52:54:00:77:00:01"));
    }
    Ok(Nic { model, mac: mac.to_owned(), hub })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_nic_says_what_is_right() {
        assert!(parse_nic("e1000").unwrap_err().contains("write it like"));
        assert!(parse_nic("e1001=52:54:00:77:00:02").unwrap_err().contains("e1001"));
        assert!(parse_nic("e1000=52:54").unwrap_err().contains("MAC"));
    }

    #[test]
    fn a_wrong_processor_says_what_is_wrong() {
        let said = parse_processor(r#"{"name": "p", "colour": "red"}"#).unwrap_err();
        assert!(said.contains("describes no processor") && said.contains("colour"), "{said}");
    }

    #[test]
    fn a_wrong_line_says_what_is_right() {
        assert!(parse_line("5/1025333").is_ok());
        for wrong in ["5", "0/9", "257/9", "5/0", "5/x", "5/99999999999"] {
            assert!(parse_line(wrong).unwrap_err().contains("write it like"), "{wrong}");
        }
    }
}
