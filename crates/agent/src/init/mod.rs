//! PID 1 of a guest: makes it fit to work in, starts the node agent (or, on an emulated machine, the host
//! agent with the plan that lies there), reaps orphaned processes, and ends the VM when the agent has
//! ended. An error is printed on the console and ends the VM as well, so that the machine outside never
//! waits for a guest that cannot answer.

mod port;

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hypertare_plan::{CONSOLE_PREFIX, MODULES_DIRECTORY, PLAN_FILE, SEED_PARAMETER};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, WaitOptions, WaitStatus};
use rustix::system::{RebootCommand, reboot};

use crate::boot_contract::{
    DISK_PARAMETER, DISK_VARIABLE, FILES_DIRECTORY, FILES_PARAMETER, FILES_TAG, LIMIT_PARAMETER,
    PROGRAM_PARAMETER,
};
use crate::own_machine::modules::{self, Index};
use crate::process::shortage::spare_this_process;
use crate::process::wait_until;
use crate::{host, node, xen};

const DISK_LIMIT: Duration = Duration::from_secs(30);
const DISK_LOOK: Duration = Duration::from_millis(1);

/// How the kernel calls the init of an initramfs.
const PATH: &str = "/init";

/// What is neither a program nor a device.
const INERT: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// Where programs are looked for, when the agent runs some of the machine's own.
const PROGRAMS: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Type, place, options: all that programs expect to be there. Each is a virtual file system.
const MOUNTS: &[(&str, &str, &str)] = &[
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("devtmpfs", "/dev", "mode=755"),
    ("devpts", "/dev/pts", "mode=620,ptmxmode=666"),
    ("tmpfs", "/dev/shm", "mode=1777"),
    ("tmpfs", "/run", "mode=755"),
    ("tmpfs", "/tmp", "mode=1777"),
];

/// Whether this process is the init of a guest. A host's agent may be PID 1 of a namespace, but it
/// has another name.
pub fn is_init() -> bool {
    std::process::id() == 1 && std::env::args_os().next().is_some_and(|name| name == PATH)
}

/// Runs the guest, and ends with it.
pub fn main() -> ! {
    node::hello::begin();
    // The kernel prints nothing of a process that panics, and of PID 1 only that it did.
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("{CONSOLE_PREFIX}{panic}");
        std::process::abort();
    }));
    if let Err(error) = run() {
        eprintln!("{CONSOLE_PREFIX}the guest cannot work: {error:#}");
    }
    end()
}

fn run() -> Result<()> {
    mount_all()?;
    // SAFETY: there is one thread.
    unsafe { std::env::set_var("PATH", PROGRAMS) };
    bring_loopback_up().context("setting up the loopback interface")?;
    let command_line = fs::read_to_string("/proc/cmdline")?;
    load_modules(&command_line)?;
    mount_files(&command_line)?;
    name_disk(&command_line)?;
    seed_random_numbers(&command_line)?;
    offer_program()?;
    let port = match xen::role() {
        Some(xen::Role::Guest) => xen::console::open(Path::new(xen::console::DEVICE))?,
        Some(xen::Role::Driver) => {
            // And with it Xen's daemons and the agents; tasks and tools expose themselves. Another
            // program's children would not.
            if word(&command_line, PROGRAM_PARAMETER).is_none() {
                spare_this_process()?;
            }
            xen::control::start().context("starting Xen's tools")?;
            port::open()?
        }
        None => port::open()?,
    };
    let agent = match (File::open(PLAN_FILE), word(&command_line, PROGRAM_PARAMETER)) {
        (_, Some(program)) => {
            mount_cgroups();
            start_child(|| become_program(program, port))?
        }
        (Ok(plan), None) => {
            mount_cgroups();
            // Where KVM counts what its guests do. Without it a probe of that says that it is not there.
            if let Err(error) = mount("debugfs", "/sys/kernel/debug", "debugfs", INERT, None) {
                eprintln!("{CONSOLE_PREFIX}no debugfs: {error}");
            }
            let agent = start_child(|| host::carry_out_alone(plan, port.into()))?;
            end_after(&command_line)?;
            agent
        }
        (Err(_), None) => start_child(|| node::run(port.try_clone()?, port))?,
    };
    let status = reap_until(agent)?;
    match (status.exit_status(), status.terminating_signal()) {
        (Some(0), _) => Ok(()),
        (_, Some(signal)) => bail!("its agent was killed by signal {signal}"),
        (exit, None) => bail!("its agent failed (status {})", exit.unwrap_or_default()),
    }
}

