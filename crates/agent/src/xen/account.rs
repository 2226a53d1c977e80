//! What the hypervisor knows of domains: CPU time in nanoseconds, of which `xl list` shows tenths of a
//! second, too coarse for a trial of some seconds; and whether they run, without starting a program.
//!
//! The sysctl getdomaininfolist and the domctl gettscinfo, through the kernel's /dev/xen/privcmd. Their
//! layout belongs to one version of Xen's tool interface, which they name; another version refuses them
//! with EACCES. And VCPUOP_get_runstate_info, which a domain may ask of its own virtual CPUs alone.
//! Source: Xen 4.17, public/sysctl.h, public/domctl.h, public/vcpu.h, and the kernel's
//! uapi/xen/privcmd.h.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result, bail};
use hypertare_plan::TscMode;

use super::DRIVER_DOMAIN;
use crate::net::frames::memory::Shared;

const HYPERVISOR_VCPU_OP: u64 = 24;
const GET_RUNSTATE_INFO: u64 = 4;
const HYPERVISOR_SYSCTL: u64 = 35;
const HYPERVISOR_DOMCTL: u64 = 36;
const GET_DOMAIN_INFO_LIST: u32 = 6;
const GET_TSC_INFO: u32 = 59;
/// XEN_SYSCTL_INTERFACE_VERSION and XEN_DOMCTL_INTERFACE_VERSION of Xen 4.17.
const INTERFACE_VERSION: u32 = 0x15;

/// _IOC(_IOC_NONE, 'P', 0, sizeof(struct privcmd_hypercall))
const HYPERCALL: libc::Ioctl = 48 << 16 | (b'P' as libc::Ioctl) << 8;

#[repr(C)]
struct Hypercall {
    op: u64,
    arguments: [u64; 5],
}

/// struct xen_sysctl with the member getdomaininfolist of its union, which has 128 bytes.
#[repr(C, align(8))]
struct Sysctl {
    cmd: u32,
    interface_version: u32,
    first_domain: u16,
    max_domains: u32,
    buffer: u64,
    num_domains: u32,
    rest: [u8; 108],
}

/// struct xen_domctl with the member tsc_info of its union, which has 128 bytes.
#[repr(C, align(8))]
struct Domctl {
    cmd: u32,
    interface_version: u32,
    domain: u16,
    pad: [u16; 3],
    tsc_mode: u32,
    gtsc_khz: u32,
    incarnation: u32,
    pad2: u32,
    elapsed_ns: u64,
    rest: [u8; 104],
}

/// struct xen_domctl_getdomaininfo.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct DomainInfo {
    domain: u16,
    pad1: u16,
    flags: u32,
    tot_pages: u64,
    max_pages: u64,
    outstanding_pages: u64,
    shr_pages: u64,
    paged_pages: u64,
    shared_info_frame: u64,
    cpu_time: u64,
    nr_online_vcpus: u32,
    max_vcpu_id: u32,
    ssidref: u32,
    handle: [u8; 16],
    cpupool: u32,
    gpaddr_bits: u8,
    pad2: [u8; 7],
    arch_emulation_flags: u32,
    pad3: u32,
}

/// struct vcpu_runstate_info: `times` in ns, by state.
#[repr(C)]
struct Runstate {
    state: i32,
    entered_ns: u64,
    times: [u64; 4],
}

/// RUNSTATE_runnable: ready to run, and on no CPU.
const RUNNABLE: usize = 1;

const PAGE: usize = 4096;

/// One page that the hypervisor may read and write, with what is at its begin.
struct Page<T> {
    memory: Shared,
    place: *mut T,
}

impl<T> Page<T> {
    fn new() -> Result<Self> {
        let file = File::options().read(true).write(true).open("/dev/xen/hypercall");
        let file = file.context("opening /dev/xen/hypercall: only a driver domain has it")?;
        let memory = Shared::map(&file, PAGE).context("mapping a buffer for the hypervisor")?;
        let place = std::ptr::with_exposed_provenance_mut(memory.address() as usize);
        Ok(Page { memory, place })
    }

    fn address(&self) -> u64 {
        self.memory.address()
    }

    /// What the hypervisor has written there.
    fn read(&self) -> T {
        const { assert!(size_of::<T>() <= PAGE) };
        // SAFETY: the page is mapped as long as `self`, and of numbers any bytes are valid.
        unsafe { self.place.read() }
    }
}

/// How a domain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Runs,
    Shutdown,
    Crashed,
    Gone,
}

/// XEN_DOMINF_dying, XEN_DOMINF_shutdown, and SHUTDOWN_crash in its place among the flags.
const DYING: u32 = 1;
const SHUTDOWN: u32 = 1 << 2;
const REASON_SHIFT: u32 = 16;
const CRASH: u32 = 3;

/// CPU time of a domain since its creation, in ns.
///
/// # Errors
/// This is no driver domain, the hypervisor is of another release, or there is no such domain.
pub fn cpu_ns(domain: u32) -> Result<u64> {
    let info = info(domain)?.with_context(|| format!("there is no domain {domain}"))?;
    Ok(info.cpu_time)
}

/// # Errors
/// This is no driver domain, or the hypervisor is of another release.
pub fn state(domain: u32) -> Result<State> {
    Ok(info(domain)?.map_or(State::Gone, |info| state_of(info.flags)))
}

