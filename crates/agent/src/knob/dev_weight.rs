//! Packets that one poll may take from a CPU's backlog, in which steered packets wait and those that
//! software links hand on (Documentation/admin-guide/sysctl/net.rst, dev_weight).

use anyhow::{Result, bail};
use hypertare_plan::Knob;

use super::file::core_sysctl;
use super::{Around, KnobKind, OTHER_KIND, Wanted};

/// The knob.
pub struct Kind;

impl KnobKind for Kind {
    fn targets(&self, knob: &Knob, around: &Around) -> Result<Vec<Wanted>> {
        let Knob::DevWeight { packets } = knob else { bail!(OTHER_KIND) };
        Ok(vec![core_sysctl(around, "dev_weight", packets)?])
    }

    fn shown(&self, _: &str) -> Vec<(String, Knob)> {
        vec![("dev_weight".to_owned(), Knob::DevWeight { packets: 64 })]
    }
}