fn mount_all() -> Result<()> {
    for (kind, place, options) in MOUNTS {
        fs::create_dir_all(place).with_context(|| format!("making {place}"))?;
        let options = std::ffi::CString::new(*options)?;
        let flags = MountFlags::NOSUID;
        mount(*kind, *place, *kind, flags, Some(options.as_c_str()))
            .with_context(|| format!("mounting {kind} at {place}"))?;
    }
    Ok(())
}

fn bring_loopback_up() -> io::Result<()> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    // SAFETY: an all-zero `ifreq` is valid; the name is shorter than its field.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
    // SAFETY: SIOCSIFFLAGS reads an `ifreq`, which this is.
    match unsafe { libc::ioctl(fd, libc::SIOCSIFFLAGS, &request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn load_modules(command_line: &str) -> Result<()> {
    let directory = Path::new(MODULES_DIRECTORY);
    let index = Index::read(directory)?;
    modules::wanted(command_line)
        .into_iter()
        .try_for_each(|name| index.load(directory, name, command_line))
}

/// Where the disk is a file of the machine's: as it is there at any time, and nothing kept here.
fn mount_files(command_line: &str) -> Result<()> {
    let Some(file_system) = word(command_line, FILES_PARAMETER) else { return Ok(()) };
    let options = if file_system == "9p" {
        c"trans=virtio,version=9p2000.L,msize=512000,cache=none"
    } else {
        c""
    };
    fs::create_dir_all(FILES_DIRECTORY)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOATIME;
    mount(FILES_TAG, FILES_DIRECTORY, file_system, flags, Some(options))
        .with_context(|| format!("mounting the machine's directory by {file_system}"))
}

/// Commands may be another user's. Some drivers look for their disks after they have been loaded.
fn name_disk(command_line: &str) -> Result<()> {
    let Some(device) = word(command_line, DISK_PARAMETER) else { return Ok(()) };
    let is_there = || Path::new(device).exists();
    ensure!(
        wait_until(Instant::now() + DISK_LIMIT, DISK_LOOK, is_there),
        "the kernel finds no disk {device}"
    );
    // A file of the machine's is another user's, who has let all work on it.
    if word(command_line, FILES_PARAMETER).is_none() {
        fs::set_permissions(device, Permissions::from_mode(0o666))?;
    }
    // SAFETY: there is one thread.
    unsafe { std::env::set_var(DISK_VARIABLE, device) };
    Ok(())
}

/// Only an emulated machine has a plan. Without cgroups its containers are not accounted for.
fn mount_cgroups() {
    if let Err(error) = mount("cgroup2", "/sys/fs/cgroup", "cgroup2", INERT, None) {
        eprintln!("{CONSOLE_PREFIX}no cgroups: {error}");
        return;
    }
    // What a host's init does; without it no container's memory can be limited.
    if let Err(error) = fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory +cpu") {
        eprintln!("{CONSOLE_PREFIX}no cgroup controllers: {error}");
    }
}

/// A plan's commands find the agent by its name, as they do elsewhere.
fn offer_program() -> Result<()> {
    let directory = Path::new("/usr/bin");
    fs::create_dir_all(directory).with_context(|| format!("making {directory:?}"))?;
    std::os::unix::fs::symlink(PATH, directory.join("hypertare-agent"))
        .context("giving the agent its name")
}

/// Credits the kernel with randomness that it does not have: all of it comes from the machine's
/// seed. So nothing waits for more, runs of one seed are alike, and those of two are not.
fn seed_random_numbers(command_line: &str) -> Result<()> {
    let Some(seed) = number(command_line, SEED_PARAMETER)? else { return Ok(()) };
    #[repr(C)]
    struct Pool {
        bits: libc::c_int,
        bytes: libc::c_int,
        words: [u64; 4],
    }
    const RNDADDENTROPY: libc::Ioctl = 0x4008_5203;
    let pool = Pool { bits: 256, bytes: 32, words: [seed, !seed, seed.rotate_left(32), 1] };
    let random = File::options().write(true).open("/dev/random").context("opening /dev/random")?;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&random);
    // SAFETY: RNDADDENTROPY reads the two numbers, and then as many bytes as the second one says.
    match unsafe { libc::ioctl(fd, RNDADDENTROPY, &raw const pool) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()).context("seeding the kernel's random numbers"),
    }
}

