//! The real machine: bridges, veth pairs and TAPs in the sandbox's own network namespace, processes
//! in namespaces, and VMs.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::datapath::serve::ServeMode;
use anyhow::{Context, Error, Result, bail};
use hypertare_plan::{
    Accelerator, Bench, Container, Datapath, DiskFormat, Domain as DomainPlan, FileSharing, Given,
    Guest, Interface, Link, LinkKind, NicModel, Node, NodeKind, RunningAgent, Trunk,
};

use super::disk;
use super::machine::{Machine, Started};
use super::sandbox::Network;
use crate::boot_contract::is_own_machine;
use crate::datapath::vhost_user::{Ended, Served, VhostUserBackend};
use crate::links::Inbox;
use crate::links::domain::DomainLink;
use crate::links::guest::{Datapath as CardsServed, GuestLink, Held, Port, Provisions, Spec, Way};
use crate::links::joined::{Carrier, JoinedLink};
use crate::links::process::{Pipes, ProcessLink};
use crate::net::link::parse_mac;
use crate::net::shared::memory::{self, SharedMemory};
use crate::net::{Links, Namespace, forwarding, line, shared, tap, vhost};
use crate::own_machine::blkback;
use crate::own_machine::null_blk::NullBlk;
use crate::process::cgroup::{Cgroup, Limits, Scope};
use crate::process::cpus::{self, KeptFrom};
use crate::process::namespaces;
use crate::process::spawn::Spawn;
use crate::process::weights::Weights;
use crate::vmm::guest_command_line::model;
use crate::vmm::shared_files::SharedFiles;
use crate::vmm::spec::Medium;
use crate::vmm::tsc;
use crate::xen::domain::link_of;
use crate::xen::toolstack::XenToolstack;
use crate::xen::{placement, scheduler};

/// From setting a NIC up until frames pass it.
const CARRIER_LIMIT: Duration = Duration::from_secs(10);

const NO_LIMIT: &str = "no cgroup limits its memory: see `hypertare doctor`";

const OF_HOSTS_NETWORK: &str = "commands have this host's network, as asked: what they do there stays, and \
                                what others do there is in the figures";

pub struct Local {
    scope: Scope,
    network: Network,
    links: Links,
    /// Given if the bench asks for them.
    weights: Option<Weights>,
    /// What guests of Xen are made with, or why there can be none.
    xen: Result<XenToolstack, String>,
    /// The process that moves the packets of all guests without such a process of their own.
    sidecore: Option<Arc<VhostUserBackend>>,
    /// Keeps all else of the bench off the CPU for what moves packets.
    kept_from: Option<KeptFrom>,
    /// Memory of guests.
    shared_memory: Vec<SharedMemory>,
    /// Disks that outlive their nodes, by the names of the nodes.
    lasting: BTreeMap<String, NullBlk>,
    /// Names of what was made and is to be removed.
    made: Vec<String>,
    /// MAC addresses of the NICs that guests are routed to.
    routed: Vec<String>,
    /// For names and addresses that are used once only: the kernel may still be removing those of
    /// the bench before.
    next: u32,
}

