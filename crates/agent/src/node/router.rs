//! Routes of this node, and what makes it a router.

use anyhow::{Context, Result};
use hypertare_plan::{Interface, Route, Router};

use crate::net::Links;
use crate::net::forwarding;
use crate::net::queue;
use crate::net::route::Routes;

/// The interfaces are up. A node that is no router forwards nothing. One that was given no interfaces may be
/// in the user's own network, where nothing is set: many a host forwards, for its containers.
pub fn set_up(interfaces: &[Interface], routes: &[Route], router: Option<&Router>) -> Result<()> {
    let known = Routes::open()?;
    routes.iter().try_for_each(|route| known.add(&route.to, &route.via))?;
    if interfaces.is_empty() && router.is_none() {
        return Ok(());
    }
    let (ipv4, ipv6) = router.map_or((false, false), |router| (router.ipv4, router.ipv6));
    forwarding::set(ipv4, ipv6).context("forwarding cannot be set")?;
    let Some(router) = router else { return Ok(()) };
    let links = Links::open()?;
    for interface in interfaces {
        if router.ipv4 {
            forwarding::check_sources(&interface.name)?;
        }
        if let Some(queue) = &router.queue {
            queue::set(&links, &interface.name, queue)?;
        }
    }
    Ok(())
}