/// Ends the machine after its limit, whatever then runs. A plan has limits of its own, but this one must
/// not depend on the process that it limits.
fn end_after(command_line: &str) -> Result<()> {
    let Some(seconds) = number(command_line, LIMIT_PARAMETER)? else { return Ok(()) };
    thread::spawn(move || {
        thread::sleep(Duration::from_secs(seconds));
        eprintln!(
            "{CONSOLE_PREFIX}the plan was not carried out within {seconds} s of this machine"
        );
        end()
    });
    Ok(())
}

fn word<'a>(command_line: &'a str, parameter: &str) -> Option<&'a str> {
    command_line.split_ascii_whitespace().find_map(|word| word.strip_prefix(parameter))
}

fn number(command_line: &str, parameter: &str) -> Result<Option<u64>> {
    let word = word(command_line, parameter);
    word.map(|word| word.parse().with_context(|| format!("{parameter}{word} is no number")))
        .transpose()
}

/// A program of the archive in the agent's place, with the port as its input and output.
fn become_program(program: &str, port: OwnedFd) -> Result<()> {
    let mut command = Command::new(program);
    let error = command.stdin(port.try_clone()?).stdout(port).exec();
    Err(error).with_context(|| format!("starting {program}"))
}

/// The agent is a child, so that it waits for its own children only, and that its end, of
/// whatever kind, is seen here.
fn start_child(work: impl FnOnce() -> Result<()>) -> Result<Pid> {
    // SAFETY: there is one thread, so the child may do what the parent may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()).context("starting the agent"),
        0 => {
            let outcome = work();
            if let Err(error) = &outcome {
                eprintln!("{CONSOLE_PREFIX}{error:#}");
            }
            std::process::exit(outcome.is_err().into())
        }
        pid => Pid::from_raw(pid).context("the kernel gave the agent no process number"),
    }
}

fn reap_until(agent: Pid) -> Result<WaitStatus> {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == agent => return Ok(status),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("waiting for the agent"),
        }
    }
}

/// With `reboot=t` and QEMU's `-no-reboot` this ends QEMU.
///
/// With a plan, whose containers have had NICs, at once if it can: an orderly restart shuts devices
/// down, and e1000's driver (before Linux 6.13) waits forever when the network namespace of its NIC is
/// being removed at that moment.
#[expect(
    clippy::panic,
    reason = "the end of PID 1, which is what is wanted, and nothing is left to do"
)]
fn end() -> ! {
    rustix::fs::sync();
    if Path::new(PLAN_FILE).exists() {
        let _ = fs::write("/proc/sysrq-trigger", "b");
    }
    let error = reboot(RebootCommand::Restart);
    panic!("the VM could not be ended: {error:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_on_the_command_line() {
        assert_eq!(number("quiet hypertare.seed=7\n", SEED_PARAMETER).unwrap(), Some(7));
        assert_eq!(number("quiet", SEED_PARAMETER).unwrap(), None);
        assert!(number("hypertare.limit=x", LIMIT_PARAMETER).is_err());
    }

    #[test]
    fn a_test_is_no_init() {
        assert!(!is_init());
    }
}
