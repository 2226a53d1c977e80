//! What the host agent says to the agent of a node. Each order is answered by one `done` record
//! with its number; what it brings about is reported by other records before that.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Files, Interface, Knob, Probe, Route, Router, Task};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NumberedOrder {
    pub number: u64,
    pub order: Order,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Order {
    /// Take this name, set the interfaces and routes up, build the view of the files. First order,
    /// once.
    Setup {
        node: String,
        interfaces: Vec<Interface>,
        #[serde(default)]
        routes: Vec<Route>,
        #[serde(default)]
        router: Option<Router>,
        mtu: u32,
        files: Option<Files>,
    },
    /// Probe, apply, and remember how it was.
    Apply { trial: u64, knob: Knob },
    /// Put every applied knob back, the last one first.
    PutBack { trial: u64 },
    /// Read these counters and remember them.
    ProbeBegin { trial: u64, phase: String, probes: Vec<Probe> },
    /// Read these of them again and emit the differences.
    ProbeEnd { trial: u64, phase: String, probes: Vec<Probe> },
    /// Start a task. `done` comes when it is started (background, or one that prepares: when it is ready);
    /// its `result` comes when it has ended.
    Start { trial: u64, phase: String, task: Task },
    /// A task that has prepared its work is to begin with it. `done` comes when the work is done; it then waits
    /// to be stopped, and its `result` comes.
    Go { task: String },
    /// End a task. Its `result` follows: with values if it ends in good order, else a failure.
    Stop { task: String },
    /// A trial has ended and the next one is being thought about: start the process of the task that comes
    /// next, such as the last one was, and let it wait. `done` comes when it waits.
    Anticipate,
    /// Kill whatever still runs for this trial.
    Kill { reason: String },
    /// End the agent; a guest powers off.
    End,
}
