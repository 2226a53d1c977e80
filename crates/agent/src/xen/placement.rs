//! Virtual CPUs of domains, and on which of the machine's they may run: `xl vcpu-list`.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hypertare_plan::VirtualCpus;

use super::tools;
use crate::process::cpu_list;

const LIMIT: Duration = Duration::from_secs(30);

/// The driver domain's name for `xl`.
const DRIVER_DOMAIN: &str = "Domain-0";

/// The driver domain's, asked for once: nobody changes them while a bench stands.
///
/// # Errors
/// `xl` does not report it.
pub fn of_driver() -> Result<VirtualCpus> {
    static KNOWN: OnceLock<VirtualCpus> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(known.clone());
    }
    of(DRIVER_DOMAIN).map(|found| KNOWN.get_or_init(|| found).clone())
}

/// # Errors
/// `xl` does not report it.
pub fn of(domain: &str) -> Result<VirtualCpus> {
    let table = tools::run("xl", &["vcpu-list", domain], LIMIT)?;
    read(&table, domain).with_context(|| format!("xl vcpu-list reports {domain}: {table}"))
}

/// If no CPUs are asked for, any that the host gives its guests are accepted (vm.cpumask in xl.conf(5), a
/// pool of CPUs).
///
/// # Errors
/// A domain has other virtual CPUs than were asked for, or they may run elsewhere.
pub fn require(domain: &str, found: &VirtualCpus, wanted: &VirtualCpus) -> Result<()> {
    ensure!(
        found.count == wanted.count && (wanted.on.is_empty() || found.on == wanted.on),
        "Xen gives {domain} {}, and not {}",
        described(found),
        described(wanted)
    );
    Ok(())
}

fn described(cpus: &VirtualCpus) -> String {
    let on = match cpus.on.is_empty() {
        true => "any CPU".to_owned(),
        false => format!("CPU {}", cpu_list::to_list(&cpus.on.iter().copied().collect())),
    };
    format!("{} virtual CPU(s) on {on}", cpus.count)
}

/// Columns: name, number, virtual CPU, CPU (`-` where it is not online), state, time, and the CPUs on
/// which it has to run and those on which it had better, with a slash between them.
fn read(table: &str, domain: &str) -> Result<VirtualCpus> {
    let mut count = 0;
    let mut on = BTreeSet::new();
    let mut anywhere = false;
    for line in table.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [name, _, _, cpu, _, _, hard, ..] = words[..] else { continue };
        if name != domain || cpu == "-" {
            continue;
        }
        count += 1;
        match hard {
            "all" => anywhere = true,
            list => on.append(&mut cpu_list::parse_list(list)?),
        }
    }
    ensure!(count > 0, "it has none that is online");
    let on = if anywhere { Vec::new() } else { on.into_iter().collect() };
    Ok(VirtualCpus { count, on })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "Name                                ID  VCPU   CPU State   Time(s) Affinity (Hard / Soft)\n";

    fn reported(rows: &[&str]) -> String {
        HEAD.to_owned() + &rows.join("\n")
    }

    #[test]
    fn the_table_of_xl() {
        let table = reported(&[
            "Domain-0                             0     0    0   -b-      10.2  0 / all",
            "Domain-0                             0     1    1   r--       9.1  1 / all",
            "guest1                               1     0    2   -b-       0.4  2-3 / all",
            "guest1                               1     1    -   --p       0.0  2-3 / all",
            "guest2                               2     0    3   -b-       0.4  all / all",
        ]);
        let of = |domain| read(&table, domain).unwrap();
        assert_eq!(of("Domain-0"), VirtualCpus { count: 2, on: vec![0, 1] });
        assert_eq!(of("guest1"), VirtualCpus { count: 1, on: vec![2, 3] });
        assert_eq!(of("guest2"), VirtualCpus { count: 1, on: vec![] });
        assert!(read(&table, "guest3").unwrap_err().to_string().contains("none that is online"));
    }

    #[test]
    fn another_placement_is_reported_beside_what_was_asked_for() {
        let found = VirtualCpus { count: 2, on: vec![] };
        assert!(require("guest1", &found, &found).is_ok());
        let masked = VirtualCpus { count: 2, on: vec![4, 5] };
        assert!(require("guest1", &masked, &found).is_ok());
        let wanted = VirtualCpus { count: 1, on: vec![1, 2, 3] };
        let error = require("guest1", &found, &wanted).unwrap_err().to_string();
        assert_eq!(
            error,
            "Xen gives guest1 2 virtual CPU(s) on any CPU, and not 1 virtual CPU(s) on CPU 1-3"
        );
    }
}
