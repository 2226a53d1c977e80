//! Guests' interfaces in the driver domain: how they are joined to what is beyond it, by the hotplug
//! script, and whether they still are. libxl runs the script, once netback has made the interface, with
//! what it is about in the environment, and waits for it.
//!
//! Source: Xen's docs/man/xl-network-configuration.5.pod (script, bridge, ip, gatewaydev, mtu), and its
//! tools/hotplug/Linux/vif-bridge and vif-route for what libxl and netback expect of one.

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, bail, ensure};
use hypertare_plan::{Interface, Link, LinkKind};

use super::store::Store;
use super::{journal, keeper};
use crate::net::route::Routes;
use crate::net::{Links, forwarding};
use crate::process::cgroup::{self, Scope};
use crate::process::wait_until;

/// From netback's having made an interface to its being in the run's network namespace: on a user's
/// host somebody has to bring it there.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(5);

/// What Xen's tools run when a guest's interface comes or goes
#[derive(clap::Args)]
pub struct Arguments {
    /// The script, as its interpreter takes it
    #[arg(hide = true)]
    script: String,
    /// `online`, `offline`, `add` or `remove`
    what: String,
    /// `type_if=vif`
    #[arg(hide = true)]
    words: Vec<String>,
}

/// # Errors
/// The environment is not that of a hotplug script, or the interface cannot be joined. The tools read
/// the reason from the store, and `xl create` reports it.
pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.what != "online" {
        return Ok(());
    }
    let variable = |name: &str| {
        std::env::var(name).with_context(|| format!("{name} is not in the environment"))
    };
    let backend = variable("XENBUS_PATH")?;
    let mut store = Store::open()?;
    let outcome = variable("vif").and_then(|interface| join(&interface, &backend, &mut store));
    report(&mut store, &backend, outcome)
}

/// Leaves in the store how a hotplug script ended, where libxl looks for that.
///
/// # Errors
/// The outcome's, or the store does not take it.
pub fn report(store: &mut Store<UnixStream>, backend: &str, outcome: Result<()>) -> Result<()> {
    let (key, text) = match &outcome {
        Ok(()) => ("hotplug-status", "connected".to_owned()),
        Err(error) => ("hotplug-error", format!("{error:#}")),
    };
    store.write(&format!("{backend}/{key}"), &text)?;
    outcome
}

fn join(interface: &str, backend: &str, store: &mut Store<UnixStream>) -> Result<()> {
    let links = Links::open()?;
    await_arrival(&links, interface).map_err(|error| explain(error, interface, store))?;
    let mut read = |key: &str| store.read(&format!("{backend}/{key}"));
    if let Some(mtu) = read("mtu")? {
        let mtu = mtu.trim().parse().with_context(|| format!("{mtu:?} is no MTU"))?;
        links.set_mtu(interface, mtu)?;
    }
    // libxl gives every interface a bridge, asked for or not.
    let way = match read("gatewaydev")? {
        Some(_) => Way::Route(parse(&read("ip")?.unwrap_or_default())?),
        None => Way::Bridge(read("bridge")?.unwrap_or_default()),
    };
    Joint { interface: interface.to_owned(), way }.make()
}

/// How a guest's interface is to be joined.
#[derive(Clone, Debug, PartialEq)]
pub struct Joint {
    /// netback's, here.
    interface: String,
    way: Way,
}

#[derive(Clone, Debug, PartialEq)]
enum Way {
    /// As a port of this bridge.
    Bridge(String),
    /// By a route to this address, the guest's.
    Route(Ipv4Addr),
}

impl Joint {
    /// Of the interface that stands at this place, from 0, among those of a domain.
    ///
    /// # Errors
    /// The link is none that a guest's interface can be joined to.
    pub fn of(domain: u32, place: usize, interface: &Interface, link: &Link) -> Result<Self> {
        let way = match link.kind {
            LinkKind::Bridge => Way::Bridge(link.name.clone()),
            LinkKind::Route => Way::Route(guest_address(interface)?),
            LinkKind::Hub => bail!("a guest of Xen cannot be on the hub {}", link.name),
        };
        Ok(Joint { interface: format!("vif{domain}.{place}"), way })
    }

