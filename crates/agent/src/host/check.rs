//! Whether a bench or a trial makes sense, before anything is started for it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use hypertare_plan::{Bench, Interface, Life, LinkKind, Node, NodeKind, Route, Task, Trial};

/// The kernel's limit, without the terminating zero.
const LONGEST_INTERFACE_NAME: usize = 15;
/// Beyond this, a duration cannot be distinguished from for ever, nor put into the kernel's types.
const LONGEST_SECONDS: f64 = 30.0 * 86400.0;
/// Nodes that live at once.
const MORE_THAN_ANY_HOST: u32 = 4097;

pub fn bench(bench: &Bench) -> Result<(), String> {
    if bench.nodes.is_empty() {
        return Err("the bench has no nodes".to_owned());
    }
    let mut links = BTreeSet::new();
    for link in &bench.links {
        interface_name(&link.name)?;
        if !links.insert(&link.name) {
            return Err(format!("the bench has two links of the name {}", link.name));
        }
    }
    let mut nodes = BTreeSet::new();
    for node in &bench.nodes {
        node_name(&node.name)?;
        if !nodes.insert(&node.name) {
            return Err(format!("the bench has two nodes of the name {}", node.name));
        }
        for interface in &node.interfaces {
            if !links.contains(&interface.link) {
                return Err(format!(
                    "node {} is on a link {} that is not there",
                    node.name, interface.link
                ));
            }
            check_interface(interface).map_err(|why| format!("node {}: {why}", node.name))?;
            let is_on = |kind| is_on_link_of(bench, interface, kind);
            if is_on(LinkKind::Route) {
                on_routed_link(node, interface)
                    .map_err(|why| format!("node {}: {why}", node.name))?;
            }
            if is_on(LinkKind::Hub) && interface.mac.is_none() {
                return Err(format!(
                    "node {}: interface {} is on a hub and does not say which NIC it is: give its \
                     MAC address",
                    node.name, interface.name
                ));
            }
        }
        check_routing(bench, node).map_err(|why| format!("node {}: {why}", node.name))?;
        match &node.kind {
            NodeKind::Guest(guest) => seconds("boot_limit_s", guest.boot_limit_s)?,
            NodeKind::Domain(domain) => seconds("boot_limit_s", domain.boot_limit_s)?,
            NodeKind::Host | NodeKind::Container(_) | NodeKind::Given(_) => {}
        }
    }
    Ok(())
}

pub fn trial(trial: &Trial) -> Result<(), String> {
    for phase in &trial.phases {
        seconds("limit_s", phase.limit_s).map_err(|why| format!("phase {}: {why}", phase.name))?;
        let mut ids = BTreeSet::new();
        for task in &phase.tasks {
            if !ids.insert(&task.id) {
                return Err(format!("phase {} has two tasks of the id {}", phase.name, task.id));
            }
        }
        for life in &phase.lives {
            let own = [&life.id].into_iter().chain(tasks_of(life).map(|task| &task.id));
            for id in own {
                if !ids.insert(id) {
                    return Err(format!("phase {} has two tasks of the id {id}", phase.name));
                }
            }
            check_life(life)?;
        }
        if phase.lives.is_empty() && phase.tasks.iter().all(|task| task.background) {
            return Err(format!("phase {} has no foreground task that could end it", phase.name));
        }
    }
    Ok(())
}

fn tasks_of(life: &Life) -> impl Iterator<Item = &Task> {
    let reached = life.reached.iter().flat_map(|one| [&one.answer, &one.ask]);
    life.work.iter().chain(reached)
}

