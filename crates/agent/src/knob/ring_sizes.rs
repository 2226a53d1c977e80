//! Sizes of an interface's rings, in descriptors.

use anyhow::{Result, bail, ensure};
use hypertare_plan::Knob;

use super::driver_parameter::places;
use super::{Around, KnobKind, OTHER_KIND, Wanted};
use crate::net::driver_parameters::{DriverParameters, RINGS};

/// The knob.
pub struct Kind;

impl KnobKind for Kind {
    fn places(&self, knob: &Knob, _: &Around) -> Result<Vec<Wanted>> {
        let Knob::RingSizes { interface, rx, tx } = knob else { bail!(OTHER_KIND) };
        let wanted = places(&RINGS, interface, &[("rx", *rx), ("tx", *tx)])?;
        let there = DriverParameters::open(&RINGS, interface)?.all()?;
        for (asked, name, most) in [(rx, "rx", "rx-max"), (tx, "tx", "tx-max")] {
            if let (Some(asked), Some(most)) = (asked, there.get(most)) {
                ensure!(
                    u64::from(*asked) <= *most,
                    "the ring {name} of {interface} has at most {most} descriptors, not {asked}"
                );
            }
        }
        Ok(wanted)
    }

    fn shown(&self, interface: &str) -> Vec<(String, Knob)> {
        let interface = interface.to_owned();
        let knob = Knob::RingSizes { interface, rx: Some(1), tx: Some(1) };
        vec![("ring sizes".to_owned(), knob)]
    }
}