impl Local {
    pub fn new(scope: Scope, network: Network, xen: Result<XenToolstack, String>) -> Result<Self> {
        let links = Links::open()?;
        if network == Network::Own {
            links.set_up("lo")?;
        }
        Ok(Local {
            scope,
            network,
            links,
            weights: None,
            xen,
            sidecore: None,
            kept_from: None,
            shared_memory: Vec::new(),
            lasting: BTreeMap::new(),
            made: Vec::new(),
            routed: Vec::new(),
            next: 0,
        })
    }

    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn start_process(&mut self, bench: &Bench, node: &Node, inbox: Inbox) -> Result<Started> {
        let memory = match &node.kind {
            NodeKind::Container(container) => Some(container.memory),
            _ => None,
        };
        let mut warnings: Vec<String> = Vec::new();
        // Said once: of the baseline, which is in every run.
        if self.network == Network::Host && memory.is_none() {
            warnings.push(OF_HOSTS_NETWORK.into());
        }
        let cgroup = match memory {
            Some(memory) => {
                self.cgroup(&node.name, Limits { memory, cpus: &node.cpus }, &mut warnings)
            }
            // Without it a program could set its own affinity, and have CPUs natively that a guest lacks.
            None => Cgroup::of_cpus(&self.scope, &node.name, &node.cpus),
        };
        let place = namespaces::scratch(&format!("node{}", self.number()))?;
        let (theirs, ours) = pipes()?;
        let mut namespaces = libc::CLONE_NEWPID | libc::CLONE_NEWNS;
        let mut arguments: Vec<String> =
            vec!["node".into(), "--place".into(), place.to_string_lossy().into_owned()];
        if memory.is_some() {
            namespaces |= libc::CLONE_NEWUTS | libc::CLONE_NEWIPC;
            if self.network == Network::Own {
                namespaces |= libc::CLONE_NEWNET;
            }
            arguments.push("--as-container".into());
        }
        if let (None, Some(weights)) = (memory, &self.weights) {
            arguments.extend(["--weights".into(), weights.groups().root().display().to_string()]);
        }
        if let (None, Ok(Some(scope))) = (memory, self.xen.as_ref().map(XenToolstack::scope)) {
            arguments.extend(["--scope".into(), scope.name().to_owned()]);
        }
        let disk = self.medium(node, DiskFormat::Raw)?;
        let mut descriptors: Vec<&dyn AsRawFd> = vec![&theirs[0], &theirs[1], &theirs[2]];
        if let Some(disk) = &disk {
            descriptors.push(&disk.file);
            arguments.push("--disk".into());
        }
        let spawn = Spawn { arguments, namespaces, descriptors };
        let child = spawn.start(|pid| {
            cpus::bind(pid, &node.cpus)?;
            if let Some(cgroup) = &cgroup {
                cgroup.add(pid)?;
            }
            if memory.is_some() {
                self.wire(bench, node, pid)?;
            }
            Ok(())
        })?;
        let interfaces = match node.kind {
            NodeKind::Host => node.interfaces.iter().map(|one| own(bench, one)).collect(),
            _ => node.interfaces.clone(),
        };
        let link = ProcessLink::new(child, ours, inbox, (cgroup, memory.is_some()), place);
        Ok(Started { link: Box::new(link), interfaces, mtu: mtu(bench, node), warnings })
    }

    /// Joins a container's interfaces to their links.
    fn wire(&mut self, bench: &Bench, node: &Node, pid: libc::pid_t) -> Result<()> {
        for interface in &node.interfaces {
            let there = Namespace::Pid(pid.unsigned_abs());
            if on_hub(bench, interface) {
                let mac = interface.mac.as_deref().unwrap_or_default();
                self.links.move_to(&self.links.nic(mac)?, there)?;
                continue;
            }
            let name = format!("veth{}", self.number());
            self.links.veth(&name, &interface.name, Some(there))?;
            self.made.push(name.clone());
            self.join(&name, bench, interface)?;
        }
        Ok(())
    }

    /// Makes a NIC of the machine a port of a bridge. The kernel's bridge passes nothing to a port
    /// without carrier, and some NICs take seconds to have one.
    fn lift(&self, link: &Link, mac: &str) -> Result<()> {
        let nic = self.links.nic(mac)?;
        self.links.set_mtu(&nic, link.mtu)?;
        self.links.set_master(&nic, Some(&link.name))?;
        // A node of this machine with a NIC of its own: peers that lost sight of it would find it behind
        // their bridge, and the wire unused.
        forwarding::answer_for_itself(&link.name)?;
        self.links.set_up(&nic)?;
        self.links.wait_for_carrier(&nic, CARRIER_LIMIT)
    }

    /// Has a NIC of the machine answer for the guests that are routed to it. The node `host`, whose
    /// interface it is, sets it up.
    fn route(&mut self, link: &Link) -> Result<()> {
        let uplink = link.uplink.as_ref();
        let mac =
            &uplink.with_context(|| format!("{} leads nowhere: give it an uplink", link.name))?.mac;
        forwarding::answer_for_others(&self.links.nic(mac)?)?;
        self.routed.push(mac.clone());
        Ok(())
    }

