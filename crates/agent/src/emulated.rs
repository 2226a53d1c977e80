//! The emulated machine: a whole PC in QEMU that carries out a plan which lies in its initramfs, and
//! does nothing else. `hypertare-agent emulate` runs it in a directory in memory that only QEMU sees,
//! where `kernel`, `initramfs` and `hypervisor` stand for the files that were named; records and what
//! is printed leave by descriptors, for QEMU's user may not open what is another's for writing. So its
//! command line names no place of this host, and nothing is left on it.
//!
//! With the virtual clock it is the same machine to the last bit, too:
//! - `-icount shift=N,sleep=off`: each instruction takes 2^N ns, and idle time is skipped.
//! - One CPU: there is one count of instructions. One thread executes, and devices are served by it
//!   (`ioeventfd=off`, `tx=timer`): what another thread does comes when the host's scheduler likes.
//! - The clock begins at a fixed date; the CPU has no source of random numbers, the kernel trusts
//!   none, and what it has instead comes from the seed.
//! - Nothing enters: no monitor, no terminal, no network, and its archive is complete beforehand.
//!
//! Source of these options: QEMU's documentation, "TCG Instruction Counting" (icount).
//!
//! QEMU runs in namespaces of its own, without a network, kept from this host like any other
//! ([`jail`]), and dies with whoever holds the other end of standard input.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use hypertare_plan::{
    AGENT_PREFIX, Accelerator, MODULES_PARAMETER, MOST_NICS, NicModel, REFUSED, SEED_PARAMETER,
};
use rustix::event::{PollFd, PollFlags, poll};

use crate::boot_contract::{LIMIT_PARAMETER, PORT};
use crate::process::namespaces::{SCRATCH, make_private, map_ids, mount_scratch};
use crate::process::spawn::{Child, Ended, Spawn, explain_refusal};
use crate::units::parse_size;
use crate::vmm::argv::{
    self, KERNEL_ARGUMENTS, MACHINE, PROGRAM, SANDBOX, TCG_CPU, TCG_KERNEL_ARGUMENTS,
};
use crate::vmm::initramfs::concatenate;
use crate::vmm::jail::{self, Jail, NO_SANDBOX};

/// The subcommand that becomes QEMU. Not for people.
pub const INSIDE: &str = "emulate-inside";

/// What Xen's tools and the guests' interfaces need.
const DRIVER_DOMAIN_MODULES: [&str; 7] =
    ["xen_evtchn", "xen_gntdev", "xen_gntalloc", "xen_privcmd", "xenfs", "xen_netback", "bridge"];

/// Each page that is mapped, and each that is made contiguous for devices, is a hypercall: of those a
/// driver domain makes half a million less without a quarter of a gigabyte of PCI's configuration space
/// and with 16 MB of bounce buffers, in pieces of 2 KB, in place of 64. What NICs send and receive
/// needs none of either.
const DRIVER_DOMAIN_ARGUMENTS: [&str; 2] = ["pci=nommconf", "swiotlb=8192"];

/// Frames that a virtio-net's ring holds.
const MOST_BURST: u32 = 256;

/// In virtual time no two runs may meet different dates; the date itself is of no importance.
const DATE: &str = "2026-01-01";

/// Descriptor of the inside whose other end closes when the outside ends.
const LIFELINE: RawFd = 3;

/// Megabytes for translated code, which a machine with several guests fills: QEMU's own choice, 1024, is
/// as much as four of them have of memory.
const TRANSLATED: u32 = 640;

/// Names of what QEMU opens, and the descriptor of the first; the others follow, and then what it writes
/// to.
const FILES: [&str; 3] = ["kernel", "initramfs", "hypervisor"];
const FIRST_FILE: RawFd = 4;
const RECORDS: RawFd = 7;
const CONSOLE: RawFd = 8;

/// Bytes of records, and of what is printed, beyond which the kernel ends QEMU.
const MOST_OUTPUT: u64 = 256 << 20;

