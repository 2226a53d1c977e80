//! Sizes of an interface's rings, in descriptors.

use anyhow::{Result, bail, ensure};
use hypertare_plan::Knob;

use super::driver_parameter::targets;
use super::{Around, KnobKind, OTHER_KIND, Wanted};
use crate::net::driver_parameters::{DriverParameters, RINGS};
use crate::net::link::Links;

/// The knob.
pub struct Kind;

impl KnobKind for Kind {
    fn targets(&self, knob: &Knob, _: &Around) -> Result<Vec<Wanted>> {
        let Knob::RingSizes { interface, rx, tx } = knob else { bail!(OTHER_KIND) };
        // No interface's name has a colon.
        let interface = &match interface.contains(':') {
            true => Links::open()?.nic(interface)?,
            false => interface.clone(),
        };
        let of = DriverParameters::open(&RINGS, interface)?;
        let (asked, most) = ([("rx", *rx), ("tx", *tx)], of.most()?);
        for (name, size) in asked {
            if let (Some(size), Some(most)) = (size, most.get(name)) {
                ensure!(
                    u64::from(size) <= *most,
                    "the ring {name} of {interface} has at most {most} descriptors, not {size}"
                );
            }
        }
        targets(of, &asked)
    }

    fn shown(&self, interface: &str) -> Vec<(String, Knob)> {
        let interface = interface.to_owned();
        let knob = Knob::RingSizes { interface, rx: Some(1), tx: Some(1) };
        vec![("ring sizes".to_owned(), knob)]
    }
}
