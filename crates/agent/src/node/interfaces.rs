//! Sets up the interfaces of this node, and tells how they then are.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hypertare_plan::{Interface, Record};

use super::desk::Desk;
use crate::net::ethtool::{self, Ethtool};
use crate::net::link::{Link, Links};

/// A guest's NIC may be announced a little later than its agent.
const APPEAR_LIMIT: Duration = Duration::from_secs(5);

pub fn set_up(desk: &Desk, interfaces: &[Interface], mtu: u32) -> Result<()> {
    let links = Links::open()?;
    links.set_up("lo")?;
    for interface in interfaces {
        set_up_one(desk, &links, interface, mtu)
            .with_context(|| format!("interface {} cannot be set up", interface.name))?;
    }
    Ok(())
}

fn set_up_one(desk: &Desk, links: &Links, interface: &Interface, mtu: u32) -> Result<()> {
    let name = &interface.name;
    let found = find(links, interface)?;
    if found.name != *name {
        links.rename(&found.name, name)?;
    }
    // Without being asked, a link that is up already is not set again.
    if found.mtu != mtu {
        links.set_mtu(name, mtu)?;
    }
    if !links.addresses(name)?.contains(&interface.address) {
        links.add_address(name, &interface.address)?;
    }
    links.set_up(name)?;
    set_offloads(interface)?;
    let mut state = ethtool::state(name)?;
    state.node = desk.node().to_owned();
    desk.emit(Record::Interface(state));
    Ok(())
}

/// By its MAC address if that was given, else by its name.
fn find(links: &Links, interface: &Interface) -> Result<Link> {
    let deadline = Instant::now() + APPEAR_LIMIT;
    loop {
        let all = links.list()?;
        let found = all.iter().find(|link| match &interface.mac {
            Some(mac) => link.mac.eq_ignore_ascii_case(mac),
            None => link.name == interface.name,
        });
        if let Some(link) = found {
            return Ok(link.clone());
        }
        if Instant::now() > deadline {
            let what = interface.mac.as_ref().map_or(String::new(), |mac| format!(" of MAC {mac}"));
            let names: Vec<String> = all.into_iter().map(|link| link.name).collect();
            bail!("there is no interface{what} here; there are: {}", names.join(", "));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn set_offloads(interface: &Interface) -> Result<()> {
    let ethtool = Ethtool::open(&interface.name)?;
    for (offload, &on) in &interface.offloads {
        if ethtool.offload(offload)? != on {
            ethtool.set_offload(offload, on)?;
        }
    }
    Ok(())
}
