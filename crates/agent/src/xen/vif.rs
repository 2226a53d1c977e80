//! The hotplug script of guests' interfaces: libxl runs it, once netback has made the interface, with
//! what it is about in the environment, and waits for it.
//!
//! Source: Xen's docs/man/xl-network-configuration.5.pod (script, bridge, mtu) and
//! tools/hotplug/Linux/vif-bridge for what libxl and netback expect of one.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::tools;
use crate::net::Links;

/// A file whose interpreter is this agent: see the image's builder.
pub const SCRIPT: &str = "/xen/vif";

const LIMIT: Duration = Duration::from_secs(30);

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
    let outcome = variable("vif").and_then(|interface| join(&interface, &backend));
    let (key, text) = match &outcome {
        Ok(()) => ("hotplug-status", "connected".to_owned()),
        Err(error) => ("hotplug-error", format!("{error:#}")),
    };
    tools::run("xenstore-write", &[&format!("{backend}/{key}"), &text], LIMIT)?;
    outcome
}

fn join(interface: &str, backend: &str) -> Result<()> {
    let read = |key: &str| tools::run("xenstore-read", &[&format!("{backend}/{key}")], LIMIT);
    let bridge = read("bridge").context("the interface names no bridge")?;
    let links = Links::open()?;
    if let Ok(mtu) = read("mtu") {
        let mtu = mtu.trim().parse().with_context(|| format!("{mtu:?} is no MTU"))?;
        links.set_mtu(interface, mtu)?;
    }
    match bridge.trim() {
        "" => bail!("the interface names no bridge"),
        bridge => links.set_master(interface, Some(bridge))?,
    }
    links.set_up(interface)
}
