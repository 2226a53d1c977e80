//! What the agent of a node says to the process of a task.

use serde::{Deserialize, Serialize};

use crate::Task;

/// What a task's process is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assignment {
    pub trial: u64,
    pub phase: String,
    pub task: Task,
}
