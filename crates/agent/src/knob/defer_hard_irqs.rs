//! For how many polls without packets an interface's interrupt stays off, and after which time a timer
//! polls (Documentation/networking/napi.rst, "IRQ mitigation"). From Linux 6.13 on each NAPI instance has
//! a setting of its own, set by netlink; before, the interface has one for all instances, in sysfs.

use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use hypertare_plan::Knob;

use super::file::{File, present, sysctl};
use super::{Around, KnobKind, KnobTarget, OTHER_KIND, Wanted};
use crate::net::napi::{Deferral, Instances};
use crate::net::sysfs::InterfaceDirectory;

/// The knob.
pub struct Kind;

impl KnobKind for Kind {
    fn targets(&self, knob: &Knob, _: &Around) -> Result<Vec<Wanted>> {
        let Knob::DeferHardIrqs { interface, polls, flush_timeout_ns } = knob else {
            bail!(OTHER_KIND)
        };
        let wanted = Deferral { polls: *polls, flush_timeout_ns: *flush_timeout_ns };
        match Instances::open(interface) {
            Ok(instances) => {
                let instances = Rc::new(instances);
                let target = |(id, _)| Wanted {
                    target: Box::new(Instance {
                        name: format!("napi{id}"),
                        id,
                        instances: instances.clone(),
                    }),
                    value: text(wanted),
                };
                Ok(instances.deferrals()?.into_iter().map(target).collect())
            }
            Err(error) => of_interface(interface, wanted).map_err(|other| other.context(error)),
        }
    }

    fn shown(&self, interface: &str) -> Vec<(String, Knob)> {
        let interface = interface.to_owned();
        let knob = Knob::DeferHardIrqs { interface, polls: 0, flush_timeout_ns: 0 };
        vec![("defer_hard_irqs".to_owned(), knob)]
    }
}

struct Instance {
    name: String,
    id: u32,
    instances: Rc<Instances>,
}

fn text(deferral: Deferral) -> String {
    format!("{} polls, {} ns", deferral.polls, deferral.flush_timeout_ns)
}

fn parse(value: &str) -> Option<Deferral> {
    let (polls, time) = value.split_once(" polls, ")?;
    let flush_timeout_ns = time.strip_suffix(" ns")?.parse().ok()?;
    Some(Deferral { polls: polls.parse().ok()?, flush_timeout_ns })
}

impl KnobTarget for Instance {
    fn name(&self) -> &str {
        &self.name
    }

    fn read(&self) -> Result<String> {
        let all = self.instances.deferrals()?;
        let found = all.iter().find(|(id, _)| *id == self.id);
        found
            .map(|(_, deferral)| text(*deferral))
            .with_context(|| format!("the NAPI instance {} is gone", self.id))
    }

    fn write(&self, value: &str) -> Result<()> {
        let deferral = parse(value).with_context(|| format!("{value:?} is no deferral"))?;
        self.instances.defer(self.id, deferral)
    }
}

fn of_interface(interface: &str, wanted: Deferral) -> Result<Vec<Wanted>> {
    let directory = Arc::new(InterfaceDirectory::find(interface)?);
    let values = [
        ("napi_defer_hard_irqs", wanted.polls.to_string()),
        ("gro_flush_timeout", wanted.flush_timeout_ns.to_string()),
    ];
    let targets = values.into_iter().map(|(name, value)| {
        let file = sysctl(directory.path().join(name), name);
        let file = File { _directory: Some(directory.clone()), ..file };
        present(file, &value, "the kernel is older than 5.8")
    });
    targets.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deferral_is_a_text_and_back() {
        let deferral = Deferral { polls: 2, flush_timeout_ns: 200_000 };
        assert_eq!(text(deferral), "2 polls, 200000 ns");
        assert_eq!(parse(&text(deferral)), Some(deferral));
        assert_eq!(parse("2"), None);
    }
}
