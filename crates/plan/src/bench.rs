//! What a bench is made of: nodes, the links between them, and the files they see.

use std::collections::BTreeMap;
use std::path::PathBuf;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use crate::path::Path;
use crate::{Guest, Route, Router};

/// Nodes and links that the host agent makes, and removes again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Bench {
    pub name: String,
    pub nodes: Vec<Node>,
    #[serde(default)]
    pub links: Vec<Link>,
    /// Virtual CPUs of guests under QEMU, and what moves their packets, are groups with a CPU weight
    /// each, which the knob `scheduler_weight` of the node `host` turns.
    #[serde(default)]
    pub weights: bool,
    /// Xen's, which the machine must have been booted with; none takes it as it is.
    #[serde(default)]
    pub scheduler: Option<Scheduler>,
    /// Virtual CPUs of Xen's driver domain, which the machine must have been booted with; none takes
    /// them as they are.
    #[serde(default)]
    pub driver: Option<VirtualCpus>,
    /// CPU of the machine for what moves guests' packets, which nothing else of the bench may use: one that
    /// never sleeps ([`Datapath::Sidecore`]), vhost's threads, a process beside QEMU, or QEMU's threads
    /// beside its virtual CPUs. None leaves them where the machine puts them.
    #[serde(default)]
    pub datapath_cpu: Option<u32>,
}

/// Virtual CPUs of a domain of Xen, and the machine's CPUs that they may run on; none of these means
/// all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct VirtualCpus {
    pub count: u32,
    #[serde(default)]
    pub on: Vec<u32>,
}

/// How Xen's hypervisor gives CPUs to its guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Scheduler {
    Credit,
    Credit2,
}

/// What a guest of Xen gets when it reads the time-stamp counter (`tsc_mode` of xl.cfg(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TscMode {
    /// The machine's counter.
    #[default]
    Native,
    /// A count that Xen makes: every reading traps.
    Emulate,
    /// Xen's choice: the machine's counter where that is invariant, else as `emulate`.
    Default,
}

/// One endpoint. Its name is unique on the bench.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Node {
    pub name: String,
    pub kind: NodeKind,
    /// CPUs of the machine that this node's work may use; none means all. For a guest they are the
    /// CPUs of its virtual CPUs' threads, one to one; the VMM's other threads are not bound. A guest of
    /// Xen may run each of its virtual CPUs on any of them.
    #[serde(default)]
    pub cpus: Vec<u32>,
    #[serde(default)]
    pub interfaces: Vec<Interface>,
    /// How it reaches networks that it is not on.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// Given when the node forwards between its interfaces; else it does not.
    #[serde(default)]
    pub router: Option<Router>,
    /// Given when the node runs programs of the machine's own root.
    #[serde(default)]
    pub files: Option<Files>,
    /// Given when its work needs a disk.
    #[serde(default)]
    pub disk: Option<Disk>,
}

/// A disk of a node's own, empty when the bench is made and gone with it. A process has the medium itself, a
/// guest a device of its VMM that stands on it: so both work on the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Disk {
    pub bytes: u64,
    /// Where the machine keeps its blocks: in a file without a name in this directory; in memory when absent.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Path>"))]
    pub directory: Option<PathBuf>,
    /// It is a file in memory on an experiment's own machine too, and not a block device there: for guests that
    /// share files with it.
    #[serde(default)]
    pub is_file: bool,
    /// Its medium keeps what is written in a cache of its own that loses it with the power, until it is flushed.
    /// Only an experiment's own machine has such a medium.
    #[serde(default)]
    pub write_cache: bool,
    /// How long its medium takes for an operation, beside what the processor does for it. Only an experiment's own
    /// machine has such a medium.
    #[serde(default)]
    pub latency_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum NodeKind {
    /// A process in the bench's own network namespace, which owns the bridges: the native baseline.
    Host,
    /// A process in namespaces of its own, with a cgroup where the machine allows one.
    Container(Container),
    /// A virtual machine under QEMU.
    Guest(Guest),
    /// A PV guest under Xen, of the driver domain that the host agent runs in.
    Domain(Domain),
    /// A machine that was there before, and stays as it is.
    Given(Given),
}

/// A machine of the user's own. The controller starts its agent, and ends it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Given {
    /// The words of the program that reaches it, `ssh` first.
    pub reach: Vec<String>,
    /// How many of its CPUs the work may use: the first ones.
    pub cpus: u32,
    /// Whether its own settings may be changed for a trial; else all knobs are refused there.
    #[serde(default)]
    pub settings: bool,
    /// The process of this machine that it is in, as the machine numbers it: its CPU time counts as the
    /// node's from outside. Nothing is known from outside without.
    #[serde(default)]
    pub outside: Option<i32>,
    /// Given when its agent runs.
    #[serde(default)]
    pub agent: Option<RunningAgent>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Container {
    /// Limit of the cgroup's memory, in bytes.
    #[serde(default)]
    pub memory: Option<u64>,
    /// Given when the user's own engine made it, and it runs already; else it is made here.
    #[serde(default)]
    pub engine: Option<RunningAgent>,
}

