//! Sets up the interfaces of this node, and returns how they then are.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hypertare_plan::{Interface, Record};

use super::node_emitter::NodeEmitter;
use crate::net::ethtool::{self, Ethtool};
use crate::net::forwarding;
use crate::net::link::{Link, Links};

/// A guest's NIC may be announced a little later than its agent.
const APPEAR_LIMIT: Duration = Duration::from_secs(5);

pub fn set_up(node_emitter: &NodeEmitter, interfaces: &[Interface], mtu: u32) -> Result<()> {
    let links = Links::open()?;
    // This host's own network is as it is, and nobody here may set it.
    if !links.get("lo")?.up {
        links.set_up("lo")?;
    }
    for interface in interfaces {
        set_up_one(node_emitter, &links, interface, mtu)
            .with_context(|| format!("interface {} cannot be set up", interface.name))?;
    }
    Ok(())
}

fn set_up_one(
    node_emitter: &NodeEmitter,
    links: &Links,
    interface: &Interface,
    mtu: u32,
) -> Result<()> {
    let name = &interface.name;
    let found = find(links, interface)?;
    if found.name != *name {
        links.rename(&found.name, name)?;
    }
    if let Some(mac) = interface.mac.as_ref().filter(|mac| !mac.eq_ignore_ascii_case(&found.mac)) {
        links.set_mac(name, mac)?;
    }
    if found.mtu != mtu {
        links.set_mtu(name, mtu)?;
    }
    let has_ipv6 = addresses(interface).any(|address| address.contains(':'));
    if has_ipv6 {
        forwarding::trust_own_address(name)?;
    }
    let known = links.addresses(name)?;
    for address in addresses(interface).filter(|address| !known.contains(address)) {
        links.add_address(name, address)?;
    }
    links.set_up(name)?;
    let ethtool = Ethtool::open(name)?;
    for (offload, &on) in &interface.offloads {
        if ethtool.offload(offload)? != on {
            ethtool.set_offload(offload, on)?;
        }
    }
    // Hardware negotiates for seconds after it was set up, and after each change of some settings.
    if interface.nic.is_some()
        && let Err(error) = links.wait_for_carrier(name, APPEAR_LIMIT)
    {
        node_emitter.warn(format!("{error:#}"));
    }
    if has_ipv6 && interface.nic.is_none() {
        links.wait_for_addresses(name, APPEAR_LIMIT)?;
    }
    let mut state = ethtool::state(name)?;
    node_emitter.node().clone_into(&mut state.node);
    node_emitter.emit(&Record::Interface(state));
    Ok(())
}

fn addresses(interface: &Interface) -> impl Iterator<Item = &String> {
    std::iter::once(&interface.address).chain(&interface.more_addresses)
}

/// By its MAC address, which is how a guest knows its NICs apart, else by its name.
fn find(links: &Links, interface: &Interface) -> Result<Link> {
    let deadline = Instant::now() + APPEAR_LIMIT;
    loop {
        let all = links.list()?;
        let mac = interface.mac.as_deref().unwrap_or_default();
        let by_mac = all.iter().find(|link| !mac.is_empty() && link.mac.eq_ignore_ascii_case(mac));
        let found = by_mac.or_else(|| all.iter().find(|link| link.name == interface.name));
        if let Some(link) = found {
            return Ok(link.clone());
        }
        if Instant::now() > deadline {
            let names: Vec<String> = all.into_iter().map(|link| link.name).collect();
            bail!("there is no such interface; there are: {}", names.join(", "));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