    /// Joins two bridges by a line.
    fn join_bridges(&mut self, link: &Link, trunk: &Trunk) -> Result<()> {
        let number = self.number();
        let (near, far) = (format!("near{number}"), format!("far{number}"));
        self.links.veth(&near, &far, None)?;
        self.made.push(near.clone());
        for (name, bridge) in [(&near, &link.name), (&far, &trunk.to)] {
            self.links.set_mtu(name, link.mtu)?;
            self.links.set_master(name, Some(bridge))?;
            line::limit(&self.links, name, trunk.rate_bps)?;
            self.links.set_up(name)?;
        }
        // Both bridges are this node's: peers would find it behind their own, and the line unused.
        forwarding::answer_for_itself(&trunk.to)?;
        self.links.wait_for_carrier(&far, CARRIER_LIMIT)
    }

    fn join(&self, name: &str, bench: &Bench, interface: &Interface) -> Result<()> {
        let link = link_of(bench, interface)?;
        self.links.set_mtu(name, link.mtu)?;
        self.links.set_master(name, Some(&link.name))?;
        self.links.set_up(name)
    }

    fn start_guest(
        &mut self,
        bench: &Bench,
        node: &Node,
        guest: &Guest,
        state: Option<File>,
        inbox: Inbox,
    ) -> Result<Started> {
        let provisions = Provisions::of(guest)?;
        let interfaces: Vec<Interface> =
            node.interfaces.iter().map(|interface| self.with_mac(interface)).collect();
        let (mut ports, mut cards) = (Vec::new(), Vec::new());
        for interface in &interfaces {
            if on_hub(bench, interface) {
                bail!("a guest cannot be on the hub {}: give it a bridge", interface.link);
            }
            let name = format!("tap{}", self.number());
            let is_choosing = model(interface) == NicModel::VirtioNet;
            let taps = tap::create(&name, if is_choosing { guest.settings.queues } else { 1 })?;
            self.join(&name, bench, interface)?;
            let way = match guest.settings.datapath {
                Datapath::Vhost if is_choosing => {
                    // Each pair of queues has a thread of the kernel's.
                    let handles = taps.iter().map(|_| vhost::open()).collect::<Result<_>>()?;
                    Way::Vhost { taps, handles, poll_us: guest.settings.poll_us }
                }
                datapath if is_choosing && datapath.is_ours() => {
                    self.by_mover(bench, datapath, taps, &mut cards)?
                }
                _ => Way::Qemu { taps },
            };
            ports.push(Port { interface, way });
        }
        let is_its_own = guest.settings.datapath == Datapath::VhostUser;
        let datapath =
            (!cards.is_empty()).then(|| CardsServed { cards, is_its_own, ended: Ended::default() });
        let mut warnings = Vec::new();
        let groups = self.weights.as_ref().map(|weights| weights.groups().clone());
        // A core that polls for guests of the bench has its CPU alone.
        let polls = guests(bench).any(|one| one.settings.datapath == Datapath::Sidecore);
        let datapath_cpu = bench.datapath_cpu.filter(|_| !polls);
        // With a weight its threads are in groups with others', so that none accounts for it alone.
        let cgroup = match &groups {
            None => {
                let cpus = node.cpus.iter().copied().chain(datapath_cpu).collect::<Vec<_>>();
                let cpus = if node.cpus.is_empty() { &node.cpus } else { &cpus };
                self.cgroup(&node.name, Limits { memory: None, cpus }, &mut warnings)
            }
            Some(_) => None,
        };
        let share = node.files.as_ref().map(|_| Path::new("/"));
        let mut held = Held { datapath, cgroup, provisions, groups, files: None, datapath_cpu };
        let memory = self.shared_memory(node, guest, &interfaces, datapath_cpu)?;
        // Cards of all the bench's guests have interrupt lines instead of vectors where those of one cannot have
        // vectors, or they would differ in more than what moves packets.
        let no_vectors = guests(bench).any(|one| {
            one.accelerator == Accelerator::Tcg
                && (one.settings.datapath != Datapath::Qemu
                    || one.settings.files == Some(FileSharing::Virtiofs))
        });
        let emulated = guest.accelerator == Accelerator::Tcg;
        let tsc_khz = if emulated { tsc::khz() } else { None };
        let (mut disk, mut files) = (None, None);
        match (&node.disk, guest.settings.files) {
            (Some(one), Some(kind)) => {
                let name = format!("node{}", self.number());
                let (shared, descriptor) = SharedFiles::make(&name, one.bytes, kind)?;
                files = Some(descriptor);
                held.files = Some(shared);
            }
            (_, None) | (None, _) => disk = self.medium(node, guest.settings.disk_format)?,
        }
        let spec =
            Spec { node, guest, ports, share, no_vectors, memory, disk, files, state, tsc_khz };
        let (link, missing) = GuestLink::start(spec, held, inbox)?;
        warnings.extend(missing);
        Ok(Started { link: Box::new(link), interfaces, mtu: mtu(bench, node), warnings })
    }

