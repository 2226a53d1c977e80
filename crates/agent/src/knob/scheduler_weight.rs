//! Weights of schedulers: in Xen's, of the driver domain and of guests; elsewhere of cgroups, of the
//! threads that move packets for guests and of guests' virtual CPUs.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::{Place, Wanted};
use crate::host::weights::Groups;
use crate::xen::{Role, role, scheduler};

/// A domain by the name that Xen's tools know it by.
struct Domain(String);

impl Place for Domain {
    fn name(&self) -> &str {
        "weight"
    }

    fn read(&self) -> Result<String> {
        Ok(scheduler::weight(&self.0)?.to_string())
    }

    fn write(&self, value: &str) -> Result<()> {
        let weight = value.parse().with_context(|| format!("{value:?} is no weight"))?;
        scheduler::set_weight(&self.0, weight)
    }
}

/// A cgroup's, in that cgroup's own scale.
struct Group(PathBuf);

impl Place for Group {
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

/// `guest`: nothing for the driver domain.
pub fn places(weight: u32, guest: Option<&str>, groups: Option<&Groups>) -> Result<Vec<Wanted>> {
    if let Some(groups) = groups {
        let place = Box::new(Group(groups.file(guest)?));
        return Ok(vec![Wanted { place, value: groups.value(weight)?.to_string() }]);
    }
    if role() != Some(Role::Driver) {
        bail!("this is no driver domain of Xen, and the bench has no weights of its own");
    }
    let domain = guest.unwrap_or(scheduler::DRIVER_DOMAIN).to_owned();
    Ok(vec![Wanted { place: Box::new(Domain(domain)), value: weight.to_string() }])
}
