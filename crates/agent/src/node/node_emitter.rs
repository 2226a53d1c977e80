//! Where a node's records are written in its name.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use hypertare_plan::{KnobOutcome, Level, Record};

use crate::emit::Emitter;
use crate::workload::clock::{now_ns, to_seconds};

pub struct NodeEmitter {
    node: String,
    emitter: Arc<Emitter>,
}

impl NodeEmitter {
    pub fn new(node: String, emitter: Arc<Emitter>) -> Self {
        NodeEmitter { node, emitter }
    }

    pub fn node(&self) -> &str {
        &self.node
    }

    pub fn emit(&self, record: &Record) {
        // Whoever stopped listening also ends this agent.
        let _ = self.emitter.emit(record);
    }

    /// It goes out with what is said next, which is soon.
    pub fn hold(&self, record: &Record) {
        let _ = self.emitter.hold(record);
    }

    pub fn done(&self, number: u64, outcome: Result<()>) {
        let error = outcome.err().map(|error| format!("{error:#}"));
        let clock_s = to_seconds(now_ns());
        self.emit(&Record::Done { node: self.node.clone(), number, error, clock_s });
    }

    pub fn warn(&self, text: String) {
        self.emit(&Record::Log { node: self.node.clone(), level: Level::Warning, text });
    }

    /// Reports what became of a knob; an error if it is not as it should be.
    pub fn knob(&self, outcome: KnobOutcome) -> Result<()> {
        let error = outcome.error.clone();
        self.emit(&Record::Knob(outcome));
        error.map_or(Ok(()), |error| Err(anyhow!(error)))
    }
}
