//! A driver's name, queues and offloads, by the ethtool ioctl. The newer netlink interface (Linux 5.6,
//! offloads 5.8) reports the same, but not on older kernels; the ioctl works on all, also in user
//! namespaces.
//!
//! Offloads have ethtool(8)'s short names. Each stands for all kernel features of its kind: `tso` is on
//! when TCP's offload is on for IPv4, for IPv6 or with ECN.

use std::collections::BTreeMap;
use std::io::Error;
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Context, Result, anyhow, bail};
use hypertare_plan::InterfaceState;

use super::link::{Links, check_name};

/// `SIOCETHTOOL` and commands of linux/ethtool.h; the C library has no names for them.
const SIOCETHTOOL: libc::Ioctl = 0x8946;
const GET_DRIVER: u32 = 0x03;
const GET_STRINGS: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
const GET_FLAGS: u32 = 0x25;
const SET_FLAGS: u32 = 0x26;
const GET_CHANNELS: u32 = 0x3c;

/// `ETH_SS_STATS`: names of statistics.
const STATISTICS: u32 = 1;
const NAME_BYTES: usize = 32;

/// How an offload is read and set.
enum Access {
    /// Commands of its own.
    Commands { get: u32, set: u32 },
    /// A bit of the flags.
    Flag(u32),
}

/// UFO left the kernel in 4.14, but stays in the list, so that a study can still name it.
const OFFLOADS: [(&str, Access); 10] = [
    ("rx", Access::Commands { get: 0x14, set: 0x15 }),
    ("tx", Access::Commands { get: 0x16, set: 0x17 }),
    ("sg", Access::Commands { get: 0x18, set: 0x19 }),
    ("tso", Access::Commands { get: 0x1e, set: 0x1f }),
    ("ufo", Access::Commands { get: 0x21, set: 0x22 }),
    ("gso", Access::Commands { get: 0x23, set: 0x24 }),
    ("gro", Access::Commands { get: 0x2b, set: 0x2c }),
    ("lro", Access::Flag(1 << 15)),
    ("rxvlan", Access::Flag(1 << 8)),
    ("txvlan", Access::Flag(1 << 7)),
];

#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 144],
    statistics: u32,
    lengths: [u32; 3],
}

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    max: [u32; 4],
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// Plain data that begins with an ethtool command, as the kernel lays it out.
///
/// # Safety
/// The kernel writes as much as the command says: the type has to be that command's.
unsafe trait Request {}
// SAFETY: struct ethtool_value.
unsafe impl Request for Value {}
// SAFETY: struct ethtool_drvinfo, 196 bytes.
unsafe impl Request for DriverInfo {}
// SAFETY: struct ethtool_channels, 36 bytes.
unsafe impl Request for Channels {}

const _: () = assert!(size_of::<DriverInfo>() == 196 && size_of::<Channels>() == 36);

/// An interface's driver, in the network namespace of the thread that opened it.
pub struct Ethtool {
    socket: OwnedFd,
    interface: String,
}

impl Ethtool {
    pub fn open(interface: &str) -> Result<Self> {
        check_name(interface)?;
        let socket = rustix::net::socket_with(
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::DGRAM,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        );
        let socket = socket.context("opening a socket to ask drivers")?;
        Ok(Ethtool { socket, interface: interface.to_owned() })
    }

    fn driver_info(&self) -> Option<DriverInfo> {
        let mut info = DriverInfo {
            command: GET_DRIVER,
            driver: [0; 32],
            rest: [0; 144],
            statistics: 0,
            lengths: [0; 3],
        };
        self.ask(&mut info).ok()?;
        Some(info)
    }

    /// The driver's name; `None` for links that report no driver.
    pub fn driver(&self) -> Option<String> {
        let info = self.driver_info()?;
        let name = info.driver.split(|&byte| byte == 0).next().unwrap_or_default();
        (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
    }

    /// The driver's own statistics, by its own names. Those of several queues under one name are added up.
    /// Empty if it has none.
    pub fn statistics(&self) -> BTreeMap<String, u64> {
        let count = self.driver_info().map_or(0, |info| info.statistics as usize);
        // The kernel writes as many as there are now: this leaves room for queues that came meanwhile.
        let room = 2 * count + 256;
        let mut names = vec![0u64; 2 + room * NAME_BYTES / 8];
        let mut values = vec![0u64; 1 + room];
        words(&mut names)[..3].copy_from_slice(&[GET_STRINGS, STATISTICS, 0]);
        words(&mut values)[..2].copy_from_slice(&[GET_STATISTICS, 0]);
        // SAFETY: both lead to the structures of their commands, with room behind them.
        let done = count > 0
            && unsafe { self.ask_at(names.as_mut_ptr().cast()).is_ok() }
            && unsafe { self.ask_at(values.as_mut_ptr().cast()).is_ok() };
        if !done {
            return BTreeMap::new();
        }
        let count = (words(&mut values)[1] as usize).min(room);
        let bytes: Vec<u8> = words(&mut names)[3..].iter().flat_map(|w| w.to_ne_bytes()).collect();
        let mut found = BTreeMap::new();
        for (name, value) in bytes.chunks_exact(NAME_BYTES).zip(&values[1..]).take(count) {
            let end = name.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES);
            let name = String::from_utf8_lossy(&name[..end]).trim().to_owned();
            *found.entry(name).or_insert(0) += value;
        }
        found
    }