/// Run an emulated machine on the plan in its initramfs
#[derive(Args, Clone, Debug)]
pub struct Emulate {
    /// Uncompressed kernel (vmlinux), or a bzImage, which boots more slowly
    #[arg(long)]
    kernel: PathBuf,
    /// Archives, loaded one after the other: one with this agent as /init, one with /plan.jsonl
    #[arg(long, required = true)]
    initramfs: Vec<PathBuf>,
    /// Xen, as an uncompressed ELF file: the kernel is then the driver domain's
    #[arg(long)]
    hypervisor: Option<PathBuf>,
    /// Memory of Xen's driver domain
    #[arg(long, default_value = "512M", value_parser = parse_size)]
    driver_memory: u64,
    /// Xen's scheduler
    #[arg(long, value_enum, default_value_t = Scheduler::Credit)]
    scheduler: Scheduler,
    /// Where its records go
    #[arg(long, default_value = "/dev/stdout")]
    records: PathBuf,
    /// Where what it prints goes
    #[arg(long, default_value = "/dev/null")]
    console: PathBuf,
    #[arg(long, value_enum, default_value_t = Clock::Virtual)]
    clock: Clock,
    /// An instruction takes 2^SHIFT ns of virtual time
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=10))]
    shift: u32,
    /// What its random numbers come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Memory: bytes, or with K, M or G
    #[arg(long, default_value = "512M", value_parser = parse_size)]
    memory: u64,
    #[arg(long, default_value_t = 1)]
    cpus: u32,
    /// QEMU's CPU model
    #[arg(long)]
    cpu_model: Option<String>,
    /// A NIC, MODEL=MAC or MODEL=MAC@HUB; those on the hub of the same number (0 when none is given)
    /// hear each other; may be repeated
    #[arg(long, value_parser = parse_nic)]
    nic: Vec<Nic>,
    /// At most so many frames leave a virtio-net in so many nanoseconds, as FRAMES/NANOSECONDS
    #[arg(long, value_parser = parse_line)]
    line: Option<Line>,
    /// A further kernel module to load
    #[arg(long)]
    module: Vec<String>,
    /// Appended to the kernel's command line
    #[arg(long, allow_hyphen_values = true)]
    kernel_arg: Vec<String>,
    /// Seconds of the machine's own clock after which it ends
    #[arg(long, default_value_t = 3600)]
    limit: u64,
    /// Print QEMU's command line as JSON, and run nothing
    #[arg(long)]
    show: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Clock {
    Virtual,
    Wall,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scheduler {
    Credit,
    Credit2,
}

#[derive(Clone, Debug)]
struct Nic {
    model: NicModel,
    mac: String,
    hub: u8,
}

/// How a NIC sends that is an end of a line of a limited rate: QEMU's own timer takes a burst of frames
/// out of its ring, time and again. It needs nothing of the machine's CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    frames: u32,
    every_ns: u32,
}

fn parse_line(text: &str) -> Result<Line, String> {
    let parsed = text.split_once('/').and_then(|(frames, every)| {
        let line = Line { frames: frames.parse().ok()?, every_ns: every.parse().ok()? };
        ((1..=MOST_BURST).contains(&line.frames) && line.every_ns > 0).then_some(line)
    });
    parsed.ok_or_else(|| format!("{text:?} is no line; write it like 5/1025333"))
}

fn parse_nic(text: &str) -> Result<Nic, String> {
    let (model, place) = text.split_once('=').ok_or("write it like e1000=52:54:00:77:00:01")?;
    let (mac, hub) = place.split_once('@').unwrap_or((place, "0"));
    let hub = hub.parse().map_err(|_| format!("{hub:?} is no hub's number, 0 to 255"))?;
    let model = serde_json::from_value(model.into())
        .map_err(|_| format!("there is no NIC model {model:?}"))?;
    if !argv::is_mac(mac) {
        return Err(format!("{mac:?} is no MAC address, write it like 52:54:00:77:00:01"));
    }
    Ok(Nic { model, mac: mac.to_owned(), hub })
}

