//! `hypertare-agent guest`: boots one guest alone, says how that went, and ends it. This is how to
//! find out whether an accelerator really works: /dev/kvm may exist, open, and still run nothing.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use hypertare_plan::{
    Accelerator, Guest, GuestSettings, Hello, Line, MAX_LINE, Node, NodeKind, NodeReady,
    NumberedOrder, Order, PROTOCOL, Record,
};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::spec::Spec;
use super::{Vmm, start};
use super::{jail, paging};
use crate::emit::Emitter;
use crate::process::failed;
use crate::units::parse_size;

/// How long one look at the channel may take before the VM is looked at.
const GLANCE: Duration = Duration::from_millis(250);

const NAME: &str = "guest";

/// Boot one guest, print the records that report how it went, and end it.
#[derive(Args, Debug)]
pub struct Boot {
    /// Uncompressed kernel (vmlinux), or a bzImage, which boots more slowly
    #[arg(long)]
    kernel: PathBuf,
    /// Archive with this agent as /init; several are loaded one after the other
    #[arg(long, required = true)]
    initramfs: Vec<PathBuf>,
    /// Guest memory: bytes, or with K, M or G
    #[arg(long, default_value = "256M", value_parser = parse_size)]
    memory: u64,
    /// Virtual CPUs
    #[arg(long, default_value_t = 1)]
    cpus: u32,
    #[arg(long, value_enum, default_value_t = Choice::Tcg)]
    accelerator: Choice,
    /// QEMU's CPU model; by default `host` with KVM, without it `max` less what is slow to emulate
    #[arg(long)]
    cpu_model: Option<String>,
    /// Appended to the kernel's command line
    #[arg(long, allow_hyphen_values = true)]
    kernel_arg: Vec<String>,
    /// Seconds in which the guest's agent must answer
    #[arg(long, default_value_t = 10.0, value_parser = parse_limit)]
    limit: f64,
    /// End at once when this process does, which is the one that starts this
    #[arg(long, value_name = "PID")]
    parent: Option<i32>,
}

impl Boot {
    /// With all that a guest has who says nothing else.
    pub fn with_kvm(kernel: &Path, initramfs: &Path, limit_s: f64) -> Self {
        Boot {
            kernel: kernel.to_owned(),
            initramfs: vec![initramfs.to_owned()],
            memory: 256 << 20,
            cpus: 1,
            accelerator: Choice::Kvm,
            cpu_model: None,
            kernel_arg: Vec::new(),
            limit: limit_s,
            parent: None,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Choice {
    Kvm,
    Tcg,
}

/// Exit status 0 when the guest's agent answered; else 1, with the reason and what the guest
/// printed last on standard error.
pub fn main(options: &Boot) -> ExitCode {
    let printed = boot(options).and_then(|(hello, ready)| {
        let emitter = Emitter::stdout();
        emitter.emit(&Record::Hello(hello))?;
        emitter.emit(&Record::Node(ready))?;
        Ok(())
    });
    printed.map_or_else(|error| failed(&error), |()| ExitCode::SUCCESS)
}

/// Boots the guest and ends it, and says what its agent and its VMM said.
///
/// # Errors
/// It could not be started, or did not answer in time.
pub fn boot(options: &Boot) -> Result<(Hello, NodeReady)> {
    if let Some(parent) = options.parent {
        end_with(parent)?;
    }
    let (node, guest) = describe(options);
    // Asked once, and no part of a boot.
    jail::has_sandbox();
    let begin = Instant::now();
    let mut vmm = start(Spec::of(&node, &guest))?;
    let hello = match await_hello(&mut *vmm, Duration::from_secs_f64(options.limit)) {
        Ok(hello) => hello,
        Err(error) => bail!("{error:#}{}", last_lines(&*vmm)),
    };
    let start_s = begin.elapsed().as_secs_f64();
    let state = vmm.describe()?;
    let ready = NodeReady {
        node: NAME.into(),
        start_s,
        ready_s: start_s,
        accelerator: Some(state.accelerator),
        vmm: Some(state.version),
        vmm_argv: state.argv,
        paging: paging::of_guest(state.accelerator),
        backing: vmm.backing()?,
        ..NodeReady::default()
    };
    end(vmm)?;
    Ok((Hello { node: NAME.into(), ..hello }, ready))
}

/// Has the kernel kill this process when its parent ends, and QEMU with it.
fn end_with(parent: i32) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before that.
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(parent) {
        bail!("--parent {parent}: that process did not start this one, or has ended");
    }
    Ok(())
}

fn describe(options: &Boot) -> (Node, Guest) {
    let guest = Guest {
        cpus: options.cpus,
        memory: options.memory,
        accelerator: match options.accelerator {
            Choice::Kvm => Accelerator::Kvm,
            Choice::Tcg => Accelerator::Tcg,
        },
        kernel: options.kernel.clone(),
        initramfs: options.initramfs.clone(),
        boot_limit_s: options.limit,
        settings: GuestSettings {
            cpu_model: options.cpu_model.clone(),
            kernel_args: options.kernel_arg.clone(),
            ..GuestSettings::default()
        },
        shared_memory: None,
    };
    let kind = NodeKind::Guest(guest.clone());
    let node = Node {
        name: NAME.into(),
        kind,
        cpus: vec![],
        interfaces: vec![],
        routes: vec![],
        router: None,
        files: None,
        disk: None,
    };
    (node, guest)
}

/// Waits for the first record of a guest's agent, at most for `limit`.
pub fn await_hello(vmm: &mut dyn Vmm, limit: Duration) -> Result<Hello> {
    let deadline = Instant::now() + limit;
    let mut channel = vmm.channel().try_clone()?;
    let mut line = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            bail!("the guest did not answer within {:.1} s", limit.as_secs_f64());
        }
        let ended = read_line(&mut channel, &mut line, left.min(GLANCE))?;
        if line.ends_with(b"\n") {
            return parse_hello(&line);
        }
        if let Some(failure) = vmm.failure() {
            bail!("{failure}");
        }
        if ended {
            bail!("QEMU has closed the control channel");
        }
    }
}