    /// The medium of a node's disk: a new one, or the one that has outlived an earlier node of this name.
    fn medium(&mut self, node: &Node, format: DiskFormat) -> Result<Option<Medium>> {
        let Some(disk) = &node.disk else { return Ok(None) };
        if !disk.write_cache {
            return disk::make(disk, format).map(Some);
        }
        let device = match self.lasting.entry(node.name.clone()) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(place) => place.insert(disk::make_lasting(disk, format)?),
        };
        Ok(Some(Medium { file: device.open()?, is_device: true }))
    }

    /// The memory that a guest shares with this machine, whose bridge takes the frames sent past the
    /// guest's card.
    fn shared_memory(
        &mut self,
        node: &Node,
        guest: &Guest,
        interfaces: &[Interface],
        datapath_cpu: Option<u32>,
    ) -> Result<Option<File>> {
        let Some(bytes) = guest.shared_memory else { return Ok(None) };
        let card = interfaces.first().context("who shares memory needs a card all the same")?;
        let mac = shared::beside(parse_mac(card.mac.as_deref().unwrap_or_default())?);
        memory::listen_beside(&self.links.get(&card.link)?, mac)?;
        let (shared_memory, file) =
            SharedMemory::make(&node.name, bytes, &card.link, mac, datapath_cpu)?;
        if let (Datapath::Sidecore, Some(polling)) = (guest.settings.datapath, &self.sidecore) {
            polling.take_relays(shared_memory.listener()?)?;
        }
        self.shared_memory.push(shared_memory);
        Ok(Some(file))
    }

    /// Has a card served by a process beside the VMM: the guest's own, or the one of all guests.
    fn by_mover(
        &mut self,
        bench: &Bench,
        datapath: Datapath,
        taps: Vec<OwnedFd>,
        cards: &mut Vec<Served>,
    ) -> Result<Way> {
        let backend = match (&self.sidecore, cards.first()) {
            (Some(backend), _) if datapath == Datapath::Sidecore => backend.clone(),
            (_, Some(card)) => card.backend().clone(),
            _ if datapath == Datapath::Sidecore => {
                let backend = VhostUserBackend::start(ServeMode::Polling)?;
                cpus::bind(backend.pid(), bench.datapath_cpu.as_slice())
                    .context("what moves its packets")?;
                self.sidecore.insert(backend).clone()
            }
            _ => VhostUserBackend::start(ServeMode::Notified)?,
        };
        let queues = taps.len();
        let (card, socket) = backend.serve(self.number(), taps)?;
        cards.push(card);
        Ok(Way::Process { socket, queues })
    }

    fn start_domain(
        &mut self,
        bench: &Bench,
        node: &Node,
        plan: &DomainPlan,
        inbox: Inbox,
    ) -> Result<Started> {
        if node.files.is_some() {
            bail!("a guest of Xen does not have this machine's files");
        }
        if node.disk.is_some() && !is_own_machine() {
            bail!(
                "a guest of Xen has a disk on an emulated machine alone: a file is no disk for blkback"
            );
        }
        let toolstack = self.xen.clone().map_err(Error::msg)?;
        let interfaces: Vec<Interface> =
            node.interfaces.iter().map(|interface| self.with_mac(interface)).collect();
        if let Some(interface) = interfaces.iter().find(|interface| on_hub(bench, interface)) {
            bail!("a guest of Xen cannot be on the hub {}: give it a bridge", interface.link);
        }
        let node = &Node { interfaces: interfaces.clone(), ..node.clone() };
        let disk = self.medium(node, DiskFormat::Raw)?;
        if disk.is_some() {
            blkback::ensure()?;
        }
        let link = DomainLink::start(node, plan, bench, &toolstack, disk.as_ref(), inbox)?;
        let mtu = mtu(bench, node);
        Ok(Started { link: Box::new(link), interfaces, mtu, warnings: Vec::new() })
    }

    /// A guest's interface has an address by which the guest finds it.
    fn with_mac(&mut self, interface: &Interface) -> Interface {
        let mut interface = interface.clone();
        if interface.mac.is_none() {
            let [a, b, c, _] = self.number().to_le_bytes();
            interface.mac = Some(format!("52:54:00:{c:02x}:{b:02x}:{a:02x}"));
        }
        interface
    }

    fn cgroup(&self, name: &str, limits: Limits, warnings: &mut Vec<String>) -> Option<Cgroup> {
        match Cgroup::make(&self.scope, name, limits) {
            Ok(cgroup) => {
                if limits.memory.is_some() && !cgroup.limited() {
                    warnings.push(NO_LIMIT.into());
                }
                Some(cgroup)
            }
            Err(error) => {
                let limit =
                    if limits.memory.is_some() { ", and its memory is not limited" } else { "" };
                warnings.push(format!(
                    "no cgroup accounts for it ({error:#}): its CPU time comes from its \
                     processes{limit}; `hypertare doctor` says what to do"
                ));
                None
            }
        }
    }
}

