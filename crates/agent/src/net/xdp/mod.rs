//! AF_XDP: frames of one kind go straight into memory of this process, before the kernel's network has seen
//! them. All others go on to the kernel, so that the interface works as before.
//!
//! - [`program`] chooses the frames, [`bpf`] has the kernel run it; with this process it is gone.
//! - [`queue`] is a socket with its memory, one for each queue of the interface, [`ring`] what it shares with
//!   the kernel.
//!
//! No library: libbpf and libxdp are C, and the crates that bind them, or that compile programs, weigh more than
//! the agent.
//!
//! Source: Linux, Documentation/networking/af_xdp.rst.

mod bpf;
mod program;
mod queue;
mod ring;

use std::io::{self, Error, ErrorKind};
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage, LinkXdp, XdpAttached};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::time::Timespec;

use bpf::Mode;
use queue::{Buffers, Queue};

use super::frames::socket::{PATIENCE, explained, interface};
use super::frames::{FrameSource, Opening, Reported};
use super::link::{Link, Links};
use super::netlink::Netlink;
use super::sysfs::InterfaceDirectory;

/// Some drivers restart their card when they are given a program.
const CARRIER_LIMIT: Duration = Duration::from_secs(10);

const NOT_ALLOWED: &str = "capturing by XDP needs CAP_BPF and CAP_NET_ADMIN in the machine's first user \
                           namespace: take machine = \"emulated\", or run `hypertare-agent capture --via xdp` \
                           alone as root, outside of containers";

/// Frames of one kind, from all queues of an interface.
pub struct Capture {
    queues: Vec<Queue>,
    reported: Reported,
    calls: u64,
    /// As long as it is open, frames come.
    _attached: OwnedFd,
}

/// Why this process cannot capture by XDP, if it cannot.
pub fn obstacle() -> Option<String> {
    bpf::map(1).err().map(|error| format!("{:#}", no_map(&error)))
}

impl Capture {
    /// # Errors
    /// This process, the kernel or the interface cannot, and what to do.
    pub fn open(opening: &Opening) -> Result<Self> {
        let link = interface(opening.interface)?;
        let numbers = 0..queues_of(&link.name)?;
        let map = bpf::map(numbers.end).map_err(|error| no_map(&error))?;
        let what = || format!("capturing on {} by XDP", link.name);
        let buffers = Buffers::of(opening.ring.into(), link.mtu, numbers.end).with_context(what)?;
        let mut queues = Vec::new();
        for number in numbers {
            let queue = Queue::open(link.index, number, buffers).with_context(what)?;
            bpf::set(&map, number, queue.socket()).context("giving a socket its queue")?;
            queues.push(queue);
        }
        let program = program::choosing(&map, opening.filter);
        let program = bpf::load(&program).context("loading the program that chooses frames")?;
        let (attached, warning) = attach(&program, &link)?;
        if link.carrier {
            Links::open()?.wait_for_carrier(&link.name, CARRIER_LIMIT)?;
        }
        let is_native = mode_of(&link)? == Mode::Native;
        let is_zero_copy =
            queues.iter().try_fold(true, |all, queue| anyhow::Ok(all && queue.is_zero_copy()?))?;
        let values = vec![
            ("xdp_native", f64::from(u8::from(is_native))),
            ("xdp_zero_copy", f64::from(u8::from(is_zero_copy))),
        ];
        let reported = Reported { values, warning };
        Ok(Capture { queues, reported, calls: 0, _attached: attached })
    }

    /// Hands on some of the waiting frames.
    fn take(&mut self, each: &mut dyn FnMut(&[u8])) -> io::Result<u64> {
        let taken = self
            .queues
            .iter_mut()
            .try_fold(0, |sum, queue| queue.take(each).map(|count| sum + u64::from(count)));
        taken.map_err(Error::other)
    }

