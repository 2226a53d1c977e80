//! Interrupt coalescing of an interface.

use anyhow::{Result, bail};
use hypertare_plan::Knob;

use super::driver_parameter::targets;
use super::{Around, KnobKind, OTHER_KIND, Wanted};
use crate::net::driver_parameters::{COALESCING, DriverParameters};

/// The knob.
pub struct Kind;

impl KnobKind for Kind {
    fn targets(&self, knob: &Knob, _: &Around) -> Result<Vec<Wanted>> {
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
        targets(
            DriverParameters::open(&COALESCING, interface)?,
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
