//! The emulated machine: a whole PC in QEMU that carries out a plan which lies in its initramfs, and
//! does nothing else. `hypertare-agent emulate` runs it in a directory in memory that only QEMU sees,
//! where `kernel`, `initramfs` and `hypervisor` stand for the files that were named; records and what
//! is printed leave by descriptors, for QEMU's user may not open what is another's for writing. So its
//! command line names no place of this host, and nothing is left on it.
//!
//! With the virtual clock it is the same machine to the last bit, too:
//! - `-icount shift=N,sleep=off`: each instruction takes 2^N ns, and idle time is skipped.
//! - One thread executes all CPUs, and devices are served by it (`ioeventfd=off`, `tx=timer`): what
//!   another thread does comes when the host's scheduler likes. The distribution's QEMU has one count of
//!   instructions, and so one CPU; our own (`emulator/`) has one for each CPU (`quantum=`).
//! - The clock begins at a fixed date; the CPU has no source of random numbers, the kernel trusts
//!   none, and what it has instead comes from the seed.
//! - Nothing enters: no monitor, no terminal, no network, and its archive is complete beforehand.
//!
//! Source of these options: QEMU's documentation, "TCG Instruction Counting" (icount).
//!
//! QEMU runs in namespaces of its own, without a network, kept from this host like any other
//! ([`jail`]), and dies with whoever holds the other end of standard input.

mod command_line;
mod options;

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::Args;
use hypertare_plan::{AGENT_PREFIX, Accelerator, REFUSED};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::mount::{MountFlags, mount, mount_bind};

use crate::arch::ARCH;
use crate::process::failed;
use crate::process::namespaces::{SCRATCH, make_private, map_ids, mount_scratch};
use crate::process::spawn::{Child, Ended, Spawn, explain_refusal};
use crate::vmm::command_line::PROGRAM;
use crate::vmm::initramfs::concatenate;
use crate::vmm::jail::{self, Jail, NO_SANDBOX};

pub use options::Emulate;

/// The subcommand that becomes QEMU. Not for people.
pub const INSIDE: &str = "emulate-inside";

/// Descriptor of the inside whose other end closes when the outside ends.
const LIFELINE: RawFd = 3;

/// Names of what QEMU opens and of the emulator, and the descriptor of the first; the others follow, and
/// then what QEMU writes to.
const FILES: [&str; 4] = ["kernel", "initramfs", "hypervisor", PROGRAM];
const FIRST_FILE: RawFd = 4;
const RECORDS: RawFd = 8;
const CONSOLE: RawFd = 9;

/// How the emulator is started: by its name in the directory, for QEMU's user may not look where it lies.
fn emulator() -> String {
    format!("./{PROGRAM}")
}

/// What comes with an emulator from elsewhere: its loader and libraries, and the firmware that it looks for
/// in the distribution's places, which a host without QEMU does not have.
const LIBRARIES: &str = "lib";
const FIRMWARE: &str = "firmware";
const SHARED: &str = "/usr/share";
const OF_QEMU: &str = "/usr/share/qemu";

/// Bytes of records, and of what is printed, beyond which the kernel ends QEMU.
const MOST_OUTPUT: u64 = 256 << 20;

pub fn main(options: &Emulate) -> ExitCode {
    emulate(options).map_or_else(|error| failed(&error), ExitCode::from)
}

fn emulate(options: &Emulate) -> Result<u8> {
    let line = command_line::words(options)?;
    if options.show {
        println!("{}", serde_json::to_string(&line)?);
        return Ok(0);
    }
    let files = files(options)?;
    let runtime = options.runtime.as_deref();
    let mut ended = run(line.clone(), runtime, &files)?;
    // Asked for only then, because it takes a process.
    let has_sandbox = || options.emulator.is_some() || jail::has_sandbox();
    if ended == Some(Ended::Exited(1)) && !has_sandbox() {
        eprintln!("warning: {NO_SANDBOX}");
        ended = run(without_sandbox(line), runtime, &files)?;
    }
    match ended {
        None => Ok(REFUSED as u8),
        Some(Ended::Exited(0)) => Ok(0),
        Some(ended) => bail!("QEMU {ended}"),
    }
}