    fn wait(&mut self) -> io::Result<()> {
        self.calls += 1;
        let mut watched: Vec<PollFd> = (self.queues.iter())
            .map(|queue| PollFd::from_borrowed_fd(queue.socket(), PollFlags::IN))
            .collect();
        let limit = Timespec { tv_sec: 0, tv_nsec: PATIENCE.subsec_nanos().into() };
        match poll(&mut watched, Some(&limit)) {
            // Even the end of the interface wakes nobody.
            Ok(0) => self.queues.iter().try_for_each(|queue| {
                socket_error(queue.socket())?.map_err(|error| explained(error.into()))
            }),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl FrameSource for Capture {
    fn next(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<u64> {
        let taken = self.take(take)?;
        if taken > 0 {
            return Ok(taken);
        }
        self.wait()?;
        self.take(take)
    }

    fn drops(&mut self) -> io::Result<u64> {
        self.queues.iter().try_fold(0, |sum, queue| Ok(sum + queue.drops()?))
    }

    fn calls(&self) -> u64 {
        self.calls
    }

    fn ring_bytes(&self) -> u64 {
        self.queues.iter().map(Queue::ring_bytes).sum()
    }

    fn reported(&self) -> Reported {
        self.reported.clone()
    }
}

/// The number of queues that the interface uses, which may be fewer than the kernel has reserved.
fn queues_of(interface: &str) -> Result<u32> {
    let directory = InterfaceDirectory::find(interface)?;
    let entries = std::fs::read_dir(directory.path().join("queues"))
        .with_context(|| format!("looking for the queues of {interface}"))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let count = names.filter(|name| name.starts_with("rx-")).count();
    Ok(u32::try_from(count)?.max(1))
}

/// Attaches in the driver, or otherwise after it, with a warning that has the driver's reason.
fn attach(program: &OwnedFd, link: &Link) -> Result<(OwnedFd, Option<String>)> {
    let error = match bpf::attach(program, link.index, Mode::Native) {
        Ok(attached) => return Ok((attached, None)),
        Err(error) => error,
    };
    if is_taken(&error) {
        return Err(not_attached(link, error));
    }
    let attached = bpf::attach(program, link.index, Mode::Generic);
    let attached = attached.map_err(|error| not_attached(link, error))?;
    let why = format!(
        "{}: its driver takes no XDP program as it is set up now ({error}), so the kernel's generic mode \
         stands in, which is slower",
        link.name
    );
    Ok((attached, Some(why)))
}

/// A link holds it already, or another program is there in the other mode.
fn is_taken(error: &Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

fn not_attached(link: &Link, error: Error) -> anyhow::Error {
    let name = &link.name;
    if is_taken(&error) {
        return anyhow!(
            "{name} has an XDP program already: wait for the end of who captures there, or take it off (ip \
             link set {name} xdp off)"
        );
    }
    anyhow::Error::new(error).context(format!("attaching an XDP program to {name}"))
}

/// The mode that the kernel reports.
fn mode_of(link: &Link) -> Result<Mode> {
    let mut message = LinkMessage::default();
    message.header.index = link.index;
    let netlink = Netlink::route()?;
    let answers = netlink.get(RouteNetlinkMessage::GetLink(message));
    let answers = answers.with_context(|| format!("looking at the interface {}", link.name))?;
    let attached = answers.iter().find_map(attached);
    match attached {
        Some(XdpAttached::Driver) => Ok(Mode::Native),
        Some(XdpAttached::SocketBuffer) => Ok(Mode::Generic),
        other => bail!("{} was given an XDP program, and has {other:?}", link.name),
    }
}

fn attached(answer: &RouteNetlinkMessage) -> Option<XdpAttached> {
    let RouteNetlinkMessage::NewLink(message) = answer else { return None };
    message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Xdp(all) => all.iter().find_map(|one| match one {
            LinkXdp::Attached(mode) => Some(*mode),
            _ => None,
        }),
        _ => None,
    })
}

fn no_map(error: &Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::PermissionDenied => anyhow!("{NOT_ALLOWED}"),
        _ => anyhow!("this kernel has no map of AF_XDP sockets (CONFIG_XDP_SOCKETS): {error}"),
    }
}

#[cfg(test)]
mod tests {
    use hypertare_plan::FrameVia;
    use rustix::thread::UnshareFlags;

    use super::*;
    use crate::net::frames::Filter;

    #[test]
    fn a_program_of_somebody_else_is_left_alone() {
        if let Some(why) = obstacle() {
            return eprintln!("skipped: {why}");
        }
        // SAFETY: only this thread's network namespace changes, and it has opened nothing in the old one.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
        let links = Links::open().unwrap();
        links.veth("here", "there", None).unwrap();
        links.set_up("here").unwrap();
        let map = bpf::map(1).unwrap();
        let filter = Filter::new(&[]);
        let program = bpf::load(&program::choosing(&map, &filter)).unwrap();
        let opening = Opening {
            interface: "here",
            via: FrameVia::Xdp,
            ring: 4 << 20,
            frame: 1514,
            filter: &filter,
            at_once: false,
        };
        for mode in [Mode::Native, Mode::Generic] {
            let link = links.get("here").unwrap();
            let other = bpf::attach(&program, link.index, mode).unwrap();
            assert_eq!(mode_of(&link).unwrap(), mode);
            let error = format!("{:#}", Capture::open(&opening).err().unwrap());
            assert!(error.contains("ip link set here xdp off"), "{error}");
            assert_eq!(mode_of(&link).unwrap(), mode, "it is still there");
            drop(other);
            assert!(mode_of(&link).is_err());
        }
    }

    #[test]
    fn who_may_not_is_reported_what_to_do() {
        let text = no_map(&Error::from_raw_os_error(libc::EPERM)).to_string();
        assert!(text.contains("machine = \"emulated\""), "{text}");
        let text = no_map(&Error::from_raw_os_error(libc::EINVAL)).to_string();
        assert!(text.contains("CONFIG_XDP_SOCKETS"), "{text}");
    }
}
