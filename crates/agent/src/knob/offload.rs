//! An offload of an interface, or of all ports of a bridge.

use anyhow::{Result, bail, ensure};
use hypertare_plan::Knob;

use super::{Around, KnobKind, KnobTarget, OTHER_KIND, Wanted};
use crate::net::Links;
use crate::net::ethtool::{self, Ethtool};

struct Offload {
    name: String,
    offload: String,
    ethtool: Ethtool,
}

/// The knob.
pub struct Kind;

impl KnobKind for Kind {
    fn targets(&self, knob: &Knob, _: &Around) -> Result<Vec<Wanted>> {
        let Knob::Offload { interface, offload, on, ports } = knob else { bail!(OTHER_KIND) };
        let interfaces = if *ports { ports_of(interface)? } else { vec![interface.clone()] };
        interfaces.iter().map(|interface| target(interface, offload, *on)).collect()
    }

    fn shown(&self, interface: &str) -> Vec<(String, Knob)> {
        let Ok(state) = ethtool::state(interface) else { return vec![] };
        let knob = |offload| Knob::Offload {
            interface: interface.to_owned(),
            offload,
            on: true,
            ports: false,
        };
        let offloads = state.offloads.into_keys();
        offloads.map(|offload| (format!("offload {offload}"), knob(offload))).collect()
    }
}

/// The names of a bridge's ports, in the order in which they were made.
///
/// # Errors
/// It is no bridge, or has no ports: the offload would be set nowhere.
fn ports_of(bridge: &str) -> Result<Vec<String>> {
    let links = Links::open()?;
    let index = links.get(bridge)?.index;
    let mut ports = links.list()?;
    ports.retain(|link| link.master == Some(index));
    ports.sort_by_key(|link| link.index);
    ensure!(!ports.is_empty(), "{bridge} has no ports");
    Ok(ports.into_iter().map(|link| link.name).collect())
}

fn target(interface: &str, offload: &str, on: bool) -> Result<Wanted> {
    let target = Offload {
        name: format!("{offload} of {interface}"),
        offload: offload.to_owned(),
        ethtool: Ethtool::open(interface)?,
    };
    target.read()?;
    Ok(Wanted { target: Box::new(target), value: text(on).to_owned() })
}

impl KnobTarget for Offload {
    fn name(&self) -> &str {
        &self.name
    }

    fn read(&self) -> Result<String> {
        Ok(text(self.ethtool.offload(&self.offload)?).to_owned())
    }

    fn write(&self, value: &str) -> Result<()> {
        match value {
            "on" => self.ethtool.set_offload(&self.offload, true),
            "off" => self.ethtool.set_offload(&self.offload, false),
            _ => bail!("an offload is on or off, not {value:?}"),
        }
    }
}

fn text(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}
