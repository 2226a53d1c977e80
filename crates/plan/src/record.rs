//! What an agent reports. One record a line; the host agent adds nothing to its nodes' records but
//! checks that they name themselves.

use std::collections::BTreeMap;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Accelerator, Datapath, Knob, LinkKind, Paging, Probe, Purpose, Scheduler, TscMode, VirtualCpus,
};

/// Measured quantities by name. Names and units: `hypertare-agent values`.
pub type Values = BTreeMap<String, f64>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case", tag = "record")]
pub enum Record {
    /// First record of every agent.
    Hello(Hello),
    /// An order was carried out, or could not be.
    Done {
        node: String,
        number: u64,
        error: Option<String>,
        /// The node's monotonic clock when it answered.
        clock_s: f64,
    },
    /// A node is ready to work.
    #[cfg_attr(feature = "schema", schemars(title = "NodeReady"))]
    Node(NodeReady),
    /// An interface as it is, after what was asked for was set.
    #[cfg_attr(feature = "schema", schemars(title = "InterfaceState"))]
    Interface(InterfaceState),
    /// A bench is ready, or could not be made; `node` is the one to blame, if one is.
    #[cfg_attr(feature = "schema", schemars(title = "BenchReady"))]
    Bench {
        bench: String,
        seconds_s: f64,
        error: Option<String>,
        node: Option<String>,
    },
    Teardown {
        seconds_s: f64,
    },
    TrialBegin {
        trial: u64,
        t_s: f64,
    },
    /// `error` is absent when every phase ended in good order; `lost` names a node that is gone, so
    /// that the bench has to be made anew.
    TrialEnd {
        trial: u64,
        t_s: f64,
        elapsed_s: f64,
        error: Option<String>,
        lost: Option<String>,
    },
    /// One interval of a stream, reported by the end that counts.
    Interval(Interval),
    /// How a task ended.
    #[cfg_attr(feature = "schema", schemars(title = "TaskResult"))]
    Result(TaskResult),
    /// Differences of counters over a phase.
    #[cfg_attr(feature = "schema", schemars(title = "ProbeValues"))]
    Probe(ProbeValues),
    /// A knob was applied or put back, or is not available here.
    #[cfg_attr(feature = "schema", schemars(title = "KnobOutcome"))]
    Knob(KnobOutcome),
    /// Something a person should know; never needed to compute a response.
    Log {
        node: String,
        level: Level,
        text: String,
    },
    /// The last lines of a node's console, after it failed.
    Console {
        node: String,
        lines: Vec<String>,
    },
    /// What a host is that benches are to be made on: the only record of `hypertare-agent survey`.
    Survey(Survey),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// Empty until the agent knows its name.
    pub node: String,
    pub protocol: u32,
    pub agent: String,
    pub kernel: String,
    pub architecture: String,
    pub cpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    pub clocksource: String,
    /// As its kernel calls it; of a machine that was given, for others have this machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
    /// Seconds since the node's kernel started.
    pub uptime_s: f64,
    /// The same when its agent began, which is the first process of what boots for it; of others absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_s: Option<f64>,
}

