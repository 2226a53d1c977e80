//! Numbers in a NIC's driver, as targets of knobs.

use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};

use super::{KnobTarget, Wanted};
use crate::net::driver_parameters::DriverParameters;
use crate::net::ethtool::Ethtool;

struct DriverParameter {
    name: &'static str,
    of: Rc<DriverParameters>,
}

/// `asked`: parameters by ethtool(8)'s names; those without a value are left alone.
///
/// # Errors
/// The driver lacks one.
pub fn targets(of: DriverParameters, asked: &[(&'static str, Option<u32>)]) -> Result<Vec<Wanted>> {
    let of = Rc::new(of);
    let (there, interface) = (of.all()?, &of.interface);
    let given: Vec<(&'static str, u32)> =
        asked.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
    ensure!(!given.is_empty(), "{} of {interface}: nothing to set was given", of.group.what);
    let missing: Vec<&str> =
        given.iter().map(|(name, _)| *name).filter(|name| !there.contains_key(name)).collect();
    if !missing.is_empty() {
        let known: Vec<&str> = there.keys().copied().collect();
        let driver = Ethtool::open(interface)?.driver().unwrap_or_else(|| "unknown".to_owned());
        bail!(
            "the driver of {interface}, {driver}, has no {}; it has: {}",
            missing.join(", "),
            known.join(", ")
        );
    }
    let wanted = given.into_iter().map(|(name, value)| Wanted {
        target: Box::new(DriverParameter { name, of: of.clone() }),
        value: value.to_string(),
    });
    Ok(wanted.collect())
}

impl KnobTarget for DriverParameter {
    fn name(&self) -> &str {
        self.name
    }

    fn read(&self) -> Result<String> {
        let value = self.of.all()?.get(self.name).copied();
        value
            .map(|value| value.to_string())
            .with_context(|| format!("{} has no {} any more", self.of.interface, self.name))
    }

    fn write(&self, value: &str) -> Result<()> {
        let number = value.parse().with_context(|| format!("{value:?} is not a number"))?;
        self.of.set(self.name, number)
    }
}
