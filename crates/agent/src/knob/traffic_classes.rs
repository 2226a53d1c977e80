//! Classes of traffic at the NIC through which a driver domain's guests send.

use anyhow::{Result, bail, ensure};
use hypertare_plan::Knob;

use super::{Around, KnobKind, KnobTarget, OTHER_KIND, Wanted};
use crate::net::classes::{self, Classes};
use crate::net::link::Links;

/// A NIC's classes, which are made or removed as a whole.
struct Uplink {
    links: Links,
    interface: String,
    wanted: Classes,
}

impl KnobTarget for Uplink {
    fn name(&self) -> &'static str {
        "traffic classes"
    }

    fn read(&self) -> Result<String> {
        classes::read(&self.links, &self.interface)
    }

    fn write(&self, value: &str) -> Result<()> {
        if value == classes::NONE {
            return classes::clear(&self.links, &self.interface);
        }
        ensure!(
            value == self.wanted.text(),
            "{} had classes of traffic of somebody else ({value}), which cannot be made again",
            self.interface
        );
        classes::set(&self.links, &self.interface, &self.wanted)
    }
}

/// The knob.
pub struct Kind;

impl KnobKind for Kind {
    fn targets(&self, knob: &Knob, _: &Around) -> Result<Vec<Wanted>> {
        let Knob::TrafficClasses { uplink, rate_bps, marked } = knob else { bail!(OTHER_KIND) };
        if let Some(marked) = marked {
            ensure!(marked.dscp < 64, "the mark {} is none: DSCP is 0 to 63", marked.dscp);
            ensure!(
                0 < marked.rate_bps && marked.rate_bps < *rate_bps,
                "a class of {} b/s leaves others nothing of {rate_bps} b/s",
                marked.rate_bps
            );
        }
        let links = Links::open()?;
        let interface = links.nic(uplink)?;
        let wanted = Classes { rate_bps: *rate_bps, marked: marked.clone() };
        ensure!(
            links.get(&interface)?.discipline != "htb",
            "{interface} has classes of traffic already, of which it is not known who made them"
        );
        let value = wanted.text();
        Ok(vec![Wanted { target: Box::new(Uplink { links, interface, wanted }), value }])
    }
}
