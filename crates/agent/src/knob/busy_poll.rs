//! Busy polling: how long a waiting socket polls its NIC itself
//! (Documentation/admin-guide/sysctl/net.rst, busy_poll and busy_read). busy_read becomes SO_BUSY_POLL of
//! every socket that is made from then on, so no workload has to set it.

use anyhow::{Context, Result, bail};
use hypertare_plan::Knob;

use super::file::core_sysctl;
use super::{Around, KnobKind, OTHER_KIND, Wanted};

/// The knob.
pub struct Kind;

impl KnobKind for Kind {
    fn targets(&self, knob: &Knob, around: &Around) -> Result<Vec<Wanted>> {
        let Knob::BusyPoll { microseconds } = knob else { bail!(OTHER_KIND) };
        let names = ["busy_poll", "busy_read"];
        let wanted = names.map(|name| core_sysctl(around, name, microseconds));
        wanted
            .into_iter()
            .collect::<Result<_>>()
            .context("no busy polling (or the kernel is built without CONFIG_NET_RX_BUSY_POLL)")
    }

    fn shown(&self, _: &str) -> Vec<(String, Knob)> {
        vec![("busy_poll".to_owned(), Knob::BusyPoll { microseconds: 0 })]
    }
}
