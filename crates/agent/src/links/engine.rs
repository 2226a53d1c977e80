//! A container that the user's own engine made: its agent is heard through named pipes, its end seen in
//! the machine's /proc. The controller has started it, and removes it.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hypertare_plan::{EngineContainer, NumberedOrder};

use super::streams::{Orders, Tail};
use super::{About, Inbox, NodeLink};
use crate::probe::Outside;
use crate::process::cgroup;
use crate::process::machine_proc;

/// How often its end is looked for.
const PAUSE: Duration = Duration::from_millis(5);

pub struct EngineLink {
    orders: Orders,
    messages: Tail,
    described: String,
    /// In the machine's /proc; none where it is not to be seen.
    process: Option<PathBuf>,
    cgroup: Option<PathBuf>,
}

impl EngineLink {
    /// Takes up the container.
    ///
    /// # Errors
    /// Its pipes cannot be opened.
    pub fn join(container: &EngineContainer, inbox: Inbox) -> Result<Self> {
        // The engine holds both ends of each, so that none of these waits.
        let open = |name: &str, write: bool| {
            let path = container.pipes.join(name);
            let opened = File::options().read(!write).write(write).open(&path);
            opened.with_context(|| format!("opening {}", path.display()))
        };
        let records = open("records", false)?;
        let orders = Orders::new(open("orders", true)?);
        let messages = Tail::follow(open("messages", false)?);
        std::thread::spawn(move || inbox.read(records));
        let process = machine_proc::path()
            .map(|proc| proc.join(container.pid.to_string()))
            .filter(|process| process.exists());
        let memberships =
            process.as_ref().and_then(|process| fs::read_to_string(process.join("cgroup")).ok());
        let cgroup = memberships.and_then(|text| cgroup::accounting_of(&text));
        let described = container.described.clone();
        Ok(EngineLink { orders, messages, described, process, cgroup })
    }

    fn is_there(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.exists())
    }
}

impl NodeLink for EngineLink {
    fn send(&mut self, order: &NumberedOrder) {
        self.orders.send(order);
    }

    fn about(&mut self) -> Result<About> {
        Ok(About { vmm: Some(self.described.clone()), ..About::default() })
    }

    fn failure(&mut self) -> Option<String> {
        (!self.is_there()).then(|| format!("its container ({}) has ended", self.described))
    }

    fn console(&mut self) -> Vec<String> {
        self.messages.lines()
    }

    fn outside(&mut self) -> Option<Outside> {
        self.cgroup.clone().map(Outside::Cgroup)
    }

    fn ended(&mut self, deadline: Instant) -> bool {
        while self.is_there() {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
        true
    }

    /// Its processes are out of reach; the controller has the engine remove it.
    fn kill(&mut self) {}
}
