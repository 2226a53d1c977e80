//! Weights of the hypervisor's scheduler: a domain of twice the weight gets twice the CPU time where
//! there is not enough of it.
//!
//! The sysctl sched_id and the domctl scheduler_op. Source: Xen 4.17, public/sysctl.h, public/domctl.h.

use anyhow::{Context, Result, bail};
use hypertare_plan::Scheduler;

use super::hypercall::{domctl, sysctl};
use super::store::Store;

/// Of both schedulers (xl(1), sched-credit and sched-credit2).
const WEIGHTS: std::ops::RangeInclusive<u32> = 1..=65535;

const SCHED_ID: u32 = 4;
const SCHEDULER_OP: u32 = 16;
const PUT_INFO: u32 = 0;
const GET_INFO: u32 = 1;
/// XEN_SCHEDULER_CREDIT, XEN_SCHEDULER_CREDIT2
const IDS: [(u32, Scheduler); 2] = [(5, Scheduler::Credit), (6, Scheduler::Credit2)];

/// struct xen_domctl_scheduler_op, with what its union has for both schedulers.
#[repr(C)]
#[derive(Clone, Copy)]
struct SchedulerOp {
    id: u32,
    cmd: u32,
    weight: u16,
    cap: u16,
}

/// The one that the machine was booted with.
///
/// # Errors
/// The hypervisor does not report it, or it has no weights.
pub fn of_machine() -> Result<Scheduler> {
    let found = id()?;
    let known = IDS.into_iter().find(|&(id, _)| id == found);
    let (_, known) = known.with_context(|| {
        format!("Xen's scheduler number {found} has no weights; boot Xen with sched=credit")
    })?;
    Ok(known)
}

fn id() -> Result<u32> {
    sysctl(SCHED_ID, 0_u32).context("asking which scheduler Xen runs")
}

/// # Errors
/// The machine was booted with another one.
pub fn require(wanted: Scheduler) -> Result<()> {
    let found = of_machine()?;
    if found != wanted {
        let (found, wanted) = (name(found), name(wanted));
        bail!("Xen runs the scheduler {found}, not {wanted}: boot it with sched={wanted}");
    }
    Ok(())
}

fn name(scheduler: Scheduler) -> &'static str {
    match scheduler {
        Scheduler::Credit => "credit",
        Scheduler::Credit2 => "credit2",
    }
}

/// # Errors
/// There is no such domain, or the hypervisor says no.
pub fn weight(domain: u32) -> Result<u32> {
    Ok(settings(domain)?.weight.into())
}

/// # Errors
/// The weight is none that a scheduler knows, or as [`weight`].
pub fn set_weight(domain: u32, weight: u32) -> Result<()> {
    let known = WEIGHTS.contains(&weight).then(|| u16::try_from(weight).ok()).flatten();
    let Some(weight) = known else {
        bail!("a weight of {weight} cannot be: it lies between 1 and 65535");
    };
    let changed = SchedulerOp { cmd: PUT_INFO, weight, ..settings(domain)? };
    let set = domctl(domain, SCHEDULER_OP, changed);
    set.map(drop).with_context(|| format!("setting the weight of domain {domain}"))
}

/// Weight and cap: both are set at once, so that the cap has to be known.
fn settings(domain: u32) -> Result<SchedulerOp> {
    let asked = SchedulerOp { id: id()?, cmd: GET_INFO, weight: 0, cap: 0 };
    let found = domctl(domain, SCHEDULER_OP, asked);
    found.with_context(|| format!("reading the weight of domain {domain}"))
}

/// The number of a guest.
///
/// # Errors
/// There is none of this name.
pub fn number_of(guest: &str) -> Result<u32> {
    let domains = Store::open()?.domains()?;
    let found = domains.into_iter().find(|(_, name)| name == guest);
    found.map(|(number, _)| number).with_context(|| format!("Xen has no guest {guest}"))
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    /// Computed by hand from the header that is named above.
    #[test]
    fn the_layout_is_that_of_the_header() {
        assert_eq!(offset_of!(SchedulerOp, weight), 8);
        assert_eq!(offset_of!(SchedulerOp, cap), 10);
    }

    #[test]
    fn impossible_weights_are_refused_before_anything_is_asked() {
        for weight in [0, 65536] {
            let error = set_weight(1, weight).unwrap_err().to_string();
            assert!(error.contains("between 1 and 65535"), "{error}");
        }
    }
}