fn check_life(life: &Life) -> Result<(), String> {
    let node = &life.node;
    node_name(&node.name)?;
    let name = &node.name;
    if node.files.is_some() {
        return Err(format!("node {name} lives for a phase, and can have no files"));
    }
    node.interfaces
        .iter()
        .try_for_each(check_interface)
        .map_err(|why| format!("node {name}: {why}"))?;
    let asks = life.reached.as_ref().map(|one| &one.ask.id);
    if let Some(task) = tasks_of(life).find(|task| (task.node == *name) == (Some(&task.id) == asks))
    {
        return Err(format!("task {} of the life of {name} is not for {}", task.id, task.node));
    }
    check_power_cut(life)?;
    match life.most {
        Some(most @ (0 | 1 | MORE_THAN_ANY_HOST..)) => Err(format!(
            "{most} like {name} are to live at once: 2 to {} can",
            MORE_THAN_ANY_HOST - 1
        )),
        Some(_) if life.restored || life.reached.is_some() => {
            Err(format!("as many as go live beside {name}, and then none is reached or restored"))
        }
        _ => Ok(()),
    }
}

/// A life has a disk only if its power is cut.
fn check_power_cut(life: &Life) -> Result<(), String> {
    let name = &life.node.name;
    let has_lasting_disk = life.node.disk.as_ref().is_some_and(|disk| disk.write_cache);
    match &life.power_cut {
        None if life.node.disk.is_some() => {
            Err(format!("node {name} lives for a phase, and can have no disk"))
        }
        None => Ok(()),
        Some(_) if !has_lasting_disk || life.restored || !life.node.interfaces.is_empty() => {
            Err(format!(
                "node {name}: its power can be cut with a disk that outlives it, off the network"
            ))
        }
        Some(cut) => seconds("after_s", cut.after_s),
    }
}

/// The nodes without which the trial cannot be executed.
pub fn needed(trial: &Trial) -> BTreeSet<String> {
    let knobs = trial.knobs.iter().map(|setting| &setting.node);
    let tasks = trial.phases.iter().flat_map(|phase| phase.tasks.iter().map(|task| &task.node));
    let probes = trial.phases.iter().flat_map(|phase| phase.probes.iter().map(|probe| &probe.node));
    let lives = trial.phases.iter().flat_map(|phase| &phase.lives);
    let asking = lives.filter_map(|life| Some(&life.reached.as_ref()?.ask.node));
    knobs.chain(tasks).chain(probes).chain(asking).cloned().collect()
}

fn seconds(name: &str, value: f64) -> Result<(), String> {
    if value > 0.0 && value <= LONGEST_SECONDS {
        return Ok(());
    }
    Err(format!("{name} is {value}; it must be above 0 and at most {LONGEST_SECONDS}"))
}

fn check_interface(interface: &Interface) -> Result<(), String> {
    interface_name(&interface.name)?;
    let mut addresses = std::iter::once(&interface.address).chain(&interface.more_addresses);
    addresses.try_for_each(|address| with_length(address).map(drop))
}

fn with_length(text: &str) -> Result<IpAddr, String> {
    let valid = text.split_once('/').and_then(|(address, length)| {
        let address: IpAddr = address.parse().ok()?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        (length.parse::<u8>().ok()? <= bits).then_some(address)
    });
    valid.ok_or_else(|| {
        format!("{text:?} is not an address with a prefix length, like 10.77.0.2/24")
    })
}

/// Only guests of Xen can be routed, and the node `host` routes them.
fn on_routed_link(node: &Node, interface: &Interface) -> Result<(), String> {
    let text = format!("interface {} is on the link {}", interface.name, interface.link);
    let is_host = match &node.kind {
        NodeKind::Domain(_) => false,
        NodeKind::Host if interface.mac.is_some() => true,
        NodeKind::Host => {
            return Err(format!("{text}, which is routed: give the NIC's MAC address"));
        }
        _ => return Err(format!("{text}, on which only guests of Xen and the host can be")),
    };
    if !interface.address.contains('.') {
        return Err(format!("{text}, which routes IPv4 only, and has none: {}", interface.address));
    }
    if is_host && node.router.is_none() {
        return Err(format!("{text}, which it is to route, and it is no router"));
    }
    Ok(())
}

fn is_on_link_of(bench: &Bench, interface: &Interface, kind: LinkKind) -> bool {
    bench.links.iter().any(|link| link.name == interface.link && link.kind == kind)
}

