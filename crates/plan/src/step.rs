//! What the controller says to the host agent.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Bench, DurableWrites, KnobSetting, Node, ProbeRequest, Purpose, Task};

/// One line of a plan. The end of the input is the end of the plan: everything made is removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case", tag = "step")]
pub enum Step {
    /// First line, always.
    #[cfg_attr(feature = "schema", schemars(title = "HelloStep"))]
    Hello {
        #[cfg_attr(feature = "schema", schemars(extend("const" = crate::PROTOCOL)))]
        protocol: u32,
    },
    /// Make a bench. Answered by `bench` records.
    #[cfg_attr(feature = "schema", schemars(title = "BenchStep"))]
    Bench { bench: Bench },
    /// Execute one trial on the bench. Answered by `trial_end`.
    #[cfg_attr(feature = "schema", schemars(title = "TrialStep"))]
    Trial { trial: Trial },
    /// Remove the bench; another may follow. Answered by `teardown`.
    #[cfg_attr(feature = "schema", schemars(title = "TeardownStep"))]
    Teardown,
}

/// One execution of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Trial {
    pub id: u64,
    /// Applied before the first phase, put back after the last one.
    #[serde(default)]
    pub knobs: Vec<KnobSetting>,
    pub phases: Vec<Phase>,
}

/// Tasks that run at the same time. Background tasks start first: those that listen (receivers,
/// echoes), all at once, and when they are ready all others at once. When these are ready too, all
/// foreground tasks start. The phase ends when every foreground task has ended; the background ones
/// are then stopped, those that listen last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Phase {
    pub name: String,
    pub tasks: Vec<Task>,
    #[serde(default)]
    pub probes: Vec<ProbeRequest>,
    /// Nodes that are made and ended within it, all at once, when its foreground tasks have ended.
    #[serde(default)]
    pub lives: Vec<Life>,
    /// Seconds after which whatever still runs is killed and the trial is failed.
    pub limit_s: f64,
}

/// A node beside those of the bench that lives as long as one phase: it is made, answers, works, is saved and
/// restored, and ends. What each of these took is a result of the node `of`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Life {
    pub id: String,
    /// The node of the bench that it is like.
    pub of: String,
    /// On links of the bench, without files, and without a disk unless its power is cut. No node of the bench has
    /// its name.
    pub node: Node,
    /// A task of its own that ends by itself: the first work that it does once it has answered.
    #[serde(default)]
    pub work: Option<Task>,
    /// How it is reached over the network, after that.
    #[serde(default)]
    pub reached: Option<Reached>,
    /// More like it are made beside it, one after the other, until there are so many, the last one took
    /// twice as long to answer as the first, or memory gives out. They are on no link.
    #[serde(default)]
    pub most: Option<u32>,
    /// Save its state, end it, and make it anew from that: for what is a virtual machine under QEMU.
    #[serde(default)]
    pub restored: bool,
    /// Cut its power while it writes, make it anew with the same disk, and look for what was made durable.
    #[serde(default)]
    pub power_cut: Option<PowerCut>,
    #[serde(default)]
    pub purpose: Option<Purpose>,
}

/// A first answer over the network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Reached {
    /// Listens on the node that lives.
    pub answer: Task,
    /// Asks once, from a node of the bench.
    pub ask: Task,
}

/// A node ends at once, and with it all that the machine below it holds of its disk but the disk itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PowerCut {
    pub writes: DurableWrites,
    /// Seconds from the beginning of the writes.
    pub after_s: f64,
}