/// How a domain reads the time-stamp counter: TSC_MODE_DEFAULT, _ALWAYS_EMULATE, _NEVER_EMULATE.
///
/// # Errors
/// As [`state`], or there is no such domain, or it has a mode of which a guest here is never.
pub fn tsc_mode(domain: u32) -> Result<TscMode> {
    let domctl = Domctl {
        cmd: GET_TSC_INFO,
        interface_version: INTERFACE_VERSION,
        domain: u16::try_from(domain).context("no domain has such a number")?,
        pad: [0; 3],
        tsc_mode: u32::MAX,
        gtsc_khz: 0,
        incarnation: 0,
        pad2: 0,
        elapsed_ns: 0,
        rest: [0; 104],
    };
    match ask(HYPERVISOR_DOMCTL, domctl)?.tsc_mode {
        0 => Ok(TscMode::Default),
        1 => Ok(TscMode::Emulate),
        2 => Ok(TscMode::Native),
        other => bail!("the domain {domain} has the TSC mode {other}, which is unknown"),
    }
}

/// Time in which virtual CPUs of this driver domain were ready to run while Xen ran others, in ns.
///
/// # Errors
/// As [`state`].
pub fn own_wait_ns() -> Result<u64> {
    let own = info(DRIVER_DOMAIN)?.context("the driver domain is not there")?;
    let answer = Page::<Runstate>::new()?;
    (0..=own.max_vcpu_id).try_fold(0, |waited, vcpu| {
        let arguments = [GET_RUNSTATE_INFO, u64::from(vcpu), answer.address(), 0, 0];
        call(HYPERVISOR_VCPU_OP, arguments)?;
        Ok(waited + answer.read().times[RUNNABLE])
    })
}

/// Asks the hypervisor something of numbers alone, and returns the request as it has filled that in.
fn ask<T>(op: u64, request: T) -> Result<T> {
    let page = Page::<T>::new()?;
    // SAFETY: the page is mapped, and larger than any request ([`Page::read`]).
    unsafe { page.place.write(request) };
    call(op, [page.address(), 0, 0, 0, 0])?;
    Ok(page.read())
}

/// A hypercall, whose arguments point into pages that live as long as it takes.
fn call(op: u64, arguments: [u64; 5]) -> Result<()> {
    let privcmd = File::options().read(true).write(true).open("/dev/xen/privcmd");
    let privcmd = privcmd.context("opening /dev/xen/privcmd: only a driver domain has it")?;
    let call = Hypercall { op, arguments };
    // SAFETY: `call` lives until the ioctl returns.
    if unsafe { libc::ioctl(privcmd.as_raw_fd(), HYPERCALL, &raw const call) } < 0 {
        return Err(io::Error::last_os_error()).context(
            "the hypervisor does not report domains (this agent speaks the interface of Xen 4.17)",
        );
    }
    Ok(())
}

fn state_of(flags: u32) -> State {
    match flags {
        flags if flags & DYING != 0 => State::Gone,
        flags if flags & SHUTDOWN == 0 => State::Runs,
        flags if flags >> REASON_SHIFT & 0xff == CRASH => State::Crashed,
        _ => State::Shutdown,
    }
}

fn info(domain: u32) -> Result<Option<DomainInfo>> {
    let domain = u16::try_from(domain).context("no domain has such a number")?;
    let answer = Page::<DomainInfo>::new()?;
    let sysctl = Sysctl {
        cmd: GET_DOMAIN_INFO_LIST,
        interface_version: INTERFACE_VERSION,
        first_domain: domain,
        max_domains: 1,
        buffer: answer.address(),
        num_domains: 0,
        rest: [0; 108],
    };
    let (sysctl, info) = (ask(HYPERVISOR_SYSCTL, sysctl)?, answer.read());
    Ok((sysctl.num_domains == 1 && info.domain == domain).then_some(info))
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    /// Computed by hand from the headers that are named above.
    #[test]
    fn layouts_are_those_of_the_headers() {
        assert_eq!(size_of::<Hypercall>(), 48);
        assert_eq!(size_of::<Sysctl>(), 8 + 128);
        assert_eq!(offset_of!(Sysctl, max_domains), 12);
        assert_eq!(offset_of!(Sysctl, buffer), 16);
        assert_eq!(offset_of!(Sysctl, num_domains), 24);
        assert_eq!(offset_of!(Runstate, times), 16);
        assert_eq!(size_of::<Runstate>(), 48);
        assert_eq!(size_of::<Domctl>(), 16 + 128);
        assert_eq!(offset_of!(Domctl, tsc_mode), 16);
        assert_eq!(offset_of!(Domctl, elapsed_ns), 32);
        assert_eq!(offset_of!(DomainInfo, cpu_time), 56);
        assert_eq!(offset_of!(DomainInfo, handle), 76);
        assert_eq!(size_of::<DomainInfo>(), 112);
    }

    #[test]
    fn flags_tell_the_state() {
        let reason = |reason: u32| SHUTDOWN | reason << REASON_SHIFT;
        // Of a PV guest: blocked, running, paused.
        for flags in [1 << 4, 1 << 5, 1 << 3] {
            assert_eq!(state_of(flags), State::Runs);
        }
        assert_eq!(state_of(reason(0)), State::Shutdown);
        assert_eq!(state_of(reason(1)), State::Shutdown);
        assert_eq!(state_of(reason(CRASH)), State::Crashed);
        assert_eq!(state_of(reason(CRASH) | DYING), State::Gone);
    }

    #[test]
    fn without_xen_the_reason_is_said() {
        let error = format!("{:#}", cpu_ns(0).unwrap_err());
        assert!(error.contains("/dev/xen/") && error.contains("only a driver domain"), "{error}");
    }
}
