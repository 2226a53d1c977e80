//! Interrupt coalescing of an interface.

use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};
use hypertare_plan::Knob;

use super::{Around, KnobKind, OTHER_KIND, Place, Wanted};
use crate::net::coalescing::Coalescing;
use crate::net::ethtool::Ethtool;

struct Parameter {
    name: &'static str,
    interface: String,
    coalescing: Rc<Coalescing>,
}

/// The knob.
pub struct Kind;

impl KnobKind for Kind {
    fn places(&self, knob: &Knob, _: &Around) -> Result<Vec<Wanted>> {
        let Knob::InterruptCoalescing {
            interface,
            rx_usecs,
            rx_frames,
            tx_usecs,
            tx_frames,
            adaptive_rx,
        } = knob
        else {
            bail!(OTHER_KIND)
        };
        places(
            interface,
            &[
                ("adaptive-rx", adaptive_rx.map(u32::from)),
                ("rx-usecs", *rx_usecs),
                ("rx-frames", *rx_frames),
                ("tx-usecs", *tx_usecs),
                ("tx-frames", *tx_frames),
            ],
        )
    }

    fn shown(&self, interface: &str) -> Vec<(String, Knob)> {
        // Time, or packets: few drivers have both.
        let knob = |rx_usecs, rx_frames| Knob::InterruptCoalescing {
            interface: interface.to_owned(),
            rx_usecs,
            rx_frames,
            tx_usecs: None,
            tx_frames: None,
            adaptive_rx: None,
        };
        vec![
            ("coalescing rx_usecs".to_owned(), knob(Some(0), None)),
            ("coalescing rx_frames".to_owned(), knob(None, Some(0))),
        ]
    }
}

/// `asked`: parameters by ethtool(8)'s names; those without a value are left alone.
fn places(interface: &str, asked: &[(&'static str, Option<u32>)]) -> Result<Vec<Wanted>> {
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