/// A host, as an agent sees it that its controller does not share it with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Survey {
    pub host_name: String,
    /// As its kernel calls it.
    pub processor: String,
    pub kernel: String,
    pub architecture: String,
    pub distribution: String,
    /// By number, those that the agent may use.
    pub cpus: Vec<u32>,
    /// How many it has.
    pub online: u32,
    /// Bytes.
    pub memory: u64,
    pub available: u64,
    /// Of the last minute: tasks that ran or waited to.
    pub load: f64,
    /// QEMU's version.
    pub qemu: Option<String>,
    /// What it cannot, of `sandbox`, `qemu`, `kvm`, `tun`, `vhost`, `cgroup` and `xen`, each with the reason.
    pub absent: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NodeReady {
    pub node: String,
    /// From starting the node to its agent's first record.
    pub start_s: f64,
    /// From starting the node to having carried out its setup.
    pub ready_s: f64,
    /// What the VMM reports to be using; guests only.
    pub accelerator: Option<Accelerator>,
    /// The VMM's version; guests only.
    pub vmm: Option<String>,
    /// The VMM's command line; guests only.
    #[serde(default)]
    pub vmm_argv: Vec<String>,
    /// Whether a cgroup accounts for the node, and which version.
    pub cgroup: Option<String>,
    /// The page tables that KVM gives its guests, as its module says; guests under KVM only.
    #[serde(default)]
    pub paging: Option<Paging>,
    /// By which pages the machine maps the guest's memory; guests only.
    #[serde(default)]
    pub backing: Option<Backing>,
    /// What moves its packets; guests with a virtio-net only.
    #[serde(default)]
    pub datapath: Option<Datapath>,
    /// CPUs of the machine that what moves them may use, where that is bound, as the machine says.
    #[serde(default)]
    pub datapath_cpus: Vec<u32>,
    /// How the driver domain is found to join its interfaces, and what gives it CPUs; guests of Xen
    /// only.
    #[serde(default)]
    pub joined: Option<LinkKind>,
    #[serde(default)]
    pub scheduler: Option<Scheduler>,
    /// How it reads the time-stamp counter, as Xen says; guests of Xen only.
    #[serde(default)]
    pub tsc: Option<TscMode>,
    /// Its virtual CPUs, and the machine's that they may run on; guests of Xen, and those that are bound.
    #[serde(default)]
    pub placed: Option<VirtualCpus>,
    /// Those of Xen's driver domain; guests of Xen only.
    #[serde(default)]
    pub driver: Option<VirtualCpus>,
}

/// How the machine's own page tables map a guest's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Backing {
    /// Of the pages that it is made of: 2 MB from the pool of huge pages, else 4 KB.
    pub page_size: u64,
    /// Touched by now.
    pub resident: u64,
    /// Of those, what is mapped by huge pages, from the pool or transparent ones.
    pub huge: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct InterfaceState {
    pub node: String,
    pub interface: String,
    pub driver: Option<String>,
    pub mtu: u32,
    /// Offloads by ethtool's short names.
    pub offloads: BTreeMap<String, bool>,
    pub rx_queues: u32,
    pub tx_queues: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Interval {
    pub node: String,
    pub trial: u64,
    pub phase: String,
    pub task: String,
    /// Seconds since the task began to count.
    pub begin_s: f64,
    pub end_s: f64,
    pub values: Values,
    /// When the host agent heard it, on the clock of `t_s`. Whatever a node says here is replaced.
    /// Nodes have clocks of their own: this is what sets those of tasks against each other.
    #[serde(default)]
    pub heard_s: Option<f64>,
    /// Of the task, as its plan says. Whatever a node says here is replaced.
    #[serde(default)]
    pub purpose: Option<Purpose>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskResult {
    pub node: String,
    pub trial: u64,
    pub phase: String,
    pub task: String,
    /// Absent when the task did what it should.
    pub error: Option<String>,
    #[serde(default)]
    pub values: Values,
    #[serde(default)]
    pub histograms: BTreeMap<String, Histogram>,
    /// For example the last part of a command's output.
    #[serde(default)]
    pub text: BTreeMap<String, String>,
    /// Of the task, as its plan says. Whatever a node says here is replaced.
    #[serde(default)]
    pub purpose: Option<Purpose>,
}

/// Counts by value: each bucket is its highest equivalent value and how often it was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Histogram {
    /// Of the values, for example `ns`.
    pub unit: String,
    pub buckets: Vec<(u64, u64)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProbeValues {
    pub node: String,
    pub trial: u64,
    pub phase: String,
    pub probe: Probe,
    /// Seconds between the two readings.
    pub elapsed_s: f64,
    pub values: Values,
    #[serde(default)]
    pub histograms: BTreeMap<String, Histogram>,
    /// Given when the probe is not available here; `values` is then empty.
    pub unavailable: Option<String>,
    /// Values that this machine cannot give, by name (`*` for any text), each with the reason.
    #[serde(default)]
    pub absent: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct KnobOutcome {
    pub node: String,
    pub trial: u64,
    pub knob: Knob,
    pub action: KnobAction,
    /// How it was before, and how it is now, as read back.
    pub before: Option<String>,
    pub after: Option<String>,
    /// Given when it could not be applied or put back.
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum KnobAction {
    Applied,
    PutBack,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", schemars(rename = "LogLevel"))]
pub enum Level {
    Info,
    Warning,
}