    /// Whether an offload is on.
    ///
    /// # Errors
    /// There is no such offload (the error lists the existing ones), or no such interface.
    pub fn offload(&self, name: &str) -> Result<bool> {
        let (command, mask) = match access(name)? {
            Access::Commands { get, .. } => (*get, u32::MAX),
            Access::Flag(bit) => (GET_FLAGS, *bit),
        };
        let mut value = Value { command, data: 0 };
        match self.ask(&mut value) {
            Ok(()) => Ok(value.data & mask != 0),
            // A kernel that does not know an offload does not have it on.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(false),
            Err(error) => Err(self.failed(error, &format!("reading the offload {name}"))),
        }
    }

    /// Switches an offload. Others that depend on it follow, and come back with it.
    ///
    /// # Errors
    /// The driver cannot switch it. Success is no promise: read it back.
    pub fn set_offload(&self, name: &str, on: bool) -> Result<()> {
        let done = match access(name)? {
            Access::Commands { set, .. } => {
                self.ask(&mut Value { command: *set, data: u32::from(on) })
            }
            Access::Flag(bit) => {
                let mut flags = Value { command: GET_FLAGS, data: 0 };
                self.ask(&mut flags).and_then(|()| {
                    let data = if on { flags.data | bit } else { flags.data & !bit };
                    self.ask(&mut Value { command: SET_FLAGS, data })
                })
            }
        };
        done.map_err(|error| {
            let word = if on { "on" } else { "off" };
            self.failed(error, &format!("switching the offload {name} {word}"))
        })
    }

    fn ask<T: Request>(&self, value: &mut T) -> Result<(), Error> {
        // SAFETY: `Request` vouches for the structure's size.
        unsafe { self.ask_at((&raw mut *value).cast()) }
    }

    /// # Safety
    /// `data` leads to the structure of its command, with room for all that the kernel writes.
    unsafe fn ask_at(&self, data: *mut libc::c_char) -> Result<(), Error> {
        // SAFETY: ifreq is plain data, for which zeroes are valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(self.interface.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = data;
        // SAFETY: the kernel reads and writes the ifreq and the command's structure behind it; both
        // outlive the call, and the caller vouches for the structure's size.
        match unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL, &mut request) } {
            0 => Ok(()),
            _ => Err(Error::last_os_error()),
        }
    }

    fn failed(&self, error: Error, doing: &str) -> anyhow::Error {
        let interface = &self.interface;
        let driver = self.driver().unwrap_or_else(|| "without a name".to_owned());
        match error.raw_os_error() {
            Some(libc::ENODEV) => anyhow!("{doing}: there is no interface {interface} here"),
            Some(libc::EOPNOTSUPP | libc::EINVAL) => {
                anyhow!("{doing} of {interface}: its driver, {driver}, cannot do that")
            }
            Some(libc::EPERM) => {
                anyhow!("{doing} of {interface} needs CAP_NET_ADMIN in its network namespace")
            }
            _ => anyhow::Error::new(error).context(format!("{doing} of {interface}")),
        }
    }
}

/// As the kernel's structures of 32 bits have them.
fn words(longs: &mut [u64]) -> &mut [u32] {
    // SAFETY: two u32 have the size of a u64 and need no more than its alignment.
    unsafe { std::slice::from_raw_parts_mut(longs.as_mut_ptr().cast(), longs.len() * 2) }
}

/// An interface as it is now. The node's name is the caller's to fill in.
pub fn state(interface: &str) -> Result<InterfaceState> {
    let link = Links::open()?.get(interface)?;
    let ethtool = Ethtool::open(interface)?;
    let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
    // Those in use, where the driver reports them.
    let (rx_queues, tx_queues) = match ethtool.ask(&mut channels) {
        Ok(()) => (channels.rx + channels.combined, channels.tx + channels.combined),
        Err(_) => (link.rx_queues, link.tx_queues),
    };
    let mut offloads = BTreeMap::new();
    for (name, _) in &OFFLOADS {
        offloads.insert((*name).to_owned(), ethtool.offload(name)?);
    }
    Ok(InterfaceState {
        node: String::new(),
        interface: link.name,
        driver: ethtool.driver(),
        mtu: link.mtu,
        offloads,
        rx_queues,
        tx_queues,
    })
}

fn access(name: &str) -> Result<&'static Access> {
    match OFFLOADS.iter().find(|(short, _)| *short == name) {
        Some((_, access)) => Ok(access),
        None => {
            let names: Vec<&str> = OFFLOADS.iter().map(|(short, _)| *short).collect();
            bail!("there is no offload {name:?}; there are: {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_without_statistics_has_none() {
        assert!(Ethtool::open("lo").unwrap().statistics().is_empty());
        assert!(Ethtool::open("no-such-link").unwrap().statistics().is_empty());
    }
}
