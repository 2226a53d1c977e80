//! Numbers that a NIC's driver keeps, by ethtool netlink (Linux 5.6;
//! Documentation/networking/ethtool-netlink.rst). The older ioctls give a number for every parameter, and 0
//! for those that a driver lacks: there 0 could be set and would be ignored. Netlink leaves out the
//! parameters that the driver lacks.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow};

use super::ethtool::Ethtool;
use super::generic::{Attributes, Family, number};
use super::link::{Links, check_name};

const HEADER: u16 = 1;
const HEADER_DEVICE_NAME: u16 = 2;

/// Parameters that are read and set together.
pub struct Group {
    /// Its name in an error, where a driver has none of it.
    pub what: &'static str,
    get: u8,
    set: u8,
    /// By ethtool(8)'s names: the attribute, and whether it is one byte.
    parameters: &'static [(&'static str, u16, bool)],
    /// The attributes that report the maxima of some.
    most: &'static [(&'static str, u16)],
}

/// COALESCE_GET and COALESCE_SET.
pub static COALESCING: Group = Group {
    what: "interrupt coalescing",
    get: 19,
    set: 20,
    parameters: &[
        ("rx-usecs", 2, false),
        ("rx-frames", 3, false),
        ("tx-usecs", 6, false),
        ("tx-frames", 7, false),
        ("adaptive-rx", 11, true),
    ],
    most: &[],
};

/// RINGS_GET and RINGS_SET, in descriptors.
pub static RINGS: Group = Group {
    what: "rings of a size that can be reported",
    get: 15,
    set: 16,
    parameters: &[("rx", 6, false), ("tx", 9, false)],
    most: &[("rx", 2), ("tx", 5)],
};

/// The parameters of one interface.
pub struct DriverParameters {
    pub group: &'static Group,
    pub interface: String,
    family: Family,
}

impl DriverParameters {
    pub fn open(group: &'static Group, interface: &str) -> Result<Self> {
        check_name(interface)?;
        Links::open()?.get(interface)?;
        let family = Family::open("ethtool")?;
        Ok(DriverParameters { group, interface: interface.to_owned(), family })
    }

    /// The driver's parameters, by ethtool's names.
    ///
    /// # Errors
    /// The driver has none at all.
    pub fn all(&self) -> Result<BTreeMap<&'static str, u64>> {
        self.reported(self.group.parameters.iter().map(|(name, attribute, _)| (*name, *attribute)))
    }

    /// The maxima that the driver reports.
    pub fn most(&self) -> Result<BTreeMap<&'static str, u64>> {
        self.reported(self.group.most.iter().copied())
    }

    fn reported(
        &self,
        wanted: impl Iterator<Item = (&'static str, u16)>,
    ) -> Result<BTreeMap<&'static str, u64>> {
        let (what, interface) = (self.group.what, &self.interface);
        let answers = self.family.get(self.group.get, self.header()).map_err(|error| {
            let driver = Ethtool::open(interface).ok().and_then(|ethtool| ethtool.driver());
            let driver = driver.as_deref().unwrap_or("without a name");
            anyhow!("{interface}: its driver, {driver}, has no {what} ({error:#})")
        })?;
        let answer =
            answers.first().with_context(|| format!("the kernel reported nothing of {what}"))?;
        Ok(wanted.filter_map(|(name, at)| Some((name, number(answer.get(&at)?)?))).collect())
    }

    pub fn set(&self, name: &str, value: u32) -> Result<()> {
        let (_, attribute, byte) =
            self.group.parameters.iter().find(|(known, ..)| *known == name).with_context(|| {
                format!("there is no parameter {name:?} of {}", self.group.what)
            })?;
        let bytes = value.to_ne_bytes();
        let small = [value as u8];
        let attributes = self.header().with(*attribute, if *byte { &small } else { &bytes });
        self.family
            .execute(self.group.set, attributes)
            .with_context(|| format!("setting {name} of {} to {value}", self.interface))
    }

    fn header(&self) -> Attributes {
        let name = [self.interface.as_bytes(), b"\0"].concat();
        Attributes::default().nested(HEADER, &Attributes::default().with(HEADER_DEVICE_NAME, &name))
    }
}
