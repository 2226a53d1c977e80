//! An offload of an interface.

use anyhow::{Result, bail};
use hypertare_plan::Knob;

use super::{Around, KnobKind, OTHER_KIND, Place, Wanted};
use crate::net::ethtool::{self, Ethtool};

struct Offload {
    name: String,
    offload: String,
    ethtool: Ethtool,
}

/// The knob.
pub struct Kind;

impl KnobKind for Kind {
    fn places(&self, knob: &Knob, _: &Around) -> Result<Vec<Wanted>> {
        let Knob::Offload { interface, offload, on } = knob else { bail!(OTHER_KIND) };
        places(interface, offload, *on)
    }

    fn shown(&self, interface: &str) -> Vec<(String, Knob)> {
        let Ok(state) = ethtool::state(interface) else { return vec![] };
        let knob = |offload| Knob::Offload { interface: interface.to_owned(), offload, on: true };
        let offloads = state.offloads.into_keys();
        offloads.map(|offload| (format!("offload {offload}"), knob(offload))).collect()
    }
}

fn places(interface: &str, offload: &str, on: bool) -> Result<Vec<Wanted>> {
    let place = Offload {
        name: format!("{offload} of {interface}"),
        offload: offload.to_owned(),
        ethtool: Ethtool::open(interface)?,
    };
    place.read()?;
    Ok(vec![Wanted { place: Box::new(place), value: text(on).to_owned() }])
}

impl Place for Offload {
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
