//! The MTU of an interface.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hypertare_plan::Knob;

use super::{Around, KnobKind, KnobTarget, OTHER_KIND, Wanted};
use crate::net::Links;

/// Below this the kernel switches IPv6 off on a link (RFC 8200, section 5).
const LEAST_FOR_IPV6: u32 = 1280;

/// Time for hardware to negotiate, which takes seconds.
const CARRIER_LIMIT: Duration = Duration::from_secs(10);

struct Mtu {
    name: String,
    interface: String,
    links: Links,
}

/// The knob.
pub struct Kind;

impl KnobKind for Kind {
    fn targets(&self, knob: &Knob, _: &Around) -> Result<Vec<Wanted>> {
        let Knob::Mtu { interface, bytes } = knob else { bail!(OTHER_KIND) };
        let links = Links::open()?;
        links.get(interface)?;
        // The link-local address does not count: it comes back by itself.
        let is_lost = |one: &String| one.contains(':') && !one.starts_with("fe80:");
        ensure!(
            *bytes >= LEAST_FOR_IPV6 || !links.addresses(interface)?.iter().any(is_lost),
            "{interface} has IPv6 addresses, which the kernel takes away below {LEAST_FOR_IPV6} bytes \
             and which would not come back with the old MTU: use IPv4 for an MTU of {bytes}"
        );
        let (name, interface) = (format!("mtu of {interface}"), interface.clone());
        let target = Box::new(Mtu { name, interface, links });
        Ok(vec![Wanted { target, value: bytes.to_string() }])
    }

    fn shown(&self, interface: &str) -> Vec<(String, Knob)> {
        vec![("mtu".to_owned(), Knob::Mtu { interface: interface.to_owned(), bytes: 1500 })]
    }
}

impl KnobTarget for Mtu {
    fn name(&self) -> &str {
        &self.name
    }

    fn read(&self) -> Result<String> {
        Ok(self.links.get(&self.interface)?.mtu.to_string())
    }

    fn write(&self, value: &str) -> Result<()> {
        let bytes = value.parse().with_context(|| format!("{value:?} is not an MTU"))?;
        let had_carrier = self.links.get(&self.interface)?.carrier;
        self.links.set_mtu(&self.interface, bytes)?;
        // Some drivers restart, and drop the packets that are sent meanwhile.
        match had_carrier {
            true => self.links.wait_for_carrier(&self.interface, CARRIER_LIMIT),
            false => Ok(()),
        }
    }
}
