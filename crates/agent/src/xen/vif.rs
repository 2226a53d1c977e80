//! The hotplug script of guests' interfaces: libxl runs it, once netback has made the interface, with
//! what it is about in the environment, and waits for it.
//!
//! Source: Xen's docs/man/xl-network-configuration.5.pod (script, bridge, mtu) and
//! tools/hotplug/Linux/vif-bridge for what libxl and netback expect of one.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::store::Store;
use crate::net::Links;

/// From netback's having made an interface to its being in the run's network namespace: on a user's
/// host somebody has to bring it there.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(5);

/// What Xen's tools run when a guest's interface comes or goes
#[derive(clap::Args)]
pub struct Arguments {
    /// The script, as its interpreter is told
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
/// the reason from the store, and `xl create` tells it.
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
    let (key, text) = match &outcome {
        Ok(()) => ("hotplug-status", "connected".to_owned()),
        Err(error) => ("hotplug-error", format!("{error:#}")),
    };
    store.write(&format!("{backend}/{key}"), &text)?;
    outcome
}

fn join(interface: &str, backend: &str, store: &mut Store<UnixStream>) -> Result<()> {
    let mut read = |key: &str| store.read(&format!("{backend}/{key}"));
    let bridge = read("bridge")?.unwrap_or_default();
    let links = Links::open()?;
    await_arrival(&links, interface)?;
    if let Some(mtu) = read("mtu")? {
        let mtu = mtu.trim().parse().with_context(|| format!("{mtu:?} is no MTU"))?;
        links.set_mtu(interface, mtu)?;
    }
    match bridge.trim() {
        "" => bail!("the interface names no bridge"),
        bridge => links.set_master(interface, Some(bridge))?,
    }
    links.set_up(interface)
}

fn await_arrival(links: &Links, interface: &str) -> Result<()> {
    let deadline = Instant::now() + ARRIVAL_LIMIT;
    while let Err(error) = links.get(interface) {
        if Instant::now() > deadline {
            return Err(error).context("nobody has handed the guest's interface over");
        }
        std::thread::sleep(STEP);
    }
    Ok(())
}
