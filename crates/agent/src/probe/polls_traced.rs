//! Packets per poll of every interface where the project's module does not count them: a histogram on the
//! kernel's tracepoint napi:napi_poll (Documentation/trace/histogram.rst), in a tracing instance of this
//! probe's own. That takes some microseconds of each poll, which would change the result: it is for trials
//! that do not count.
//!
//! The tracepoint covers the whole machine: an interface of the same name in another network namespace
//! counts too. Tracing needs root of the machine itself, not of a container.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::napi::{self, Polls};
use super::tracing::{Instance, Row, histograms};
use super::{Counted, ProbeContext, ProbeKind, Source};
use crate::values::Definition;

/// By interface: `eth0.polls`; with them the histogram `eth0.packets_per_poll`. None where the module counts.
const VALUES: &[Definition] = &[
    ("*.polls", "polls", "times that the driver was polled"),
    ("*.polled_packets", "packets", "received in these polls"),
];

/// The probe.
pub const KIND: ProbeKind = ProbeKind {
    values: VALUES,
    source: Source::Watch(|probe_context| Ok(Box::new(Watch::start(probe_context)?))),
};

const EVENT: &str = "napi/napi_poll";

/// The histograms while they are counted.
pub struct Watch {
    /// None where the module counts.
    instance: Option<Instance>,
    interfaces: Vec<String>,
}

impl Watch {
    /// # Errors
    /// The kernel cannot trace polls here, and why.
    fn start(probe_context: &ProbeContext) -> Result<Self> {
        let interfaces = napi::interfaces()?;
        if napi::open_module(&probe_context.proc).is_ok() {
            return Ok(Watch { instance: None, interfaces });
        }
        let instance = Instance::make(&[EVENT])?;
        for name in &interfaces {
            instance.count(EVENT, &format!("hist:keys=work if dev_name == \"{name}\""))?;
        }
        Ok(Watch { instance: Some(instance), interfaces })
    }
}

impl super::Watch for Watch {
    fn counted(&self) -> Result<Counted> {
        let mut counted = Counted::default();
        if let Some(instance) = &self.instance {
            let mut found = parse(&instance.histogram(EVENT)?)?;
            for name in &self.interfaces {
                napi::add(&mut counted, name, found.remove(name).unwrap_or_default());
            }
        }
        Ok(counted)
    }
}

/// One histogram for each trigger; its filter names the interface.
fn parse(text: &str) -> Result<BTreeMap<String, Polls>> {
    let mut found = BTreeMap::new();
    for histogram in histograms(text)? {
        let filter = histogram.trigger.split_once("dev_name == \"");
        let Some((name, _)) = filter.and_then(|(_, rest)| rest.split_once('"')) else { continue };
        let polls: &mut Polls = found.entry(name.to_owned()).or_default();
        polls.dropped = histogram.dropped;
        for Row { keys, hits } in &histogram.rows {
            polls
                .by_packets
                .insert(*keys.get("work").context("a poll without its packets")?, *hits);
        }
    }
    Ok(found)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const TWO: &str = "\
# event histogram
#
# trigger info: hist:keys=work:vals=hitcount:sort=hitcount:size=2048 if dev_name == \"eth1\" [active]
#


Totals:
    Hits: 0
    Entries: 0
    Dropped: 0
# event histogram
#
# trigger info: hist:keys=work:vals=hitcount:sort=hitcount:size=2048 if dev_name == \"eth0\" [active]
#

{ work:         64 } hitcount:          3
{ work:          1 } hitcount:         12
{ work:          0 } hitcount:         40

Totals:
    Hits: 55
    Entries: 3
    Dropped: 2
";

    pub(crate) fn polls() -> Counted {
        let mut counted = Counted::default();
        for (name, polls) in parse(TWO).unwrap() {
            napi::add(&mut counted, &name, polls);
        }
        counted
    }

    #[test]
    fn every_trigger_is_its_interfaces() {
        let polls = polls();
        assert_eq!(
            (polls.values["eth0.polls"], polls.values["eth0.polled_packets"]),
            (55.0, 204.0)
        );
        assert_eq!(polls.values["eth1.polls"], 0.0);
        let buckets = &polls.histograms["eth0.packets_per_poll"].buckets;
        assert_eq!(buckets, &[(0, 40), (1, 12), (64, 3)]);
        assert!(!polls.histograms.contains_key("eth1.packets_per_poll"));
        assert_eq!(polls.notes, ["2 polls of eth0 had no room in the histogram"]);
    }

    #[test]
    fn a_broken_histogram_is_an_error() {
        assert!(parse(&TWO.replace("hitcount:          3", "hitcount: many")).is_err());
    }
}
