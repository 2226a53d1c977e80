//! Settings of single NAPI instances, by the netlink family `netdev` (napi-get of Linux 6.8, with
//! the settings and napi-set of 6.13; Documentation/netlink/specs/netdev.yaml). A weight is not
//! among them.

use anyhow::{Context, Result, ensure};

use super::generic::{Attributes, Family, number};
use super::link::Links;

const GET: u8 = 11;
const SET: u8 = 14;
const INTERFACE_INDEX: u16 = 1;
const ID: u16 = 2;
const DEFER_HARD_IRQS: u16 = 5;
const GRO_FLUSH_TIMEOUT: u16 = 6;

/// How long interrupts stay off after polls without packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deferral {
    pub polls: u32,
    pub flush_timeout_ns: u64,
}

/// The NAPI instances of an interface.
pub struct Instances {
    family: Family,
    index: u32,
}

impl Instances {
    /// # Errors
    /// There is no such interface, or this kernel has no settings of single instances.
    pub fn open(interface: &str) -> Result<Self> {
        let index = Links::open()?.get(interface)?.index;
        let instances = Instances { family: Family::open("netdev")?, index };
        ensure!(
            !instances.deferrals()?.is_empty(),
            "the kernel has no settings of {interface}'s NAPI instances: it is older than 6.13, the \
             interface is down, or its driver has none"
        );
        Ok(instances)
    }

    /// Of every instance, with its number.
    pub fn deferrals(&self) -> Result<Vec<(u32, Deferral)>> {
        let asked = Attributes::default().with(INTERFACE_INDEX, &self.index.to_ne_bytes());
        let answers = self.family.dump(GET, asked).context("listing the NAPI instances")?;
        let told = answers.iter().filter_map(|answer| {
            let value = |kind| answer.get(&kind).and_then(|bytes| number(bytes));
            let deferral = Deferral {
                polls: value(DEFER_HARD_IRQS)? as u32,
                flush_timeout_ns: value(GRO_FLUSH_TIMEOUT)?,
            };
            Some((value(ID)? as u32, deferral))
        });
        Ok(told.collect())
    }

    pub fn defer(&self, id: u32, deferral: Deferral) -> Result<()> {
        let attributes = Attributes::default()
            .with(ID, &id.to_ne_bytes())
            .with(DEFER_HARD_IRQS, &deferral.polls.to_ne_bytes())
            .with(GRO_FLUSH_TIMEOUT, &deferral.flush_timeout_ns.to_ne_bytes());
        self.family.execute(SET, attributes).with_context(|| format!("setting NAPI instance {id}"))
    }
}