/// How the machine ended, unless it may not be started here, which it then has said.
fn run(line: Vec<String>, runtime: Option<&Path>, files: &[File; 6]) -> Result<Option<Ended>> {
    let (lifeline, _held) = std::io::pipe()?;
    let mut machine = match start(line, runtime, &lifeline, files) {
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

/// The machine is emulated on every host, and sees no file of it.
fn jail() -> Result<Jail> {
    Jail::new(Accelerator::Tcg, false)
}

/// What QEMU opens, by the names of [`FILES`], and what it writes to.
fn files(options: &Emulate) -> Result<[File; 6]> {
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
    let emulator = options.emulator.as_deref().unwrap_or(Path::new("/dev/null"));
    let emulator = File::open(emulator).with_context(|| format!("the emulator {emulator:?}"))?;
    let (records, console) = (output(&options.records)?, output(&options.console)?);
    Ok([kernel, initramfs, hypervisor, emulator, records, console])
}

/// Own namespaces: QEMU sees no network, and with it dies whatever it starts.
fn start(
    line: Vec<String>,
    runtime: Option<&Path>,
    lifeline: &impl AsRawFd,
    files: &[File; 6],
) -> Result<Child> {
    let nothing = File::open("/dev/null")?;
    let mut arguments = vec![INSIDE.to_owned()];
    if let Some(runtime) = runtime {
        let place = runtime.to_str().with_context(|| format!("{runtime:?} is no UTF-8"))?;
        arguments.extend(["--runtime".to_owned(), place.to_owned()]);
    }
    arguments.push("--".to_owned());
    arguments.extend(line);
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
    #[arg(long)]
    runtime: Option<PathBuf>,
    #[arg(last = true, required = true)]
    line: Vec<String>,
}

/// Becomes QEMU, which the kernel then kills when the outside ends, however that ends.
pub fn inside(arguments: &Inside) -> ExitCode {
    let Err(error) = become_qemu(arguments);
    failed(&error)
}

fn become_qemu(Inside { runtime, line }: &Inside) -> Result<std::convert::Infallible> {
    // SAFETY: the outside has put it there; nobody else owns this number.
    let lifeline = unsafe { OwnedFd::from_raw_fd(LIFELINE) };
    rustix::io::fcntl_setfd(&lifeline, rustix::io::FdFlags::CLOEXEC)
        .context("this subcommand is started by `hypertare-agent emulate` only")?;
    // Ctrl-C in a terminal is the controller's to hear.
    let _ = rustix::process::setsid();
    // A directory in memory with the files that QEMU gets; no other process sees it.
    make_private()?;
    mount_scratch()?;
    std::env::set_current_dir(SCRATCH)?;
    for (name, descriptor) in FILES.iter().zip(FIRST_FILE..) {
        std::os::unix::fs::symlink(format!("/proc/self/fd/{descriptor}"), name)?;
    }
    if let Some(runtime) = runtime {
        bring(runtime).with_context(|| format!("what lies in {runtime:?} for the emulator"))?;
    }
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
    let loader = format!("./{LIBRARIES}/{}", ARCH.loader);
    let mut command = Command::new(if runtime.is_some() { &loader } else { program });
    if runtime.is_some() {
        command.args(["--inhibit-cache", "--library-path", LIBRARIES, "--argv0", PROGRAM, program]);
    }
    // Both are found under the same name, in lists of processes and in what they say.
    let error = command.arg0(PROGRAM).args(rest).exec();
    Err(error).with_context(|| format!("{program} cannot be started; is QEMU installed?"))
}

/// Binds libraries and firmware to places where QEMU's user may look: the directories above them may be
/// closed to it.
fn bring(runtime: &Path) -> Result<()> {
    std::fs::create_dir(LIBRARIES)?;
    mount_bind(runtime.join(LIBRARIES), LIBRARIES).context(LIBRARIES)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", SHARED, "tmpfs", flags, c"mode=0755").context(SHARED)?;
    std::fs::create_dir(OF_QEMU)?;
    mount_bind(runtime.join(FIRMWARE), OF_QEMU).context(FIRMWARE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vmm::command_line::SANDBOX;

    #[test]
    fn a_qemu_without_the_filter_runs_without_it() {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let line = words(&[PROGRAM, "-sandbox", SANDBOX, "-nodefaults"]);
        let without = without_sandbox(line);
        assert_eq!(without, words(&[PROGRAM, "-nodefaults"]));
        assert_eq!(without_sandbox(without.clone()), without);
    }
}