pub fn main(options: &Emulate) -> ExitCode {
    match emulate(options) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{AGENT_PREFIX}{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn emulate(options: &Emulate) -> Result<u8> {
    let line = command_line(options)?;
    if options.show {
        println!("{}", serde_json::to_string(&line)?);
        return Ok(0);
    }
    let files = files(options)?;
    let mut ended = run(line.clone(), &files)?;
    // Asked for only then, because it takes a process.
    if ended == Some(Ended::Exited(1)) && !jail::has_sandbox() {
        eprintln!("warning: {NO_SANDBOX}");
        ended = run(without_sandbox(line), &files)?;
    }
    match ended {
        None => Ok(REFUSED as u8),
        Some(Ended::Exited(0)) => Ok(0),
        Some(ended) => bail!("QEMU {ended}"),
    }
}

/// How the machine ended, unless it may not be started here, which it then has said.
fn run(line: Vec<String>, files: &[File; 5]) -> Result<Option<Ended>> {
    let (lifeline, _held) = std::io::pipe()?;
    let mut machine = match start(line, &lifeline, files) {
        Ok(machine) => machine,
        Err(error) => {
            eprintln!("{AGENT_PREFIX}{:#}", explain_refusal(&error));
            return Ok(None);
        }
    };
    drop(lifeline);
    await_end(&mut machine).map(Some)
}

fn without_sandbox(mut line: Vec<String>) -> Vec<String> {
    if let Some(at) = line.iter().position(|word| word == "-sandbox") {
        line.drain(at..at + 2);
    }
    line
}

/// QEMU's command line, the program included.
fn command_line(options: &Emulate) -> Result<Vec<String>> {
    let is_virtual = options.clock == Clock::Virtual;
    if is_virtual && options.cpus != 1 {
        bail!(
            "{} CPUs cannot be had with the virtual clock: there is one count of instructions, so \
             they would take turns and not work at the same time; ask for one, or for --clock wall",
            options.cpus
        );
    }
    if options.nic.len() > MOST_NICS {
        bail!("{} NICs are too many: the machine has room for {MOST_NICS}", options.nic.len());
    }
    let mut line: Vec<String> = vec![PROGRAM.into()];
    let mut option = |name: &str, value: String| line.extend([name.to_owned(), value]);
    option("-name", "hypertare".into());
    option("-sandbox", SANDBOX.into());
    option("-display", "none".into());
    option("-machine", MACHINE.into());
    // Without -smap a PV driver domain crashes at its first return to user mode.
    let smap = if options.hypervisor.is_some() { ",-smap" } else { "" };
    let cpu = format!("{}{smap}", options.cpu_model.as_deref().unwrap_or(TCG_CPU));
    if is_virtual {
        option("-accel", format!("tcg,thread=single,tb-size={TRANSLATED}"));
        option("-icount", format!("shift={},sleep=off", options.shift));
        option("-cpu", format!("{cpu},-rdrand,-rdseed"));
    } else {
        option("-accel", "tcg,thread=multi".into());
        option("-cpu", cpu);
    }
    option("-seed", (options.seed & u64::from(u32::MAX)).to_string());
    option("-rtc", format!("base={DATE},clock={}", if is_virtual { "vm" } else { "host" }));
    option("-smp", format!("cpus={0},sockets=1,cores={0},threads=1", options.cpus));
    option("-m", format!("{}B", options.memory));
    // QEMU's user may not open them, and to cut short what is no file would fail.
    let mut output = |id: &str, descriptor: RawFd| {
        option("-add-fd", format!("fd={descriptor},set={descriptor}"));
        option("-chardev", format!("file,id={id},path=/dev/fdset/{descriptor},append=on"));
    };
    output("console", CONSOLE);
    output("records", RECORDS);
    option("-serial", "chardev:console".into());
    let direct = if is_virtual { ",ioeventfd=off" } else { "" };
    option("-device", format!("virtio-serial-pci,max_ports=2{direct}"));
    option("-device", format!("virtserialport,chardev=records,name={PORT}"));
    if let Some(nic) = options.nic.iter().find(|nic| nic.model != NicModel::VirtioNet)
        && options.line.is_some()
    {
        bail!("only virtio-net can send at the rate of a line, and there is a {:?}", nic.model);
    }
    // A guest that sees which frame is awaited next wakes the card before its time.
    let at_line = options.line.map(|Line { frames, every_ns }| {
        format!(",event_idx=off,x-txburst={frames},x-txtimer={every_ns}")
    });
    let at_line = at_line.unwrap_or_default();
    for (index, nic) in options.nic.iter().enumerate() {
        let device = argv::nic(nic.model).device;
        let timing = match nic.model {
            NicModel::VirtioNet if is_virtual => format!(",ioeventfd=off,tx=timer{at_line}"),
            NicModel::VirtioNet if options.line.is_some() => format!(",tx=timer{at_line}"),
            _ => String::new(),
        };
        option("-netdev", format!("hubport,id=net{index},hubid={}", nic.hub));
        let place = place(index, options.nic.len());
        let mac = &nic.mac;
        option("-device", format!("{device},netdev=net{index},mac={mac},romfile={timing}{place}"));
    }
    let arguments = kernel_arguments(options)?;
    if options.hypervisor.is_some() {
        option("-kernel", "hypervisor".into());
        option("-append", hypervisor_arguments(options));
        // Its modules: files with their command lines, separated by commas; one in a line is doubled.
        option("-initrd", format!("kernel {},initramfs", arguments.replace(',', ",,")));
    } else {
        option("-kernel", "kernel".into());
        option("-initrd", "initramfs".into());
        option("-append", arguments);
    }
    line.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(String::from));
    Ok(line)
}

const FUNCTIONS: usize = 8;
/// The first that NICs share, and the one behind the last: the PC's own bridge is there.
const FIRST_SLOT: usize = 8;
const END_SLOT: usize = 31;
const _: () = assert!((END_SLOT - FIRST_SLOT) * FUNCTIONS == MOST_NICS);

/// Few NICs have a slot each, where the bus has one for them. Many are functions of the same devices,
/// eight of each, behind what else is on the bus.
fn place(index: usize, count: usize) -> String {
    const SLOTS: usize = 16;
    if count <= SLOTS {
        return String::new();
    }
    let (slot, function) = (FIRST_SLOT + index / FUNCTIONS, index % FUNCTIONS);
    format!(",multifunction=on,addr={slot:x}.{function}")
}

/// One virtual CPU for the driver domain, whatever the machine has; and memory that is zero already
/// need not be scrubbed. A guest's vector registers are put back when it runs and not when it first
/// uses them: QEMU's AVX instructions use them without asking (they do not look at CR0.TS), and what
/// they would find are those of another guest.
fn hypervisor_arguments(options: &Emulate) -> String {
    let scheduler = match options.scheduler {
        Scheduler::Credit => "credit",
        Scheduler::Credit2 => "credit2",
    };
    let memory = options.driver_memory >> 20;
    format!(
        "com1=115200,8n1 console=com1 dom0_mem={memory}M,max:{memory}M dom0_max_vcpus=1 \
         sched={scheduler} bootscrub=0 spec-ctrl=eager-fpu"
    )
}

fn kernel_arguments(options: &Emulate) -> Result<String> {
    let fixed = KERNEL_ARGUMENTS.iter().chain(&TCG_KERNEL_ARGUMENTS);
    let mut words: Vec<String> = fixed.map(|&word| word.to_owned()).collect();
    if options.hypervisor.is_some() {
        // The serial line is Xen's, which prints for the driver domain.
        words.retain(|word| !word.starts_with("console="));
        // Under PV each change of a page's protection is a hypercall: a boot takes seconds less.
        words.extend(["console=hvc0", "rodata=off"].map(String::from));
        words.extend(DRIVER_DOMAIN_ARGUMENTS.map(String::from));
    }
    words.push("random.trust_cpu=off".into());
    words.push("random.trust_bootloader=off".into());
    words.push(format!("{SEED_PARAMETER}{}", options.seed));
    words.push(format!("{LIMIT_PARAMETER}{}", options.limit));
    words.push(format!("{MODULES_PARAMETER}{}", modules(options).join(",")));
    words.extend(options.kernel_arg.iter().cloned());
    if let Some(word) = words.iter().find(|word| word.contains(['\n', '\0'])) {
        bail!("kernel argument {word:?} holds a character that the kernel does not take");
    }
    Ok(words.join(" "))
}

fn modules(options: &Emulate) -> Vec<&str> {
    let mut modules = vec!["virtio_pci", "virtio_console"];
    if options.hypervisor.is_some() {
        modules.extend(DRIVER_DOMAIN_MODULES);
    }
    let drivers = options.nic.iter().map(|nic| argv::nic(nic.model).driver);
    for module in drivers.chain(options.module.iter().map(String::as_str)) {
        if !modules.contains(&module) {
            modules.push(module);
        }
    }
    modules
}

/// The machine is emulated on every host, and sees no file of it.
fn jail() -> Result<Jail> {
    Jail::new(Accelerator::Tcg, false)
}

/// What QEMU opens, by the names of [`FILES`], and what it writes to.
fn files(options: &Emulate) -> Result<[File; 5]> {
    let jail = jail()?;
    jail.missing().iter().for_each(|wall| eprintln!("warning: {wall}"));
    let kernel = jail.open(&options.kernel).context("the kernel")?;
    let output = |path: &Path| {
        let opened = File::options().write(true).create(true).truncate(true).open(path);
        opened.with_context(|| format!("{path:?} cannot be written"))
    };
    let initramfs = concatenate(&options.initramfs)?;
    let hypervisor = options.hypervisor.as_deref().unwrap_or(Path::new("/dev/null"));
    let hypervisor = jail.open(hypervisor).context("the hypervisor")?;
    Ok([kernel, initramfs, hypervisor, output(&options.records)?, output(&options.console)?])
}

/// Own namespaces: QEMU sees no network, and with it dies whatever it starts.
fn start(line: Vec<String>, lifeline: &impl AsRawFd, files: &[File; 5]) -> Result<Child> {
    let nothing = File::open("/dev/null")?;
    let arguments = [INSIDE.to_owned(), "--".to_owned()].into_iter().chain(line).collect();
    let namespaces = libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS;
    let mut descriptors: Vec<&dyn AsRawFd> = vec![&nothing, &1, &2, lifeline];
    descriptors.extend(files.iter().map(|file| file as &dyn AsRawFd));
    Spawn { arguments, namespaces, descriptors }.start(map_ids)
}

/// Waits for the machine's end, and kills it once nobody holds the other end of standard input.
fn await_end(machine: &mut Child) -> Result<Ended> {
    let stdin = std::io::stdin();
    loop {
        let mut watched = [
            PollFd::new(machine.handle(), PollFlags::IN),
            PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::RDHUP),
        ];
        match poll(&mut watched, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error).context("cannot wait for QEMU"),
        }
        let gone = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR;
        if watched[0].revents().is_empty() && watched[1].revents().intersects(gone) {
            machine.kill();
        }
        if !watched[0].revents().is_empty() || watched[1].revents().intersects(gone) {
            return Ok(machine.wait());
        }
    }
}

