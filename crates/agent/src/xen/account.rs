//! What the hypervisor knows of domains: CPU time in nanoseconds, of which `xl list` shows tenths of a
//! second, too coarse for a trial of some seconds; and whether they run.
//!
//! The sysctl getdomaininfolist and the domctl gettscinfo. And VCPUOP_get_runstate_info, which a domain may
//! ask of its own virtual CPUs alone. Source: Xen 4.17, public/sysctl.h, public/domctl.h, public/vcpu.h.

use anyhow::{Context, Result, bail};
use hypertare_plan::TscMode;

use super::DRIVER_DOMAIN;
use super::hypercall::{Page, call, domctl, sysctl};

const HYPERVISOR_VCPU_OP: u64 = 24;
const GET_RUNSTATE_INFO: u64 = 4;
const GET_DOMAIN_INFO_LIST: u32 = 6;
const GET_TSC_INFO: u32 = 59;

/// struct xen_sysctl_getdomaininfolist
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct DomainInfoList {
    first_domain: u16,
    max_domains: u32,
    buffer: u64,
    num_domains: u32,
}

/// struct xen_domctl_tsc_info
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct TscInfo {
    mode: u32,
    khz: u32,
    incarnation: u32,
    pad: u32,
    elapsed_ns: u64,
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
#[derive(Clone, Copy)]
struct Runstate {
    state: i32,
    entered_ns: u64,
    times: [u64; 4],
}

/// RUNSTATE_runnable: ready to run, and on no CPU.
const RUNNABLE: usize = 1;

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
    let asked = TscInfo { mode: u32::MAX, khz: 0, incarnation: 0, pad: 0, elapsed_ns: 0 };
    match domctl(domain, GET_TSC_INFO, asked)?.mode {
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
    let list = DomainInfoList {
        first_domain: domain,
        max_domains: 1,
        buffer: answer.address(),
        num_domains: 0,
    };
    let (list, info) = (sysctl(GET_DOMAIN_INFO_LIST, list)?, answer.read());
    Ok((list.num_domains == 1 && info.domain == domain).then_some(info))
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    /// Computed by hand from the headers that are named above.
    #[test]
    fn layouts_are_those_of_the_headers() {
        assert_eq!(offset_of!(DomainInfoList, max_domains), 4);
        assert_eq!(offset_of!(DomainInfoList, buffer), 8);
        assert_eq!(offset_of!(DomainInfoList, num_domains), 16);
        assert_eq!(offset_of!(Runstate, times), 16);
        assert_eq!(size_of::<Runstate>(), 48);
        assert_eq!(offset_of!(TscInfo, elapsed_ns), 16);
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
