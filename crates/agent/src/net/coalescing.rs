//! Interrupt coalescing, by ethtool netlink (Linux 5.6; Documentation/networking/ethtool-netlink.rst,
//! COALESCE_GET and COALESCE_SET). The older ioctl gives a number for every parameter that there is,
//! and 0 for those that a driver lacks: 0 could then be set there and would be ignored. Netlink
//! leaves out what the driver lacks.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow};

use super::ethtool::Ethtool;
use super::generic::{Attributes, Family, number};
use super::link::{Links, check_name};

const GET: u8 = 19;
const SET: u8 = 20;
const HEADER: u16 = 1;
const HEADER_DEVICE_NAME: u16 = 2;

/// By ethtool(8)'s names: the attribute, and whether it is one byte.
const PARAMETERS: [(&str, u16, bool); 5] = [
    ("rx-usecs", 2, false),
    ("rx-frames", 3, false),
    ("tx-usecs", 6, false),
    ("tx-frames", 7, false),
    ("adaptive-rx", 11, true),
];

pub struct Coalescing {
    interface: String,
    family: Family,
}

impl Coalescing {
    pub fn open(interface: &str) -> Result<Self> {
        check_name(interface)?;
        Links::open()?.get(interface)?;
        Ok(Coalescing { interface: interface.to_owned(), family: Family::open("ethtool")? })
    }

    /// What the driver has, by ethtool's names.
    ///
    /// # Errors
    /// It has none at all.
    pub fn parameters(&self) -> Result<BTreeMap<&'static str, u64>> {
        let answers = self.family.get(GET, self.header()).map_err(|error| self.lacks(&error))?;
        let answer = answers.first().context("the kernel told nothing of interrupt coalescing")?;
        let known = PARAMETERS
            .iter()
            .filter_map(|(name, attribute, _)| Some((*name, number(answer.get(attribute)?)?)));
        Ok(known.collect())
    }

    pub fn set(&self, name: &str, value: u32) -> Result<()> {
        let (_, attribute, byte) = PARAMETERS
            .iter()
            .find(|(known, ..)| *known == name)
            .with_context(|| format!("there is no parameter {name:?} of interrupt coalescing"))?;
        let bytes = value.to_ne_bytes();
        let small = [value as u8];
        let attributes = self.header().with(*attribute, if *byte { &small } else { &bytes });
        self.family
            .execute(SET, attributes)
            .with_context(|| format!("setting {name} of {} to {value}", self.interface))
    }

    fn header(&self) -> Attributes {
        let name = [self.interface.as_bytes(), b"\0"].concat();
        Attributes::default().nested(HEADER, &Attributes::default().with(HEADER_DEVICE_NAME, &name))
    }

    fn lacks(&self, error: &anyhow::Error) -> anyhow::Error {
        let driver = Ethtool::open(&self.interface).ok().and_then(|ethtool| ethtool.driver());
        anyhow!(
            "{}: its driver, {}, has no interrupt coalescing ({error:#})",
            self.interface,
            driver.as_deref().unwrap_or("without a name")
        )
    }
}