impl Machine for Local {
    fn prepare(&mut self, bench: &Bench) -> Result<()> {
        let is_process = |node: &Node| {
            matches!(
                &node.kind,
                NodeKind::Host | NodeKind::Container(Container { engine: None, .. })
            )
        };
        // Nothing is made in the user's own network, and no QEMU stands in it.
        if self.network == Network::Host
            && !(bench.links.is_empty() && bench.nodes.iter().all(is_process))
        {
            bail!("it would stand in this host's own network; take --network own");
        }
        bench.scheduler.map_or(Ok(()), scheduler::require)?;
        if let Some(wanted) = &bench.driver {
            placement::require("the driver domain", &placement::of_driver()?, wanted)?;
        }
        self.kept_from = bench.datapath_cpu.map(KeptFrom::cpu).transpose()?;
        self.weights = bench.weights.then(|| Weights::make(&self.scope)).transpose()?;
        for link in bench.links.iter().filter(|link| link.kind == LinkKind::Route) {
            self.route(link)?;
        }
        for link in bench.links.iter().filter(|link| link.kind == LinkKind::Bridge) {
            self.links.bridge(&link.name, link.mtu)?;
            self.made.push(link.name.clone());
            forwarding::trust_own_address(&link.name)?;
            self.links.set_up(&link.name)?;
            if let Some(uplink) = &link.uplink {
                self.lift(link, &uplink.mac)?;
            }
        }
        for link in &bench.links {
            if let Some(trunk) = &link.trunk {
                self.join_bridges(link, trunk)?;
            }
        }
        Ok(())
    }

