//! Keeps commands from changing the machine. A task's process confines itself before its first thread and
//! before the command, which inherits the confinement.
//!
//! The first wall is around the agent: user, PID, network, IPC and UTS namespaces
//! ([`crate::host::sandbox`]). But root of the machine can write to its files there, too. So a command gets
//! a mount namespace in which nothing can be changed ([`crate::node`]), and no capability to change mounts
//! or to break out. It may have namespaces of its own: in those it can mount no more than it was given.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, LinkNameSpaceType, capabilities, clear_ambient_capability_set,
    move_into_link_name_space, set_capabilities, set_no_new_privs,
};

use super::{syncs, system_calls};
use crate::capabilities::narrow_bounding_set;

/// Where a command runs, and as what.
#[derive(Clone, Copy)]
pub struct Confinement<'a> {
    /// The mount namespace whose root is the node's view of the files.
    pub namespace: BorrowedFd<'a>,
    /// As common runtimes of containers confine theirs: fewer capabilities, and a list of system
    /// calls.
    pub as_container: bool,
}

/// The capabilities of a container's root: Docker's list without `MKNOD`, which a user namespace cannot
/// give.
const OF_A_CONTAINER: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::AUDIT_WRITE);

/// Natively and in a guest a command may also set its own processes' priorities and memory limits.
const OF_A_HOST: CapabilitySet = OF_A_CONTAINER
    .union(CapabilitySet::SYS_NICE)
    .union(CapabilitySet::SYS_RESOURCE)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::IPC_OWNER)
    .union(CapabilitySet::NET_BROADCAST)
    .union(CapabilitySet::LEASE);

/// Confines the calling process, which must have one thread, and all that it starts. Returns the descriptor
/// by which calls that wait for a disk are watched ([`syncs`]), if they are to be.
pub fn enter(
    namespace: impl AsFd,
    as_container: bool,
    watch_syncs: bool,
) -> Result<Option<OwnedFd>> {
    // Whether this user namespace has no user except the one that made it.
    let map = std::fs::read_to_string("/proc/self/uid_map").context("cannot read /proc")?;
    let is_one_user = map.lines().filter_map(|line| line.split_ascii_whitespace().nth(2)).eq(["1"]);
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))
        .context("cannot enter the mount namespace of commands")?;
    // The machine's own collector of cores would keep the core of a program that crashes. At a limit of
    // 1 the kernel does not start it (core(5)), and no core file fits into one byte either.
    let none = Rlimit { current: Some(1), maximum: Some(1) };
    setrlimit(Resource::Core, none).context("cannot forbid cores")?;
    if is_one_user {
        // A set-uid program could become no other user anyway.
        set_no_new_privs(true).context("cannot forbid new privileges")?;
    }
    if as_container && system_calls::can_be_filtered() {
        system_calls::filter()?;
    }
    let syncs = if watch_syncs { syncs::filter() } else { None };
    let kept = if as_container { OF_A_CONTAINER } else { OF_A_HOST };
    clear_ambient_capability_set().context("cannot drop ambient capabilities")?;
    narrow_bounding_set(kept).context("cannot drop capabilities for good")?;
    let kept = kept & capabilities(None).context("cannot read capabilities")?.permitted;
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).context("cannot drop capabilities")?;
    Ok(syncs)
}
