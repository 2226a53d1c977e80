//! Weights of schedulers: under Xen those of the driver domain and of guests; elsewhere those of the
//! cgroups with the threads that move guests' packets and with guests' virtual CPUs.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use hypertare_plan::Knob;

use super::{Around, KnobKind, KnobTarget, OTHER_KIND, Wanted};
use crate::process::cgroup::Scope;
use crate::process::weights::Groups;
use crate::xen::store::Store;
use crate::xen::{DRIVER_DOMAIN, Role, journal, role, scheduler, toolstack};

/// Where weights can be changed: a bench's groups with CPU weights, if it has some; and the scope that is
/// in the names of this run's Xen guests, on a host that is not the experiment's own.
#[derive(Clone, Default)]
pub struct Schedulers {
    pub groups: Option<Groups>,
    pub scope: Option<Scope>,
}

/// A guest, by its name for Xen's tools. It ends with the run, so its weight needs no journal.
struct Guest(String);

impl KnobTarget for Guest {
    fn name(&self) -> &'static str {
        "weight"
    }

    fn read(&self) -> Result<String> {
        Ok(scheduler::weight(scheduler::number_of(&self.0)?)?.to_string())
    }

    fn write(&self, value: &str) -> Result<()> {
        scheduler::set_weight(scheduler::number_of(&self.0)?, parse(value)?)
    }
}

/// The driver domain. If this run is killed, another process has to put its weight back.
struct Driver {
    scope: Option<Scope>,
    /// The weight that was read last.
    seen: RefCell<Option<String>>,
}

impl KnobTarget for Driver {
    fn name(&self) -> &'static str {
        "weight"
    }

    fn read(&self) -> Result<String> {
        let weight = scheduler::weight(DRIVER_DOMAIN)?.to_string();
        *self.seen.borrow_mut() = Some(weight.clone());
        Ok(weight)
    }

    fn write(&self, value: &str) -> Result<()> {
        let weight = parse(value)?;
        let Some(scope) = &self.scope else {
            return scheduler::set_weight(DRIVER_DOMAIN, weight);
        };
        let mut store = Store::open()?;
        let seen = self.seen.borrow().clone();
        journal::note(&mut store, scope, &seen.map_or_else(|| self.read(), Ok)?)?;
        scheduler::set_weight(DRIVER_DOMAIN, weight)?;
        if journal::noted(&mut store, scope)?.as_deref() == Some(value) {
            journal::strike_out(&mut store, scope)?;
        }
        Ok(())
    }
}

fn parse(value: &str) -> Result<u32> {
    value.parse().with_context(|| format!("{value:?} is no weight"))
}

/// A cgroup's weight, in that file's own scale.
struct Group(PathBuf);

impl KnobTarget for Group {
    fn name(&self) -> &str {
        self.0.file_name().and_then(|name| name.to_str()).unwrap_or("weight")
    }

    fn read(&self) -> Result<String> {
        let text =
            fs::read_to_string(&self.0).with_context(|| format!("reading {}", self.0.display()))?;
        Ok(text.trim().to_owned())
    }

    fn write(&self, value: &str) -> Result<()> {
        fs::write(&self.0, value).with_context(|| format!("writing {}", self.0.display()))
    }
}

/// The knob.
pub struct Kind;

impl KnobKind for Kind {
    fn targets(&self, knob: &Knob, around: &Around) -> Result<Vec<Wanted>> {
        let Knob::SchedulerWeight { weight, guest } = knob else { bail!(OTHER_KIND) };
        let (guest, schedulers) = (guest.as_deref(), &around.schedulers);
        if let Some(groups) = &schedulers.groups {
            let target = Box::new(Group(groups.file(guest)?));
            return Ok(vec![Wanted { target, value: Groups::value(*weight)?.to_string() }]);
        }
        if role() != Some(Role::Driver) {
            bail!("this is no driver domain of Xen, and the bench has no weights of its own");
        }
        let scope = schedulers.scope.as_ref();
        let target: Box<dyn KnobTarget> = match guest {
            Some(guest) => Box::new(Guest(toolstack::name(scope, guest))),
            None => Box::new(Driver { scope: scope.cloned(), seen: RefCell::default() }),
        };
        Ok(vec![Wanted { target, value: weight.to_string() }])
    }

    fn shown(&self, _: &str) -> Vec<(String, Knob)> {
        vec![("scheduler_weight".to_owned(), Knob::SchedulerWeight { weight: 256, guest: None })]
    }
}
