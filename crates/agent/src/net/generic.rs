//! Generic netlink: families of commands that are found by name. Attributes are kept as bytes: there are a
//! handful of commands with a handful of attributes each, and the library for it (netlink-packet-generic)
//! knows none of their families.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};

use anyhow::{Context, Result, bail};
use netlink_packet_core::{
    NLA_F_NESTED, NLA_HEADER_SIZE, NLA_TYPE_MASK, NetlinkDeserializable, NetlinkHeader,
    NetlinkSerializable, NlasIterator,
};
use netlink_sys::protocols::NETLINK_GENERIC;

use super::netlink::Netlink;

/// `struct genlmsghdr`: command, version, two bytes of nothing.
const HEADER: usize = 4;
const VERSION: u8 = 1;

/// The controller, which knows the other families (linux/genetlink.h).
const CONTROLLER: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// Attributes to send.
#[derive(Default)]
pub struct Attributes(pub(super) Vec<u8>);

impl Attributes {
    pub fn with(mut self, kind: u16, value: &[u8]) -> Self {
        let length = (NLA_HEADER_SIZE + value.len()) as u16;
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub fn nested(self, kind: u16, inner: &Attributes) -> Self {
        self.with(kind | NLA_F_NESTED, &inner.0)
    }
}

/// Attributes that came, by kind.
pub type Answer = BTreeMap<u16, Vec<u8>>;

/// An unsigned number of one, four or eight bytes.
pub fn number(bytes: &[u8]) -> Option<u64> {
    match bytes.len() {
        1 => Some(bytes[0].into()),
        4 => Some(u32::from_ne_bytes(bytes.try_into().ok()?).into()),
        8 => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

#[derive(Debug)]
struct Message {
    family: u16,
    command: u8,
    attributes: Vec<u8>,
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        self.family
    }

    fn buffer_len(&self) -> usize {
        HEADER + self.attributes.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer[..HEADER].copy_from_slice(&[self.command, VERSION, 0, 0]);
        buffer[HEADER..].copy_from_slice(&self.attributes);
    }
}

impl NetlinkDeserializable for Message {
    type Error = Error;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, Error> {
        let short = || Error::new(ErrorKind::InvalidData, "a message without a header");
        Ok(Message {
            family: header.message_type,
            command: *payload.first().ok_or_else(short)?,
            attributes: payload.get(HEADER..).ok_or_else(short)?.to_vec(),
        })
    }
}

/// One family.
pub struct Family {
    netlink: Netlink<Message>,
    id: u16,
}

impl Family {
    /// # Errors
    /// This kernel has no such family.
    pub fn open(name: &str) -> Result<Self> {
        let mut family = Family { netlink: Netlink::open(NETLINK_GENERIC)?, id: CONTROLLER };
        let asked = Attributes::default().with(FAMILY_NAME, &[name.as_bytes(), b"\0"].concat());
        let found = family.get(GET_FAMILY, asked);
        let found = found.with_context(|| format!("this kernel has no netlink family {name}"))?;
        let id = found.iter().find_map(|answer| answer.get(&FAMILY_ID));
        let Some(&[a, b]) = id.map(Vec::as_slice) else {
            bail!("the kernel does not report the number of the netlink family {name}")
        };
        family.id = u16::from_ne_bytes([a, b]);
        Ok(family)
    }

    pub fn get(&self, command: u8, attributes: Attributes) -> Result<Vec<Answer>> {
        parse(&self.netlink.get(self.message(command, attributes))?)
    }

    pub fn dump(&self, command: u8, attributes: Attributes) -> Result<Vec<Answer>> {
        parse(&self.netlink.dump(self.message(command, attributes))?)
    }

    pub fn execute(&self, command: u8, attributes: Attributes) -> Result<()> {
        self.netlink.execute(self.message(command, attributes), 0)
    }

    fn message(&self, command: u8, attributes: Attributes) -> Message {
        Message { family: self.id, command, attributes: attributes.0 }
    }
}

fn parse(messages: &[Message]) -> Result<Vec<Answer>> {
    messages.iter().map(|message| answer(&message.attributes)).collect()
}

pub(super) fn answer(attributes: &[u8]) -> Result<Answer> {
    NlasIterator::new(attributes)
        .map(|attribute| {
            let attribute = attribute.context("an attribute that cannot be understood")?;
            Ok((attribute.kind() & NLA_TYPE_MASK, attribute.value().to_vec()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_aligned_and_come_back() {
        let inner = Attributes::default().with(2, b"eth0\0");
        let sent = Attributes::default().nested(1, &inner).with(5, &7u32.to_ne_bytes());
        assert_eq!(sent.0.len() % 4, 0);
        let back = answer(&sent.0).unwrap();
        assert_eq!(number(&back[&5]), Some(7));
        assert_eq!(answer(&back[&1]).unwrap()[&2], b"eth0\0");
    }

    #[test]
    fn numbers_are_of_three_sizes() {
        assert_eq!(number(&[1]), Some(1));
        assert_eq!(number(&u64::MAX.to_ne_bytes()), Some(u64::MAX));
        assert_eq!(number(&[1, 2]), None);
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(answer(&[255, 255, 1, 0, 9]).is_err());
        assert!(Message::deserialize(&NetlinkHeader::default(), &[1]).is_err());
    }

    #[test]
    fn an_unknown_family_is_named() {
        let error = Family::open("no_such_family").err().unwrap();
        assert!(format!("{error:#}").contains("no_such_family"), "{error:#}");
    }
}
