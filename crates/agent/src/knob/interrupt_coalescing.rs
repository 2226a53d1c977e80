//! Interrupt coalescing of an interface.

use std::rc::Rc;

use anyhow::{Context, Result, ensure};

use super::{Place, Wanted};
use crate::net::coalescing::Coalescing;
use crate::net::ethtool::Ethtool;

struct Parameter {
    name: &'static str,
    interface: String,
    coalescing: Rc<Coalescing>,
}

/// `asked`: parameters by ethtool(8)'s names; those without a value are left alone.
pub fn places(interface: &str, asked: &[(&'static str, Option<u32>)]) -> Result<Vec<Wanted>> {
    let coalescing = Rc::new(Coalescing::open(interface)?);
    let there = coalescing.parameters()?;
    let given: Vec<(&'static str, u32)> =
        asked.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
    ensure!(!given.is_empty(), "interrupt coalescing of {interface}: nothing to set was given");
    let missing: Vec<&str> =
        given.iter().map(|(name, _)| *name).filter(|name| !there.contains_key(name)).collect();
    if !missing.is_empty() {
        let known: Vec<&str> = there.keys().copied().collect();
        let driver = Ethtool::open(interface)?.driver().unwrap_or_else(|| "unknown".to_owned());
        anyhow::bail!(
            "the driver of {interface}, {driver}, has no {}; it has: {}",
            missing.join(", "),
            known.join(", ")
        );
    }
    let wanted = given.into_iter().map(|(name, value)| Wanted {
        place: Box::new(Parameter {
            name,
            interface: interface.to_owned(),
            coalescing: coalescing.clone(),
        }),
        value: value.to_string(),
    });
    Ok(wanted.collect())
}

impl Place for Parameter {
    fn name(&self) -> &str {
        self.name
    }

    fn read(&self) -> Result<String> {
        let value = self.coalescing.parameters()?.get(self.name).copied();
        value
            .map(|value| value.to_string())
            .with_context(|| format!("{} has no {} any more", self.interface, self.name))
    }

    fn write(&self, value: &str) -> Result<()> {
        let number = value.parse().with_context(|| format!("{value:?} is not a number"))?;
        self.coalescing.set(self.name, number)
    }
}