/// Reads up to a newline; returns whether the channel has ended. One byte at a time, because what
/// follows the first record belongs to whoever reads on.
fn read_line(channel: &mut UnixStream, line: &mut Vec<u8>, limit: Duration) -> Result<bool> {
    let deadline = Instant::now() + limit;
    let mut byte = [0];
    while !line.ends_with(b"\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        channel.set_read_timeout(Some(left))?;
        match channel.read(&mut byte) {
            Ok(0) => return Ok(true),
            Ok(_) if line.len() == MAX_LINE => bail!("the guest sent a line without an end"),
            Ok(_) => line.push(byte[0]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

fn parse_hello(line: &[u8]) -> Result<Hello> {
    match Record::from_line(line) {
        Ok(Record::Hello(hello)) if hello.protocol == PROTOCOL => Ok(hello),
        Ok(Record::Hello(hello)) => bail!(
            "the guest's agent speaks protocol {}, this one {PROTOCOL}: build its initramfs anew",
            hello.protocol
        ),
        Ok(_) => bail!("the guest's first record is no hello"),
        Err(error) => bail!("the guest sent what is no record: {error}"),
    }
}

fn end(mut vmm: Box<dyn Vmm>) -> Result<()> {
    let order = NumberedOrder { number: 1, order: Order::End };
    let line = order.to_line()?;
    // A guest that does not take it is ended anyhow.
    let _ = vmm.channel().write_all(&line);
    vmm.await_end(GLANCE * 4);
    vmm.quit()?;
    Ok(())
}

fn last_lines(vmm: &dyn Vmm) -> String {
    let lines = vmm.console_tail();
    match lines.is_empty() {
        true => "\nThe guest printed nothing.".into(),
        false => format!("\nThe guest printed last:\n  {}", lines.join("\n  ")),
    }
}

pub fn parse_limit(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(limit) if limit > 0.0 && limit <= 3600.0 => Ok(limit),
        _ => Err("give seconds, more than 0 and at most 3600".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_record_must_be_a_hello() {
        assert!(parse_hello(b"{\"record\":\"teardown\",\"seconds_s\":1}\n").is_err());
        assert!(parse_hello(b"\xff\n").is_err());
    }

    #[test]
    fn a_line_without_an_end_is_refused() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let writer = std::thread::spawn(move || {
            // The reader goes away in the middle.
            let _ = far.write_all(&vec![b'x'; 2 * MAX_LINE]);
        });
        let mut line = Vec::new();
        let error = read_line(&mut near, &mut line, Duration::from_secs(60)).unwrap_err();
        assert_eq!(error.to_string(), "the guest sent a line without an end");
        drop(near);
        writer.join().unwrap();
    }
}