    fn start(
        &mut self,
        bench: &Bench,
        index: usize,
        state: Option<File>,
        inbox: Inbox,
    ) -> Result<Started> {
        let node = &bench.nodes[index];
        let unlike = node.interfaces.iter().any(|interface| {
            bench.links.iter().any(|l| l.name == interface.link && l.mtu != mtu(bench, node))
        });
        if unlike {
            bail!("its links differ in their MTU; give all links of a node the same");
        }
        match &node.kind {
            NodeKind::Guest(guest) => self.start_guest(bench, node, guest, state, inbox),
            _ if state.is_some() => bail!("it is no virtual machine under QEMU"),
            NodeKind::Container(Container { engine: Some(agent), .. }) => {
                join(bench, node, agent, Carrier::Container, inbox)
            }
            NodeKind::Given(Given { agent: Some(agent), outside, .. }) => {
                join(bench, node, agent, Carrier::Connection { outside: *outside }, inbox)
            }
            NodeKind::Given(_) => bail!("nobody has started the agent of this machine"),
            NodeKind::Host | NodeKind::Container(_) => self.start_process(bench, node, inbox),
            NodeKind::Domain(domain) => self.start_domain(bench, node, domain, inbox),
        }
    }

    fn cut_power(&mut self, node: &str) -> Result<()> {
        let device = self.lasting.get(node).context("it has no disk whose power can be cut")?;
        device.cut_power()
    }

    fn discard(&mut self, node: &str) -> Result<()> {
        self.lasting.remove(node).map_or(Ok(()), NullBlk::remove)
    }

    fn remove(&mut self) {
        for name in self.made.drain(..).rev() {
            // A veth is gone already when its other end's namespace is.
            let _ = self.links.delete(&name);
        }
        for mac in std::mem::take(&mut self.routed) {
            let nic = self.links.nic(&mac);
            let _ = nic.and_then(|nic| {
                self.links.set_down(&nic)?;
                self.links.remove_addresses(&nic)
            });
        }
        self.shared_memory.clear();
        self.weights = None;
        self.sidecore = None;
        self.kept_from = None;
    }
}

/// An agent that runs already.
fn join(
    bench: &Bench,
    node: &Node,
    agent: &RunningAgent,
    carrier: Carrier,
    inbox: Inbox,
) -> Result<Started> {
    if !node.interfaces.is_empty() {
        bail!("its network does not lead to this bench");
    }
    let link = JoinedLink::join(agent, carrier, inbox)?;
    let (interfaces, mtu) = (Vec::new(), mtu(bench, node));
    Ok(Started { link: Box::new(link), interfaces, mtu, warnings: Vec::new() })
}

fn guests(bench: &Bench) -> impl Iterator<Item = &Guest> {
    bench.nodes.iter().filter_map(|node| match &node.kind {
        NodeKind::Guest(guest) => Some(guest),
        _ => None,
    })
}

/// The MTU of the node's links.
fn mtu(bench: &Bench, node: &Node) -> u32 {
    let on = |name: &str| node.interfaces.iter().any(|interface| interface.link == name);
    bench.links.iter().find(|link| on(&link.name)).map_or(1500, |link| link.mtu)
}

fn on_hub(bench: &Bench, interface: &Interface) -> bool {
    bench.links.iter().any(|link| link.name == interface.link && link.kind == LinkKind::Hub)
}

/// A host node's interface: the bridge itself, or a NIC of the machine.
fn own(bench: &Bench, interface: &Interface) -> Interface {
    let link = bench.links.iter().find(|link| link.name == interface.link);
    let is_bridge = link.is_none_or(|link| link.kind == LinkKind::Bridge);
    let name = if is_bridge { &interface.link } else { &interface.name };
    Interface { name: name.clone(), ..interface.clone() }
}

/// Standard input, output and error of a child: its ends and ours.
fn pipes() -> Result<([OwnedFd; 3], Pipes)> {
    let (input, orders) = std::io::pipe()?;
    let (records, output) = std::io::pipe()?;
    let (messages, errors) = std::io::pipe()?;
    let [orders, records, messages] =
        [OwnedFd::from(orders), records.into(), messages.into()].map(File::from);
    Ok(([input.into(), output.into(), errors.into()], Pipes { orders, records, messages }))
}
