//! Weights in Xen's scheduler, of the driver domain and of guests.

use anyhow::{Context, Result, bail};

use super::{Place, Wanted};
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

pub fn places(weight: u32, guest: Option<&str>) -> Result<Vec<Wanted>> {
    if role() != Some(Role::Driver) {
        bail!("this is no driver domain of Xen, so it has no scheduler's weight");
    }
    let domain = guest.unwrap_or(scheduler::DRIVER_DOMAIN).to_owned();
    Ok(vec![Wanted { place: Box::new(Domain(domain)), value: weight.to_string() }])
}