    /// # Errors
    /// There is no such interface, or it cannot be joined that way.
    pub fn make(&self) -> Result<()> {
        let (links, name) = (Links::open()?, &self.interface);
        match &self.way {
            Way::Bridge(bridge) if bridge.is_empty() => bail!("the interface names no bridge"),
            Way::Bridge(bridge) => {
                links.set_master(name, Some(bridge))?;
                links.set_up(name)
            }
            Way::Route(address) => {
                links.set_up(name)?;
                Routes::open()?.add_neighbour(*address, &links.get(name)?)?;
                forwarding::answer_for_others(name)
            }
        }
    }

    /// Looks how it is joined, and whether packets pass that way.
    ///
    /// # Errors
    /// It is not joined as it is to be; with how it is.
    pub fn check(&self) -> Result<LinkKind> {
        let (links, name) = (Links::open()?, &self.interface);
        let link = links.get(name)?;
        ensure!(link.up, "{name} is down");
        match &self.way {
            Way::Bridge(bridge) => {
                let master = links.get(bridge)?.index;
                ensure!(link.master == Some(master), "{name} is no port of the bridge {bridge}");
                Ok(LinkKind::Bridge)
            }
            Way::Route(address) => {
                ensure!(link.master.is_none(), "{name} is a port of a bridge, and is to be routed");
                let leads_here = Routes::open()?.link_to(*address)? == Some(link.index);
                ensure!(leads_here, "no route leads to {address} by {name}");
                let forwards = forwarding::forwards_for_others(name)?;
                ensure!(forwards, "{name} takes nothing in that is for others");
                Ok(LinkKind::Route)
            }
        }
    }
}

/// The one that a link which is routed knows a guest by.
pub fn guest_address(interface: &Interface) -> Result<Ipv4Addr> {
    let (address, _) = interface.address.split_once('/').unwrap_or((&interface.address, ""));
    parse(address)
}

fn parse(address: &str) -> Result<Ipv4Addr> {
    address
        .parse()
        .with_context(|| format!("{address:?} is no IPv4 address: only those are routed"))
}

/// With what the run's keeper has noted, who was to hand the interface over.
fn explain(error: Error, interface: &str, store: &mut Store<impl Read + Write>) -> Error {
    match trouble(interface, store) {
        Some(trouble) => error.context(trouble),
        None => error,
    }
}

fn trouble(interface: &str, store: &mut Store<impl Read + Write>) -> Option<String> {
    let name = store.name_of(keeper::domain_of(interface)?).ok()??;
    journal::trouble(store, &Scope::named(cgroup::run_of(&name)?)).ok()?
}

fn await_arrival(links: &Links, interface: &str) -> Result<()> {
    wait_until(Instant::now() + ARRIVAL_LIMIT, STEP, || links.get(interface).is_ok());
    links.get(interface).map(drop).context("nobody has handed the guest's interface over")
}

#[cfg(test)]
mod tests {
    use super::super::store::tests::in_memory;
    use super::*;

    #[test]
    fn who_waits_in_vain_for_an_interface_hears_what_its_keeper_noted() {
        let name = ("/local/domain/7/name", "hypertare-7-99.xen1");
        let noted = ("/tool/hypertare/hypertare-7-99/trouble", "the keeper cannot: it is silent");
        let reported = |holds: &[(&str, &str)]| {
            format!("{:#}", explain(Error::msg("nobody came"), "vif7.0", &mut in_memory(holds)))
        };
        assert_eq!(reported(&[name, noted]), "the keeper cannot: it is silent: nobody came");
        assert_eq!(reported(&[name]), "nobody came");
        assert_eq!(reported(&[("/local/domain/7/name", "xen1"), noted]), "nobody came");
    }
}
