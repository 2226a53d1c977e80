//! `hypertare-agent survey`: what a host is that benches are to be made on, for a controller elsewhere, which
//! cannot look at it itself. Nothing of the host is changed; what is made for a try is removed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use agent::emit::Emitter;
use agent::node;
use agent::process::cgroup::{Cgroup, Limits, Scope};
use agent::process::{cpus, shortage, wait_until};
use agent::vmm::boot::{self, Boot};
use agent::vmm::command_line::PROGRAM as QEMU;
use agent::xen::keeper;
use anyhow::{Context, Result, bail, ensure};
use hypertare_plan::{AGENT_PREFIX, Line, PROTOCOL, Record, Step, Survey};

/// For a sandbox that is made and removed.
const SANDBOX_LIMIT: Duration = Duration::from_secs(10);
const QEMU_LIMIT: Duration = Duration::from_secs(10);
/// For a guest, as long as the controller gives one of its own host.
const BOOT_LIMIT_S: f64 = 8.0;
const PAUSE: Duration = Duration::from_millis(5);
/// Of what a program prints.
const MOST_PRINTED: u64 = 4096;

/// Print what this host is and what it can, as a record; nothing is changed
#[derive(clap::Args)]
pub struct Arguments {
    /// Kernel of a guest: whether one boots with KVM is tried
    #[arg(long, requires = "initramfs")]
    kernel: Option<PathBuf>,
    /// Archive with this agent as /init
    #[arg(long, requires = "kernel")]
    initramfs: Option<PathBuf>,
}

pub fn main(arguments: &Arguments) -> Result<()> {
    Emitter::stdout().emit(&Record::Survey(survey(arguments)?))?;
    Ok(())
}

fn survey(arguments: &Arguments) -> Result<Survey> {
    let system = rustix::system::uname();
    let cpuinfo = read("/proc/cpuinfo");
    let (qemu, no_qemu) = parted(qemu());
    let (_, no_sandbox) = parted(sandbox());
    let (_, no_cgroup) = parted(cgroup());
    let tries = [
        ("sandbox", no_sandbox),
        ("qemu", no_qemu),
        ("tun", cannot_open("/dev/net/tun")),
        ("vhost", cannot_open("/dev/vhost-net")),
        ("cgroup", no_cgroup),
        ("xen", keeper::obstacle()),
        ("kvm", no_kvm(arguments)),
    ];
    let absent: BTreeMap<String, String> =
        tries.into_iter().filter_map(|(name, reason)| Some((name.to_owned(), reason?))).collect();
    Ok(Survey {
        host_name: system.nodename().to_string_lossy().into_owned(),
        processor: node::given::processor().unwrap_or_else(|| "unknown".into()),
        kernel: system.release().to_string_lossy().into_owned(),
        architecture: system.machine().to_string_lossy().into_owned(),
        distribution: distribution(&read("/etc/os-release")).unwrap_or_else(|| "unknown".into()),
        cpus: cpus::of(0)?,
        online: cpuinfo.lines().filter(|line| line.starts_with("processor")).count() as u32,
        memory: shortage::bytes(&read("/proc/meminfo"), "MemTotal:").unwrap_or(0),
        available: shortage::bytes(&read("/proc/meminfo"), "MemAvailable:").unwrap_or(0),
        load: read("/proc/loadavg")
            .split(' ')
            .next()
            .and_then(|word| word.parse().ok())
            .unwrap_or(0.0),
        qemu,
        absent,
    })
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn parted<T>(outcome: Result<T>) -> (Option<T>, Option<String>) {
    match outcome {
        Ok(value) => (Some(value), None),
        Err(error) => (None, Some(format!("{error:#}"))),
    }
}

fn cannot_open(path: &str) -> Option<String> {
    let opened = File::options().read(true).write(true).open(path);
    opened.err().map(|error| format!("{path} cannot be opened: {error}"))
}

fn distribution(text: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches('"').to_owned())
}

/// Whether benches can be made: the host agent begins, answers and ends.
fn sandbox() -> Result<()> {
    let mut agent = Command::new("/proc/self/exe")
        .arg("host")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("the agent cannot be started")?;
    let hello = Step::Hello { protocol: PROTOCOL }.to_line()?;
    if let Some(mut input) = agent.stdin.take() {
        // That it has ended already is seen below.
        let _ = input.write_all(&hello);
    }
    let (answer, said) = printed(&mut agent, SANDBOX_LIMIT)?;
    if matches!(Record::from_line(answer.trim_end().as_bytes()), Ok(Record::Hello(_))) {
        return Ok(());
    }
    bail!("{}", said.lines().last().unwrap_or("no answer").trim_start_matches(AGENT_PREFIX));
}

fn qemu() -> Result<String> {
    let mut program = Command::new(QEMU)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{QEMU} cannot be started"))?;
    let (text, _) = printed(&mut program, QEMU_LIMIT)?;
    let number = |word: &&str| word.starts_with(|letter: char| letter.is_ascii_digit());
    let version = text.split([' ', '\n']).find(number);
    version.map(str::to_owned).with_context(|| format!("{QEMU} does not say which version it is"))
}

/// What a program prints, both ways, until it ends.
fn printed(program: &mut Child, limit: Duration) -> Result<(String, String)> {
    let has_ended = || !matches!(program.try_wait(), Ok(None));
    if !wait_until(Instant::now() + limit, PAUSE, has_ended) {
        program.kill()?;
        program.wait()?;
        bail!("no answer within {} s", limit.as_secs());
    }
    let (mut out, mut said) = (String::new(), String::new());
    if let (Some(output), Some(errors)) = (program.stdout.take(), program.stderr.take()) {
        output.take(MOST_PRINTED).read_to_string(&mut out)?;
        errors.take(MOST_PRINTED).read_to_string(&mut said)?;
    }
    Ok((out, said))
}

/// Whether one that limits memory can be made, as containers have it.
fn cgroup() -> Result<()> {
    let limits = Limits { memory: Some(1 << 30), cpus: &[] };
    let made = Cgroup::make(&Scope::own()?, "survey", limits)?;
    ensure!(made.limited(), "the memory of a cgroup cannot be limited");
    Ok(())
}

fn no_kvm(arguments: &Arguments) -> Option<String> {
    if let Some(reason) = cannot_open("/dev/kvm") {
        return Some(reason);
    }
    let (Some(kernel), Some(initramfs)) = (&arguments.kernel, &arguments.initramfs) else {
        return Some(
            "/dev/kvm can be opened, but no guest was booted (--kernel, --initramfs)".into(),
        );
    };
    boot::boot(&Boot::with_kvm(kernel, initramfs, BOOT_LIMIT_S)).err().map(|error| {
        let reason = format!("{error:#}");
        format!("a guest does not boot with it: {}", reason.lines().next().unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_is_what_it_calls_itself() {
        let text = "ID=x\nPRETTY_NAME=\"Some Linux 12\"\n";
        assert_eq!(distribution(text).as_deref(), Some("Some Linux 12"));
        assert_eq!(distribution("ID=x\n"), None);
    }

    #[test]
    fn what_does_not_end_is_ended() {
        let mut program = Command::new("sleep")
            .arg("600")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let error = printed(&mut program, Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("no answer"), "{error}");
        assert!(program.try_wait().unwrap().is_some());
    }

    #[test]
    fn what_cannot_be_opened_is_named() {
        assert!(cannot_open("/nowhere").unwrap().starts_with("/nowhere cannot be opened: "));
        assert_eq!(cannot_open("/dev/null"), None);
    }
}
