//! Settings of single NAPI instances, by the netlink family `netdev` (napi-get of Linux 6.8, with
//! the settings and napi-set of 6.13; Documentation/netlink/specs/netdev.yaml). A weight is not
//! among them.

use anyhow::{Context, Result, ensure};

use super::generic::{Answer, Attributes, Family, number};
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
        Ok(answers.iter().filter_map(reported).collect())
    }

    pub fn defer(&self, id: u32, deferral: Deferral) -> Result<()> {
        self.family
            .execute(SET, setting(id, deferral))
            .with_context(|| format!("setting NAPI instance {id}"))
    }
}

/// None of an instance without settings: the kernel is older than they are.
fn reported(answer: &Answer) -> Option<(u32, Deferral)> {
    let value = |kind| answer.get(&kind).and_then(|bytes| number(bytes));
    let polls = value(DEFER_HARD_IRQS)? as u32;
    let flush_timeout_ns = value(GRO_FLUSH_TIMEOUT)?;
    Some((value(ID)? as u32, Deferral { polls, flush_timeout_ns }))
}

fn setting(id: u32, deferral: Deferral) -> Attributes {
    Attributes::default()
        .with(ID, &id.to_ne_bytes())
        .with(DEFER_HARD_IRQS, &deferral.polls.to_ne_bytes())
        .with(GRO_FLUSH_TIMEOUT, &deferral.flush_timeout_ns.to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::generic::answer;

    const DEFERRAL: Deferral = Deferral { polls: 200, flush_timeout_ns: 20_000 };

    #[test]
    fn what_is_set_is_laid_out_as_the_kernel_reads_it() {
        let expected: Vec<u8> = [
            [8u16.to_ne_bytes(), ID.to_ne_bytes()].concat(),
            7u32.to_ne_bytes().to_vec(),
            [8u16.to_ne_bytes(), DEFER_HARD_IRQS.to_ne_bytes()].concat(),
            200u32.to_ne_bytes().to_vec(),
            [12u16.to_ne_bytes(), GRO_FLUSH_TIMEOUT.to_ne_bytes()].concat(),
            20_000u64.to_ne_bytes().to_vec(),
        ]
        .concat();
        assert_eq!(setting(7, DEFERRAL).0, expected);
    }

    #[test]
    fn what_is_set_reads_back() {
        let answer = answer(&setting(7, DEFERRAL).0).unwrap();
        assert_eq!(reported(&answer), Some((7, DEFERRAL)));
    }

    #[test]
    fn numbers_come_in_four_bytes_or_eight() {
        let short = Attributes::default()
            .with(ID, &7u32.to_ne_bytes())
            .with(DEFER_HARD_IRQS, &200u32.to_ne_bytes())
            .with(GRO_FLUSH_TIMEOUT, &20_000u32.to_ne_bytes());
        assert_eq!(reported(&answer(&short.0).unwrap()), Some((7, DEFERRAL)));
    }

    #[test]
    fn an_instance_of_an_older_kernel_has_no_settings() {
        let old = Attributes::default().with(ID, &7u32.to_ne_bytes());
        assert_eq!(reported(&answer(&old.0).unwrap()), None);
    }
}
