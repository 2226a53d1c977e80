//! The machine's end: a file that a guest's VMM also maps as memory of the guest. Beside it are a file
//! about the guest's bridge and, where a core polls for the guest, a socket by which the core takes relays.
//! All are made and removed with the guest.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::neighbour::{
    NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::net::Link;
use crate::net::frames::layout::Mac;
use crate::net::link::{mac_text, parse_mac};
use crate::net::netlink::Netlink;
use crate::process::namespaces::scratch;

const DIRECTORY: &str = "rings";

/// Memory that a guest has in common with its machine; given up when dropped.
pub struct SharedMemory(Files);

struct Files {
    memory: PathBuf,
    bridge: PathBuf,
    relays: PathBuf,
}

/// Memory that a guest has in common with this machine, and where its frames come to.
pub struct Opened {
    pub memory: File,
    pub bytes: usize,
    pub bridge: String,
    /// The address beside that of the guest's card.
    pub address: Mac,
    /// To the core that polls for the guest, if there is one.
    pub polling: Option<UnixStream>,
    /// The CPU for the process that moves the guest's frames on this machine, where it has one for itself.
    pub datapath_cpu: Option<u32>,
}

impl Files {
    fn of(guest: &str) -> Result<Self> {
        ensure!(
            !guest.contains(['/', '\0']) && !guest.starts_with('.'),
            "{guest:?} is no node's name"
        );
        let directory = scratch(DIRECTORY)?;
        let bridge = directory.join(format!("{guest}.bridge"));
        let relays = directory.join(format!("{guest}.relays"));
        Ok(Files { memory: directory.join(guest), bridge, relays })
    }
}

impl SharedMemory {
    /// Makes it, for a VMM that is another user.
    pub fn make(
        guest: &str,
        bytes: u64,
        bridge: &str,
        address: Mac,
        datapath_cpu: Option<u32>,
    ) -> Result<(Self, File)> {
        let files = Files::of(guest)?;
        let make = || {
            let mut options = OpenOptions::new();
            let file =
                options.read(true).write(true).create(true).truncate(true).open(&files.memory)?;
            file.set_len(bytes)?;
            file.set_permissions(Permissions::from_mode(0o666))?;
            let cpu = datapath_cpu.map(|cpu| format!(" {cpu}")).unwrap_or_default();
            fs::write(&files.bridge, format!("{bridge} {}{cpu}", mac_text(&address)))?;
            std::io::Result::Ok(file)
        };
        let file = make().with_context(|| format!("memory that is shared with {guest}"))?;
        Ok((SharedMemory(files), file))
    }

    /// The socket by which the core that polls for the guest takes relays.
    pub fn listener(&self) -> Result<UnixListener> {
        UnixListener::bind(&self.0.relays).context("a socket for what polls for a guest")
    }

    /// Opens the memory of this guest.
    ///
    /// # Errors
    /// The guest shares no memory.
    pub fn open(guest: &str) -> Result<Opened> {
        let files = Files::of(guest)?;
        let open = || {
            let text = fs::read_to_string(&files.bridge)?;
            let mut words = text.split(' ');
            let bridge = words.next().context("a bridge")?.to_owned();
            let address = parse_mac(words.next().context("an address")?)?;
            let datapath_cpu = words.next().map(str::parse).transpose()?;
            let memory = OpenOptions::new().read(true).write(true).open(&files.memory)?;
            let bytes = usize::try_from(memory.metadata()?.len())?;
            let polls = files.relays.exists();
            let polling = polls.then(|| UnixStream::connect(&files.relays)).transpose()?;
            anyhow::Ok(Opened { memory, bytes, bridge, address, polling, datapath_cpu })
        };
        open().with_context(|| format!("{guest} shares no memory with this machine"))
    }
}

/// Has a bridge receive frames to this address as to its own, as long as the bridge exists.
pub fn listen_beside(bridge: &Link, mac: Mac) -> Result<()> {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Bridge;
    message.header.ifindex = bridge.index;
    message.header.state = NeighbourState::Permanent;
    message.header.flags = NeighbourFlags::Own;
    message.attributes = vec![NeighbourAttribute::LinkLayerAddress(mac.to_vec())];
    let netlink = Netlink::route()?;
    netlink
        .execute(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)
        .with_context(|| format!("giving the bridge {} an address more", bridge.name))
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0.memory);
        let _ = fs::remove_file(&self.0.bridge);
        let _ = fs::remove_file(&self.0.relays);
    }
}