#[derive(Args)]
pub struct Inside {
    #[arg(last = true, required = true)]
    line: Vec<String>,
}

/// Becomes QEMU, which the kernel then kills when the outside ends, however that ends.
pub fn inside(arguments: &Inside) -> ExitCode {
    match become_qemu(&arguments.line) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("{AGENT_PREFIX}{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn become_qemu(line: &[String]) -> Result<std::convert::Infallible> {
    // SAFETY: the outside has put it there; nobody else owns this number.
    let lifeline = unsafe { OwnedFd::from_raw_fd(LIFELINE) };
    rustix::io::fcntl_setfd(&lifeline, rustix::io::FdFlags::CLOEXEC)
        .context("this subcommand is started by `hypertare-agent emulate` only")?;
    // Ctrl-C in a terminal is the controller's to hear.
    let _ = rustix::process::setsid();
    enter_directory()?;
    let most = rustix::process::Rlimit { current: Some(MOST_OUTPUT), maximum: Some(MOST_OUTPUT) };
    rustix::process::setrlimit(rustix::process::Resource::Fsize, most)?;
    jail()?.enter().context("keeping QEMU from this host")?;
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // It may have ended before that.
    let mut watched = [PollFd::new(&lifeline, PollFlags::OUT)];
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut watched, Some(&now))?;
    if watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
        bail!("whoever started this has ended");
    }
    let (program, rest) = line.split_first().context("no program is given")?;
    let error = Command::new(program).args(rest).exec();
    Err(error).with_context(|| format!("{program} cannot be started; is QEMU installed?"))
}