/// An agent outside of the sandbox in which all else of a bench is made: in a container of podman or docker,
/// which only the engine can enter, or on a machine that was given. Whoever started it ends it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunningAgent {
    /// The engine and its version, or how the machine is reached.
    pub described: String,
    /// Directory with the named pipes of its agent: `orders`, `records`, `messages`.
    #[cfg_attr(feature = "schema", schemars(with = "Path"))]
    pub pipes: PathBuf,
    /// Its first process, or the one that reaches it, as the machine numbers it.
    pub pid: i32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Domain {
    pub cpus: u32,
    /// Bytes of guest memory.
    pub memory: u64,
    /// Of the scheduler, 1 to 65535; the hypervisor's default when absent.
    #[serde(default)]
    pub weight: Option<u32>,
    /// How it reads the time-stamp counter.
    #[serde(default)]
    pub tsc: TscMode,
    /// Kernel in the driver domain's file system; uncompressed it is built into memory fastest.
    #[cfg_attr(feature = "schema", schemars(with = "Path"))]
    pub kernel: PathBuf,
    /// Initramfs archives, loaded one after the other; the agent is their `/init`.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Path>"))]
    pub initramfs: Vec<PathBuf>,
    /// The kernel's command line.
    #[serde(default)]
    pub kernel_args: Vec<String>,
    /// Time from creating it to the agent's first record, in seconds; longer fails the node.
    pub boot_limit_s: f64,
}

/// An interface of a node on a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// Name inside the node. For a `host` node on a bridge it is ignored: its interface is the bridge.
    pub name: String,
    pub link: String,
    /// Address with prefix length, for example `10.77.0.2/24`.
    pub address: String,
    /// Further ones, IPv4 or IPv6, in the same form.
    #[serde(default)]
    pub more_addresses: Vec<String>,
    #[serde(default)]
    pub mac: Option<String>,
    /// Model of a guest's NIC, or of the machine's on a hub; other nodes have a veth.
    #[serde(default)]
    pub nic: Option<NicModel>,
    /// Offloads to set (ethtool's short names, `tso: false`); absent ones keep their defaults.
    #[serde(default)]
    pub offloads: BTreeMap<String, bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub enum NicModel {
    #[serde(rename = "virtio-net")]
    VirtioNet,
    #[serde(rename = "e1000")]
    E1000,
    #[serde(rename = "e1000e")]
    E1000e,
    #[serde(rename = "vmxnet3")]
    Vmxnet3,
    #[serde(rename = "rtl8139")]
    Rtl8139,
    #[serde(rename = "pcnet")]
    Pcnet,
}

/// What joins nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Link {
    pub name: String,
    #[serde(default)]
    pub kind: LinkKind,
    #[serde(default = "default_mtu")]
    pub mtu: u32,
    /// A NIC of the machine itself that is a port of the bridge: what is beyond it is on the link too.
    /// Of a link that is routed it is what guests are routed to.
    #[serde(default)]
    pub uplink: Option<Uplink>,
    /// A line to another bridge.
    #[serde(default)]
    pub trunk: Option<Trunk>,
}

/// A line of a limited rate between two bridges. Each of its ends sends frame after frame, each as long
/// on the wire as its bytes with preamble, check and gap take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Trunk {
    /// The other bridge.
    pub to: String,
    /// In b/s each way, of all that is on the wire.
    pub rate_bps: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Uplink {
    pub mac: String,
    #[serde(default)]
    pub nic: Option<NicModel>,
    /// What it is plugged into: a hub of the bench, or a wire whose name other uplinks have too. The
    /// first hub when absent.
    #[serde(default)]
    pub wire: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// A bridge in the bench's own network namespace.
    #[default]
    Bridge,
    /// No bridge: the driver domain forwards by IP between Xen's guests on the link and its uplink,
    /// which is an interface of the node `host`, a router. All of them are of one IPv4 network: each
    /// guest is reached by a route of its own, and ARP is answered in the name of who is behind.
    Route,
    /// NICs of the machine itself, wired together outside of it. Every interface on it names its NIC
    /// by the MAC address; a container's is moved into its namespace.
    Hub,
}

fn default_mtu() -> u32 {
    1500
}

/// The machine's own files as a node sees them: everything readable, every write in memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// Copied to memory when the bench is made, and laid afresh, at the same path, for every trial.
    #[cfg_attr(feature = "schema", schemars(with = "Path"))]
    pub workdir: PathBuf,
    /// Bytes that writes may take in memory.
    pub memory: u64,
    /// Devices of the node that commands see beside those that every program has, `/dev/fuse`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Path>"))]
    pub devices: Vec<PathBuf>,
    /// Root file system of an image, in place of the machine's own. The work directory is the
    /// machine's all the same.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Path>"))]
    pub root: Option<PathBuf>,
    /// Of the machine, for a node that has another.
    #[serde(default)]
    pub host_name: Option<String>,
    /// Of the machine's commands, for a node whose own are others.
    #[serde(default)]
    pub limits: Vec<ResourceLimit>,
}

/// What one process may have of a resource, as getrlimit(2) has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ResourceLimit {
    pub resource: LimitedResource,
    /// None: no limit.
    #[serde(default)]
    pub soft: Option<u64>,
    /// Up to which the process may raise it.
    #[serde(default)]
    pub hard: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LimitedResource {
    OpenFiles,
    Processes,
    PendingSignals,
    LockedMemory,
    Stack,
}
