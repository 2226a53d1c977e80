//! The machine's end: a file that a guest's VMM has as the guest's memory too, and beside it the name of the
//! bridge to which the guest's frames come. Both are made with the guest and go with it.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::neighbour::{
    NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;

use crate::net::Link;
use crate::net::frames::layout::Mac;
use crate::net::frames::memory::Shared;
use crate::net::netlink::Netlink;
use crate::process::namespaces::scratch;

const DIRECTORY: &str = "rings";

/// Memory that a guest has in common with its machine; given up when dropped.
pub struct Lent(Files);

struct Files {
    memory: PathBuf,
    bridge: PathBuf,
}

impl Files {
    fn of(guest: &str) -> Result<Self> {
        ensure!(
            !guest.contains(['/', '\0']) && !guest.starts_with('.'),
            "{guest:?} is no node's name"
        );
        let directory = scratch(DIRECTORY)?;
        let bridge = directory.join(format!("{guest}.bridge"));
        Ok(Files { memory: directory.join(guest), bridge })
    }
}

impl Lent {
    /// Makes it, for a VMM that is another user.
    pub fn make(guest: &str, bytes: u64, bridge: &str) -> Result<(Self, File)> {
        let files = Files::of(guest)?;
        let make = || {
            let mut options = OpenOptions::new();
            let file =
                options.read(true).write(true).create(true).truncate(true).open(&files.memory)?;
            file.set_len(bytes)?;
            file.set_permissions(Permissions::from_mode(0o666))?;
            fs::write(&files.bridge, bridge)?;
            std::io::Result::Ok(file)
        };
        let file = make().with_context(|| format!("memory that is shared with {guest}"))?;
        Ok((Lent(files), file))
    }

    /// What was made for this guest: its memory, and the bridge.
    ///
    /// # Errors
    /// It has none.
    pub fn open(guest: &str) -> Result<(Shared, String)> {
        let files = Files::of(guest)?;
        let open = || {
            let bridge = fs::read_to_string(&files.bridge)?;
            let file = OpenOptions::new().read(true).write(true).open(&files.memory)?;
            let length = usize::try_from(file.metadata()?.len()).map_err(std::io::Error::other)?;
            std::io::Result::Ok((Shared::map(&file, length)?, bridge))
        };
        open().with_context(|| format!("{guest} shares no memory with this machine"))
    }
}

/// Has a bridge take the frames to this address itself, as it takes those to its own, as long as it is there.
pub fn listen_beside(bridge: &Link, mac: Mac) -> Result<()> {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Bridge;
    message.header.ifindex = bridge.index;
    message.header.state = NeighbourState::Permanent;
    message.header.flags = NeighbourFlags::Own;
    message.attributes = vec![NeighbourAttribute::LinkLayerAddress(mac.to_vec())];
    let netlink = Netlink::<RouteNetlinkMessage>::open(NETLINK_ROUTE)?;
    netlink
        .execute(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)
        .with_context(|| format!("giving the bridge {} an address more", bridge.name))
}

impl Drop for Lent {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0.memory);
        let _ = fs::remove_file(&self.0.bridge);
    }
}