/// A directory in memory with the files that QEMU is told of; no other process sees it.
fn enter_directory() -> Result<()> {
    make_private()?;
    mount_scratch()?;
    std::env::set_current_dir(SCRATCH)?;
    for (name, descriptor) in FILES.iter().zip(FIRST_FILE..) {
        std::os::unix::fs::symlink(format!("/proc/self/fd/{descriptor}"), name)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Given {
        #[command(flatten)]
        options: Emulate,
    }

    fn line(arguments: &[&str]) -> Result<Vec<String>> {
        let files = ["emulate", "--kernel=/k", "--initramfs=/i"];
        let arguments = files.iter().chain(arguments);
        command_line(&Given::parse_from(arguments).options)
    }

    fn after<'a>(line: &'a [String], option: &str) -> &'a str {
        let found = line.iter().position(|word| word == option);
        found.map_or("", |index| line[index + 1].as_str())
    }

    #[test]
    fn in_virtual_time_nothing_is_left_to_chance() {
        let nic = "virtio-net=52:54:00:77:00:02";
        let line = line(&["--seed", "7", "--shift", "2", "--nic", nic]).unwrap();
        assert_eq!(after(&line, "-icount"), "shift=2,sleep=off");
        assert_eq!(after(&line, "-accel"), "tcg,thread=single,tb-size=640");
        assert_eq!(after(&line, "-seed"), "7");
        assert_eq!(after(&line, "-rtc"), "base=2026-01-01,clock=vm");
        assert!(after(&line, "-cpu").ends_with(",-rdrand,-rdseed"));
        assert!(after(&line, "-append").contains("random.trust_cpu=off"));
        assert!(after(&line, "-append").contains("hypertare.seed=7"));
        let nic = line.iter().find(|word| word.starts_with("virtio-net-pci")).unwrap();
        assert!(nic.ends_with("ioeventfd=off,tx=timer"), "{nic}");
    }

    #[test]
    fn at_the_end_of_a_line_a_card_sends_by_its_timer() {
        let nic = ["--nic", "virtio-net=52:54:00:77:00:02"];
        let of = |more: &[&str]| line(&[&nic, more].concat()).unwrap().join(" ");
        assert!(of(&["--line=5/1025333"]).contains("event_idx=off,x-txburst=5,x-txtimer=1025333"));
        assert!(of(&["--line=1/9", "--clock=wall"]).contains("tx=timer,event_idx=off,x-txburst=1"));
        assert!(!of(&[]).contains("txburst"));
        let error = line(&["--nic=e1000=52:54:00:77:00:02", "--line=5/1025333"]).unwrap_err();
        assert!(error.to_string().contains("only virtio-net"), "{error}");
        for wrong in ["5", "0/9", "257/9", "5/0", "5/x", "5/99999999999"] {
            assert!(parse_line(wrong).unwrap_err().contains("write it like"), "{wrong}");
        }
    }

    #[test]
    fn nothing_of_this_host_stands_on_it() {
        let line = line(&["--nic", "e1000=52:54:00:77:00:02"]).unwrap();
        let of_qemu = |word: &str| word.replace("=/dev/fdset/", "");
        let names = |word: &String| of_qemu(word).contains("=/") || word.starts_with('/');
        assert!(!line.iter().any(names), "{line:?}");
    }

    #[test]
    fn a_qemu_without_the_filter_runs_without_it() {
        let line = line(&[]).unwrap();
        let without = without_sandbox(line.clone());
        assert_eq!((after(&line, "-sandbox"), after(&without, "-sandbox")), (SANDBOX, ""));
        assert_eq!(line.len(), without.len() + 2);
        assert_eq!(without_sandbox(without.clone()), without);
    }

    #[test]
    fn several_cpus_are_for_the_wall_clock() {
        let error = line(&["--cpus", "2"]).unwrap_err().to_string();
        assert!(error.contains("one count of instructions"), "{error}");
        let line = line(&["--cpus", "2", "--clock", "wall"]).unwrap();
        assert_eq!(after(&line, "-icount"), "");
        assert_eq!(after(&line, "-accel"), "tcg,thread=multi");
    }

    #[test]
    fn xen_boots_the_kernel_as_its_driver_domain() {
        let nic = "e1000=52:54:00:77:00:02";
        let line =
            line(&["--hypervisor=/x", "--driver-memory=384M", "--scheduler=credit2", "--nic", nic]);
        let line = line.unwrap();
        assert_eq!(after(&line, "-kernel"), "hypervisor");
        let append = after(&line, "-append");
        assert!(append.contains("dom0_mem=384M,max:384M") && append.contains("sched=credit2"));
        assert!(append.contains("spec-ctrl=eager-fpu"), "{append}");
        let modules = after(&line, "-initrd");
        assert!(modules.starts_with("kernel ") && modules.ends_with(",initramfs"), "{modules}");
        assert!(modules.contains("virtio_pci,,virtio_console,,xen_evtchn"), "{modules}");
        assert!(modules.contains("console=hvc0") && !modules.contains("ttyS0"), "{modules}");
        assert!(after(&line, "-cpu").contains("-smap"));
    }

    #[test]
    fn there_is_room_for_so_many_nics() {
        let nics: Vec<String> =
            (0..185).map(|n| format!("--nic=e1000=52:54:00:77:00:{n:02x}@{n}")).collect();
        let words: Vec<&str> = nics.iter().map(String::as_str).collect();
        let whole = line(&words[..184]).unwrap().join(" ");
        assert!(whole.contains("addr=1e.7") && !whole.contains("addr=1f"));
        assert!(line(&words).unwrap_err().to_string().contains("room for 184"));
    }

    #[test]
    fn drivers_are_loaded_once() {
        let (a, b) = ("e1000=52:54:00:77:00:02", "e1000=52:54:00:77:00:03");
        let line = line(&["--nic", a, "--nic", b, "--module", "veth"]).unwrap();
        let append = after(&line, "-append");
        assert!(append.contains("modules=virtio_pci,virtio_console,e1000,veth"), "{append}");
    }

    #[test]
    fn a_wrong_nic_says_what_is_right() {
        assert!(parse_nic("e1000").unwrap_err().contains("write it like"));
        assert!(parse_nic("e1001=52:54:00:77:00:02").unwrap_err().contains("e1001"));
        assert!(parse_nic("e1000=52:54").unwrap_err().contains("MAC"));
    }
}
