//! The MTU of an interface.

use anyhow::{Context, Result};

use super::{Place, Wanted};
use crate::net::Links;

struct Mtu {
    name: String,
    interface: String,
    links: Links,
}

pub fn places(interface: &str, bytes: u32) -> Result<Vec<Wanted>> {
    let links = Links::open()?;
    links.get(interface)?;
    let place = Mtu { name: format!("mtu of {interface}"), interface: interface.to_owned(), links };
    Ok(vec![Wanted { place: Box::new(place), value: bytes.to_string() }])
}

impl Place for Mtu {
    fn name(&self) -> &str {
        &self.name
    }

    fn read(&self) -> Result<String> {
        Ok(self.links.get(&self.interface)?.mtu.to_string())
    }

    fn write(&self, value: &str) -> Result<()> {
        let bytes = value.parse().with_context(|| format!("{value:?} is not an MTU"))?;
        self.links.set_mtu(&self.interface, bytes)
    }
}
