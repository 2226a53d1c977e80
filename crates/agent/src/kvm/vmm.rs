//! `hypertare-agent kvm-vmm`: one guest, in a process of its own that the host agent starts, so that
//! its CPU time is its own too.

use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::memory::{self, Pages};
use super::{boot, machine::Machine};

pub const NAME: &str = "kvm-vmm";

/// Orders in, records out; put there by whoever starts this.
pub const CHANNEL: RawFd = 3;

/// Run a guest of KVM with its serial line on standard output
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[arg(long)]
    kernel: PathBuf,
    #[arg(long, required = true)]
    initramfs: Vec<PathBuf>,
    /// Bytes
    #[arg(long)]
    memory: u64,
    #[arg(long, value_enum, default_value_t = Pages::Any)]
    pages: Pages,
    /// The kernel's command line
    #[arg(long, allow_hyphen_values = true)]
    append: String,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let channel = channel()?;
    let memory = memory::map(arguments.memory, arguments.pages)?;
    let entry =
        boot::load(&memory, &arguments.kernel, &arguments.initramfs, &arguments.append)?;
    let printed = File::options().write(true).open("/proc/self/fd/1");
    let printed = printed.context("standard output is closed")?;
    Machine::new(memory, entry, printed, &channel)?.run(channel)
}

fn channel() -> Result<UnixStream> {
    // SAFETY: whoever starts this has put it there; nobody else here owns the number.
    let channel = unsafe { OwnedFd::from_raw_fd(CHANNEL) };
    rustix::io::fcntl_setfd(&channel, rustix::io::FdFlags::CLOEXEC)
        .context("this subcommand is started by the host agent only")?;
    Ok(UnixStream::from(channel))
}
