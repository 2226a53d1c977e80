//! Weights of the hypervisor's scheduler: a domain of twice the weight gets twice the CPU time where
//! there is not enough of it.

use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hypertare_plan::Scheduler;

use super::tools;

const LIMIT: Duration = Duration::from_secs(30);

/// Of both schedulers (xl(1), sched-credit and sched-credit2).
const WEIGHTS: std::ops::RangeInclusive<u32> = 1..=65535;

/// The driver domain's name for `xl`.
pub const DRIVER_DOMAIN: &str = "Domain-0";

/// The one that the machine was booted with, asked for once: a run of `xl` takes its time.
///
/// # Errors
/// `xl` does not report it, or it has no weights.
pub fn of_machine() -> Result<Scheduler> {
    static KNOWN: OnceLock<Scheduler> = OnceLock::new();
    if let Some(&known) = KNOWN.get() {
        return Ok(known);
    }
    ask().map(|found| *KNOWN.get_or_init(|| found))
}

fn ask() -> Result<Scheduler> {
    let info = tools::run("xl", &["info"], LIMIT)?;
    match value(&info, "xen_scheduler").context("xl does not report the scheduler")? {
        "credit" => Ok(Scheduler::Credit),
        "credit2" => Ok(Scheduler::Credit2),
        other => bail!("the scheduler {other} has no weights; boot Xen with sched=credit"),
    }
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

/// The word of `xl` for the machine's.
fn verb() -> Result<String> {
    Ok(format!("sched-{}", name(of_machine()?)))
}

pub fn weight(domain: &str) -> Result<u32> {
    let verb = verb()?;
    let table = tools::run("xl", &[&verb, "-d", domain], LIMIT)?;
    weight_of(&table, domain).with_context(|| format!("xl {verb} says nothing of {domain}"))
}

/// # Errors
/// The weight is none that a scheduler knows, or `xl` says no.
pub fn set_weight(domain: &str, weight: u32) -> Result<()> {
    if !WEIGHTS.contains(&weight) {
        bail!("a weight of {weight} cannot be: it lies between 1 and 65535");
    }
    tools::run("xl", &[&verb()?, "-d", domain, "-w", &weight.to_string()], LIMIT)?;
    Ok(())
}

/// A line like `xen_scheduler          : credit`.
fn value<'a>(info: &'a str, key: &str) -> Option<&'a str> {
    let mut lines = info.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
}

/// From the table of `xl sched-credit -d NAME`: name, number, weight.
fn weight_of(table: &str, domain: &str) -> Option<u32> {
    let mut rows = table.lines().map(|line| line.split_ascii_whitespace());
    rows.find_map(|mut row| (row.next()? == domain).then(|| row.nth(1)?.parse().ok())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_xl() {
        let table = "Name                                ID Weight  Cap\n\
                     Domain-0                             0    256    0\n";
        assert_eq!(weight_of(table, "Domain-0"), Some(256));
        assert_eq!(weight_of(table, "guest1"), None);
        let info = "xen_major              : 4\nxen_scheduler          : credit2\n";
        assert_eq!(value(info, "xen_scheduler"), Some("credit2"));
        assert_eq!(value(info, "xen"), None);
    }

    #[test]
    fn impossible_weights_are_refused_before_anything_is_asked() {
        for weight in [0, 65536] {
            let error = set_weight("guest1", weight).unwrap_err().to_string();
            assert!(error.contains("between 1 and 65535"), "{error}");
        }
    }
}
