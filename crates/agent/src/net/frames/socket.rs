//! Packet sockets (packet(7)): on one interface, for frames of our type only.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;
use socket2::{Domain, Protocol, Socket, Type};

use super::{ETHER_TYPE, Filter};
use crate::net::socket::{read_option, set_option, word};
use crate::net::{Link, Links};

/// Longest wait for a frame, after which the caller can look whether it is to stop.
pub const PATIENCE: Duration = Duration::from_millis(50);

/// The interface of this name, if frames can pass it.
pub fn interface(name: &str) -> Result<Link> {
    let link = Links::open()?.get(name)?;
    ensure!(link.up, "{name} is not up: `ip link set {name} up`");
    Ok(link)
}

/// A socket that gets no frames yet, so that options that are set before [`listen`] apply to each frame.
pub fn open() -> Result<Socket> {
    let nothing = Protocol::from(0);
    match Socket::new(Domain::PACKET, Type::RAW, Some(nothing)) {
        Ok(socket) => Ok(socket),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => bail!(
            "frames without an IP stack need CAP_NET_RAW: run as root, or `sudo setcap \
             cap_net_raw+ep` the agent"
        ),
        Err(error) => Err(error).context("no packet socket"),
    }
}

/// From now on the socket gets the interface's frames of our type that the filter lets pass.
pub fn listen(socket: &Socket, link: &Link, filter: &Filter) -> Result<()> {
    filter.attach(socket).context("the kernel refused the filter of frames")?;
    bind(socket, link, ETHER_TYPE)
}

/// Frames leave by this interface; none comes in.
pub fn send_only(socket: &Socket, link: &Link) -> Result<()> {
    bind(socket, link, 0)
}

fn bind(socket: &Socket, link: &Link, protocol: u16) -> Result<()> {
    // SAFETY: all zeroes is a valid address of its kind.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = link.index as i32;
    // SAFETY: the address lives through the call and is of the length given.
    let status = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    };
    match status {
        0 => Ok(()),
        _ => {
            let error = io::Error::last_os_error();
            Err(error).with_context(|| format!("no packet socket on {}", link.name))
        }
    }
}

/// Sets an option of packet sockets. `T` must be what the option takes.
pub fn set<T: Copy>(socket: &Socket, option: i32, value: &T) -> io::Result<()> {
    set_option(socket, libc::SOL_PACKET, option, value)
}

/// The drops of a socket since it was opened; the kernel resets its own count at each look.
#[derive(Default)]
pub struct Drops(u64);

impl Drops {
    pub fn look(&mut self, socket: &Socket) -> io::Result<u64> {
        // struct tpacket_stats: frames, and those of them that were dropped.
        let mut counts = [0; 8];
        read_option(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut counts)?;
        self.0 += u64::from(word(&counts, 4).unwrap_or(0));
        Ok(self.0)
    }
}

/// Waits for a frame, for [`PATIENCE`] at most.
pub fn wait(socket: &Socket) -> io::Result<()> {
    let limit = Timespec { tv_sec: 0, tv_nsec: PATIENCE.subsec_nanos().into() };
    let mut sockets = [PollFd::new(socket, PollFlags::IN)];
    match poll(&mut sockets, Some(&limit)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    if sockets[0].revents().contains(PollFlags::ERR)
        && let Some(error) = socket.take_error()?
    {
        return Err(explained(error));
    }
    Ok(())
}

/// The error with its reason in words.
pub fn explained(error: io::Error) -> io::Error {
    let text = match error.raw_os_error() {
        Some(libc::ENETDOWN) => "the interface went down",
        Some(libc::ENXIO | libc::ENODEV) => "the interface is gone",
        Some(libc::EMSGSIZE) => "the frame is longer than the interface's MTU allows",
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{text} ({error})"))
}
