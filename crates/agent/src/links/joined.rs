//! An agent that the controller has started, in a container of the user's own engine or on a machine that was
//! given: it is heard through named pipes, and the end of what carries it is seen in the machine's /proc.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hypertare_plan::{NodeReady, NumberedOrder, RunningAgent};

use super::streams::{HEARTBEAT, Orders, Tail};
use super::{Inbox, NodeLink};
use crate::probe::Outside;
use crate::process::{cgroup, machine_proc, wait_until};

/// How often its end is looked for.
const PAUSE: Duration = Duration::from_millis(5);

/// What carries the agent, in the words of an error.
#[derive(Clone, Copy)]
pub enum Carrier {
    Container,
    /// `outside` is the process of this machine that the other end of it is in, where that is known.
    Connection {
        outside: Option<i32>,
    },
}

/// From the end of a connection's records to its own.
const LAST_WORDS: Duration = Duration::from_secs(1);

pub struct JoinedLink {
    carrier: Carrier,
    orders: Orders,
    messages: Tail,
    described: String,
    /// In the machine's /proc; none where it is not to be seen.
    process: Option<PathBuf>,
    outside: Option<Outside>,
}

impl JoinedLink {
    /// Takes up the agent.
    ///
    /// # Errors
    /// Its pipes cannot be opened.
    pub fn join(agent: &RunningAgent, carrier: Carrier, inbox: Inbox) -> Result<Self> {
        // Whoever started it holds both ends of each, so that none of these waits.
        let open = |name: &str, write: bool| {
            let path = agent.pipes.join(name);
            let opened = File::options().read(!write).write(write).open(&path);
            opened.with_context(|| format!("opening {}", path.display()))
        };
        let records = open("records", false)?;
        let heartbeat = matches!(carrier, Carrier::Connection { .. }).then_some(HEARTBEAT);
        let orders = Orders::new(open("orders", true)?, heartbeat);
        let messages = Tail::follow(open("messages", false)?);
        std::thread::spawn(move || inbox.read(records));
        let process = machine_proc::path()
            .map(|proc| proc.join(agent.pid.to_string()))
            .filter(|process| process.exists());
        let memberships =
            process.as_ref().and_then(|process| fs::read_to_string(process.join("cgroup")).ok());
        let outside = match carrier {
            Carrier::Container => {
                memberships.and_then(|text| cgroup::accounting_of(&text)).map(Outside::Cgroup)
            }
            // Its process here only carries words.
            Carrier::Connection { outside } => outside.map(Outside::OfMachine),
        };
        let described = agent.described.clone();
        Ok(JoinedLink { carrier, orders, messages, described, process, outside })
    }

    fn is_there(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.exists())
    }
}

impl NodeLink for JoinedLink {
    fn send(&mut self, order: &NumberedOrder) {
        self.orders.send(order);
    }

    fn about(&mut self) -> Result<NodeReady> {
        Ok(NodeReady { vmm: Some(self.described.clone()), ..NodeReady::default() })
    }

    fn failure(&mut self) -> Option<String> {
        match self.carrier {
            Carrier::Container => {
                (!self.is_there()).then(|| format!("its container ({}) has ended", self.described))
            }
            Carrier::Connection { .. } => {
                // What it says comes just before its end.
                let _ = self.ended(Instant::now() + LAST_WORDS);
                let said = self.messages.lines().pop();
                let said = said.map_or_else(String::new, |line| format!(": {line}"));
                Some(format!("the connection to it ({}) has ended{said}", self.described))
            }
        }
    }

    fn console(&mut self) -> Vec<String> {
        self.messages.lines()
    }

    fn outside(&mut self) -> Option<Outside> {
        self.outside.clone()
    }

    fn ended(&mut self, deadline: Instant) -> bool {
        wait_until(deadline, PAUSE, || !self.is_there())
    }

    /// Its processes are out of reach; the controller ends them.
    fn kill(&mut self) {}
}
