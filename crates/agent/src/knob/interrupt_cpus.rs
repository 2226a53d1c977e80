//! CPUs that serve an interface's interrupts (/proc/irq/N/smp_affinity_list). All its interrupts get the
//! same set, from which the kernel chooses.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use hypertare_plan::Knob;

use super::file::{File, sysctl};
use super::{Around, KnobKind, OTHER_KIND, Wanted};
use crate::net::interrupts;
use crate::process::cpu_list;

/// The knob.
pub struct Kind;

impl KnobKind for Kind {
    fn targets(&self, knob: &Knob, _: &Around) -> Result<Vec<Wanted>> {
        let Knob::InterruptCpus { interface, cpus } = knob else { bail!(OTHER_KIND) };
        ensure!(!cpus.is_empty(), "interrupts need at least one CPU, and none was given");
        let value = cpu_list::wanted(cpus)?;
        let numbers = interrupts::of_interface(interface)?;
        Ok(numbers.iter().map(|&number| wanted(Path::new("/proc/irq"), number, &value)).collect())
    }

    fn shown(&self, interface: &str) -> Vec<(String, Knob)> {
        let interface = interface.to_owned();
        vec![("interrupt_cpus".to_owned(), Knob::InterruptCpus { interface, cpus: vec![0] })]
    }
}

fn wanted(irqs: &Path, number: u32, value: &str) -> Wanted {
    let path = irqs.join(format!("{number}/smp_affinity_list"));
    let target = File { parse: cpu_list::canonical, ..sysctl(path, &format!("irq{number}")) };
    Wanted { target: Box::new(target), value: value.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::Setting;
    use super::*;

    #[test]
    fn every_interrupt_gets_the_set_and_its_own_back() {
        let root = tempfile::tempdir().unwrap();
        for (number, list) in [(38, "0-3\n"), (39, "2\n")] {
            std::fs::create_dir(root.path().join(number.to_string())).unwrap();
            std::fs::write(root.path().join(format!("{number}/smp_affinity_list")), list).unwrap();
        }
        let knob = Knob::InterruptCpus { interface: "eth0".into(), cpus: vec![1] };
        let wanted = [38, 39].map(|number| wanted(root.path(), number, "1")).into();
        let change = Setting { knob, wanted }.apply().unwrap();
        assert_eq!(change.before, "irq38=0-3 irq39=2");
        assert_eq!(change.after, "irq38=1 irq39=1");
        assert_eq!(change.put_back().unwrap(), "irq38=0-3 irq39=2");
    }

    #[test]
    fn no_cpu_is_no_answer() {
        let refusal = |cpus| {
            let knob = Knob::InterruptCpus { interface: "lo".into(), cpus };
            Setting::of(&knob).err().unwrap().to_string()
        };
        assert!(refusal(vec![]).contains("at least one"));
        assert!(refusal(vec![100_000]).contains("there is no CPU"));
    }
}
