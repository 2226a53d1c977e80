//! Weight of the driver domain in Xen's scheduler. A guest has its weight from the bench.

use anyhow::{Context, Result, bail};

use super::{Place, Wanted};
use crate::xen::{Role, role, scheduler};

struct DriverDomain;

impl Place for DriverDomain {
    fn name(&self) -> &str {
        "weight"
    }

    fn read(&self) -> Result<String> {
        Ok(scheduler::weight(scheduler::DRIVER_DOMAIN)?.to_string())
    }

    fn write(&self, value: &str) -> Result<()> {
        let weight = value.parse().with_context(|| format!("{value:?} is no weight"))?;
        scheduler::set_weight(scheduler::DRIVER_DOMAIN, weight)
    }
}

pub fn places(weight: u32) -> Result<Vec<Wanted>> {
    if role() != Some(Role::Driver) {
        bail!("this is no driver domain of Xen, so it has no scheduler's weight");
    }
    Ok(vec![Wanted { place: Box::new(DriverDomain), value: weight.to_string() }])
}