fn check_routing(bench: &Bench, node: &Node) -> Result<(), String> {
    for Route { to, via } in &node.routes {
        let network = with_length(to)?;
        let via: IpAddr =
            via.parse().map_err(|_| format!("{via:?} is not the address of a router"))?;
        if network.is_ipv4() != via.is_ipv4() {
            return Err(format!("the route to {to} goes via {via}, which is of another family"));
        }
    }
    let Some(router) = &node.router else { return Ok(()) };
    // The other interfaces of a driver domain that routes guests are the guests' own.
    let routes_guests = node.kind == NodeKind::Host
        && node.interfaces.iter().any(|one| is_on_link_of(bench, one, LinkKind::Route));
    let interfaces = node.interfaces.len() + usize::from(routes_guests);
    if interfaces < 2 {
        return Err(format!("it is to forward and has {interfaces} interfaces: it needs two"));
    }
    match router.queue.as_ref().and_then(|queue| queue.length) {
        Some(length @ (0 | 1_000_001..)) => {
            Err(format!("its queues are to hold {length} packets: 1 to 1000000 can be held"))
        }
        _ => Ok(()),
    }
}

fn interface_name(name: &str) -> Result<(), String> {
    let fits =
        !name.is_empty() && name.len() <= LONGEST_INTERFACE_NAME && name != "." && name != "..";
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    if fits && plain && name != "lo" {
        return Ok(());
    }
    Err(format!(
        "{name:?} cannot be the name of a link or an interface: 1 to {LONGEST_INTERFACE_NAME} \
         letters, digits, `_`, `.` or `-`"
    ))
}

/// It becomes part of names of directories.
fn node_name(name: &str) -> Result<(), String> {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    if plain && (1..=32).contains(&name.len()) {
        return Ok(());
    }
    Err(format!("{name:?} cannot be the name of a node: 1 to 32 letters, digits, `_` or `-`"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A driver domain that routes one guest, with changes of its interface and of itself.
    fn routed(interface: Value, host: Value, guest: Value) -> Result<(), String> {
        let mut whole = json!({"name": "b", "links": [{"name": "lan", "kind": "route",
            "uplink": {"mac": "52:54:00:00:00:01"}}], "nodes": [
            {"name": "host", "kind": {"type": "host"}, "router": {}, "interfaces": [
                {"name": "sut0", "link": "lan", "address": "10.77.0.1/24",
                 "mac": "52:54:00:00:00:01"}]},
            {"name": "guest1", "kind": {"type": "domain", "cpus": 1, "memory": 134217728,
                "kernel": "/k", "initramfs": ["/i"], "boot_limit_s": 60}, "interfaces": [
                {"name": "eth0", "link": "lan", "address": "10.77.0.3/24"}]}]});
        let change = |place: &mut Value, changes: Value| {
            for (key, value) in changes.as_object().unwrap() {
                place[key] = value.clone();
            }
        };
        change(&mut whole["nodes"][0]["interfaces"][0], interface);
        change(&mut whole["nodes"][0], host);
        change(&mut whole["nodes"][1], guest);
        bench(&serde_json::from_value(whole).unwrap())
    }

    #[test]
    fn a_link_that_is_routed_has_guests_of_xen_and_a_host_that_routes() {
        assert_eq!(routed(json!({}), json!({}), json!({})), Ok(()));
        let error = routed(json!({"mac": null}), json!({}), json!({})).unwrap_err();
        assert!(error.contains("node host") && error.contains("MAC address"), "{error}");
        let error = routed(json!({}), json!({"router": null}), json!({})).unwrap_err();
        assert!(error.contains("it is no router"), "{error}");
        let error = routed(json!({"address": "fd00::1/64"}), json!({}), json!({})).unwrap_err();
        assert!(error.contains("routes IPv4 only"), "{error}");
        let container = json!({"kind": {"type": "container"}});
        let error = routed(json!({}), json!({}), container).unwrap_err();
        assert!(error.contains("only guests of Xen and the host"), "{error}");
    }
}
