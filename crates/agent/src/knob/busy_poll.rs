//! Busy polling: how long a socket that waits polls its NIC itself
//! (Documentation/admin-guide/sysctl/net.rst, busy_poll and busy_read). busy_read is what
//! SO_BUSY_POLL is in every socket that is made from then on, so no workload has to set it.

use std::path::Path;

use anyhow::{Context, Result, bail};
use hypertare_plan::Knob;

use super::file::core_sysctl;
use super::{Around, KnobKind, OTHER_KIND, Wanted};

/// The knob.
pub struct Kind;

impl KnobKind for Kind {
    fn targets(&self, knob: &Knob, around: &Around) -> Result<Vec<Wanted>> {
        let Knob::BusyPoll { microseconds } = knob else { bail!(OTHER_KIND) };
        targets(&around.sysctls, *microseconds)
    }

    fn shown(&self, _: &str) -> Vec<(String, Knob)> {
        vec![("busy_poll".to_owned(), Knob::BusyPoll { microseconds: 0 })]
    }
}

/// `sysctls` is `/proc/sys/net`, but for tests.
fn targets(sysctls: &Path, microseconds: u32) -> Result<Vec<Wanted>> {
    let wanted = ["busy_poll", "busy_read"].map(|name| core_sysctl(sysctls, name, microseconds));
    let wanted: Result<Vec<Wanted>> = wanted.into_iter().collect();
    wanted.context("no busy polling (or the kernel is built without CONFIG_NET_RX_BUSY_POLL)")
}
