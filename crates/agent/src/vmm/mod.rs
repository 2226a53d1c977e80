//! Guests' VMMs, seen from outside, as [`Vmm`] has them. [`qemu`], the only one today, runs one as its
//! [`spec`] says: [`guest_command_line`] is how, of what [`command_line`] has for all, [`port`] what is
//! behind its cards, [`initramfs`] what it boots, [`qmp`] how it is asked, [`console`] what it prints,
//! [`jail`] what keeps it from this host, [`backing`] and [`paging`] how its memory is mapped, [`tsc`] how
//! fast its clock counts, [`shared_files`] a directory that it works in. [`boot`] does that for one guest
//! alone.

pub mod backing;
pub mod boot;
pub mod command_line;
pub mod console;
pub mod guest_command_line;
pub mod initramfs;
pub mod jail;
pub mod paging;
pub mod port;
pub mod qemu;
pub mod qmp;
pub mod shared_files;
pub mod spec;
pub mod tsc;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::Result;
use hypertare_plan::{Accelerator, Backing};
use rustix::process::Pid;

/// A running VMM with one guest. Dropped, it is killed.
///
/// What a guest consists of comes with its [`spec::Spec`]: CPUs, memory, NICs and their ports, a disk, shared
/// files, the state that it is restored from. Another VMM implements this and starts from the same spec.
pub trait Vmm: Send {
    /// The control channel: orders in, records out. It ends when the VMM does; while the guest's agent
    /// is not there, orders wait.
    fn channel(&self) -> &UnixStream;

    /// What should keep a guest that broke out of the VMM from this host, and is not there.
    fn missing_walls(&self) -> &[String];

    /// Readable once the VMM's process has ended.
    fn handle(&self) -> Result<OwnedFd>;

    /// The VMM's process.
    fn pid(&self) -> Pid;

    /// Asks the VMM what it is and does.
    fn describe(&mut self) -> Result<VmmState>;

    /// How the machine maps the guest's memory, as far as the guest has used it; nothing where that
    /// cannot be seen.
    ///
    /// # Errors
    /// It is not mapped as was asked for, or that cannot be seen.
    fn backing(&self) -> Result<Option<Backing>>;

    /// Binds the threads of the virtual CPUs to CPUs of the machine, one to one. No CPUs: no bond.
    fn pin(&mut self, cpus: &[u32]) -> Result<()>;

    /// Binds the VMM's threads beside those of the virtual CPUs to a CPU of the machine, and what they
    /// start later with them.
    fn bind_own_threads(&mut self, cpu: u32) -> Result<()>;

    /// Saves the state of the guest, which goes on until that is done and stands still then.
    fn save(&mut self, limit: Duration) -> Result<File>;

    /// The last lines that the guest printed, safe to show.
    fn console_tail(&self) -> Vec<String>;

    /// Why the VM does not run any more, or must be taken for dead; `None` while it runs. To be
    /// asked when the channel ends, and now and then while waiting.
    fn failure(&mut self) -> Option<String>;

    /// Ends the VM: first by closing the channel, upon which its agent powers off, then by asking
    /// the VMM, then by force. Takes at most about 4 s. Where an orderly end matters, `Order::End`
    /// goes before.
    fn quit(&mut self) -> Result<Quit>;

    /// Waits until the VMM has ended by itself, and returns whether it did.
    fn await_end(&mut self, limit: Duration) -> bool;
}

/// What the VMM reports about itself.
#[derive(Clone, Debug, PartialEq)]
pub struct VmmState {
    /// In use, whatever was asked for.
    pub accelerator: Accelerator,
    pub version: String,
    /// Threads of the virtual CPUs, in the order of the CPUs.
    pub cpu_threads: Vec<i32>,
    pub argv: Vec<String>,
}

/// How a VM was brought to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quit {
    /// The guest powered off, or had ended before.
    PoweredOff,
    /// The VMM ended when asked to; the guest did not.
    Asked,
    /// Nothing else helped.
    Killed,
}

/// Starts a guest's VMM and returns at once: whether the guest boots is seen on its channel.
pub fn start(spec: spec::Spec) -> Result<Box<dyn Vmm>> {
    Ok(Box::new(qemu::Qemu::start(spec)?))
}
